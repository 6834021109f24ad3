package terms

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/instant"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// at is an instant of a machine that is never suspended.
func at(d time.Duration) instant.Instant { return instant.Instant{Mono: d, Wall: d + time.Hour} }

// K1: a node works until 2.7 s after it sent its last beat, by the clock that is further.
func TestSessionStopsItself(t *testing.T) {
	s := newSession("a", "")
	must.Equal(t, s.alive(at(0)), false, "before the first beat")
	s.noteBeat(at(10*time.Second), nil)
	const bound = 12700 * time.Millisecond
	for name, test := range map[string]struct {
		now  instant.Instant
		want bool
	}{
		"at once":                 {at(10 * time.Second), true},
		"shortly before":          {at(bound - 1), true},
		"at the bound":            {at(bound), false},
		"after a suspension":      {instant.Instant{Mono: 11 * time.Second, Wall: bound + time.Hour}, false},
		"the time was set back":   {instant.Instant{Mono: bound, Wall: 0}, false},
		"the time was set, early": {instant.Instant{Mono: 11 * time.Second, Wall: 0}, true},
	} {
		must.Equal(t, s.alive(test.now), test.want, name)
	}
	s.noteBeat(at(20*time.Second), nil) // nobody has deleted it: it may go on
	must.Equal(t, s.alive(at(20*time.Second)), true, "after a late beat")
}

// A session ends for ever when its document is gone, under another fence, or older than it was.
func TestSessionEnds(t *testing.T) {
	begun := func() *session {
		s := newSession("a", "f")
		for range 3 {
			s.noteBeat(at(0), nil)
		}
		return &s
	}
	unknown := errors.New("no answer")
	for name, test := range map[string]struct {
		do   func(s *session)
		over bool
	}{
		"gone":                {func(s *session) { s.noteBeat(at(1), persist.ErrNotFound) }, true},
		"another fence":       {func(s *session) { s.noteBeat(at(1), persist.ErrFailedOver) }, true},
		"no answer":           {func(s *session) { s.noteBeat(at(1), unknown) }, false},
		"then gone":           {func(s *session) { s.noteBeat(at(1), unknown); s.noteRead(0, persist.ErrNotFound) }, true},
		"then still there":    {func(s *session) { s.noteBeat(at(1), unknown); s.noteRead(3, nil) }, false},
		"then written":        {func(s *session) { s.noteBeat(at(1), unknown); s.noteRead(4, nil) }, false},
		"then no answer":      {func(s *session) { s.noteBeat(at(1), unknown); s.noteRead(0, unknown) }, false},
		"the store went back": {func(s *session) { s.noteBeat(at(1), persist.ErrConflict); s.noteRead(2, nil) }, true},
	} {
		s := begun()
		test.do(s)
		must.Equal(t, s.over, test.over, name)
		must.Equal(t, s.alive(at(2)), !test.over, "alive: "+name)
	}
	s := newSession("a", "")
	s.noteBeat(at(0), unknown)
	must.Equal(t, s.over, true, "its first beat has no answer")
}

func TestSessionNextBeat(t *testing.T) {
	s := newSession("a", "")
	other := newSession("a", "")
	if s.key == other.key || NodeOf(s.key) != "a" {
		t.Errorf("keys %q and %q", s.key, other.key)
	}
	must.Equal(t, s.next(time.UnixMilli(5)), persist.Document{Kind: kind, Key: s.key, Revision: 1, Body: "{}", Timestamp: 5})
	s.noteBeat(at(0), nil)
	must.Equal(t, s.next(time.UnixMilli(6)).Revision, 2)
	s.noteBeat(at(0), errors.New("no answer"))
	s.noteRead(2, nil)
	must.Equal(t, s.next(time.UnixMilli(7)).Revision, 3)
}

