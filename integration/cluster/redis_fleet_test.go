package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// The values of segment.onRedisDown.
const (
	degrade = "degrade"
	reject  = "reject"
)

// The codes of degraded states in readyz.
const (
	noRedis = "redis_unavailable"
	noStore = "store_unavailable"
	// contested is the code after two masters alternated.
	contested = "cursor_contested"
)

const (
	start   = 100  // where the biz type order begins, see package node
	step    = 1000 // of all segments, unless a test says otherwise
	reserve = 1    // ranges behind buffer 2
	phase   = 200  // numbers that each node issues before, during and after a fault
)

// key is the Redis key of the cursor.
var key = rediscursor.Key("seqd:", "order")

// fleet is a set of nodes that issue one biz type in strict order under load, and a record of the
// numbers that their callers got.
type fleet struct {
	t       *testing.T
	policy  string
	mongo   *testenv.Mongo
	env     []string
	pace    node.Pace
	history *ordercheck.Record
	members []*member
	began   time.Time
	lost    int64        // numbers that failed calls asked for, in lives that have ended
	ended   []*node.Node // lives that have ended
	guarded bool         // a cursor may fall behind what nodes have issued

	storeRestarted bool
	// Order over all nodes is not checked within the windows, nor since suspended unless that is 0.
	windows   []ordercheck.Window
	suspended int64
}

// newFleet prepares a fleet without nodes.
func newFleet(t *testing.T, policy string, settings ...string) *fleet {
	f := &fleet{
		t: t, policy: policy, mongo: testenv.StartMongo(t), history: ordercheck.New(), began: time.Now(),
		pace: node.Pace{Callers: 4, Pause: 5 * time.Millisecond, Largest: 50},
	}
	f.env = append([]string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + f.mongo.URI(), "SEQD_STORE_MONGO_DATABASE=" + f.mongo.Database(),
		"SEQD_SEGMENT_ORDERING=strict", "SEQD_SEGMENT_ONREDISDOWN=" + policy, "SEQD_SEGMENT_RESERVESEGMENTS=" + strconv.Itoa(reserve),
		fmt.Sprint("SEQD_SEGMENT_STEP=", step), fmt.Sprint("SEQD_SEGMENT_MAXSTEP=", step), "SEQD_LOG_LEVEL=debug",
	}, settings...)
	return f
}

// underBoth runs a test in parallel with other tests. In a long run it uses both policies,
// otherwise one of them, which is always the same for a test.
func underBoth(t *testing.T, test func(f *fleet), settings ...string) {
	t.Parallel()
	policies := []string{degrade, reject}
	if !longtest.Tests() {
		policies = policies[len(t.Name())%2:][:1]
	}
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			test(newFleet(t, policy, settings...))
		})
	}
}

func redisAt(addrs ...string) string { return "SEQD_REDIS_ADDRS=" + strings.Join(addrs, ",") }

// member is one node of a fleet over all its lives.
type member struct {
	*node.Node // the current life
	fleet      *fleet
	name       string
	dir        string
	env        []string
	lives      int
	traffic    *node.Traffic // nil while there is none
}

// add adds a node that is not started.
func (f *fleet) add(name string, settings ...string) *member {
	m := &member{fleet: f, name: name, dir: f.t.TempDir(), env: settings}
	f.members = append(f.members, m)
	f.t.Cleanup(func() {
		if f.t.Failed() && m.Node != nil {
			log := m.Log()
			f.t.Logf("log of node %s:\n%s", m.name, log[max(0, len(log)-10_000):])
		}
	})
	return m
}

// sail adds nodes with the same settings, starts them, and puts load on them once all is well.
func (f *fleet) sail(names string, settings ...string) []*member {
	f.t.Helper()
	for name := range strings.FieldsSeq(names) {
		f.add(name, settings...).start()
	}
	f.awaitWell()
	f.load()
	return f.members
}

