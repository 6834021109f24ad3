package backends

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/backends/backendstest"
	"github.com/seqd/seqd/server/certificate/certificatetest"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

func newTestRedis(t *testing.T, change func(*config.Redis)) redis.UniversalClient {
	t.Helper()
	cfg := config.Default().Redis
	cfg.Timeout = 10 * time.Second
	change(&cfg)
	client := must.Get(NewRedis(t.Context(), cfg))(t)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// The files of TLS are read for each connection: they are replaced before they expire.
func TestFilesOfTLSAreReplaced(t *testing.T) {
	cert, key := certificatetest.Pair(t, "server", time.Now().Add(time.Hour))
	server := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{must.Get(tls.X509KeyPair(cert, key))(t)}, ClientAuth: tls.RequireAnyClientCert}))(t)
	defer func() { _ = server.Close() }()
	files := certificatetest.Files(t)
	cfg := config.Default().Redis
	cfg.Timeout = time.Minute
	cfg.TLS = config.ClientTLS{Enabled: true, CAFile: files.CertFile + ".ca", CertFile: files.CertFile, KeyFile: files.KeyFile, ServerName: "localhost"}
	must.Do(t, os.WriteFile(cfg.TLS.CAFile, cert, 0o600))
	replace := func(name string) {
		cert, key := certificatetest.Pair(t, name, time.Now().Add(time.Hour))
		certificatetest.Put(t, files, cert, key)
	}
	replace("first")
	dial := must.Get(redisDialer(t.Context(), cfg))(t)
	for i, want := range []string{"first", "second", "second"} {
		switch i {
		case 1:
			replace(want)
		case 2: // one half is written
			must.Do(t, os.WriteFile(files.KeyFile, nil, 0o600))
		}
		shown := make(chan string, 1)
		go func() {
			c, err := server.Accept()
			if err != nil {
				shown <- err.Error()
				return
			}
			defer func() { _ = c.Close() }()
			if err := c.(*tls.Conn).HandshakeContext(t.Context()); err != nil {
				shown <- err.Error()
				return
			}
			shown <- c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
		}()
		_ = must.Get(dial(t.Context(), "tcp", server.Addr().String()))(t).Close()
		must.Equal(t, <-shown, want, "connection %d shows", i)
	}
}

// piped returns a function that connects to a server without a port, which answers each line with
// the text that answer returns, until it is closed.
func piped(answer func(line string) string) (dial dialer, end func()) {
	ended := make(chan struct{})
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			for lines := bufio.NewScanner(there); lines.Scan(); {
				if text := answer(lines.Text()); text != "" {
					_, _ = io.WriteString(there, text)
				}
			}
		}()
		go func() { <-ended; _ = there.Close() }()
		return here, nil
	}, func() { close(ended) }
}

// Servers that take connections and answer nothing cost one time-out, whatever the client does
// behind it.
func TestCommandsAreBounded(t *testing.T) {
	// The client looks up names. What net keeps for that must not be made in a bubble.
	_, _ = net.LookupHost("localhost")
	for name, change := range map[string]func(*config.Redis){
		"single":    func(c *config.Redis) { c.Addrs, c.Password = []string{"192.0.2.1:1"}, "p" },
		"cluster":   func(c *config.Redis) { c.Addrs = []string{"192.0.2.1:1", "192.0.2.2:1"} },
		"sentinels": func(c *config.Redis) { c.Addrs, c.MasterName = []string{"192.0.2.1:1", "192.0.2.2:1"}, "m" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config.Default().Redis
				change(&cfg)
				dial, end := piped(func(string) string { return "" })
				client := newRedis(cfg, dial)
				for range 3 {
					began := time.Now()
					_, err := redisonce.Do(t.Context(), client, "evalsha", "x", 1, "key")
					if took := time.Since(began); err == nil || took > cfg.Timeout {
						t.Errorf("after %s: %v", took, err)
					}
				}
				_ = client.Close()
				time.Sleep(time.Minute) // what the client does behind it ends
				end()
			})
		})
	}
}

