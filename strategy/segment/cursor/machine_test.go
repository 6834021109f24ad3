package cursor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// goAlone brings a machine into the mode Alone.
func goAlone(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := newWorld(t, change)
	w.issue(3, time.Second)
	w.pass(2 * time.Second)
	w.redis.down = true
	w.takeOnce(1)
	w.is(Mending)
	w.pass(RedisPatience)
	w.is(Mending)
	w.pass(RedisPatience)
	w.is(Alone)
	return w
}

// Stop ends every mode, and whatever was in hand comes back once.
func TestModesClosing(t *testing.T) {
	for mode, make := range map[Mode]func() *world{
		Online:  func() *world { w := newWorld(t, nil); w.issue(3, time.Second); return w },
		Mending: func() *world { w := newWorld(t, nil); w.takeOnce(1); return w },
		Alone:   func() *world { return goAlone(t, nil) },
		Closing: func() *world { w := newWorld(t, nil); w.m.Stop(w.now); return w },
	} {
		w := make()
		w.is(mode)
		w.m.Stop(w.now)
		w.is(Closing)
		w.pass(time.Hour)
		if len(w.waiting) > 0 {
			t.Errorf("%s: under way are %v", mode, w.waiting)
		}
		w.is(Closing)
		for _, r := range w.m.Finish() {
			w.offer(r, "the store")
		}
		if rest := w.m.Finish(); rest != nil {
			t.Errorf("%s: %v came back twice", mode, rest)
		}
		w.m.Prepare(w.now)
		if c := w.m.Commands(); c != nil || !w.m.Deadline().IsZero() {
			t.Errorf("%s: after the end %v", mode, c)
		}
	}
}

// Results that come in after Finish reach nobody.
func TestAfterFinish(t *testing.T) {
	w := newWorld(t, nil)
	w.takeOnce(1)
	w.fetch()
	for w.next(Spare) < 0 {
		w.do(0, well)
	}
	w.m.Stop(w.now)
	w.fetch()
	if rest := w.m.Finish(); rest != nil {
		t.Errorf("in hand were %v", rest)
	}
	w.settle()
	if rest := w.m.Finish(); rest != nil || w.count(seqd.EventAbandoned) != 1 {
		t.Errorf("what came late was kept: %v, %v", rest, w.events)
	}
	out := w.m.Took(w.now, w.now, 2, rediscursor.Taken{Runs: []persist.Range{{First: 50, Last: 51}}}, nil)
	if w.fetch(); len(out.Runs) > 0 || w.count(seqd.EventAbandoned) != 2 {
		t.Errorf("%v was issued", out.Runs)
	}
}

