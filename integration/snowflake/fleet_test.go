// Package snowflake tests machine IDs: the registry in Redis, nodes that lose their machine ID, and
// clocks that jump.
package snowflake

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.MainOf(m, "./internal/testing/clockseqd") }

// The default settings of nodes in these tests.
const (
	horizon = 2 * time.Second
	renew   = 100 * time.Millisecond
	poll    = 100 * time.Millisecond
	maxSkew = 200 * time.Millisecond
)

// long is a horizon that does not end during a test.
const long = "SEQD_SNOWFLAKE_HORIZON=1m"

// The layout of the numbers.
const bitsSequence = 12

var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// fleet is a set of nodes that share a registry, and a record of the numbers that they issued.
type fleet struct {
	t    *testing.T
	bits int // of the machine ID
	env  []string
	pace node.Pace

	mu    sync.Mutex // guards lives
	lives []*life
}

func newFleet(t *testing.T, bits int, settings ...string) *fleet {
	f := &fleet{t: t, bits: bits, pace: node.Pace{Callers: 2, Pause: time.Millisecond, Largest: 20}}
	f.env = append([]string{
		`SEQD_BIZTYPES=[{"name":"order","strategy":"snowflake"}]`,
		fmt.Sprintf("SEQD_SNOWFLAKE_BITSMACHINE=%d", bits),
		"SEQD_SNOWFLAKE_HORIZON=" + horizon.String(), "SEQD_SNOWFLAKE_RENEWINTERVAL=" + renew.String(),
		"SEQD_SNOWFLAKE_POLLINTERVAL=" + poll.String(), "SEQD_SNOWFLAKE_MAXSKEW=" + maxSkew.String(),
	}, settings...)
	return f
}

// registryName returns the name of the registry for the fleet's layout.
func (f *fleet) registryName() string {
	return fmt.Sprintf("machineIds epoch=2025-01-01T00:00:00Z unit=1ms time=%d sequence=%d machine=%d", 63-bitsSequence-f.bits, bitsSequence, f.bits)
}

// span is an interval in which a life may use a machine ID. Both ends are included, in ms since the
// Unix epoch.
type span struct{ machine, from, until int64 }

// life is one process.
type life struct {
	*node.Node
	f       *fleet
	name    string
	dir     string
	history *ordercheck.Record
	traffic *node.Traffic
	watched chan struct{} // closed when watch has ended
	clean   bool          // it was stopped, not killed

	mu    sync.Mutex // guards spans
	spans []span     // the leases that it reported
}

// launch starts a process in a new folder, or that of an earlier life, and waits until its port is
// open. Later settings override earlier ones.
func (f *fleet) launch(name, dir string, settings ...string) *life {
	f.t.Helper()
	l := &life{f: f, name: name, dir: dir, history: ordercheck.New(), watched: make(chan struct{})}
	if l.dir == "" {
		l.dir = f.t.TempDir()
	}
	if _, err := os.Stat(l.clock()); err != nil {
		l.turn(0)
	}
	l.Node = node.Start(f.t, l.dir, slices.Concat(f.env, []string{"SEQD_TEST_CLOCK=" + l.clock()}, settings)...)
	go l.watch()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lives = append(f.lives, l)
	return l
}

// start launches a process, waits until it is ready, and asks it for numbers until it ends.
func (f *fleet) start(name, dir string, settings ...string) *life {
	f.t.Helper()
	l := f.launch(name, dir, settings...)
	l.AwaitReadiness(200, "")
	l.load()
	return l
}

func (l *life) load() { l.traffic = node.StartTraffic(l.Node, "order", l.history, l.name, l.f.pace) }

// again returns the settings for a later life of the node with the same key: its address.
func (l *life) again() string { return "SEQD_SERVER_ADDR=" + strings.TrimPrefix(l.URL, "http://") }

func (l *life) clock() string { return filepath.Join(l.dir, "clock") }

// turn sets the offset of the node's clock.
func (l *life) turn(off time.Duration) {
	l.f.t.Helper()
	file, err := os.OpenFile(l.clock(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		l.f.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(off)), 0); err != nil {
		l.f.t.Fatal(err)
	}
}