// K3: a session is dead that was received with one revision for 3.3 s, of which the watcher received
// something every second.
func TestWatchDeclaresDead(t *testing.T) {
	doc := func(key string, revision int64) persist.Document {
		return persist.Document{Key: key, Revision: revision}
	}
	w := newWatch(at(0))
	for i := range 10 {
		now := at(time.Duration(i) * time.Second)
		docs := []persist.Document{doc("beats", int64(i+1)), doc("stopped", 7)}
		if i == 5 {
			docs = append(docs, doc("late", 1))
		}
		dead := w.receive(now, docs)
		must.Equal(t, slices.Contains(dead, doc("stopped", 7)), i >= 4, "after ", i)
		if len(dead) > 1 {
			t.Errorf("after %d s, %v are dead", i, dead)
		}
	}
	must.Equal(t, len(w.seen), 2, "receipts")

	w = newWatch(at(0))
	for _, step := range []struct{ at, next time.Duration }{{0, 3300}, {1000, 2300}, {3000, 300}, {3300, 0}, {3301, 3000}} {
		now := at(step.at * time.Millisecond)
		dead := w.receive(now, []persist.Document{doc("stopped", 7), doc("beats", int64(step.at+1))})
		must.Equal(t, len(dead) > 0, step.at > 3300, "after ", step.at)
		must.Equal(t, w.untilSilent(now), min(step.next*time.Millisecond, Life)+time.Millisecond, "after ", step.at)
	}
}

// After a gap, or a suspension, nobody is dead: the others may have been away as well.
func TestWatchAfterGap(t *testing.T) {
	docs := []persist.Document{{Key: "x", Revision: 7}}
	look := func(w *watch, now instant.Instant) int { return len(w.receive(now, docs)) }
	for name, shift := range map[string]instant.Instant{
		"gap":       {Mono: time.Minute, Wall: time.Minute},
		"suspended": {Wall: time.Minute},
	} {
		w := newWatch(at(0))
		later := func(d time.Duration) instant.Instant {
			return instant.Instant{Mono: d + shift.Mono, Wall: d + time.Hour + shift.Wall}
		}
		for i := range 4 {
			must.Equal(t, look(&w, at(time.Duration(i)*time.Second)), 0, name)
		}
		for i := 4; i < 8; i++ {
			must.Equal(t, look(&w, later(time.Duration(i)*time.Second)), 0, name)
			must.Equal(t, w.settled(later(time.Duration(i)*time.Second)), false, name)
		}
		must.Equal(t, look(&w, later(8*time.Second)), 1, name)
		must.Equal(t, w.settled(later(8*time.Second)), true, name)
	}
	w := newWatch(at(0)) // suspended all the time: its own clock has seen a second
	look(&w, instant.Instant{Mono: 1, Wall: 1})
	must.Equal(t, look(&w, instant.Instant{Mono: 2, Wall: 1}), 0)
}

// What K1 and K3 leave between them: whatever the rates of two clocks are, within a tenth, a node
// stops before another one declares its session dead.
func TestStopIsBeforeDead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		rate := func() float64 { return 0.95 + r.Float64()/10 }
		holder, watcher := rate(), rate()
		sent, received := r.Float64(), 0.0
		received = sent + r.Float64()
		stops := sent + (Life-margin).Seconds()/holder
		dies := received + (Life+drift).Seconds()/watcher
		if stops >= dies {
			t.Fatalf("a clock of rate %f stops at %f, and one of rate %f declares it dead at %f", holder, stops, watcher, dies)
		}
	}
}

// K2: a work is taken from nobody, and from the dead.
func TestOwnerTaken(t *testing.T) {
	for name, test := range map[string]struct {
		owner Owner
		dead  bool
		want  Owner
		ok    bool
	}{
		"new":      {Owner{}, true, Owner{1, "b.1"}, true},
		"released": {Owner{Term: 4}, true, Owner{5, "b.1"}, true},
		"dead":     {Owner{4, "a.1"}, true, Owner{5, "b.1"}, true},
		"alive":    {Owner{4, "a.1"}, false, Owner{4, "a.1"}, false},
	} {
		got, ok := test.owner.taken("b.1", test.dead)
		must.Equal(t, got, test.want, name)
		must.Equal(t, ok, test.ok, name)
	}
}