// remedy decides by what was seen alone.
func TestRemedy(t *testing.T) {
	spare := spareRange{Range: persist.Range{First: 200, Last: 300}, gen: "g", epoch: "e"}
	for name, c := range map[string]struct {
		look    rediscursor.Taken
		change  func(m *Machine)
		patient bool
		want    remedy
	}{
		"numbers above all issued":       {look: rediscursor.Taken{Next: 101, Hand: 5}, want: useIt},
		"used up":                        {look: rediscursor.Taken{}, want: fillIt},
		"used up, another node fills":    {look: rediscursor.Taken{}, patient: true, want: waitForOther},
		"used up, this node fills":       {look: rediscursor.Taken{}, patient: true, change: func(m *Machine) { m.begin(Refill, &refill{}) }, want: fillIt},
		"used up, and issued on its own": {look: rediscursor.Taken{}, change: func(m *Machine) { m.outage.ahead = true }, want: advanceIt},
		"behind":                         {look: rediscursor.Taken{Next: 100, Hand: 5}, want: advanceIt},
		"behind what is skipped":         {look: rediscursor.Taken{Next: 81, Hand: 50}, change: func(m *Machine) { m.floor = 100 }, want: skipSome},
		"wholly behind what is skipped":  {look: rediscursor.Taken{Next: 81, Hand: 20}, change: func(m *Machine) { m.floor = 100 }, want: advanceIt},
		"behind, and start is below":     {look: rediscursor.Taken{Next: 81, Hand: 50}, change: func(m *Machine) { m.floor = 90 }, want: advanceIt},
		"a stub":                         {look: rediscursor.Taken{Stub: true, Gen: "g"}, want: seedIt},
		"a stub that another node seeds": {look: rediscursor.Taken{Stub: true, Gen: "g"}, patient: true, want: waitForOther},
		"a stub that this node seeds":    {look: rediscursor.Taken{Stub: true, Gen: "g"}, patient: true, change: func(m *Machine) { m.spare = spare }, want: seedIt},
		"a stub, and the spare range is not above all issued": {
			look: rediscursor.Taken{Stub: true, Gen: "g"}, patient: true, want: waitForOther,
			change: func(m *Machine) { m.spare, m.highest = spare, spare.First },
		},
		"a stub, and another node drew": {look: rediscursor.Taken{Stub: true, Gen: "g"}, change: func(m *Machine) { m.belief.learnt = at(began) }, want: waitForOther},
		"another epoch":                 {look: rediscursor.Taken{Other: true, Gen: "g", Epoch: "f"}, want: settleEpoch},
	} {
		m := New(Config{Start: 1})
		m.highest, m.belief.epoch = 100, "e"
		if c.change != nil {
			c.change(m)
		}
		must.Equal(t, m.remedy(at(began), &c.look, c.patient), c.want, "%s", name)
	}
}

// edge is a machine with a value that may be beyond a bound.
type edge struct {
	*Machine
	n   int64
	ago instant // n ns before now
}

// mend is a mending of a machine that knows this of Redis.
func (e edge) mend(r redisHealth) *mend {
	t := &mend{look: &rediscursor.Taken{Next: 101, Hand: 5}, work: work{sent: at(began)}}
	e.begin(Mend, t)
	e.redis, e.failure = r, RedisError(errDown)
	return t
}

func (e edge) comeback() *comeback {
	t := &comeback{began: e.ago}
	e.begin(Comeback, t)
	return t
}

