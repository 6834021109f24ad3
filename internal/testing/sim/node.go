package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/longlock"
	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/terms"
)

// node is a node: one real [server.Server] after another, each of which is a life of it.
type node struct {
	*World
	name  string
	host  string
	route int // which server of Redis its address leads to; guarded by the mu of the world

	offset    atomic.Int64 // how far its clock is ahead
	suspended suspension
	lives     atomic.Int64

	turn     longlock.Lock // guards what follows; held while a life begins or ends
	now      *life         // nil while none runs
	settings map[string]string
	noRedis  bool
	astray   *storesim.Cluster // the coordinator that it uses by mistake, from its next life on
	endPause func()
	killed   int // how many of its lives were killed
}

var _ load.Node = (*node)(nil)

// Name implements [load.Node].
func (n *node) Name() string { return n.name }

// URL implements [load.Node].
func (n *node) URL() string { return "http://" + n.host + ":8080" }

// Life implements [load.Node].
func (n *node) Life() int { return int(n.lives.Load()) }

// DialRESP implements [load.Node].
func (n *node) DialRESP() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), load.UsualPatience)
	defer cancel()
	conn, err := n.net.Dial(ctx, callers, n.host+":6380")
	if err != nil || !n.options.Tokens {
		return conn, err
	}
	answer := make([]byte, len("+OK\r\n"))
	_ = conn.SetDeadline(time.Now().Add(load.UsualPatience))
	_, wrote := fmt.Fprintf(conn, "*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n", len(admin), admin)
	_, read := io.ReadFull(conn, answer)
	if err = errors.Join(wrote, read, conn.SetDeadline(time.Time{})); err != nil {
		_ = conn.Close() // it has failed
	}
	return conn, err
}

// life is one process of a node.
type life struct {
	node         *node
	number       int
	server       *server.Server
	view         *storesim.View
	coordination *storesim.View // nil without a coordinator
	patience     time.Duration  // with the store
	over         atomic.Bool    // it was killed: nothing that it does matters any more
	asked        atomic.Bool    // it was asked to end
	started      atomic.Bool    // it can issue
	stopIt       context.CancelFunc
	log          *slog.Logger
	terms        atomic.Pointer[terms.Terms] // see work; nil without works
}

// start begins the next life, unless one runs.
func (n *node) start() {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.now == nil && !n.ended.Load() {
		n.begin()
	}
}

// begin begins a life. the turn is held.
func (n *node) begin() {
	l := &life{node: n, number: int(n.lives.Add(1))}
	l.view = n.store.View(l.fates())
	if of := cmp.Or(n.astray, n.coordinator); of != nil {
		l.coordination = of.View(l.fates())
	}
	cfg, err := n.configuration()
	err = errors.Join(err, os.MkdirAll(n.stateDir(), 0o700))
	if err != nil {
		n.journal.Find("%s cannot be configured: %v", n.name, err)
		return
	}
	_, l.patience = cfg.Store.Timeout()
	l.log = slog.New(slog.NewJSONHandler(l, nil))
	l.server = server.New(cfg, server.WithLogger(l.log), server.WithClock(n.clock))
	var ctx context.Context
	ctx, l.stopIt = context.WithCancel(context.Background())
	n.now = l
	n.journal.Lived(n.name, l.number, "")
	n.running.Go(func() { l.run(seams.With(ctx, l.seams())) })
	if n.options.Works {
		n.running.Go(func() { l.work(ctx) })
	}
}

// clock is the clock of the node.
func (n *node) clock() time.Time { return time.Now().Add(time.Duration(n.offset.Load())) }