// start begins a life without load.
func (m *member) start() {
	m.fleet.t.Helper()
	if m.Node != nil {
		m.fleet.ended = append(m.fleet.ended, m.Node)
	}
	m.lives++
	m.Node = node.Start(m.fleet.t, m.dir, append(append([]string{}, m.fleet.env...), m.env...)...)
}

// life names the current life in the record.
func (m *member) life() string { return fmt.Sprintf("%s.%d", m.name, m.lives) }

// load puts load on a node.
func (m *member) load() {
	m.traffic = node.StartTraffic(m.Node, "order", m.fleet.history, m.life(), m.fleet.pace)
}

// unload ends the load and returns when every call has been answered.
func (m *member) unload() {
	if m.traffic == nil {
		return
	}
	m.traffic.Stop()
	m.fleet.lost += m.traffic.Lost()
	for code := range m.traffic.Failures() {
		switch code {
		case noRedis, noStore, "timeout", "starting", "stopping", "connection":
		default:
			m.fleet.t.Errorf("node %s rejected calls with %s", m.name, code)
		}
	}
	m.traffic = nil
}

// kill ends a life as kill -9 does, under load.
func (m *member) kill() {
	m.Kill()
	m.unload()
}

// stop ends a life cleanly, without load.
func (m *member) stop() {
	m.fleet.t.Helper()
	m.unload()
	m.Stop()
}

// take asks for a batch and records the answer.
func (m *member) take(count int) ([]int64, error) {
	began := m.fleet.history.Now()
	numbers, err := m.Take("order", count)
	if err == nil {
		m.fleet.history.Add(began, m.life()+" taker", numbers)
	}
	return numbers, err
}

// burn takes n numbers in large batches.
func (m *member) burn(n int) {
	m.fleet.t.Helper()
	for ; n > 0; n -= step {
		err := node.Soon(func() error { _, err := m.take(min(n, step)); return err })
		if err != nil {
			m.fleet.t.Fatalf("%s: %v\n%s", m.name, err, m.Log())
		}
	}
}

// awaitOutage waits until a node reports, as its policy says, that it has lost Redis.
func (m *member) awaitOutage() {
	m.fleet.t.Helper()
	if m.fleet.policy == degrade {
		m.AwaitReadiness(200, noRedis)
	} else {
		m.AwaitReadiness(503, noRedis)
	}
}

// awaitWell waits until a node is ready and not degraded.
func (m *member) awaitWell() {
	m.fleet.t.Helper()
	m.AwaitReadiness(200, "")
}

// awaitServed waits until every node takes from the cursor. A node may still report that cursors
// alternated recently.
func (f *fleet) awaitServed() {
	f.t.Helper()
	f.each(func(m *member) {
		m.AwaitReady("on the cursor", func(r node.Readiness) bool { return r.Status == 200 && (r.Code == "" || r.Code == contested) })
	})
}

// renew kills all nodes, calls a function and starts them again. The new nodes know only what the
// back ends have.
func (f *fleet) renew(meanwhile func()) {
	f.t.Helper()
	for _, m := range f.members {
		m.kill()
	}
	meanwhile()
	for _, m := range f.members {
		m.start()
	}
	f.awaitWell()
	f.load()
}

func (f *fleet) each(do func(*member)) {
	f.t.Helper()
	for _, m := range f.members {
		if m.Node != nil && !m.Ended() {
			do(m)
		}
	}
}

func (f *fleet) awaitWell() {
	f.t.Helper()
	f.each((*member).awaitWell)
}

func (f *fleet) awaitOutage() {
	f.t.Helper()
	f.each((*member).awaitOutage)
}

// load puts load on every node that has none.
func (f *fleet) load() {
	f.each(func(m *member) {
		if m.traffic == nil {
			m.load()
		}
	})
}

func (f *fleet) unload() { f.each((*member).unload) }