// Each bound is exactly what it is said to be: last is the last value before something happens.
func TestBounds(t *testing.T) {
	const patience = 2 * time.Second
	now, old, away := at(began), at(began.Add(-time.Minute)), RedisAway{began.Add(-time.Hour), errDown}
	for name, c := range map[string]struct {
		last time.Duration
		do   func(e edge)
		then func(e edge) bool
	}{
		"a belief ages":             {TrustEpoch, func(e edge) { e.belief.asked = e.ago }, func(e edge) bool { return e.belief.outdated(now, false) }},
		"a wait in vain is over":    {TrustEpoch, func(e edge) { e.belief.asked, e.belief.missed = old, e.ago }, func(e edge) bool { return e.belief.outdated(now, false) }},
		"a wait is in vain":         {TrustEpoch, func(e edge) { e.belief.asked = e.ago; (&ask{work{Machine: e.Machine}}).resume(now) }, func(e edge) bool { return e.belief.missed > 0 }},
		"a belief is checked":       {RecheckEpoch - 1, func(e edge) { e.belief.tried = e.ago; e.startRecheck(now) }, func(e edge) bool { return e.under(Ask) }},
		"a question is hurried":     {TrustEpoch - hurryBefore - 1, func(e edge) { e.belief.asked = e.ago; e.startRecheck(now) }, func(e edge) bool { return !e.Commands()[0].(Question).Unhurried }},
		"a question counts":         {-1, func(e edge) { e.belief.asked = now }, func(e edge) bool { return e.belief.inOrder(now.add(time.Duration(e.n))) }},
		"a seed is late":            {SeedPatience - 1, func(e edge) { e.belief.epoch, e.belief.learnt = "e", e.ago }, func(e edge) bool { return !e.belief.awaitsSeed(now) }},
		"a late seed is late":       {SeedPatience*(1+mostPatience) - 1, func(e edge) { e.belief = belief{epoch: "e", learnt: e.ago, seeds: 99} }, func(e edge) bool { return !e.belief.awaitsSeed(now) }},
		"a contest begins anew":     {ContestedFor, func(e edge) { e.belief.seeds, e.belief.seeded = 1, e.ago; e.contest(now) }, func(e edge) bool { return e.belief.seeds == 1 }},
		"a contest is told":         {manySeeds - 2, func(e edge) { e.belief.seeds, e.belief.seeded = int32(e.n), now; e.contest(now) }, func(e edge) bool { return len(e.Commands()) > 1 }},
		"a contest is seen":         {manySeeds - 1, func(e edge) { e.belief.seeds, e.belief.seeded = int32(e.n), now }, func(e edge) bool { return e.belief.contested(now) != nil }},
		"a contest is over":         {ContestedFor, func(e edge) { e.belief.seeds, e.belief.seeded = manySeeds, e.ago }, func(e edge) bool { return e.belief.contested(now) == nil }},
		"a node looks again":        {LastHold - 1, func(e edge) { e.outage.left, e.outage.hold = e.ago, LastHold; e.comeback().tick(now) }, func(e edge) bool { return len(e.Commands()) > 0 }},
		"a return is slow":          {PeekTimeout, func(e edge) { e.comeback().decide(now) }, func(e edge) bool { return e.find(Comeback).(*comeback).slow }},
		"a cursor is above":         {100, func(e edge) { c := e.comeback(); c.issued, c.look.Next = 100, e.n; c.decide(now) }, func(e edge) bool { return e.mode == Mending }},
		"looks fail for long":       {RedisPatience, func(e edge) { e.mend(redisHealth{failing: e.ago, failed: now}).lookFailed(now, errDown) }, func(e edge) bool { return e.refusal != nil }},
		"takes fail for long":       {RedisPatience, func(e edge) { e.mend(redisHealth{failing: e.ago, failed: now, failures: 3}).step(now) }, func(e edge) bool { return e.refusal != nil }},
		"takes fail often":          {manyFailures - 1, func(e edge) { e.mend(redisHealth{failing: old, failed: now, failures: int32(e.n)}).step(now) }, func(e edge) bool { return e.refusal != nil }},
		"failures are over":         {oldFailure, func(e edge) { e.mend(redisHealth{failed: e.ago, failures: 1}).step(now) }, func(e edge) bool { return e.redis.failures == 0 }},
		"Redis fails anew":          {oldFailure, func(e edge) { e.redis = redisHealth{failing: old, failed: e.ago}; e.redis.fails(now, now, now) }, func(e edge) bool { return e.redis.failing == now }},
		"a claim is old":            {ClaimPatience - 1, func(e edge) {}, func(e edge) bool { return !(&mend{claimed: e.ago}).patient(now, rediscursor.Claimed) }},
		"a refill is slow":          {slowStore, func(e edge) { e.begin(Refill, &refill{began: e.ago}) }, func(e edge) bool { return e.storeSlow(now) }},
		"a refill is in vain":       {0, func(e edge) { e.mend(redisHealth{failures: int32(e.n)}).refilled(now) }, func(e edge) bool { return e.find(Mend).base().state == pausing }},
		"callers were refused":      {patience - 1, func(e edge) { e.mode, e.mendBegan, e.failure = Mending, e.ago, RedisError(errDown) }, func(e edge) bool { return e.Health(began, RedisAway{}) != nil }},
		"callers hang":              {patience + Hangs, func(e edge) { e.mode, e.mendBegan = Mending, e.ago }, func(e edge) bool { return e.Health(began, RedisAway{}) != nil }},
		"takes are old":             {LastPause, func(e edge) { e.redis.served = e.ago; e.unasked(now, away) }, func(e edge) bool { return e.under(Check) }},
		"a check is old":            {LastPause, func(e edge) { e.redis.served, e.redis.checked = old, e.ago; e.unasked(now, away) }, func(e edge) bool { return e.under(Check) }},
		"an outage is new":          {steady, func(e edge) { e.outage.returned = e.ago; e.goAlone(now, errDown) }, func(e edge) bool { return e.outage.hold == 0 }},
		"a standby range is old":    {standbyPause - 1, func(e edge) { e.outage.fetched = e.ago; e.startStandby(now) }, func(e edge) bool { return e.under(Standby) }},
		"a standby range is above":  {100, func(e edge) { e.highest, e.outage.standby.First = 100, e.n; e.startStandby(now) }, func(e edge) bool { return !e.under(Standby) }},
		"a spare range is above":    {100, func(e edge) { e.spare.First = e.n }, func(e edge) bool { return e.spareFits(&rediscursor.Taken{}, 100) }},
		"a range is above all":      {100, func(e edge) { e.highest = 100 }, func(e edge) bool { return e.mayIssueAlone(persist.Range{First: e.n}) }},
		"a range is above a cursor": {100, func(e edge) { e.ceil = 100 }, func(e edge) bool { return e.mayIssueAlone(persist.Range{First: e.n}) }},
		"a cursor has higher ones":  {20, func(e edge) { e.highest, e.floor = 100, 100 }, func(e edge) bool { return e.below(&rediscursor.Taken{Next: 81, Hand: e.n}) > 0 }},
	} {
		for n := c.last; n <= c.last+1; n++ {
			m := New(Config{Start: 1, Patience: patience, Step: 10, MaxStep: 10, Degrade: strings.Contains(name, "standby")})
			e := edge{m, int64(n), now.add(-n)}
			c.do(e)
			must.Equal(t, c.then(e), n > c.last, "%s at %d", name, n)
		}
	}
}