// K7: random takes and frees never exceed the bound, and slots differ and stay.
func TestPermits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var p Permits
	dead := map[string]bool{}
	isDead := func(s string) bool { return dead[s] }
	all, none := func(string) bool { return true }, func(string) bool { return false }
	for range 20_000 {
		s, name, before := fmt.Sprint("s", r.IntN(8)), fmt.Sprint("n", r.IntN(2)), p
		const most = 3
		switch {
		case r.IntN(3) == 0:
			p, _ = p.free(s, name)
		case r.IntN(20) == 0:
			dead[s] = !dead[s]
		case !dead[s]:
			p, _, _ = p.take(s, name, most, isDead, all) // also if it is full: the dead are dropped
		}
		seen := map[int]bool{}
		for _, h := range p.Holders {
			if i := before.find(h.Session, h.Name); seen[h.Slot] || h.Slot >= most || i >= 0 && before.Holders[i] != h {
				t.Fatalf("%v became %v", before, p)
			}
			seen[h.Slot] = true
		}
		if len(p.Holders) > most {
			t.Fatalf("%d hold %d permits", len(p.Holders), most)
		}
	}
	p = Permits{Most: 1, Holders: []Holder{{Session: "a", Slot: 0}}}
	_, _, ok := p.take("b", "", 1, isDead, all)
	must.Equal(t, ok, false, "the only permit is held")
	dead["a"] = true
	next, slot, ok := p.take("b", "", 1, isDead, all)
	must.Equal(t, ok && slot == 0 && len(next.Holders) == 1, true, "its holder died")
	must.Equal(t, len(p.Holders), 1, "the permits before")
	_, slot, ok = next.take("b", "", 1, isDead, all)
	must.Equal(t, ok && slot == 0, true, "taken again")
	_, _, ok = next.take("b", "x", 1, isDead, all)
	must.Equal(t, ok, false, "it uses the only permit")
	next, slot, ok = next.take("b", "x", 1, isDead, none)
	must.Equal(t, ok && slot == 0 && len(next.Holders) == 1, true, "it does not use the one that it holds")
	_, held := next.free("c", "")
	must.Equal(t, held, false, "freed by another session")
}

// K6: loads differ by one at most, no balanced plan keeps more works where they are, and the same
// arguments give the same plan.
func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5000 {
		var sessions []string
		for i := range 1 + r.IntN(5) {
			sessions = append(sessions, fmt.Sprint("s", i))
		}
		now := map[string]string{}
		for i := range r.IntN(20) {
			now[fmt.Sprint("w", i)] = slices.Concat(sessions, []string{"", "gone", sessions[0]})[r.IntN(len(sessions)+3)]
		}
		planned := plan(now, sessions)
		had, loads, kept, next := map[string]int{}, map[string]int{}, 0, map[string]string{}
		for s, works := range planned {
			loads[s] = len(works)
			for _, work := range works {
				next[work] = s
			}
		}
		for work, s := range now {
			had[s]++
			if next[work] == s {
				kept++
			}
		}
		least, more, most := len(now)/len(sessions), len(now)%len(sessions), 0
		for _, s := range sessions {
			if loads[s] < least || loads[s] > least+min(len(now)%len(sessions), 1) {
				t.Fatalf("%v over %v: %v", now, sessions, loads)
			}
			most += min(had[s], least)
			if had[s] > least && more > 0 { // it is one of those that may have one more
				most, more = most+1, more-1
			}
		}
		if len(next) != len(now) || kept != most {
			t.Fatalf("%v over %v became %v: %d of %d works stay", now, sessions, next, kept, most)
		}
		slices.Reverse(sessions)
		if !maps.EqualFunc(planned, plan(now, sessions), slices.Equal) || !maps.EqualFunc(planned, plan(next, sessions), slices.Equal) {
			t.Fatalf("%v over %v: another plan the second time", now, sessions)
		}
	}
	must.Equal(t, len(plan(map[string]string{"w": "s"}, nil)), 0, "without sessions")
}