// more waits until every node under load has issued n more numbers, all at the same time.
func (f *fleet) more(n int64) {
	f.t.Helper()
	want := map[*member]int64{}
	f.each(func(m *member) {
		if m.traffic != nil {
			want[m] = m.traffic.Acked() + n
		}
	})
	if len(want) == 0 {
		f.t.Fatal("no node is under load")
	}
	for m, n := range want {
		m.traffic.Await(f.t, fmt.Sprintf("%s issues up to its number %d", m.name, n), func() bool { return m.traffic.Acked() >= n })
	}
}

// noRefusals checks that no call of the current load was rejected.
func (f *fleet) noRefusals() {
	f.t.Helper()
	f.each(func(m *member) {
		if m.traffic != nil && m.traffic.Failed() > 0 {
			f.t.Errorf("%s refused: %v", m.name, m.traffic.Failures())
		}
	})
}

// passes waits until every node under load has issued a number above one.
func (f *fleet) passes(number int64) {
	f.t.Helper()
	f.each(func(m *member) {
		if m.traffic != nil {
			m.traffic.Await(f.t, fmt.Sprintf("%s issues above %d", m.name, number), func() bool { return m.traffic.Highest() > number })
		}
	})
}

// suspend allows nodes to issue on their own from now on. If the policy is reject they must not,
// and order is always checked.
func (f *fleet) suspend() {
	if f.policy == degrade {
		f.suspendAlways()
	}
}

// suspendAlways is like suspend, for faults that break the order over all nodes under either
// policy.
func (f *fleet) suspendAlways() { f.suspended = f.history.Now() }

// resume ends suspend: order over all nodes is checked again for calls that begin from now on.
func (f *fleet) resume() {
	if f.suspended != 0 {
		f.windows = append(f.windows, ordercheck.Window{From: f.suspended, To: f.history.Now()})
		f.suspended = 0
	}
}

// outage cuts some of the nodes under load off from Redis, waits until they have noticed, and
// reconnects them. The others continue.
func (f *fleet) outage(from []*member, lose, mend func()) {
	f.t.Helper()
	f.suspend()
	lose()
	for _, m := range from {
		m.awaitOutage()
	}
	if f.policy == degrade {
		f.more(phase)
	}
	mend()
	f.awaitWell()
	f.resume()
	f.more(phase)
}

// finish ends all nodes and checks every number that any of them issued. At most skips numbers may
// be missing between the first and the highest one, in addition to those that failed calls asked
// for.
func (f *fleet) finish(skips int64) {
	f.t.Helper()
	f.each((*member).unload)
	f.each(func(m *member) {
		// A node that has not used the store since its restart notices the restart only when it
		// returns its numbers. They are then skipped.
		if err := m.End(); err != nil && !(f.storeRestarted && strings.Contains(m.Log(), "give back")) {
			f.t.Errorf("a clean stop of %s ended with %v", m.name, err)
		}
	})
	f.check(skips)
}

// check is like finish, after all nodes have ended.
func (f *fleet) check(skips int64) {
	f.t.Helper()
	f.resume()
	if err := f.history.Duplicates(); err != nil {
		f.t.Error(err)
	}
	for life, h := range f.history.Split(func(c ordercheck.Call) string { return strings.Fields(c.Who)[0] }) {
		if err := h.Order(); err != nil {
			f.t.Errorf("node %s: %v", life, err)
		}
	}
	if err := f.history.OrderOutside(f.windows...); err != nil {
		f.t.Errorf("over all nodes: %v", err)
	}
	for text, allowed := range map[string]bool{guardAlarm: f.guarded, "panic": false, "DATA RACE": false} {
		if n := f.logged(text); n > 0 && !allowed {
			f.t.Errorf("%q is %d times in the logs", text, n)
		}
	}
	f.checkSkips(skips)
}

// guardAlarm is part of the line that a node logs if the cursor offers numbers below those it has
// issued.
const guardAlarm = "the cursor offered numbers that are not above"

