package backends

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seqd/seqd/internal/connlimit"
	"github.com/seqd/seqd/internal/distrust"
	"github.com/seqd/seqd/internal/redisbound"
	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/internal/secretfile"
	"github.com/seqd/seqd/server/config"
)

func init() {
	// The client writes plain text to standard error whenever it fails to connect. The errors that
	// it returns say the same.
	redis.SetLogger(silent{})
}

type silent struct{}

// Printf drops the line.
func (silent) Printf(context.Context, string, ...any) {}

// NewRedis returns a client for what the configuration names: one server, a Cluster, or Sentinels
// and what they watch. It reads the TLS files and connects to nothing.
//
// It sends each command once: a take or an install that is repeated would count twice. (The Cluster
// client follows MOVED and ASK, by which a server says that it has not run the command. It repeats
// nothing else that redisonce.Do sends.) When it connects it sends only HELLO and SELECT, so that a
// user with few rights is enough.
func NewRedis(ctx context.Context, cfg config.Redis) (redis.UniversalClient, error) {
	dial, err := redisDialer(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return newRedis(cfg, dial), nil
}

// newRedis is NewRedis with the function that connects.
func newRedis(cfg config.Redis, dial dialer) redis.UniversalClient {
	var client redis.UniversalClient
	peers := distrust.New(cfg.Timeout/2, true)
	peers.Together = cfg.MasterName != ""
	dial = peers.Dial(new(redisbound.Bound).Dial(dial))
	hook := bound{cfg.Timeout}
	present := secretfile.Follow(cfg.PasswordFile, cfg.Password, nil)
	login := func(context.Context) (username, password string, err error) {
		return cfg.Username, present(), nil
	}
	maint := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case cfg.MasterName != "":
		client = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: cfg.MasterName, SentinelAddrs: cfg.Addrs, SentinelUsername: cfg.SentinelUsername, SentinelPassword: cfg.SentinelPassword,
			CredentialsProviderContext: login, DB: cfg.DB, Protocol: protocol, Dialer: dial,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: askSentinels * cfg.Timeout,
			ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout, PoolTimeout: cfg.Timeout, PoolSize: mostConnections(), ConnMaxIdleTime: idleTime, ContextTimeoutEnabled: true, DisableIdentity: true,
		})
	case cfg.Cluster():
		cluster := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cfg.Addrs, CredentialsProviderContext: login, Protocol: protocol, Dialer: dial,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: cfg.Timeout, DisableRoutingPolicies: true,
			ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout, PoolTimeout: cfg.Timeout, PoolSize: mostConnections(), ConnMaxIdleTime: idleTime, ContextTimeoutEnabled: true, DisableIdentity: true,
			MaintNotificationsConfig: maint,
		})
		// bounds what the client itself asks them
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook); node.AddHook(newRoom()) })
		client = cluster
	default:
		client = redis.NewClient(&redis.Options{
			Addr: cfg.Addrs[0], CredentialsProviderContext: login, DB: cfg.DB, Protocol: protocol, Dialer: dial,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: cfg.Timeout,
			ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout, PoolTimeout: cfg.Timeout, PoolSize: mostConnections(), ConnMaxIdleTime: idleTime, ContextTimeoutEnabled: true, DisableIdentity: true,
			MaintNotificationsConfig: maint,
		})
	}
	client.AddHook(hook)
	if _, several := client.(*redis.ClusterClient); !several {
		client.AddHook(newRoom())
	}
	return client
}

const (
	// protocol is RESP2: nothing here needs more, and with RESP3 the client looks for notifications
	// on every connection.
	protocol = 2
	// idleTime is how long a connection is kept that is not used. Servers, balancers and firewalls end
	// them later.
	idleTime = time.Minute
	// askSentinels is how long connecting through Sentinels may take, as a multiple of the time-out
	// of a command. The client asks the Sentinel that it knows twice and then all at once; with
	// less time it can stay with one that hangs.
	askSentinels = 5
)

// mostConnections returns how many connections to a server may be open: as many as the client has by
// itself, but enough for commands that work on many counters at once on a machine with few cores.
func mostConnections() int { return max(10*runtime.GOMAXPROCS(0), 32) }

