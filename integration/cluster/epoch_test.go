package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
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
)

// relay is a set of nodes on one MongoDB, with the numbers of one biz type that each life of a node
// has issued.
type relay struct {
	*testing.T
	mongo   *testenv.Mongo
	bizType string
	env     []string
	lives   int
	history *ordercheck.Record
}

// process is one life of a node.
type process struct {
	*node.Node
	relay *relay
	life  string
}

// newRelay prepares nodes that are configured with these biz types. take issues numbers of the
// first.
func newRelay(t *testing.T, bizTypes string, settings ...string) *relay {
	t.Parallel()
	_, name, _ := strings.Cut(bizTypes, `"name":"`)
	name, _, _ = strings.Cut(name, `"`)
	s := &relay{T: t, mongo: testenv.StartMongo(t), bizType: name, history: ordercheck.New()}
	s.env = append([]string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + s.mongo.URI(), "SEQD_STORE_MONGO_DATABASE=" + s.mongo.Database(),
		"SEQD_BIZTYPES=" + bizTypes,
	}, settings...)
	return s
}

// start starts a node and waits until it is ready.
func (s *relay) start(settings ...string) *process {
	s.Helper()
	s.lives++
	p := &process{Node: node.StartReady(s.T, s.TempDir(), append(slices.Clone(s.env), settings...)...), relay: s, life: fmt.Sprint("life ", s.lives)}
	s.Cleanup(func() {
		if s.Failed() {
			log := p.Log()
			s.Logf("log of %s:\n%s", p.life, log[max(0, len(log)-4000):])
		}
	})
	return p
}

// take takes count numbers, in calls of at most 100. It waits for back ends that are slow.
func (p *process) take(count int) (last int64) {
	p.relay.Helper()
	for count > 0 {
		n := min(count, 100)
		err := node.Soon(func() error {
			began := p.relay.history.Now()
			ids, err := p.Take(p.relay.bizType, n)
			if err == nil {
				p.relay.history.Add(began, p.life, ids)
				last, count = ids[n-1], count-n
			}
			return err
		})
		if err != nil {
			p.relay.Fatalf("%s: %v", p.life, err)
		}
	}
	return last
}

// do sends a request and fails unless the answer has this status.
func (p *process) do(want int, method, path, body string) node.Answer {
	p.relay.Helper()
	a, err := p.Do(method, path, body)
	if err != nil || a.Status != want {
		p.relay.Fatalf("%s: %s %s %s: %d, %v, want %d: %s", p.life, method, path, body, a.Status, err, want, a.Body)
	}
	return a
}

// order changes the ordering.
func (s *relay) order(ordering string, all ...*process) {
	s.Helper()
	s.change(`{"ordering":"`+ordering+`"}`, all...)
}

// change changes the definition and waits until all processes obey the new one.
func (s *relay) change(patch string, all ...*process) {
	s.Helper()
	a := all[0].do(http.StatusOK, "PATCH", "/biz-types/"+s.bizType, patch)
	var made struct{ Version int64 }
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil {
		s.Fatal(err)
	}
	for _, p := range all {
		p.AwaitLog(fmt.Sprintf(`"msg":"biz type changed","bizType":%q,"version":%d,`, s.bizType, made.Version))
	}
}

// awaitFull waits until the cursor in a Redis has more than buffer 1, so that numbers are left
// behind.
func (s *relay) awaitFull(r *testenv.Redis, prefix string) {
	s.Helper()
	await.True(s, "the cursor is filled", func() bool {
		return r.Client().HGet(s.Context(), prefix+"{"+s.bizType+"}", "queued").Val() > "0"
	})
}

// backup copies the store, which is stopped meanwhile, and returns a function that restores the
// copy. All nodes must be stopped for both.
func (s *relay) backup() (restore func()) {
	s.mongo.Kill()
	snapshot := s.mongo.Snapshot()
	s.mongo.Restart()
	return func() {
		s.mongo.Kill()
		s.mongo.RestoreSnapshot(snapshot)
		s.mongo.Restart()
	}
}

// raise runs the documented step after a restore.
func (s *relay) raise(number int64, want string, settings ...string) {
	s.Helper()
	out, code := node.Command(s.T, s.TempDir(), append(slices.Clone(s.env), settings...), "raise", s.bizType, strconv.FormatInt(number, 10))
	if code != 0 || !strings.Contains(out, want) {
		s.Fatalf("raise ended with %d, %q; want %q", code, out, want)
	}
}

// doctor runs seqd doctor and checks its exit code and its output.
func (s *relay) doctor(want int, text string) {
	s.Helper()
	if out, code := node.Command(s.T, s.TempDir(), s.env, "doctor"); code != want || !strings.Contains(out, text) {
		s.Errorf("doctor ended with %d, want %d and %q:\n%s", code, want, text, out)
	}
}