// A refill goes on only in the cursor that it began in.
func TestRefillLooks(t *testing.T) {
	for name, c := range map[string]struct {
		look  rediscursor.Taken
		err   error
		under bool
		next  state
	}{
		"wanted":         {rediscursor.Taken{Gen: "g", Free: 1}, nil, true, allocating},
		"claimed":        {rediscursor.Taken{Gen: "g", Free: 1, Low: rediscursor.Claimed}, nil, true, pausing},
		"full":           {rediscursor.Taken{Gen: "g"}, nil, false, 0},
		"not seen":       {rediscursor.Taken{Gen: "g", Free: 1}, errDown, false, 0},
		"lost":           {rediscursor.Taken{Gen: "g", Free: 1, Stub: true}, nil, false, 0},
		"of others":      {rediscursor.Taken{Gen: "g", Free: 1, Other: true}, nil, false, 0},
		"another cursor": {rediscursor.Taken{Gen: "h", Free: 1}, nil, false, 0},
	} {
		m := New(Config{Start: 1})
		task := &refill{free: 1, in: rediscursor.Install{Gen: "g"}}
		m.begin(Refill, task)
		task.looked(at(began), c.look, c.err)
		if m.under(Refill) != c.under || c.under && task.state != c.next {
			t.Errorf("%s: under way %t, state %d", name, m.under(Refill), task.state)
		}
	}
}

// Of two spare ranges the higher one stays, and the other one is reported.
func TestKeepSpare(t *testing.T) {
	low, high := persist.Range{First: 1, Last: 10}, persist.Range{First: 11, Last: 30}
	for dropped, ranges := range map[int64][]persist.Range{10: {low, high}, 9: {high, {First: 2, Last: 10}}} {
		w := newWorld(t, nil)
		for _, r := range ranges {
			w.m.keepSpare(r, "g", persist.Beside)
		}
		w.fetch()
		if e := w.events; w.m.spare.Range != high || len(e) != 1 || e[0].Kind != seqd.EventAbandoned || e[0].Numbers != dropped {
			t.Errorf("%v is kept, events %v", w.m.spare.Range, e)
		}
	}
}