// watch records the leases of the node until the process has ended.
func (l *life) watch() {
	defer close(l.watched)
	for !l.Ended() {
		_, _ = l.held()
		time.Sleep(10 * time.Millisecond)
	}
}

// held asks the node for its lease, and records it.
func (l *life) held() (s span, ok bool) {
	_, body, err := l.TryStatus("/readyz")
	if err != nil {
		return s, false
	}
	var answer struct {
		Details map[string]struct {
			MachineID             *int64
			LeaseFrom, LeaseUntil time.Time
		}
	}
	if json.Unmarshal([]byte(body), &answer) != nil {
		return s, false
	}
	d, ok := answer.Details["order"]
	if !ok || d.MachineID == nil {
		return s, false
	}
	s = span{*d.MachineID, 0, d.LeaseUntil.UnixMilli()}
	if !d.LeaseFrom.IsZero() { // an ID that was never leased is held from the beginning
		s.from = d.LeaseFrom.UnixMilli()
	}
	l.keep(s)
	return s, true
}

// keep records a span. The span of a lease grows with each renewal.
func (l *life) keep(s span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, known := range l.spans {
		if known.machine == s.machine && known.from == s.from {
			l.spans[i].until = max(known.until, s.until)
			return
		}
	}
	l.spans = append(l.spans, s)
}

// machine returns the machine ID of the node, and waits until it has one.
func (l *life) machine() int64 {
	l.f.t.Helper()
	var s span
	await.True(l.f.t, l.name+" has a machine ID", func() (ok bool) { s, ok = l.held(); return ok })
	return s.machine
}