// checkSkips checks how many numbers are missing. Allowed are skips, the numbers that failed calls
// asked for, and under degrade the standby ranges, which are replaced at most once a second.
func (f *fleet) checkSkips(skips int64) {
	f.t.Helper()
	standbys := int64(0)
	if f.policy == degrade {
		standbys = int64(len(f.members)) * (2 + int64(time.Since(f.began).Seconds())) * step
	}
	issued, highest := int64(f.history.Numbers()), f.history.Highest()
	skipped := highest - start + 1 - issued
	of := fmt.Sprintf("allowed are %d, %d of failed calls and %d of standby ranges", skips, f.lost, standbys)
	if skipped > skips+f.lost+standbys {
		f.t.Errorf("%d numbers were skipped; %s", skipped, of)
	}
	f.t.Logf("%d numbers up to %d in %v, %d skipped; %s", issued, highest, time.Since(f.began).Round(time.Millisecond), skipped, of)
}

// logged counts how often a text is in the logs of all lives.
func (f *fleet) logged(text string) (n int) {
	for _, life := range f.ended {
		n += strings.Count(life.Log(), text)
	}
	for _, m := range f.members {
		if m.Node != nil {
			n += strings.Count(m.Log(), text)
		}
	}
	return n
}

// lossOf returns how many numbers one loss of the cursor may skip: the queue of two buffers and the
// reserve, and a range of every node, one of which starts the new cursor. The start of the first
// cursor may skip another range of every node.
func lossOf(nodes int) int64 { return int64(2+reserve+2*nodes) * step }

// retreatOf is how many numbers a node may skip if it issued on its own and returned to the cursor:
// two buffers, a standby range, and a range for the return that came too late.
const retreatOf = 4 * step

// counter returns the highest number that the store has allocated.
func (f *fleet) counter() persist.Counter {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), await.Patience)
	defer cancel()
	var doc struct {
		Max  int64 `bson:"max"`
		Step int64 `bson:"step"`
	}
	err := f.mongo.Client().Database(f.mongo.Database()).Collection("counters").FindOne(ctx, map[string]string{"_id": "order"}).Decode(&doc)
	if err != nil {
		f.t.Fatalf("read the counter: %v", err)
	}
	return persist.Counter{BizTag: "order", Max: doc.Max, Step: doc.Step}
}

// awaitQuiet waits until a fleet without load has refilled everything: no refill of the cursor, if
// there is one, is under way, nodes have got all that the store has allocated, and in the next
// second, after which they would replace standby ranges, it allocates nothing more.
func (f *fleet) awaitQuiet(cursor ...*testenv.Redis) {
	f.t.Helper()
	last, since := int64(0), time.Now()
	await.Eventually(f.t, "all is refilled", func() error {
		allocated, got := f.counter().Max, f.fetched()
		refills := slices.ContainsFunc(cursor, func(r *testenv.Redis) bool { return f.claimed(r) == nil })
		if refills || allocated != last || allocated > got {
			last, since = allocated, time.Now()
		}
		if time.Since(since) < time.Second {
			return fmt.Errorf("the store has allocated up to %d, and nodes got up to %d", allocated, got)
		}
		return nil
	})
}

// fetched returns the last number that a node got from the store.
func (f *fleet) fetched() (last int64) {
	lives := slices.Clone(f.ended)
	f.each(func(m *member) { lives = append(lives, m.Node) })
	for _, life := range lives {
		for _, r := range ranges(life) {
			last = max(last, r.Last)
		}
	}
	return last
}

// restartStore starts the store again.
func (f *fleet) restartStore() {
	f.t.Helper()
	f.mongo.Restart()
	f.storeRestarted = true
}

// awaitFull waits until the queue behind buffer 1 is full.
func (f *fleet) awaitFull(r *testenv.Redis) {
	f.t.Helper()
	await.Eventually(f.t, "the queue is full", func() error {
		queued, err := r.Client().HGet(f.t.Context(), key, "queued").Int()
		if err == nil && queued < 1+reserve {
			err = fmt.Errorf("%d ranges are queued", queued)
		}
		return err
	})
}