// The store takes over, unless a cursor may take over from it: only if no cursor ever counted.
func TestYields(t *testing.T) {
	for name, c := range map[string]struct {
		takeOver bool
		before   []string
		want     bool
	}{
		"as defined": {false, nil, true}, "taken over": {true, []string{""}, false}, "again": {true, []string{persist.StoreEpoch}, false},
		"after a cursor": {true, []string{"e"}, true},
	} {
		m := New(Config{Start: 1, TakeOver: c.takeOver})
		for _, epoch := range append(c.before, persist.StoreEpoch) {
			m.belief.believe(at(began), epoch, at(began))
		}
		must.Equal(t, m.Yields(), c.want, "%s", name)
	}
}

// What was learnt counts by when it was asked.
func TestEpochAnswersOvertakeEachOther(t *testing.T) {
	m := New(Config{Start: 1})
	second := func(s int) instant { return at(began).add(time.Duration(s) * time.Second) }
	m.Began(began, began, "first")
	m.belief.believe(second(2), "theirs", second(2))
	m.belief.drew("mine", second(1))
	must.Equal(t, m.belief.epoch, "theirs", "the answer to an earlier allocation counts")
	m.belief.believe(second(3), "old", second(1))
	must.Equal(t, m.belief.epoch, "theirs", "the answer to an earlier question counts")
	m.belief.believe(second(4), "mine", second(4))
	m.belief.drew("mine", second(3))
	if m.belief.awaitsSeed(second(4)) {
		t.Error("it waits for its own seed")
	}
}

// A store that answered is not away any more, also before the shell has heard of it.
func TestStoreAnswers(t *testing.T) {
	w := newWorld(t, nil)
	w.m.Store(w.now, errDown)
	w.now = w.now.Add(LastPause)
	w.m.Tick(w.now)
	w.m.Read(w.now, Watch, nil)
	must.Equal(t, w.m.Late().Code, seqd.CodeTimeout, "callers get")
}

