package chaos

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/integration/chaos/sabotage"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// seqd is one node: a host with a seqd, whose clock can be changed, and its own link to the store.
type seqd struct {
	host   *host
	link   *link
	state  string // a small disk with its working directory and snowflake's stateDir
	log    string
	binary string
	env    []string
	home   []string // the settings of the correct Redis
	clock  *os.File

	told func(life int, how string)  // called when a life began ("") or ended
	see  func(life int, line []byte) // called with each line of the log

	mu      sync.Mutex // guards process and redis; held while one is started or ended
	process *process
	redis   []string     // used instead of home in the next life
	life    atomic.Int64 // number of processes so far
}

func newSeqd(w *world, h *host, port int, program, bizTypes string) (*seqd, error) {
	n := &seqd{host: h, binary: program, log: w.log(h.name + "-seqd"), home: w.redisEnv()}
	n.redis = n.home
	err := inOrder(
		func() (err error) { n.link, err = newLink(port, w.store.addr()); return err },
		func() (err error) { n.state, err = w.smallDisk(h.name+"-state", "1m"); return err },
		func() (err error) { n.clock, err = os.Create(filepath.Join(w.dir, h.name+"-clock")); return err },
		func() error { return n.turnClock(0) },
	)
	if err != nil {
		return n, err
	}
	n.env = slices.Concat(w.store.env(fmt.Sprintf("%s:%d", gateway, port)), []string{
		"PATH=" + os.Getenv("PATH"),
		"SEQD_SERVER_ADDR=" + n.addr(), "SEQD_RESP_ADDR=" + n.respAddr(), "SEQD_AUTH_MODE=none",
		"SEQD_COMPAT_LEAF=true", "SEQD_COMPAT_TINYID=true", "SEQD_COMPAT_COSID=use",
		"SEQD_SNOWFLAKE_HORIZON=3s", "SEQD_SNOWFLAKE_RENEWINTERVAL=500ms", "SEQD_SNOWFLAKE_POLLINTERVAL=500ms", "SEQD_SNOWFLAKE_MAXSKEW=1500ms",
		"SEQD_SNOWFLAKE_STATEDIR=.", "SEQD_BIZTYPEFOLDER=.",
		"SEQD_BIZTYPES=" + bizTypes,
		"SEQD_TEST_CLOCK=" + n.clock.Name(), sabotage.Env + "=" + os.Getenv(sabotage.Env),
	})
	return n, nil
}

// seqd is a [load.Node].
func (n *seqd) Name() string { return n.host.name }
func (n *seqd) Life() int    { return int(n.life.Load()) }
func (n *seqd) URL() string  { return "http://" + n.addr() }

// DialRESP connects to the port of the Redis protocol.
func (n *seqd) DialRESP() (net.Conn, error) {
	return net.DialTimeout("tcp", n.respAddr(), load.UsualPatience)
}

func (n *seqd) addr() string { return fmt.Sprintf("%s:%d", n.host.addr, seqdPort) }

// respAddr is where the node speaks the Redis protocol.
func (n *seqd) respAddr() string { return fmt.Sprintf("%s:%d", n.host.addr, respPort) }

// turnClock sets the offset of the node's clock.
func (n *seqd) turnClock(by time.Duration) error {
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], uint64(by))
	_, err := n.clock.WriteAt(raw[:], 0)
	return err
}

// start starts the node's next life, unless it is running.
func (n *seqd) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil && n.process.alive() {
		return nil // it ended by itself meanwhile, and was restarted
	}
	return n.begin()
}

// begin starts a process. mu is held.
func (n *seqd) begin() error {
	cmd := n.command()
	life := int(n.life.Add(1))
	n.told(life, "")
	process, err := startProcess(cmd, n.log, func(line []byte) { n.see(life, line) })
	if err != nil {
		return err
	}
	n.process = process
	go n.revive(process, life)
	return nil
}

// command returns a command that runs the node's program. mu is held.
func (n *seqd) command(args ...string) *exec.Cmd {
	cmd := n.host.command(n.binary, args...)
	cmd.Env, cmd.Dir = slices.Concat(n.env, n.redis), n.state
	return cmd
}

// do runs a command of the program on the node's host, as an operator does, and returns its output.
func (n *seqd) do(args ...string) (string, error) {
	n.mu.Lock()
	cmd := n.command(args...)
	n.mu.Unlock()
	out, err := cmd.CombinedOutput()
	said := strings.TrimSpace(string(out))
	if err != nil {
		err = fmt.Errorf("%s on %s: %w: %s", strings.Join(args, " "), n.Name(), err, said)
	}
	return said, err
}

// configure sets the Redis of the node from its next life on.
func (n *seqd) configure(redis []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.redis = redis
}

// revive restarts a node that has ended by itself, as a supervisor would.
func (n *seqd) revive(process *process, life int) {
	<-process.exited
	n.mu.Lock()
	defer n.mu.Unlock()
	if process.asked {
		return
	}
	n.told(life, record.Failed)
	time.Sleep(time.Second)
	if err := n.begin(); err != nil {
		n.see(life, []byte(err.Error()))
	}
}

// kill ends the node as kill -9 does.
func (n *seqd) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process.alive() {
		n.process.asked = true
		n.process.kill()
		n.told(n.Life(), record.Killed)
	}
}

// stop asks the node to end and waits until it has.
func (n *seqd) stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.process.alive() {
		return nil
	}
	n.process.asked = true
	err := n.process.stop()
	n.told(n.Life(), record.Stopped)
	return named("a clean stop of "+n.Name(), err)
}

// present returns the current process.
func (n *seqd) present() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}