// A user with few rights can connect: nothing is sent at connecting that it could be refused, and
// nothing is sent twice.
func TestCommandsAreSentOnce(t *testing.T) {
	synctest.Test(t, commandsAreSentOnce)
}

func commandsAreSentOnce(t *testing.T) {
	var sent, connections atomic.Int64
	dial, end := piped(func(line string) string {
		switch line {
		case "hello":
			return "%0\r\n"
		case "client", "select", "command":
			t.Errorf("the client sends %s", line)
		case "evalsha":
			sent.Add(1)
		}
		return ""
	})
	cfg := config.Default().Redis
	cfg.Addrs = []string{"192.0.2.1:1"}
	client := newRedis(cfg, func(ctx context.Context, network, addr string) (net.Conn, error) {
		connections.Add(1)
		return dial(ctx, network, addr)
	})
	if _, err := redisonce.Do(t.Context(), client, "evalsha", "x", 1, "key"); err == nil {
		t.Error("no error")
	}
	if sent.Load() != 1 || connections.Load() != 1 {
		t.Errorf("sent %d times on %d connections", sent.Load(), connections.Load())
	}
	_ = client.Close()
	end()
}

// A server that repeats the arguments of a command it does not know would put the password into the
// log.
func TestPasswordIsNotInErrors(t *testing.T) {
	const secret = "hunter2"
	addr, _ := backendstest.Redis(t, func(line string) string {
		if line == secret {
			return fmt.Sprintf("-ERR unknown command 'AUTH', with args beginning with: '%s' \r\n", secret)
		}
		return ""
	})
	for name, change := range map[string]func(*config.Redis){
		"single":    func(c *config.Redis) { c.Addrs, c.Password = []string{addr}, secret },
		"cluster":   func(c *config.Redis) { c.Addrs, c.Password = []string{addr, "127.0.0.1:1"}, secret },
		"sentinels": func(c *config.Redis) { c.Addrs, c.MasterName, c.SentinelPassword = []string{addr}, "m", secret },
	} {
		t.Run(name, func(t *testing.T) {
			client := newTestRedis(t, change)
			opts := rediscursor.Options{Client: client, Prefix: "seqd:", Cluster: "c"}
			_, single := redisonce.Do(t.Context(), client, "get", "key")
			_, piped := client.Pipelined(t.Context(), func(p redis.Pipeliner) error { p.Get(t.Context(), "key"); return nil })
			for _, err := range []error{single, piped, rediscursor.Check(t.Context(), opts)} {
				if err == nil || strings.Contains(err.Error(), secret) {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}

func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	missing, garbage := filepath.Join(dir, "missing"), filepath.Join(dir, "garbage")
	must.Do(t, os.WriteFile(garbage, []byte("garbage"), 0o600))
	for _, test := range []struct {
		tls  config.ClientTLS
		want []string
	}{
		{config.ClientTLS{CAFile: missing}, []string{"redis.tls.caFile: ", missing}},
		{config.ClientTLS{CAFile: garbage}, []string{"redis.tls.caFile: ", garbage}},
		{config.ClientTLS{CertFile: missing, KeyFile: garbage}, []string{"redis.tls.certFile: ", missing}},
		{config.ClientTLS{CertFile: garbage, KeyFile: missing}, []string{"redis.tls.keyFile: ", missing}},
		{config.ClientTLS{CertFile: garbage, KeyFile: garbage}, []string{"redis.tls.certFile, redis.tls.keyFile: "}},
	} {
		cfg := config.Default().Redis
		cfg.Addrs, cfg.TLS = []string{"127.0.0.1:1"}, test.tls
		cfg.TLS.Enabled = true
		_, err := NewRedis(t.Context(), cfg)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
		}
	}
}

func TestUnfit(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, context.DeadlineExceeded: false, errors.New("away"): false, rediscursor.ErrReplica: false,
		rediscursor.ErrForeign: true, rediscursor.ErrNewer: true, fmt.Errorf("x: %w", rediscursor.ErrUnfit): true,
	} {
		must.Equal(t, unfit(err), want, "%v is unfit", err)
	}
}
