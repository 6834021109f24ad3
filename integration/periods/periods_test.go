// Package periods tests counters that reset at midnight, on nodes whose clocks differ.
package periods

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.MainOf(m, "./internal/testing/clockseqd") }

// bizTypes has IDs that are themselves numbers: the date and nine digits.
const bizTypes = `SEQD_BIZTYPES=[{"name":"order","reset":"daily","timeZone":"Asia/Shanghai","step":100,"maxStep":100,` +
	`"plugins":[{"name":"format","template":"{date:20060102}{seq:09}"}]}]`

// perDay is the factor of the date in an ID.
const perDay = 1_000_000_000

// midnight is a midnight in the time zone, which differs from that of the machine.
var midnight = time.Date(2027, 3, 14, 16, 0, 0, 0, time.UTC)

type fleet struct {
	t       *testing.T
	env     []string
	history *ordercheck.Record
	nodes   []*life
}

// life is one process.
type life struct {
	*node.Node
	name    string
	dir     string
	skew    time.Duration
	traffic *node.Traffic
}

func (l *life) clock() string { return filepath.Join(l.dir, "clock") }

// turn sets the clocks of all nodes to a time, plus the skew of each.
func (f *fleet) turn(to time.Time) {
	f.t.Helper()
	for _, l := range f.nodes {
		f.write(l, to)
	}
}

func (f *fleet) write(l *life, to time.Time) {
	f.t.Helper()
	off := time.Until(to) + l.skew
	file, err := os.OpenFile(l.clock(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(off)), 0); err != nil {
		f.t.Fatal(err)
	}
}

// start starts a process, waits until it is ready, and puts load on it.
func (f *fleet) start(l *life) {
	f.t.Helper()
	l.Node = node.Start(f.t, l.dir, slices.Concat(f.env, []string{"SEQD_TEST_CLOCK=" + l.clock()})...)
	l.AwaitReadiness(200, "")
	l.traffic = node.StartTraffic(l.Node, "order", f.history, fmt.Sprint(l.name, " since ", f.history.Now()), node.Pace{Callers: 3, Pause: 2 * time.Millisecond, Largest: 40})
}

// more waits until every node has issued n more numbers.
func (f *fleet) more(n int64) {
	f.t.Helper()
	for _, l := range f.nodes {
		l.traffic.More(f.t, n)
	}
}

// The clocks of three nodes are seconds and an hour apart, or all go back to the previous day.
// Redis loses everything, and a node is killed and started again. No number is issued twice on a
// day. Order is strict on each day while Redis keeps its state, and always holds on each node.
func TestOverMidnight(t *testing.T) {
	for name, settings := range map[string][]string{"strict": nil, "per node": {"SEQD_SEGMENT_ORDERING=per-node"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mongo, redis := testenv.StartMongo(t), testenv.StartRedis(t)
			f := &fleet{t: t, history: ordercheck.New()}
			f.env = slices.Concat([]string{
				bizTypes, "SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + mongo.URI(), "SEQD_STORE_MONGO_DATABASE=" + mongo.Database(),
				"SEQD_REDIS_ADDRS=" + redis.Addr(),
			}, settings)
			for i, skew := range []time.Duration{-time.Second, 0, time.Hour} {
				l := &life{name: string(rune('a' + i)), dir: t.TempDir(), skew: skew}
				f.nodes = append(f.nodes, l)
				f.write(l, midnight.Add(-2*time.Hour))
				f.start(l)
			}
			f.more(300)
			f.turn(midnight.Add(-2 * time.Second)) // the third node is already in the next day
			f.more(1500)
			f.turn(midnight)
			f.more(1500)
			f.turn(midnight.Add(-10 * time.Minute)) // back
			f.more(300)
			f.turn(midnight.Add(time.Minute))
			f.more(300)
			if name == "strict" {
				f.checkOrder()
			}
			redis.Kill()
			redis.Restart()
			f.nodes[1].Kill()
			f.nodes[1].traffic.Stop()
			f.more2(0, 2, 300)
			f.start(f.nodes[1])
			f.more(300)
			f.turn(midnight.Add(24 * time.Hour))
			f.more(300)
			for _, l := range f.nodes {
				l.traffic.Stop()
				l.Stop()
			}
			f.checkOnce()
		})
	}
}

// more2 is like more, for two nodes.
func (f *fleet) more2(a, b int, n int64) {
	f.t.Helper()
	f.nodes[a].traffic.More(f.t, n)
	f.nodes[b].traffic.More(f.t, n)
}

// days returns the calls of each day.
func (f *fleet) days() map[string]*ordercheck.Record {
	return f.history.Split(func(c ordercheck.Call) string { return fmt.Sprint(c.Numbers[0] / perDay) })
}

// checkOrder checks that on each day a call that began after another had ended has larger numbers.
func (f *fleet) checkOrder() {
	f.t.Helper()
	for day, h := range f.days() {
		if err := h.Order(); err != nil {
			f.t.Errorf("%s: %v", day, err)
		}
	}
}

// checkOnce checks that no ID was issued twice, that the IDs of each caller increase on each day,
// and that there are three days.
func (f *fleet) checkOnce() {
	f.t.Helper()
	if err := f.history.Duplicates(); err != nil {
		f.t.Error(err)
	}
	days := f.days()
	for _, day := range []string{"20270314", "20270315", "20270316"} {
		if days[day] == nil || days[day].Numbers() < 500 {
			f.t.Errorf("too few numbers on %s", day)
		}
	}
	if len(days) != 3 {
		f.t.Errorf("%d days", len(days))
	}
	for day, h := range days {
		for who, own := range h.Split(func(c ordercheck.Call) string { return c.Who }) {
			if err := own.Order(); err != nil {
				f.t.Errorf("%s, %s: %v", day, who, err)
			}
		}
	}
	f.t.Logf("%d numbers on %d days", f.history.Numbers(), len(days))
}

// A clock that is a hundred years ahead does not repeat IDs with a two-digit year: the node rejects
// calls until the clock is right.
func TestCentury(t *testing.T) {
	day := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	f := &fleet{t: t, nodes: []*life{{dir: t.TempDir()}}}
	n := f.nodes[0]
	f.turn(day)
	n.Node = node.StartReady(t, n.dir, "SEQD_STORE_DRIVER=bolt", "SEQD_TEST_CLOCK="+n.clock(),
		`SEQD_BIZTYPES=[{"name":"order","reset":"daily","plugins":[{"name":"format","template":"{date:060102}-{seq:04}"}]}]`)
	wants := func(path string, status int, want string) {
		t.Helper()
		if a, err := n.Do("GET", path, ""); err != nil || a.Status != status || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s, %v, want %d and %s", path, a.Status, a.Body, err, status, want)
		}
	}
	wants("/seq/order", 200, `"id":"261122-0001"`)
	f.turn(day.AddDate(100, 0, 0))
	wants("/seq/order", 503, "says that it is 2126-11-22")
	wants("/readyz", 503, "clock_rollback")
	f.turn(day)
	wants("/seq/order", 200, `"id":"261122-0002"`)
	wants("/readyz", 200, "")
}
