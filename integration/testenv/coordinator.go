package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// These variables name the program of Consul, and the folder with the libraries of ZooKeeper.
// scripts/coordination sets them. Consul may be left out.
const (
	ConsulEnv    = "SEQD_TEST_CONSUL"
	ZooKeeperEnv = "SEQD_TEST_ZOOKEEPER"
)

// Coordinator is a Consul or one server of a ZooKeeper.
type Coordinator struct {
	*server
	program string
	args    []string
	ready   func(context.Context) error
}

// StartConsul starts a server of Consul and waits until it leads. It skips the test if there is no
// Consul.
func StartConsul(t testing.TB) *Coordinator {
	t.Helper()
	binary := os.Getenv(ConsulEnv)
	if binary == "" {
		t.Skipf("%s is not set: Consul is left out", ConsulEnv)
	}
	c := &Coordinator{server: newServer(t, "consul"), program: binary}
	c.args = []string{
		"agent", "-server", "-bootstrap-expect=1", "-node=one", "-bind=127.0.0.1", "-data-dir=" + t.TempDir(), fmt.Sprint("-http-port=", c.port),
		fmt.Sprint("-server-port=", reservePort(t)), fmt.Sprint("-serf-lan-port=", reservePort(t)), "-serf-wan-port=-1", "-dns-port=-1",
		"-hcl=ports { grpc = -1 }", "-hcl=disable_update_check = true", "-hcl=performance { raft_multiplier = 1 }",
	}
	c.ready = func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Addr()+"/v1/kv/none?consistent", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			return errors.New(resp.Status)
		}
		return nil
	}
	c.Start()
	return c
}

// StartZooKeeper starts servers of one ZooKeeper and waits until they answer.
func StartZooKeeper(t testing.TB, servers int) []*Coordinator {
	t.Helper()
	libraries := os.Getenv(ZooKeeperEnv)
	if libraries == "" {
		t.Fatalf("%s is not set; run scripts/coordination", ZooKeeperEnv)
	}
	java := lookUp(t, "java", "openjdk-17-jre-headless")
	var all []*Coordinator
	var list []string
	for i := range servers {
		c := &Coordinator{server: newServer(t, "zookeeper"), program: java}
		c.ready = c.serves
		all = append(all, c)
		if servers > 1 {
			list = append(list, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, reservePort(t), reservePort(t)))
		}
	}
	for i, c := range all {
		data, conf := t.TempDir(), filepath.Join(t.TempDir(), "zoo.cfg")
		lines := append([]string{
			"tickTime=500", "initLimit=20", "syncLimit=4", "admin.enableServer=false", "4lw.commands.whitelist=srvr", "clientPortAddress=127.0.0.1",
			"dataDir=" + data, fmt.Sprint("clientPort=", c.port),
		}, list...)
		must(t, c, "configure "+c.name, errors.Join(
			os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, i+1), 0o600), os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600)))
		c.args = []string{"-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", libraries + "/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf}
		c.process = startProcess(t, c.output, c.program, c.args...)
	}
	for _, c := range all {
		c.AwaitReady()
	}
	return all
}

// serves asks a server of ZooKeeper whether it serves.
func (c *Coordinator) serves(ctx context.Context) error {
	said, err := c.srvr(ctx)
	if err == nil && !strings.Contains(said, "Mode:") {
		err = errors.New(said)
	}
	return err
}

// Leads reports whether a server of ZooKeeper leads.
func (c *Coordinator) Leads() bool {
	said, _ := c.srvr(context.Background())
	return strings.Contains(said, "Mode: leader")
}

// srvrPatience bounds one question. A server that begins may take a connection and never answer on it,
// so whoever waits asks again.
const srvrPatience = 5 * time.Second

// srvr returns what a server of ZooKeeper says of itself.
func (c *Coordinator) srvr(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, srvrPatience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.Addr())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err = io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	said, err := io.ReadAll(conn)
	return string(said), err
}

// Start starts the server, with what it had, and waits until it answers.
func (c *Coordinator) Start() {
	c.t.Helper()
	c.process = startProcess(c.t, c.output, c.program, c.args...)
	c.AwaitReady()
}

// AwaitReady waits until the server answers.
func (c *Coordinator) AwaitReady() {
	c.t.Helper()
	c.await("start "+c.name, c.ready)
}