// configuration is what the node reads when it starts. the turn is held.
func (n *node) configuration() (*config.Config, error) {
	env := []string{
		"SEQD_BIZTYPES=" + n.bizTypes, "SEQD_AUTH_MODE=none", "SEQD_SERVER_ADDR=" + n.host + ":8080", "SEQD_RESP_ADDR=" + n.host + ":6380",
		"SEQD_SERVER_CONSOLE=false", "SEQD_SERVER_DRAINDELAY=1s", "SEQD_SERVER_STOPTIMEOUT=8s",
		"SEQD_COMPAT_LEAF=true", "SEQD_COMPAT_TINYID=true", "SEQD_COMPAT_COSID=use",
		"SEQD_SNOWFLAKE_HORIZON=6s", "SEQD_SNOWFLAKE_RENEWINTERVAL=2s", "SEQD_SNOWFLAKE_POLLINTERVAL=1s", "SEQD_SNOWFLAKE_MAXSKEW=1500ms",
		"SEQD_SNOWFLAKE_STATEDIR=" + n.stateDir(), "SEQD_BIZTYPEFOLDER=" + n.dir,
	}
	if n.options.Bolt {
		env = append(env, "SEQD_STORE_DRIVER=bolt", "SEQD_STORE_BOLT_PATH="+n.file())
	} else {
		env = append(env, "SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=postgres://simulated@127.0.0.1/seqd")
	}
	if n.options.Mode == storesim.Lossless {
		env = append(env, "SEQD_STORE_POSTGRES_FAILOVER=lossless")
	}
	if n.redis != nil && !n.noRedis {
		env = append(env, "SEQD_REDIS_ADDRS="+redisAddr)
	}
	switch {
	case n.options.inCoordinator():
		env = append(env, "SEQD_SNOWFLAKE_REGISTRY=coordinator", "SEQD_COORDINATION_DRIVER=consul", "SEQD_COORDINATION_ADDRS=127.0.0.1:8500")
	case n.options.Registry:
		env = append(env, "SEQD_SNOWFLAKE_REGISTRY=redis")
	}
	if n.name == nodeNames[len(nodeNames)-1] && n.variant.live != "" { // it drops and fetches biz types all the time
		env = append(env, "SEQD_BIZTYPES="+n.sparse, "SEQD_LIVEBIZTYPES="+n.variant.live)
	}
	if n.variant.inStore {
		env = append(env, "SEQD_BIZTYPES="+n.sparse)
	}
	if n.variant.idle != "" {
		env = append(env, "SEQD_BIZTYPEIDLE="+n.variant.idle)
	}
	if n.options.Tokens {
		for key, value := range tokenSettings() {
			env = append(env, key+"="+value)
		}
	}
	for key, value := range n.settings {
		env = append(env, key+"="+value)
	}
	return config.Load(config.Sources{Env: env})
}

// seams connect the life with the world.
func (l *life) seams() seams.Seams {
	n := l.node
	s := seams.Seams{
		Poll: true,
		Listen: func(_ context.Context, addr string) (net.Listener, error) {
			if l.over.Load() {
				return nil, net.ErrClosed
			}
			return n.net.Listen(addr)
		},
		DialRedis: func(ctx context.Context, _, addr string) (net.Conn, error) {
			if l.over.Load() {
				return nil, net.ErrClosed
			}
			// Where the network is cut it fails at once. The client dials for a subscription with a
			// mutex, for which its health check waits: the clock of the bubble would stop.
			ctx, cancel := context.WithTimeout(ctx, time.Nanosecond)
			defer cancel()
			return n.net.Dial(ctx, n.host, n.serverAt(addr, n.redisOf(n)))
		},
	}
	if l.coordination != nil {
		s.OpenCoordinator = l.coordinator
	}
	s.DialReceiver = func(ctx context.Context, _, addr string) (net.Conn, error) {
		if l.over.Load() {
			return nil, net.ErrClosed
		}
		return n.net.Dial(ctx, n.host, addr)
	}
	if !n.options.Bolt {
		s.OpenStore = func(ctx context.Context, m driver.How) (persist.Store, error) {
			return l.view.Open(ctx, storesim.Client{Now: n.clock, Timeout: l.patience, Unreached: m.Unreached, Admit: m.Admit})
		}
	}
	return s
}

// run runs the process. One that ends by itself is started again after a second, as a supervisor
// does.
func (l *life) run(ctx context.Context) {
	n := l.node
	err := l.server.Start(ctx)
	if err == nil {
		l.started.Store(true)
		err = l.server.Wait(ctx)
	}
	if l.over.Load() || l.asked.Load() {
		return
	}
	n.journal.Find("%s ended by itself: %v", n.name, err)
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.now != l {
		return
	}
	n.die(l, record.Failed)
	n.running.Go(func() { time.Sleep(time.Second); n.start() })
}

// kill ends the node as kill -9 does or, if power is lost, without a word to anybody.
func (n *node) kill(powerLost bool) {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.now == nil {
		return
	}
	n.now.over.Store(true) // before its ports close, or the process seems to have ended by itself
	if powerLost {
		n.net.Vanish(n.host)
	}
	n.die(n.now, record.Killed)
}

// die ends a life at once. What its goroutines still do reaches nobody. the turn is held.
func (n *node) die(l *life, how string) {
	l.over.Store(true)
	l.views((*storesim.View).Kill)
	n.net.Kill(n.host)
	n.journal.Lived(n.name, l.number, how)
	n.now = nil
	n.unpause()
	file, state := n.file(), n.stateDir()
	n.killed++
	n.leaveState(state)
	if n.options.Bolt {
		n.leaveFile(file)
	}
	l.stopIt()
	n.running.Go(func() { _ = l.server.Stop() }) // its errors reach nobody either
}

