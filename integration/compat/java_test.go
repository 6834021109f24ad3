//go:build java

package compat

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// classpathEnv names the environment variable with the class path of the programs in java/, which
// scripts/compat compiles.
const classpathEnv = "SEQD_TEST_JAVA_CLASSPATH"

// The same as TestNoNumberTwice, with programs in Java beside the callers of GET /seq.
func TestJavaClients(t *testing.T) {
	if os.Getenv(classpathEnv) == "" {
		t.Fatalf("%s is not set; run scripts/compat", classpathEnv)
	}
	namespace, name, _ := strings.Cut(bizType, ".")
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t, fleet.Start(t, 3, slices.Concat(s.start(t), settings())...), s.token)
			var addrs []string
			for _, n := range c.nodes {
				addrs = append(addrs, n.HTTP)
			}
			c.enter("seq", 6, true, c.seq(1))
			c.enter("leaf", 6, true, c.leaf)
			servers := strings.Join(addrs, ",")
			programs := []*program{
				c.run("Tinyid", servers, bizType, s.token),
				c.run("CosId", servers, namespace, name),
			}
			c.kill(longtest.Or(2, 6))
			for _, p := range programs {
				p.end()
			}
			c.leave()
			c.check()
		})
	}
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
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
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
