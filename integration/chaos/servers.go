package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// masterName is the Sentinels' name of the primary.
const masterName = "seqd"

func init() { redis.SetLogger(silence{}) } // go-redis tells of every refusal

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// redisServer is a Redis, or a Sentinel.
type redisServer struct {
	host     *host
	port     int
	conf     string // the server rewrites it when its role changes
	data     string
	socket   string // for the laboratory, without faults of the network
	log      string
	sentinel bool
	mu       sync.Mutex // guards process
	process  *process
	client   *redis.Client // uses the socket, for the laboratory's own commands
}

// newRedis prepares a server without persistence. All servers replicate the first one.
func (w *world) newRedis(h *host) (*redisServer, error) {
	settings := []string{
		`save ""`, "repl-diskless-sync-delay 0", "repl-backlog-ttl 0", "repl-timeout 5",
		"min-replicas-to-write 1", "min-replicas-max-lag 2", "protected-mode no", "maxmemory-policy noeviction",
	}
	if len(w.redises) > 0 {
		settings = append(settings, fmt.Sprintf("replicaof %s %d", w.redises[0].host.addr, redisPort))
	}
	return w.newServer(h, "redis", redisPort, settings)
}

func (w *world) newSentinel(h *host) (*redisServer, error) {
	s, err := w.newServer(h, "sentinel", sentinelPort, []string{
		"protected-mode no",
		fmt.Sprintf("sentinel monitor %s %s %d 2", masterName, w.redises[0].host.addr, redisPort),
		fmt.Sprintf("sentinel down-after-milliseconds %s 1500", masterName),
		fmt.Sprintf("sentinel failover-timeout %s 6000", masterName),
	})
	s.sentinel = true
	return s, err
}

func (w *world) newServer(h *host, kind string, port int, settings []string) (*redisServer, error) {
	name := h.name + "-" + kind
	s := &redisServer{host: h, port: port, conf: filepath.Join(w.dir, name+".conf"), data: filepath.Join(w.dir, name),
		socket: filepath.Join(w.dir, name+".sock"), log: w.log(name)}
	s.client = redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.socket, DisableIdentity: true, DialerRetries: 1, DialTimeout: time.Second, ReadTimeout: time.Second, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	own := []string{fmt.Sprintf("port %d", port), "bind 0.0.0.0", fmt.Sprintf("dir %q", s.data), fmt.Sprintf("unixsocket %q", s.socket)}
	text := strings.Join(append(own, settings...), "\n") + "\n"
	return s, inOrder(
		func() error { return os.Mkdir(s.data, 0o755) },
		func() error { return os.WriteFile(s.conf, []byte(text), 0o644) },
	)
}

func (s *redisServer) addr() string { return fmt.Sprintf("%s:%d", s.host.addr, s.port) }

// start starts the process and waits until it answers.
func (s *redisServer) start() error {
	args := []string{s.conf}
	if s.sentinel {
		args = append(args, "--sentinel")
	}
	process, err := startProcess(s.host.command("redis-server", args...), s.log, nil)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = process
	s.mu.Unlock()
	return named("start redis on "+s.host.name, within(patience, func() error { return s.dial() }))
}

// dial returns an error until the server answers.
func (s *redisServer) dial() error {
	if !s.alive() {
		return fmt.Errorf("redis on %s has ended: %v", s.host.name, s.process.err)
	}
	return s.do("PING")
}

// alive reports whether the process is running.
func (s *redisServer) alive() bool { return s.present().alive() }

// present returns the current process.
func (s *redisServer) present() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *redisServer) kill() { s.present().kill() }

// do runs a command.
func (s *redisServer) do(args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return s.client.Do(ctx, args...).Err()
}

// masterFields returns what a Sentinel reports about the primary.
func (s *redisServer) masterFields() (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	reply := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", masterName)
	err := s.client.Process(ctx, reply)
	return reply.Val(), err
}

// dump returns the file that a Redis loads when it starts.
func (s *redisServer) dump() string { return filepath.Join(s.data, "dump.rdb") }
