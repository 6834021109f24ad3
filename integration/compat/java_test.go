//go:build java

// Package compat tests the clients of Tinyid and CosId, in Java: they take numbers from three real nodes
// that are killed, beside callers of Leaf's route and of GET /seq. scripts/compat runs it.
package compat

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// classpathEnv names the environment variable with the class path of the programs in java/, which
// scripts/compat compiles.
const classpathEnv = "SEQD_TEST_JAVA_CLASSPATH"

func TestMain(m *testing.M) { node.Main(m) }

// bizType is taken by all callers. CosId's namespace is shop, and the name order; for machine IDs its
// namespace is pool.
const (
	bizType = "shop.order"
	pool    = "machines"
	token   = "seqd_compat0000000000000000000000"
)

// settings let all three clients in. They require tokens, and give Leaf's and CosId's clients, which send
// none, the scopes of one.
func settings() []string {
	return []string{
		`SEQD_BIZTYPES=[{"name":"` + bizType + `","step":1000,"maxStep":5000}]`,
		"SEQD_COMPAT_LEAF=true", "SEQD_COMPAT_TINYID=true", "SEQD_COMPAT_COSID=use",
		"SEQD_AUTH_MODE=token", "SEQD_COMPAT_TOKEN=shop",
		fmt.Sprintf(`SEQD_AUTH_TOKENS=[{"name":"shop","sha256":"%x","scopes":["issue:%s","lease:%s","admin"]}]`, sha256.Sum256([]byte(token)), bizType, pool),
	}
}

// Nodes are killed and come back while callers take numbers of one biz type. No number comes twice, and
// those of single calls are in order.
func TestJavaClients(t *testing.T) {
	if os.Getenv(classpathEnv) == "" {
		t.Fatalf("%s is not set; run scripts/compat", classpathEnv)
	}
	namespace, name, _ := strings.Cut(bizType, ".")
	c := newCrowd(t, fleet.Start(t, 3, slices.Concat(fleet.Postgres(t), settings())...), token)
	var addrs []string
	for _, n := range c.nodes {
		addrs = append(addrs, n.HTTP)
	}
	c.makePool()
	c.enter("seq", 6, c.seq)
	c.enter("leaf", 6, c.leaf)
	servers := strings.Join(addrs, ",")
	programs := []*program{
		c.run("Tinyid", servers, bizType, token),
		c.run("CosId", servers, namespace, name),
		c.run("CosIdMachines", servers, pool, "10.0.0.1:7,10.0.0.2:7"),
		c.run("CosIdMachines", servers, pool, "10.0.0.1:8"),
	}
	for range longtest.Or(2, 4) {
		for _, n := range c.nodes {
			c.more(50)
			n.Kill()
			c.more(50)
			n.Start()
		}
	}
	c.more(50)
	for _, p := range programs {
		p.end()
	}
	c.leave()
	c.check()
}

// makePool makes the pool of machine IDs. Those can be leased half a minute later.
func (c *crowd) makePool() {
	c.t.Helper()
	req := must.Get(http.NewRequest(http.MethodPut, "http://"+c.nodes[0].HTTP+"/worker-pools/"+pool,
		strings.NewReader(`{"epoch":"2019-12-24T16:00:00.000Z","ttl":"20s"}`)))(c.t)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp := must.Get(c.http.Do(req))(c.t)
	must.Do(c.t, resp.Body.Close())
	must.Equal(c.t, resp.StatusCode, http.StatusCreated, "make a pool")
}

// program is a program in Java that prints numbers.
type program struct {
	c      *crowd
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
	read   chan error // how reading its numbers ended
}

// run starts a program and records every number that it prints.
func (c *crowd) run(name string, args ...string) *program {
	c.t.Helper()
	p := &program{c: c, name: name, read: make(chan error, 1)}
	p.cmd = exec.Command("java", append([]string{"-cp", os.Getenv(classpathEnv), name}, args...)...)
	p.cmd.Stderr = &p.stderr
	stdin := must.Get(p.cmd.StdinPipe())(c.t)
	stdout, err := p.cmd.StdoutPipe()
	must.Do(c.t, err)
	if err := p.cmd.Start(); err != nil {
		c.t.Fatalf("start java; install it: apt-get install -y openjdk-17-jdk-headless: %v", err)
	}
	p.stdin = stdin
	c.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	counter := c.counter(name)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			n, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				p.read <- err
				return
			}
			now := c.all.Now()
			c.all.AddCall(ordercheck.Call{Start: now, End: now, Who: name, Numbers: []int64{n}})
			counter.Add(1)
		}
		p.read <- lines.Err()
	}()
	return p
}

// end asks the program to end, and waits until its last number is recorded.
func (p *program) end() {
	p.c.t.Helper()
	_ = p.stdin.Close() // it reads nothing else
	if err := <-p.read; err != nil {
		p.c.t.Errorf("%s: %v", p.name, err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.c.t.Errorf("%s: %v\n%s", p.name, err, p.stderr.String())
	}
}