// discreet keeps secrets out of errors: a server that does not know a command, for example AUTH
// because it was renamed, repeats its arguments.
func discreet(err error) error {
	if err == nil {
		return nil
	}
	text, _, repeats := strings.Cut(err.Error(), ", with args beginning with")
	if !repeats {
		return err
	}
	return refusedCommand(text)
}

// refusedCommand is an error answer of the server, as a [redis.Error].
type refusedCommand string

// Error implements [error].
func (e refusedCommand) Error() string { return string(e) }

// RedisError implements [redis.Error].
func (refusedCommand) RedisError() {}

// bound bounds every command in time as a whole, and keeps secrets out of its error. The time-outs
// of the client bound only the parts: waiting for a connection, dialling, HELLO, writing, reading,
// and in a Cluster all of them again after each redirection.
type bound struct{ timeout time.Duration }

var _ redis.Hook = bound{}

// DialHook implements [redis.Hook].
func (b bound) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (b bound) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, b.timeout)
		defer cancel()
		return discreet(next(ctx, cmd))
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (b bound) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, b.timeout)
		defer cancel()
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			cmd.SetErr(discreet(cmd.Err()))
		}
		return discreet(err)
	}
}

// room lets the commands to a server share the connections that it gives, if that are less than the
// pool may have.
type room struct{ places *connlimit.Places }

// placed is in the context of a command that has a place. What the client sends to prepare a
// connection for it passes the hooks too, and needs no place of its own.
type placed struct{}

var _ redis.Hook = room{}

func newRoom() room { return room{connlimit.New(mostConnections())} }

// refused reports whether the server had no connection for a command, which so was not sent.
func refused(err error) bool { return errors.Is(err, redisbound.ErrFull) }

// DialHook implements [redis.Hook].
func (r room) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (r room) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if ctx.Value(placed{}) != nil {
			return next(ctx, cmd)
		}
		ctx = context.WithValue(ctx, placed{}, true)
		return r.places.Do(ctx, refused, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (r room) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if ctx.Value(placed{}) != nil {
			return next(ctx, cmds)
		}
		ctx = context.WithValue(ctx, placed{}, true)
		sent := false
		err := r.places.Do(ctx, refused, func() error { sent = true; return next(ctx, cmds) })
		if !sent {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// redisDialer returns the function that connects to servers and to Sentinels.
func redisDialer(ctx context.Context, cfg config.Redis) (dialer, error) {
	if dial := seams.Of(ctx).DialRedis; dial != nil {
		return dial, nil
	}
	return newDialer("redis.tls", cfg.TLS, cfg.Timeout)
}

// newDialer returns a function that connects to servers. It reads the TLS files for each connection,
// because they are replaced before they expire. section is that of their keys.
func newDialer(section string, cfg config.ClientTLS, timeout time.Duration) (dialer, error) {
	plain := &net.Dialer{Timeout: timeout}
	if !cfg.Enabled {
		return plain.DialContext, nil
	}
	settings, err := clientTLS(section, cfg)
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Config]
	last.Store(settings)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if fresh, err := clientTLS(section, cfg); err == nil { // or the files are being replaced
			last.Store(fresh)
		}
		secure := &tls.Dialer{NetDialer: plain, Config: last.Load()}
		return secure.DialContext(ctx, network, addr)
	}, nil
}

// clientTLS reads the files that a section of the configuration names.
func clientTLS(section string, cfg config.ClientTLS) (*tls.Config, error) {
	settings := &tls.Config{ServerName: cfg.ServerName, MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		authorities, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%s.caFile: %w", section, err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("%s.caFile: there is no certificate in %s", section, cfg.CAFile)
		}
	}
	if cfg.CertFile != "" {
		certificate, err := os.ReadFile(cfg.CertFile)
		if err != nil {
			return nil, fmt.Errorf("%s.certFile: %w", section, err)
		}
		key, err := os.ReadFile(cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s.keyFile: %w", section, err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s.certFile, %[1]s.keyFile: %w", section, err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}