// readLeases records the leases in the log, because /readyz may not have shown a short one.
func (l *life) readLeases() {
	// identified by its key, because other nodes of the process write to the same log
	port := "." + l.URL[strings.LastIndex(l.URL, ":")+1:] + "."
	for line := range strings.SplitSeq(l.Log(), "\n") {
		var entry struct {
			Msg, Key    string
			MachineID   int64
			From, Until time.Time
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "machine ID" && strings.Contains(entry.Key, port) {
			from := entry.From.UnixMilli()
			if from == 1 {
				from = 0 // an ID that was never leased
			}
			l.keep(span{entry.MachineID, from, entry.Until.UnixMilli()})
		}
	}
}

// lostMessage is the log message of a node that lost its machine ID.
const lostMessage = "the machine ID was lost"

// logged returns when a node last logged a message about a machine ID.
func (l *life) logged(message string, machine int64) (when time.Time) {
	l.f.t.Helper()
	for line := range strings.SplitSeq(l.Log(), "\n") {
		var entry struct {
			Time      time.Time
			Msg       string
			MachineID int64
		}
		if json.Unmarshal([]byte(line), &entry) == nil && strings.HasPrefix(entry.Msg, message) && entry.MachineID == machine {
			when = entry.Time
		}
	}
	if when.IsZero() {
		l.f.t.Errorf("%s does not say of machine ID %d: %s", l.name, machine, message)
	}
	return when
}

// took logs how long something took. The limit depends on the machine and is not checked.
func (f *fleet) took(what string, since time.Time, want time.Duration) {
	f.t.Helper()
	f.t.Logf("%s took %v, by the settings at most %v", what, time.Since(since), want)
}

// die kills a node.
func (l *life) die() {
	l.Kill()
	if l.traffic != nil {
		l.traffic.Stop()
	}
}

// leave stops a node cleanly.
func (l *life) leave() {
	l.f.t.Helper()
	if l.traffic != nil {
		l.traffic.Stop()
	}
	l.clean = true
	l.Stop()
}

// parse returns the time of a number, in ms since the Unix epoch, and its machine ID.
func (f *fleet) parse(number int64) (ms, machine int64) {
	return epoch + number>>(bitsSequence+f.bits), number & (1<<f.bits - 1)
}

// latest returns the latest time of the numbers with a machine ID in a life, 0 if there are none.
func (l *life) latest(machine int64) (latest int64) {
	l.history.Each(func(c ordercheck.Call) {
		for _, n := range c.Numbers {
			if ms, m := l.f.parse(n); m == machine {
				latest = max(latest, ms)
			}
		}
	})
	return latest
}

// finish stops every node and checks every number: it was issued once, in order on its node, and
// within a lease of its node. It also checks that no two leases overlap.
func (f *fleet) finish() {
	f.t.Helper()
	for _, l := range f.lives {
		if l.traffic != nil {
			l.traffic.Stop()
		}
		if !l.Ended() {
			l.clean = true
			l.Stop()
		}
		<-l.watched
		l.readLeases()
	}
	all := ordercheck.New()
	for _, l := range f.lives {
		if err := l.history.Order(); err != nil {
			f.t.Errorf("%s: %v", l.name, err)
		}
		l.history.Each(all.AddCall)
		l.checkSpans()
	}
	if err := all.Duplicates(); err != nil {
		f.t.Error(err)
	}
	f.checkOverlap()
	f.t.Logf("%d numbers from %d lives", all.Numbers(), len(f.lives))
}

// checkSpans checks that every number is within a lease.
func (l *life) checkSpans() {
	bad := 0
	l.history.Each(func(c ordercheck.Call) {
		for _, n := range c.Numbers {
			ms, machine := l.f.parse(n)
			if !slices.ContainsFunc(l.spans, func(s span) bool { return s.machine == machine && s.from <= ms && ms <= s.until }) {
				if bad++; bad == 1 {
					l.f.t.Errorf("%s issued %d, of machine ID %d at %s; it held %+v\n%s", l.name, n, machine, time.UnixMilli(ms).UTC(), l.spans, l.Log())
				}
			}
		}
	})
	if bad > 1 {
		l.f.t.Errorf("%s issued %d numbers outside of its leases", l.name, bad)
	}
}

// checkOverlap checks that no two lives had the same machine ID at the same time. A clean stop ends
// a lease after the last number.
func (f *fleet) checkOverlap() {
	type owned struct {
		span
		name string
	}
	var list []owned
	for _, l := range f.lives {
		for _, s := range l.spans {
			if l.clean {
				s.until = min(s.until, l.latest(s.machine))
			}
			if s.from <= s.until {
				list = append(list, owned{s, l.name})
			}
		}
	}
	bad := 0
	for i, a := range list {
		for _, b := range list[:i] {
			if a.machine == b.machine && a.name != b.name && a.from <= b.until && b.from <= a.until {
				if bad++; bad <= 5 {
					f.t.Errorf("%s and %s overlap: %+v, %+v", a.name, b.name, a.span, b.span)
				}
			}
		}
	}
	if bad > 5 {
		f.t.Errorf("%d pairs of leases overlap", bad)
	}
}

// onMongo returns nodes with their registry in a MongoDB that is known to be new, so that they need
// not wait.
type onMongo struct {
	*fleet
	mongo *testenv.Mongo
}

func newOnMongo(t *testing.T, bits int, settings ...string) *onMongo {
	m := &onMongo{mongo: testenv.StartMongo(t)}
	m.fleet = newFleet(t, bits, append(mongoAt(m.mongo, m.mongo.Addr()), settings...)...)
	m.found()
	return m
}

// mongoAt returns the settings for a store in MongoDB.
func mongoAt(m *testenv.Mongo, addr string) []string {
	return []string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=mongodb://" + addr, "SEQD_STORE_MONGO_DATABASE=" + m.Database(), "SEQD_STORE_MONGO_TIMEOUT=500ms",
	}
}

// onRedis returns nodes with their registry in Redis and their store in MongoDB.
type onRedis struct {
	*fleet
	redis *testenv.Redis
	mongo *testenv.Mongo
}

func newOnRedis(t *testing.T, bits int, redis *testenv.Redis, settings ...string) *onRedis {
	r := &onRedis{redis: redis, mongo: testenv.StartMongo(t)}
	r.fleet = newFleet(t, bits, slices.Concat(mongoAt(r.mongo, r.mongo.Addr()), []string{
		"SEQD_SNOWFLAKE_REGISTRY=redis", "SEQD_REDIS_ADDRS=" + redis.Addr(), "SEQD_REDIS_TIMEOUT=300ms",
	}, settings)...)
	return r
}
