package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
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

// What readyz calls the troubles.
const (
	noRedis = "redis_unavailable"
	noStore = "store_unavailable"
	// contested is what it says after two masters took turns.
	contested = "cursor_contested"
)

const (
	start   = 100  // where the biz type order begins, see package node
	step    = 1000 // of all segments, unless a test says otherwise
	reserve = 1    // ranges behind buffer 2
	phase   = 200  // numbers that each node issues before, during and after a fault
)

// key is where the cursor of the biz type lies.
var key = rediscursor.Key("seqd:", "order")

// fleet is seqd nodes that issue one biz type in strict order under load, and what their callers
// were given.
type fleet struct {
	t       *testing.T
	policy  string
	mongo   *testenv.Mongo
	env     []string
	pace    node.Pace
	history *ordercheck.Record
	members []*member
	began   time.Time
	lost    int64        // numbers that refused calls asked for, of lives that have ended
	ended   []*node.Node // lives that have ended
	guarded bool         // a cursor may fall behind what nodes have issued

	storeRestarted bool
	// Order over all nodes is not demanded within the windows, nor since suspended unless that is
	// 0.
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

// underBoth runs a test at the same time as all other tests: under both policies in the long run,
// otherwise under one of them, which is always the same for a test.
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
	*node.Node // the present life
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

// life names the present life in the history.
func (m *member) life() string { return fmt.Sprintf("%s.%d", m.name, m.lives) }

// load puts load on a node.
func (m *member) load() {
	m.traffic = node.StartTraffic(m.Node, "order", m.fleet.history, m.life(), m.fleet.pace)
}

// unload ends the load; every call of it has been answered then.
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
			m.fleet.t.Errorf("node %s refused with %s", m.name, code)
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
		if _, err := m.take(min(n, step)); err != nil {
			m.fleet.t.Fatalf("%s: %v\n%s", m.name, err, m.Log())
		}
	}
}

// awaitOutage waits until a node says that it has lost Redis, in the way of its policy.
func (m *member) awaitOutage() {
	m.fleet.t.Helper()
	if m.fleet.policy == degrade {
		m.AwaitReadiness(200, noRedis)
	} else {
		m.AwaitReadiness(503, noRedis)
	}
}

// awaitWell waits until a node says that nothing is amiss.
func (m *member) awaitWell() {
	m.fleet.t.Helper()
	m.AwaitReadiness(200, "")
}

// awaitServed waits until every node takes from the cursor, also if it says that cursors alternated
// a moment ago.
func (f *fleet) awaitServed() {
	f.t.Helper()
	f.each(func(m *member) {
		m.AwaitReady("on the cursor", func(r node.Readiness) bool { return r.Status == 200 && (r.Code == "" || r.Code == contested) })
	})
}

// renew kills all nodes, does something and starts them again: of all that was issued they know
// nothing but what the back ends say.
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

// more waits until every node under load has issued n more numbers. They do so at the same time.
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

// noRefusals says that no call of the present load was refused.
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

// suspend says that nodes may issue on their own from now on. Where the policy is to reject they
// must not, and order is demanded all the time.
func (f *fleet) suspend() {
	if f.policy == degrade {
		f.suspendAlways()
	}
}

// suspendAlways is suspend for faults that break the order over all nodes under either policy.
func (f *fleet) suspendAlways() { f.suspended = f.history.Now() }

// resume says that order over all nodes is demanded again, of calls that begin from now on.
func (f *fleet) resume() {
	if f.suspended != 0 {
		f.windows = append(f.windows, ordercheck.Window{From: f.suspended, To: f.history.Now()})
		f.suspended = 0
	}
}

// outage takes Redis from some of the nodes under load, waits until they have noticed, and gives it
// back. The others continue.
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

// finish ends all nodes and checks every number that any of them issued. No more than skips may be
// missing between the first and the highest one, beside those that refused calls asked for.
func (f *fleet) finish(skips int64) {
	f.t.Helper()
	f.each((*member).unload)
	f.each(func(m *member) {
		// A node that has not asked the store since that was restarted finds out when it gives back
		// what it has: such numbers are skipped.
		if err := m.End(); err != nil && !(f.storeRestarted && strings.Contains(m.Log(), "give back")) {
			f.t.Errorf("a clean stop of %s ended with %v", m.name, err)
		}
	})
	f.check(skips)
}

// check is finish after all nodes have ended.
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

// guardAlarm is in the line that a node logs when the cursor offers it numbers below those it has
// issued.
const guardAlarm = "the cursor offered numbers that are not above"

// checkSkips looks for more numbers missing than may be: those given, those that refused calls
// asked for, and under degrade a standby range that is replaced at most once a second.
func (f *fleet) checkSkips(skips int64) {
	f.t.Helper()
	standbys := int64(0)
	if f.policy == degrade {
		standbys = int64(len(f.members)) * (2 + int64(time.Since(f.began).Seconds())) * step
	}
	issued, highest := int64(f.history.Numbers()), f.history.Highest()
	skipped := highest - start + 1 - issued
	of := fmt.Sprintf("%d may be, %d of refused calls and %d of standby ranges", skips, f.lost, standbys)
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

// lossOf is how many numbers one loss of the cursor may skip: the whole queue of 2 buffers and the
// reserve, and a range of every node, of which one begins the new cursor; and as much again of
// every node for the beginning of the first one.
func lossOf(nodes int) int64 { return int64(2+reserve+2*nodes) * step }

// retreatOf is how many numbers one node may skip that issued on its own and returns: two buffers,
// a standby range, and a range to return with that came too late.
const retreatOf = 4 * step

// counter is what the store has.
func (f *fleet) counter() persist.Counter {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
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

// awaitQuiet waits until a fleet without load has refilled all that it wants to have in hand: the
// store has given nothing for a while.
func (f *fleet) awaitQuiet() {
	f.t.Helper()
	const calm = time.Second
	for last, since := f.counter().Max, time.Now(); time.Since(since) < calm; time.Sleep(20 * time.Millisecond) {
		if now := f.counter().Max; now != last {
			last, since = now, time.Now()
		}
	}
}

// restartStore starts the store again.
func (f *fleet) restartStore() {
	f.t.Helper()
	f.mongo.Restart()
	f.storeRestarted = true
}

// awaitFull waits until the cursor has all that it wants behind buffer 1.
func (f *fleet) awaitFull(r *testenv.Redis) {
	f.t.Helper()
	f.eventually("the queue is full", func() error {
		queued, err := r.Client().HGet(f.t.Context(), key, "queued").Int()
		if err == nil && queued < 1+reserve {
			err = fmt.Errorf("%d ranges are queued", queued)
		}
		return err
	})
}

// eventually waits until a check has no complaint.
func (f *fleet) eventually(what string, check func() error) {
	f.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: %v", what, err)
		}
	}
}
