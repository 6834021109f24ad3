package deploy

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

const password = "a1b2c3d4e5f6"

// server is a server started by compose/redis.sh, with its own port and folder.
type server struct {
	t            *testing.T
	args         []string
	folder, port string
	redisPort    string // of its first primary
	cmd          *exec.Cmd
}

// newServer starts a server.
func newServer(t *testing.T, redisPort string, args ...string) *server {
	t.Helper()
	_, port, _ := strings.Cut(testenv.ReserveAddr(t), ":")
	s := &server{t: t, args: args, folder: t.TempDir(), port: port, redisPort: redisPort}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	log := must.Get(os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(s.t)
	defer log.Close()
	s.cmd = exec.Command("../../deploy/compose/redis.sh", s.args...)
	s.cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+password, "FOLDER="+s.folder, "PORT="+s.port, "REDIS_PORT="+s.redisPort)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(s.t, s.cmd.Start())
	client := s.client()
	defer client.Close()
	await.Eventually(s.t, s.args[0]+" answers", func() error { return client.Ping(context.Background()).Err() })
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	if s.t.Failed() {
		text, _ := os.ReadFile(filepath.Join(s.folder, "log"))
		s.t.Logf("%q:\n%s", s.args, bytes.TrimSpace(text))
	}
}

func (s *server) addr() string { return "127.0.0.1:" + s.port }

func (s *server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr(), Password: password, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
}

// replication returns an error unless the server's replication info has a line.
func (s *server) replication(want string) error {
	client := s.client()
	defer client.Close()
	info, err := client.Info(context.Background(), "replication").Result()
	if err != nil || !strings.Contains(info, want+"\r\n") {
		return fmt.Errorf("it does not say %s: %v\n%s", want, err, info)
	}
	return nil
}

// The servers and Sentinels of compose.yaml, started by its own script. Nodes find the primary
// through the Sentinels. A lost primary is replaced, and comes back as a replica, whatever its
// arguments.
func TestComposeRedis(t *testing.T) {
	longtest.Only(t)
	mongo := testenv.StartMongo(t)
	primary := newServer(t, "", "server", "127.0.0.1")
	replica := newServer(t, primary.port, "server", "127.0.0.1", "127.0.0.1")
	await.Eventually(t, "the replica is in step", func() error { return replica.replication("master_link_status:up") })
	var sentinels []string
	for range 3 {
		sentinels = append(sentinels, newServer(t, primary.port, "sentinel", "127.0.0.1", "127.0.0.1").addr())
	}
	quorum := func(addr string) func() error {
		return func() error {
			client := redis.NewClient(&redis.Options{Addr: addr, Password: password, DisableIdentity: true})
			defer client.Close()
			// as the healthcheck does
			return client.Do(context.Background(), "sentinel", "ckquorum", "seqd").Err()
		}
	}
	for _, addr := range sentinels {
		await.Eventually(t, "the Sentinels know each other", quorum(addr))
	}
	settings := []string{"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + mongo.URI(), "SEQD_STORE_MONGO_DATABASE=" + mongo.Database(),
		"SEQD_REDIS_ADDRS=" + strings.Join(sentinels, ","), "SEQD_REDIS_MASTERNAME=seqd", "SEQD_REDIS_PASSWORD=" + password, "SEQD_REDIS_SENTINELPASSWORD=" + password}
	a, b := node.StartReady(t, t.TempDir(), settings...), node.StartReady(t, t.TempDir(), settings...)
	last := inTurn(t, 0, a, b)

	primary.kill()
	await.Eventually(t, "the replica is the primary", func() error { return replica.replication("role:master") })
	last = max(last, backOnTheCursor(t, a), backOnTheCursor(t, b))
	last = inTurn(t, last, a, b)

	primary.start()
	await.Eventually(t, "the old primary is a replica", func() error { return primary.replication("master_port:" + replica.port) })
	inTurn(t, last, b, a)
}

// backOnTheCursor takes numbers until the node is ready and not degraded, and returns the last one.
// Without takes a node may not notice that Redis has changed.
func backOnTheCursor(t *testing.T, n *node.Node) (last int64) {
	t.Helper()
	await.Eventually(t, "the node is back on the cursor", func() error {
		numbers, err := n.Take("order", 1)
		if err != nil {
			return err
		}
		last = numbers[0]
		if r := n.Readiness(); r.Status != http.StatusOK || r.Code != "" {
			return fmt.Errorf("it is %d %s", r.Status, r.Code)
		}
		return nil
	})
	return last
}

// inTurn takes numbers from nodes in turn, checks that they increase, and returns the last.
func inTurn(t *testing.T, last int64, nodes ...*node.Node) int64 {
	t.Helper()
	for range 10 {
		for _, n := range nodes {
			numbers, err := n.Take("order", 1)
			if err != nil || numbers[0] <= last {
				t.Fatalf("after %d comes %v (%v)", last, numbers, err)
			}
			last = numbers[0]
		}
	}
	return last
}