// check reports numbers that were issued twice, and broken order: over all nodes outside of the
// windows, or within one life.
func (s *relay) check(windows ...ordercheck.Window) {
	s.Helper()
	if err := s.history.Duplicates(); err != nil {
		s.Error(err)
	}
	if err := s.history.OrderOutside(windows...); err != nil {
		s.Error(err)
	}
	for _, life := range s.history.Split(func(c ordercheck.Call) string { return c.Who }) {
		if err := life.Order(); err != nil {
			s.Errorf("in one process: %v", err)
		}
	}
}

const perNode = `[{"name":"order","ordering":"per-node","step":100,"maxStep":100}]`

// The backup is from when the order was per node. Since then the cursor in Redis got ranges, which
// stay there until the order is strict again.
func TestRestoredPerNodeThenStrict(t *testing.T) {
	r := testenv.StartRedis(t)
	s := newRelay(t, perNode, redisAt(r.Addr()))
	a := s.start()
	a.take(5)
	a.Stop()
	restore := s.backup()
	a, b := s.start(), s.start()
	s.order("strict", a, b)
	a.take(50)
	highest := b.take(1)
	s.awaitFull(r, "seqd:")
	a.Stop()
	b.Stop()
	restore()
	s.doctor(1, "the counter of order stands at ")
	s.raise(highest, "wait in Redis", redisAt(r.Addr()))
	s.doctor(0, "no counter stands below its cursor in Redis")
	a, b = s.start(), s.start()
	began := s.history.Now()
	a.take(100)
	b.take(30)
	s.order("strict", a, b)
	perNode := ordercheck.Window{From: began, To: s.history.Now()}
	for range 4 {
		b.take(100)
		a.take(100)
	}
	s.check(ordercheck.Window{From: 0, To: 0}, perNode)
}

// The same, but raise runs with a configuration without Redis, as if Redis were lost. The ranges in
// Redis are never issued.
func TestRestoredAndRaisedWithoutRedis(t *testing.T) {
	r := testenv.StartRedis(t)
	s := newRelay(t, `[{"name":"order","ordering":"strict","step":100,"maxStep":100}]`)
	with := redisAt(r.Addr())
	a := s.start(with)
	a.take(5)
	a.Stop()
	restore := s.backup()
	a = s.start(with)
	highest := a.take(130)
	s.awaitFull(r, "seqd:")
	a.Stop()
	restore()
	s.raise(highest, "→ "+strconv.FormatInt(highest, 10), "SEQD_SEGMENT_ORDERING=per-node", `SEQD_BIZTYPES=[{"name":"order"}]`)
	link := testenv.NewLink(t, r.Addr())
	a, b := s.start(with), s.start(redisAt(link.Addr()))
	link.Cut()
	began := s.history.Now()
	for range 4 {
		await.True(s, "b issues on its own", func() bool { _, err := b.Take("order", 1); return err == nil })
		b.take(100)
		a.take(100)
	}
	link.Restore()
	b.AwaitReady("back on the cursor", func(r node.Readiness) bool {
		return r.Status == http.StatusOK && !strings.Contains(fmt.Sprint(r), "redis_unavailable")
	})
	alone := ordercheck.Window{From: began, To: s.history.Now()}
	for range 4 {
		b.take(100)
		a.take(100)
	}
	s.check(alone)
}

// A biz type that was created after the backup is created again, above all numbers that it issued.
// A node that cannot reach Redis allocates ranges from the store that are also in the previous
// cursor.
func TestRemadeAfterRestore(t *testing.T) {
	r := testenv.StartRedis(t)
	s := newRelay(t, `[{"name":"other"}]`)
	s.bizType = "late"
	link := testenv.NewLink(t, r.Addr())
	with := redisAt(r.Addr())
	s.start(with).Stop()
	restore := s.backup()
	a := s.start(with)
	a.do(http.StatusCreated, "PUT", "/biz-types/late", `{"step":100,"maxStep":100}`)
	highest := a.take(50)
	s.awaitFull(r, "seqd:")
	a.Stop()
	restore()
	a, b := s.start(with), s.start(redisAt(link.Addr()))
	link.Cut()
	began := s.history.Now()
	a.do(http.StatusCreated, "PUT", "/biz-types/late", fmt.Sprintf(`{"step":100,"maxStep":100,"start":%d}`, highest+1))
	await.True(s, "b issues on its own", func() bool {
		began := s.history.Now()
		ids, err := b.Take("late", 10)
		if err == nil {
			s.history.Add(began, b.life, ids)
		}
		return err == nil
	})
	b.take(300)
	a.take(300)
	s.check(ordercheck.Window{From: began, To: s.history.Now()})
}