// stateDir is the folder of the node's state file. the turn is held.
func (n *node) stateDir() string { return filepath.Join(n.dir, n.name, fmt.Sprint("state-", n.killed)) }

// leaveState leaves the folder of the state file, with its lock, to the life that was killed, and
// moves what else is there into that of the next one: what the dead one still writes reaches
// nobody. the turn is held.
func (n *node) leaveState(was string) {
	err := os.MkdirAll(n.stateDir(), 0o700)
	files, listed := os.ReadDir(was)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".lock") {
			err = errors.Join(err, os.Rename(filepath.Join(was, f.Name()), filepath.Join(n.stateDir(), f.Name())))
		}
	}
	if err = errors.Join(err, listed); err != nil && !errors.Is(err, fs.ErrNotExist) { // the life may be about to replace one
		n.journal.Find("the state of %s cannot be moved: %v", n.name, err)
	}
}

// stop ends the node as SIGTERM does, and waits until it has ended.
func (n *node) stop() {
	n.turn.Lock()
	defer n.turn.Unlock()
	l := n.now
	if l == nil {
		return
	}
	n.unpause()
	l.asked.Store(true)
	l.stopIt()
	if l.started.Load() {
		l.server.Drain()
	}
	err := l.server.Stop()
	if err != nil && !n.excused(err) {
		n.journal.Find("a clean stop of %s: %v", n.name, err)
	}
	l.over.Store(true)
	l.views((*storesim.View).Kill)
	n.net.Kill(n.host)
	n.journal.Lived(n.name, l.number, record.Stopped)
	n.now = nil
}

// pause stops the node as SIGSTOP does, until resume: nothing reaches it and nothing leaves it. Its
// timers go on; what they do is seen by nobody until then.
func (n *node) pause() {
	n.turn.Lock()
	defer n.turn.Unlock()
	if l := n.now; l != nil && n.endPause == nil {
		end := n.net.Pause(n.host)
		l.views((*storesim.View).Pause)
		n.endPause = func() { l.views((*storesim.View).Resume); end() }
	}
}

func (n *node) resume() {
	n.turn.Lock()
	defer n.turn.Unlock()
	n.unpause()
}

// unpause ends a pause, if there is one. the turn is held.
func (n *node) unpause() {
	if n.endPause != nil {
		n.endPause()
		n.endPause = nil
	}
}

// views does something with what the life sees of the store, and of the coordinator.
func (l *life) views(do func(*storesim.View)) {
	do(l.view)
	if l.coordination != nil {
		do(l.coordination)
	}
}

// setStore sets the state of the way between the node and the store, in this life, and so that to the
// coordinator.
func (n *node) setStore(s storesim.State) {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.now != nil {
		n.now.views(func(v *storesim.View) { v.Set(s) })
	}
}

// configure sets a setting from the next life on; "" takes it back.
func (n *node) configure(key, value string) {
	n.turn.Lock()
	defer n.turn.Unlock()
	if n.settings == nil {
		n.settings = make(map[string]string)
	}
	if n.settings[key] = value; value == "" {
		delete(n.settings, key)
	}
}

// setClock sets how far the clock of the node is ahead.
func (n *node) setClock(by time.Duration) {
	n.offset.Store(int64(by))
	n.journal.Write(record.Entry{Offset: &record.Offset{At: n.journal.Now(), Node: n.name, Nanoseconds: int64(by)}})
}

// Write implements [io.Writer]: it gets the lines of the log.
func (l *life) Write(line []byte) (int, error) {
	if !l.over.Load() {
		l.node.journal.Line(l.node.name, l.number, line)
		if l.node.options.Log != nil {
			_, _ = fmt.Fprintf(l.node.options.Log, "%8.3f %s.%d %s", time.Duration(l.node.journal.Now()).Seconds(), l.node.name, l.number, line)
		}
	}
	return len(line), nil
}

// excused reports whether an error of a stop is allowed: numbers cannot be given back to a store
// that is away, or whose failover has lost the counter, and a Redis that is away does not say
// which. A node that could not follow changes skips what the store gives it.
func (w *World) excused(err error) bool {
	var network net.Error
	var refused redis.Error // NOREPLICAS, LOADING and the like
	return errors.Is(err, persist.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || seqd.CodeOf(err) == seqd.CodeStarting ||
		w.away(&w.storeOutage) && (strings.Contains(err.Error(), "store") || errors.Is(err, persist.ErrNotFound)) ||
		w.away(&w.redisOutage) && (errors.As(err, &network) || errors.As(err, &refused) || errors.Is(err, io.EOF))
}