func TestHealth(t *testing.T) {
	exhausted := StoreError(persist.ErrExhausted)
	refused := RedisError(errDown)
	since := began.Add(-time.Minute)
	for name, c := range map[string]struct {
		change func(m *Machine)
		away   RedisAway
		want   seqd.Code
	}{
		"well":                       {},
		"exhausted":                  {change: func(m *Machine) { m.refusal = exhausted }},
		"refused":                    {change: func(m *Machine) { m.refusal = refused }, want: seqd.CodeRedisUnavailable},
		"mending":                    {change: func(m *Machine) { m.mode, m.mendBegan = Mending, at(began.Add(-time.Second)) }},
		"mending for long":           {change: func(m *Machine) { m.mode, m.mendBegan = Mending, at(since) }, want: seqd.CodeTimeout},
		"mending, and it is known":   {change: func(m *Machine) { m.mode, m.mendBegan, m.failure = Mending, at(since), refused }, want: seqd.CodeRedisUnavailable},
		"mending, store away":        {change: func(m *Machine) { m.mode, m.mendBegan, m.away = Mending, at(began.Add(-2*time.Second)), errDown }, want: seqd.CodeStoreUnavailable},
		"Redis away, nobody asked":   {away: RedisAway{since, errDown}, want: seqd.CodeRedisUnavailable},
		"Redis away, but it served":  {away: RedisAway{since, errDown}, change: func(m *Machine) { m.redis.served = at(began) }},
		"Redis away, looked at":      {away: RedisAway{since, errDown}, change: func(m *Machine) { m.redis.served, m.redis.unwell = at(began), refused }, want: seqd.CodeRedisUnavailable},
		"Redis away, node may do so": {away: RedisAway{since, errDown}, change: func(m *Machine) { m.cfg.Degrade = true }},
	} {
		m := New(Config{Start: 1, Patience: 2 * time.Second})
		if c.change != nil {
			c.change(m)
		}
		if got := m.Health(began, c.away); (got == nil) != (c.want == "") || got != nil && got.Code != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	if Online.String() != "online" || Closing.String() != "closing" || Mend.String() != "mend" || Check.String() != "check" {
		t.Error(Online, Closing, Mend, Check)
	}
	var all RuleSet
	for r := range rules {
		set, err := ParseRules(r.String())
		if err != nil || set != Rules(r) || r.String() == "" {
			t.Errorf("%d %q: %b %v", r, r, set, err)
		}
		all |= set
	}
	if set, err := ParseRules("guard,,floor"); err != nil || set != Rules(RuleGuard, RuleFloor) || all.Has(rules) {
		t.Error(set, err)
	}
	if set, err := ParseRules("gard"); err == nil || set != 0 {
		t.Error("no error for a rule that there is not")
	}
}

// A machine that is not told how draws epochs as the store expects them.
func TestDrawsEpochs(t *testing.T) {
	m := New(Config{Start: 1, Step: 10, MaxStep: 10})
	m.Took(began, began, 1, rediscursor.Taken{Stub: true, Gen: "g", Low: rediscursor.WantsRefill}, nil)
	for _, c := range m.Commands() {
		if c, ok := c.(Allocate); ok {
			must.Report(t, (persist.Request{Size: 1, To: c.To}).Validate())
			return
		}
	}
	t.Error("nothing is allocated")
}

// A range that no task waits for is reported.
func TestUnexpectedRange(t *testing.T) {
	w := newWorld(t, nil)
	w.m.Allocated(w.now, Refill, persist.Range{First: 1, Last: 10}, nil)
	if w.fetch(); w.count(seqd.EventAbandoned) != 1 || len(w.waiting) > 0 {
		t.Errorf("events %v, under way %v", w.events, w.waiting)
	}
}

// What callers get for an error of the store, and whether it is asked again.
func TestStoreErrors(t *testing.T) {
	tooMany, enough := &seqd.Error{Code: seqd.CodeTooManyKeys}, &seqd.Error{Code: seqd.CodeRateLimited}
	for _, c := range []struct {
		err   error
		code  seqd.Code
		final bool
	}{
		{persist.ErrExhausted, seqd.CodeExhausted, true},
		{persist.ErrNotFound, seqd.CodeConflict, true},
		{persist.ErrFailedOver, seqd.CodeStoreFailedOver, true},
		{counters.ErrPurged, seqd.AsError(counters.ErrPurged).Code, true},
		{tooMany, seqd.CodeTooManyKeys, true},
		{enough, seqd.CodeRateLimited, true},
		{persist.ErrClosed, seqd.CodeStopping, false},
		{persist.ErrEpoch, seqd.CodeStoreUnavailable, false},
		{errDown, seqd.CodeStoreUnavailable, false},
	} {
		wrapped := fmt.Errorf("order: %w", c.err)
		if got := StoreError(wrapped); got.Code != c.code || IsFinal(wrapped) != c.final {
			t.Errorf("%v: %v, final %t", c.err, got, IsFinal(wrapped))
		}
	}
}

// The guard lets through what is above all that was issued. The floor explains the rest, or nothing
// does.
func TestGuard(t *testing.T) {
	for name, c := range map[string]struct {
		runs, want   []persist.Range
		below, wrong int64
	}{
		"above":        {[]persist.Range{{First: 101, Last: 102}, {First: 105, Last: 105}}, []persist.Range{{First: 101, Last: 102}, {First: 105, Last: 105}}, 0, 0},
		"one is above": {[]persist.Range{{First: 98, Last: 101}}, []persist.Range{{First: 101, Last: 101}}, 3, 3},
		"none is":      {[]persist.Range{{First: 98, Last: 100}, {First: 101, Last: 101}, {First: 99, Last: 101}}, []persist.Range{{First: 101, Last: 101}}, 6, 6},
		"skipped":      {[]persist.Range{{First: 80, Last: 92}, {First: 110, Last: 111}}, []persist.Range{{First: 110, Last: 111}}, 13, 2},
	} {
		n := numbers{highest: 100, floor: 90}
		out := n.guard(slices.Clone(c.runs), 0)
		last := c.want[len(c.want)-1].Last
		if !slices.Equal(out.Runs, c.want) || out.Below != c.below || out.Wrong != c.wrong || n.highest != last || n.seen != last {
			t.Errorf("%s: %+v, highest %d, seen %d", name, out, n.highest, n.seen)
		}
	}
}
