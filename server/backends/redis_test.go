package backends

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/server/backends/backendstest"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

func newTestRedis(t *testing.T, change func(*config.Redis)) redis.UniversalClient {
	t.Helper()
	cfg := config.Default().Redis
	cfg.Timeout = 200 * time.Millisecond
	change(&cfg)
	client, err := NewRedis(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Servers that take connections and answer nothing cost one time-out, whatever the client does
// behind it.
func TestCommandsAreBounded(t *testing.T) {
	t.Parallel()
	silence := func(string) string { return "" }
	a, _ := backendstest.Redis(t, silence)
	b, _ := backendstest.Redis(t, silence)
	for name, change := range map[string]func(*config.Redis){
		"single":    func(c *config.Redis) { c.Addrs, c.Password = []string{a}, "p" },
		"cluster":   func(c *config.Redis) { c.Addrs = []string{a, b} },
		"sentinels": func(c *config.Redis) { c.Addrs, c.MasterName = []string{a, b}, "m" },
	} {
		t.Run(name, func(t *testing.T) {
			client := newTestRedis(t, change)
			for range 3 {
				began := time.Now()
				_, err := redisonce.Do(t.Context(), client, "evalsha", "x", 1, "key")
				if took := time.Since(began); err == nil || took > 2*time.Second {
					t.Errorf("after %s: %v", took, err)
				}
			}
		})
	}
}

// A user with few rights can connect: nothing is sent at connecting that it could be refused, and
// nothing is sent twice.
func TestCommandsAreSentOnce(t *testing.T) {
	var sent atomic.Int64
	addr, connections := backendstest.Redis(t, func(line string) string {
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
	client := newTestRedis(t, func(c *config.Redis) { c.Addrs, c.Timeout = []string{addr}, 2*time.Second })
	if _, err := redisonce.Do(t.Context(), client, "evalsha", "x", 1, "key"); err == nil {
		t.Error("no error")
	}
	if sent.Load() != 1 || connections.Load() != 1 {
		t.Errorf("sent %d times on %d connections", sent.Load(), connections.Load())
	}
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
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		tls  config.RedisTLS
		want []string
	}{
		{config.RedisTLS{CAFile: missing}, []string{"redis.tls.caFile: ", missing}},
		{config.RedisTLS{CAFile: garbage}, []string{"redis.tls.caFile: ", garbage}},
		{config.RedisTLS{CertFile: missing, KeyFile: garbage}, []string{"redis.tls.certFile: ", missing}},
		{config.RedisTLS{CertFile: garbage, KeyFile: missing}, []string{"redis.tls.keyFile: ", missing}},
		{config.RedisTLS{CertFile: garbage, KeyFile: garbage}, []string{"redis.tls.certFile, redis.tls.keyFile: "}},
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
		if got := unfit(err); got != want {
			t.Errorf("%v is unfit: %v", err, got)
		}
	}
}