// The order is strict, then per node, then strict again. No node issues what was left in the
// cursor.
func TestOrderingThereAndBack(t *testing.T) {
	r := testenv.StartRedis(t)
	s := newRelay(t, `[{"name":"order","step":100,"maxStep":100}]`, redisAt(r.Addr()))
	a, b, c := s.start(), s.start(), s.start()
	for _, p := range []*process{a, b, c} {
		p.take(10)
	}
	s.awaitFull(r, "seqd:")
	began := s.history.Now()
	s.order("per-node", a, b, c)
	a.take(500)
	s.order("strict", a, b, c)
	perNode := ordercheck.Window{From: began, To: s.history.Now()}
	for range 4 {
		c.take(10)
		a.take(10)
		b.take(10)
	}
	s.check(perNode)
}

// The same by restarts with another setting, without a change by the API.
func TestOrderingThereAndBackByRestarts(t *testing.T) {
	r := testenv.StartRedis(t)
	s := newRelay(t, `[{"name":"order","step":100,"maxStep":100}]`, redisAt(r.Addr()))
	var windows []ordercheck.Window
	for _, ordering := range []string{"strict", "per-node", "strict"} {
		began := s.history.Now()
		a, b := s.start("SEQD_SEGMENT_ORDERING="+ordering), s.start("SEQD_SEGMENT_ORDERING="+ordering)
		for range 3 {
			a.take(40)
			b.take(1)
		}
		if ordering == "strict" {
			s.awaitFull(r, "seqd:")
		} else {
			windows = append(windows, ordercheck.Window{From: began, To: s.history.Now()})
		}
		a.Stop()
		b.Stop()
	}
	s.check(windows...)
}

// All nodes are stopped and started with another Redis, and later with the first one again.
func TestRedisMovedThereAndBack(t *testing.T) {
	for name, settings := range map[string][2]string{
		"server":    {"", ""},
		"keyPrefix": {"SEQD_REDIS_KEYPREFIX=one:", "SEQD_REDIS_KEYPREFIX=two:"},
		"db":        {"SEQD_REDIS_DB=0", "SEQD_REDIS_DB=3"},
	} {
		t.Run(name, func(t *testing.T) {
			places := [2][]string{}
			r := testenv.StartRedis(t)
			for i, setting := range settings {
				if setting == "" {
					places[i] = []string{redisAt(testenv.StartRedis(t).Addr())}
				} else {
					places[i] = []string{redisAt(r.Addr()), setting}
				}
			}
			s := newRelay(t, `[{"name":"`+name+`","step":100,"maxStep":100}]`)
			for life := range 4 {
				at := places[life%2]
				a, b := s.start(at...), s.start(at...)
				a.take(10)
				b.take(200)
				a.take(10)
				a.Stop()
				b.Stop()
			}
			s.check()
		})
	}
}

// Two nodes use different Redis servers by mistake. No number is issued twice, both nodes report
// the mistake, and order holds once they use the same server.
func TestTwoRedisServers(t *testing.T) {
	longtest.Only(t)
	r1, r2 := testenv.StartRedis(t), testenv.StartRedis(t)
	s := newRelay(t, `[{"name":"order","step":100,"maxStep":100}]`)
	a := s.start(redisAt(r1.Addr()))
	a.take(30)
	s.awaitFull(r1, "seqd:")
	began := s.history.Now()
	b := s.start(redisAt(r2.Addr()))
	contested := func(p *process) bool {
		_, body := p.Status("/readyz")
		return strings.Contains(body, "cursor_contested")
	}
	told := map[*process]bool{}
	await.True(s, "both report it", func() bool {
		for _, p := range []*process{a, b} {
			p.take(1)
			told[p] = told[p] || contested(p)
		}
		return told[a] && told[b]
	})
	b.Stop()
	b = s.start(redisAt(r1.Addr()))
	b.take(1)
	time.Sleep(6 * time.Second) // a take is sent with an epoch that was read at most 5 s ago
	mistake := ordercheck.Window{From: began, To: s.history.Now()}
	for range 10 {
		a.take(30)
		b.take(30)
	}
	s.check(mistake)
}

// A cursor that was left by a version without epochs is not used. Numbers continue above it.
func TestHashWithoutEpoch(t *testing.T) {
	r := testenv.StartRedis(t)
	s := newRelay(t, `[{"name":"order","step":100,"maxStep":100}]`, redisAt(r.Addr()))
	a := s.start()
	a.take(30)
	s.awaitFull(r, "seqd:")
	a.Stop()
	key, ctx := "seqd:{order}", t.Context()
	if err := r.Client().HSet(ctx, key, "v", "1", "live", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.Client().HDel(ctx, key, "epoch").Err(); err != nil {
		t.Fatal(err)
	}
	ceil, err := r.Client().HGet(ctx, key, "ceil").Int64()
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.start(), s.start()
	for range 3 {
		if last := a.take(10); last <= ceil {
			t.Errorf("%d, the cursor had up to %d", last, ceil)
		}
		b.take(10)
	}
	s.check()
}
