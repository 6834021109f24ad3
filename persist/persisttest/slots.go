package persisttest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/persist"
)

// SlotFactory returns a store without registries of machine IDs, and a function that closes it,
// which the suite may call more than once. now is the clock of a store that has none of its own.
type SlotFactory func(t *testing.T, now func() time.Time) (slots persist.SlotStore, end func() error)

// slotSuite is one test's registries.
type slotSuite struct {
	*testing.T
	slots persist.SlotStore
	end   func() error
	clock *clock
	name  string // of the registry that most tests use
}

// RunSlots runs the tests of registries of machine IDs. Run does so too.
func RunSlots(t *testing.T, open SlotFactory) {
	tests := []struct {
		name string
		run  func(*slotSuite)
	}{
		{"what does not exist is empty", testSlotsEmpty},
		{"a swap sets what it says", testSlotsSwap},
		{"a swap compares every field", testSlotsCompare},
		{"a swap that saw nothing finds nothing", testSlotsNothing},
		{"set and slot change together", testSlotsTogether},
		{"slots come ascending, those asked for or all", testSlotsLook},
		{"many slots", testSlotsMany},
		{"texts stay as they are", testSlotsTexts},
		{"drop removes the bootstrap part alone", testSlotsDrop},
		{"registries do not touch each other", testSlotsApart},
		{"the clock is the registry's", testSlotsClock},
		{"of many swaps one wins", testSlotsRace},
		{"slots are swapped beside each other", testSlotsBeside},
		{"what is handed out is nobody's", testSlotsAlias},
		{"bad swaps change nothing", testSlotsBad},
		{"an ended context changes nothing", testSlotsContext},
		{"closed registries refuse", testSlotsClosed},
	}
	for _, test := range tests {
		t.Run("Slots/"+test.name, func(t *testing.T) {
			c := &clock{ms: 1_000_000}
			slots, end := open(t, c.now)
			t.Cleanup(func() {
				if err := end(); err != nil && !errors.Is(err, persist.ErrClosed) {
					t.Errorf("close: %v", err)
				}
			})
			test.run(&slotSuite{t, slots, end, c, "order"})
		})
	}
}

var (
	setA = persist.SlotSet{Incarnation: strings.Repeat("a1", 16), Layout: "12/10/1ms", Floor: 100, Ahead: 5000, Source: "here", Cluster: strings.Repeat("c3", 16)}
	setB = persist.SlotSet{Incarnation: strings.Repeat("b2", 16), Layout: "11/11/1ms", Floor: persist.MaxNumber, Ahead: persist.MaxNumber}
)

// slot returns a slot with all fields set.
func slot(id int64) persist.Slot {
	return persist.Slot{ID: id, Key: fmt.Sprintf("seqd.8080.10.0.0.%d", id), Token: "t1", Until: persist.MaxNumber - id, Reserved: persist.MaxNumber, RenewedAt: 7}
}

func (s *slotSuite) look(ids ...int64) persist.SlotTable {
	s.Helper()
	return s.lookAt(s.name, ids...)
}

func (s *slotSuite) lookAt(name string, ids ...int64) persist.SlotTable {
	s.Helper()
	t, err := s.slots.Look(s.Context(), name, ids...)
	if err != nil {
		s.Fatal(err)
	}
	return t
}

// swap changes the registry and checks whether the change was made.
func (s *slotSuite) swap(want bool, swap persist.SlotSwap) {
	s.Helper()
	swap.Source = s.look(0).Source
	made, err := s.slots.Swap(s.Context(), s.name, swap)
	if err != nil || made != want {
		s.Fatalf("swap %s: %v, %v; want %v", show(swap), made, err, want)
	}
}

// holds checks all that the registry holds.
func (s *slotSuite) holds(set *persist.SlotSet, slots ...persist.Slot) {
	s.Helper()
	s.same(s.look(), set, slots...)
}

func (s *slotSuite) same(got persist.SlotTable, set *persist.SlotSet, slots ...persist.Slot) {
	s.Helper()
	if !reflect.DeepEqual(got.Set, set) || !slices.Equal(got.Slots, slots) {
		s.Errorf("it holds %s and %+v; want %s and %+v", text(got.Set), got.Slots, text(set), slots)
	}
}

// text shows the value of a pointer.
func text[T any](p *T) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("%+v", *p)
}

func show(swap persist.SlotSwap) string {
	return fmt.Sprintf("set %s → %s, slot %s → %s, source %q", text(swap.OldSet), text(swap.NewSet), text(swap.OldSlot), text(swap.NewSlot), swap.Source)
}

func testSlotsEmpty(s *slotSuite) {
	s.holds(nil)
	s.same(s.look(0, 5, persist.MaxSlotID), nil)
	if err := s.slots.Drop(s.Context(), s.name); !errors.Is(err, persist.ErrNotFound) {
		s.Errorf("drop: %v", err)
	}
	s.holds(nil)
}

func testSlotsSwap(s *slotSuite) {
	five, next := slot(5), slot(5)
	next.Key, next.Token, next.Until, next.Reserved, next.RenewedAt = "other", "", 0, 0, 0
	s.swap(true, persist.SlotSwap{NewSet: &setA})
	s.holds(&setA)
	s.swap(true, persist.SlotSwap{OldSet: &setA, NewSlot: &five})
	s.holds(&setA, five)
	s.swap(true, persist.SlotSwap{OldSet: &setA, OldSlot: &five, NewSlot: &next})
	s.holds(&setA, next)
	s.swap(true, persist.SlotSwap{OldSet: &setA, NewSet: &setB})
	s.holds(&setB, next)
	// to what it is
	s.swap(true, persist.SlotSwap{OldSet: &setB, NewSet: &setB, OldSlot: &next, NewSlot: &next})
	s.swap(true, persist.SlotSwap{OldSet: &setB, NewSet: &setA, OldSlot: &next, NewSlot: &five})
	s.holds(&setA, five)
	// a slot is not compared where none is set
	s.swap(true, persist.SlotSwap{OldSet: &setA, OldSlot: &five, NewSet: &setB})
	s.swap(true, persist.SlotSwap{OldSet: &setB, OldSlot: &next, NewSet: &setA})
	s.holds(&setA, five)
}

func testSlotsCompare(s *slotSuite) {
	five, six := slot(5), slot(6)
	s.swap(true, persist.SlotSwap{NewSet: &setA, NewSlot: &five})
	next := five
	next.Until--
	for _, change := range []func(*persist.SlotSet){
		func(set *persist.SlotSet) { set.Incarnation = setB.Incarnation },
		func(set *persist.SlotSet) { set.Layout += " " },
		func(set *persist.SlotSet) { set.Layout = "" },
		func(set *persist.SlotSet) { set.Floor++ },
		func(set *persist.SlotSet) { set.Ahead-- },
		func(set *persist.SlotSet) { set.Source = "" },
		func(set *persist.SlotSet) { set.Cluster = strings.Repeat("d4", 16) },
		func(set *persist.SlotSet) { set.Cluster = "" },
		func(set *persist.SlotSet) { *set = persist.SlotSet{} },
	} {
		set := setA
		change(&set)
		s.swap(false, persist.SlotSwap{OldSet: &set, NewSet: &setB})
		s.swap(false, persist.SlotSwap{OldSet: &set, OldSlot: &five, NewSlot: &next})
		s.swap(false, persist.SlotSwap{OldSet: &set, NewSlot: &six})
	}
	for _, change := range []func(*persist.Slot){
		func(slot *persist.Slot) { slot.Key = "seqd.8080.10.0.0.50" },
		func(slot *persist.Slot) { slot.Key = "" },
		func(slot *persist.Slot) { slot.Token = "T1" },
		func(slot *persist.Slot) { slot.Token = "" },
		func(slot *persist.Slot) { slot.Until-- }, // beyond what a float holds apart
		func(slot *persist.Slot) { slot.Reserved-- },
		func(slot *persist.Slot) { slot.RenewedAt = 0 },
		func(slot *persist.Slot) { *slot = persist.Slot{ID: 5} },
	} {
		old := five
		change(&old)
		s.swap(false, persist.SlotSwap{OldSet: &setA, OldSlot: &old, NewSlot: &next})
		s.swap(false, persist.SlotSwap{OldSet: &setA, NewSet: &setB, OldSlot: &old, NewSlot: &next})
	}
	// it was never granted
	s.swap(false, persist.SlotSwap{OldSet: &setA, OldSlot: &six, NewSlot: &six})
	s.holds(&setA, five)
	for _, source := range []string{"elsewhere", s.look().Source + "0"} {
		made, err := s.slots.Swap(s.Context(), s.name, persist.SlotSwap{OldSet: &setA, OldSlot: &five, NewSlot: &next, Source: source})
		if made || err != nil {
			s.Errorf("a swap of source %q: %v, %v", source, made, err)
		}
	}
	s.holds(&setA, five)
}

func testSlotsNothing(s *slotSuite) {
	five, six := slot(5), slot(6)
	s.swap(false, persist.SlotSwap{OldSet: &setA, NewSet: &setB})
	s.swap(false, persist.SlotSwap{OldSet: &setA, NewSlot: &five})
	s.swap(false, persist.SlotSwap{OldSlot: &five, NewSlot: &five})
	s.holds(nil)
	s.swap(true, persist.SlotSwap{NewSet: &setA, NewSlot: &five})
	s.swap(false, persist.SlotSwap{NewSet: &setB})
	s.swap(false, persist.SlotSwap{NewSlot: &six})
	s.swap(false, persist.SlotSwap{NewSet: &setB, NewSlot: &six})
	s.swap(false, persist.SlotSwap{OldSlot: &five, NewSlot: &five})
	s.swap(false, persist.SlotSwap{OldSet: &setA, NewSlot: &five})
	s.holds(&setA, five)
}

func testSlotsTogether(s *slotSuite) {
	five, next := slot(5), slot(5)
	next.Token = "t2"
	// a slot without a bootstrap part, as after a drop
	s.swap(true, persist.SlotSwap{NewSlot: &five})
	s.holds(nil, five)
	s.swap(false, persist.SlotSwap{NewSet: &setA, NewSlot: &next}) // right set, wrong slot
	s.swap(false, persist.SlotSwap{OldSet: &setA, NewSet: &setB, OldSlot: &five, NewSlot: &next})
	s.holds(nil, five)
	s.swap(true, persist.SlotSwap{NewSet: &setA, OldSlot: &five, NewSlot: &next})
	s.holds(&setA, next)
	s.swap(false, persist.SlotSwap{OldSet: &setA, NewSet: &setB, OldSlot: &five, NewSlot: &next})
	s.swap(false, persist.SlotSwap{OldSet: &setB, NewSet: &setB, OldSlot: &next, NewSlot: &five})
	s.holds(&setA, next)
}

func testSlotsLook(s *slotSuite) {
	ids := []int64{9, 100, 10, 0, persist.MaxSlotID, 1, 99}
	s.swap(true, persist.SlotSwap{NewSet: &setA})
	for _, id := range ids {
		granted := slot(id)
		s.swap(true, persist.SlotSwap{OldSet: &setA, NewSlot: &granted})
	}
	s.holds(&setA, slot(0), slot(1), slot(9), slot(10), slot(99), slot(100), slot(persist.MaxSlotID))
	s.same(s.look(100, 9, 10), &setA, slot(9), slot(10), slot(100))
	// twice, and one that was never granted
	s.same(s.look(persist.MaxSlotID, 7, 0, 0, 7), &setA, slot(0), slot(persist.MaxSlotID))
	s.same(s.look(7), &setA)
	for _, id := range []int64{-1, persist.MaxSlotID + 1} {
		if _, err := s.slots.Look(s.Context(), s.name, 0, id); !errors.Is(err, persist.ErrInvalid) {
			s.Errorf("look for %d: %v", id, err)
		}
	}
}

func testSlotsMany(s *slotSuite) {
	many := longtest.Or[int64](64, 1024)
	s.swap(true, persist.SlotSwap{NewSet: &setA})
	source := s.look(0).Source
	var want []persist.Slot
	var all []int64
	for id := range many {
		granted := slot(id)
		want, all = append(want, granted), append(all, id)
		if made, err := s.slots.Swap(s.Context(), s.name, persist.SlotSwap{OldSet: &setA, NewSlot: &granted, Source: source}); err != nil || !made {
			s.Fatalf("slot %d: %v, %v", id, made, err)
		}
	}
	s.holds(&setA, want...)
	s.same(s.look(all...), &setA, want...)
	s.same(s.look(many-1, many/2), &setA, slot(many/2), slot(many-1))
}

// testSlotsTexts uses texts that could mean something to a server.
func testSlotsTexts(s *slotSuite) {
	set := setA
	set.Layout, set.Source = "ü\x00<&> $where {\"a\": 1} '\\", "$floor"
	five := slot(5)
	five.Key, five.Token = "$token\u2028.*\n", "%}{\x7f"
	for _, name := range []string{"a.b", "$set", "{order}", "}", "ü \n\x00", "set", strings.Repeat("x", 200)} {
		s.name = name
		s.swap(true, persist.SlotSwap{NewSet: &set, NewSlot: &five})
		s.holds(&set, five)
		s.swap(true, persist.SlotSwap{OldSet: &set, NewSet: &setA, OldSlot: &five, NewSlot: &five})
		s.swap(false, persist.SlotSwap{OldSet: &set, NewSet: &setA})
		if err := s.slots.Drop(s.Context(), name); err != nil {
			s.Error(err)
		}
		s.holds(nil, five)
	}
}

func testSlotsDrop(s *slotSuite) {
	five := slot(5)
	s.swap(true, persist.SlotSwap{NewSet: &setA})
	s.swap(true, persist.SlotSwap{OldSet: &setA, NewSlot: &five})
	if err := s.slots.Drop(s.Context(), s.name); err != nil {
		s.Fatal(err)
	}
	s.holds(nil, five)
	if err := s.slots.Drop(s.Context(), s.name); !errors.Is(err, persist.ErrNotFound) {
		s.Errorf("a second drop: %v", err)
	}
	s.swap(false, persist.SlotSwap{OldSet: &setA, OldSlot: &five, NewSlot: &five})
	s.swap(true, persist.SlotSwap{NewSet: &setB})
	s.holds(&setB, five)
}

func testSlotsApart(s *slotSuite) {
	five, other := slot(5), slot(5)
	other.Token = "t9"
	s.swap(true, persist.SlotSwap{NewSet: &setA, NewSlot: &five})
	s.name = "order2"
	s.holds(nil)
	s.swap(true, persist.SlotSwap{NewSet: &setB, NewSlot: &other})
	s.swap(true, persist.SlotSwap{OldSet: &setB, OldSlot: &other, NewSlot: &other})
	if err := s.slots.Drop(s.Context(), s.name); err != nil {
		s.Error(err)
	}
	s.holds(nil, other)
	s.name = "order"
	s.holds(&setA, five)
}

// testSlotsClock reads the clock: that of the test, or that of a server, which is about right.
func testSlotsClock(s *slotSuite) {
	const about = int64(60_000)
	for _, ms := range []int64{1_000_000, 2_000_000, 1_500_000} {
		s.clock.set(ms)
		before := time.Now().UnixMilli()
		now := s.look().Now
		if now != ms && (now < before-about || now > time.Now().UnixMilli()+about) {
			s.Errorf("now is %d; the store's clock is %d, that of this machine %d", now, ms, before)
		}
	}
}

func testSlotsRace(s *slotSuite) {
	const callers = 32
	five := slot(5)
	for round, seen := range []persist.SlotSwap{
		{NewSet: &setB}, // nothing there at all
		{OldSet: &setA, NewSet: &setB},
		{OldSet: &setA},
		{OldSet: &setA, OldSlot: &five},
		{OldSet: &setA, NewSet: &setB, OldSlot: &five},
	} {
		s.name = fmt.Sprintf("race %d", round)
		if before := (persist.SlotSwap{NewSet: seen.OldSet, NewSlot: seen.OldSlot}); before.NewSet != nil {
			s.swap(true, before)
		}
		source := s.look(0).Source
		var wg sync.WaitGroup
		var mu sync.Mutex // guards winners
		var winners []string
		begin := make(chan struct{})
		for i := range callers {
			wg.Go(func() {
				swap, next := seen, slot(5)
				next.Token = fmt.Sprint("caller ", i)
				swap.NewSlot, swap.Source = &next, source
				<-begin
				made, err := s.slots.Swap(context.Background(), s.name, swap)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					s.Error(err)
				}
				if made {
					winners = append(winners, next.Token)
				}
			})
		}
		close(begin)
		wg.Wait()
		table := s.look()
		if len(winners) != 1 || len(table.Slots) != 1 || table.Slots[0].Token != winners[0] {
			s.Errorf("%s: %v won, it holds %+v", s.name, winners, table.Slots)
		}
	}
}

// testSlotsBeside lets many holders renew their own slots at once: all succeed.
func testSlotsBeside(s *slotSuite) {
	const holders, renewals = 8, 10
	s.swap(true, persist.SlotSwap{NewSet: &setA})
	source := s.look(0).Source
	var wg sync.WaitGroup
	for id := range int64(holders) {
		wg.Go(func() {
			var old *persist.Slot
			for round := range int64(renewals) {
				next := slot(id)
				next.Until = round
				made, err := s.slots.Swap(context.Background(), s.name, persist.SlotSwap{OldSet: &setA, OldSlot: old, NewSlot: &next, Source: source})
				if err != nil || !made {
					s.Errorf("renewal %d of slot %d: %v, %v", round, id, made, err)
					return
				}
				old = &next
			}
		})
	}
	wg.Wait()
	table := s.look()
	if len(table.Slots) != holders {
		s.Fatalf("it holds %+v", table.Slots)
	}
	for _, slot := range table.Slots {
		if slot.Until != renewals-1 {
			s.Errorf("it holds %+v", slot)
		}
	}
}

// testSlotsAlias changes values after they were stored and after they were read.
func testSlotsAlias(s *slotSuite) {
	set, five := setA, slot(5)
	s.swap(true, persist.SlotSwap{NewSet: &set, NewSlot: &five})
	set.Floor, five.Until = 1, 1
	s.holds(&setA, slot(5))
	table := s.look()
	table.Set.Floor, table.Slots[0].Until = 1, 1
	s.holds(&setA, slot(5))
}

func testSlotsBad(s *slotSuite) {
	five := slot(5)
	s.swap(true, persist.SlotSwap{NewSet: &setA, NewSlot: &five})
	source := s.look().Source
	bad := []persist.SlotSwap{{}, {OldSet: &setA, OldSlot: &five}}
	for _, change := range []func(*persist.SlotSet){
		func(set *persist.SlotSet) { set.Incarnation = "" },
		func(set *persist.SlotSet) { set.Incarnation = strings.Repeat("x", 32) },
		func(set *persist.SlotSet) { set.Layout = "" },
		func(set *persist.SlotSet) { set.Layout = "\xff" },
		func(set *persist.SlotSet) { set.Source = "\xff" },
		func(set *persist.SlotSet) { set.Cluster = "another" },
		func(set *persist.SlotSet) { set.Floor = -1 },
		func(set *persist.SlotSet) { set.Floor = persist.MaxNumber + 1 },
		func(set *persist.SlotSet) { set.Ahead = -1 },
		func(set *persist.SlotSet) { set.Ahead = persist.MaxNumber + 1 },
	} {
		set := setA
		change(&set)
		bad = append(bad, persist.SlotSwap{OldSet: &setA, NewSet: &set}, persist.SlotSwap{OldSet: &setA, NewSet: &set, OldSlot: &five, NewSlot: &five})
	}
	for _, change := range []func(*persist.Slot){
		func(slot *persist.Slot) { slot.ID = 6 }, // another one than the old
		func(slot *persist.Slot) { slot.ID = -1 },
		func(slot *persist.Slot) { slot.ID = persist.MaxSlotID + 1 },
		func(slot *persist.Slot) { slot.Key = "" },
		func(slot *persist.Slot) { slot.Key = "\xff" },
		func(slot *persist.Slot) { slot.Token = "a\xc0" },
		func(slot *persist.Slot) { slot.Until = -1 },
		func(slot *persist.Slot) { slot.Until = persist.MaxNumber + 1 },
		func(slot *persist.Slot) { slot.Reserved = -1 },
		func(slot *persist.Slot) { slot.Reserved = persist.MaxNumber + 1 },
		func(slot *persist.Slot) { slot.RenewedAt = -1 },
		func(slot *persist.Slot) { slot.RenewedAt = persist.MaxNumber + 1 },
	} {
		next := five
		change(&next)
		bad = append(bad, persist.SlotSwap{OldSet: &setA, OldSlot: &five, NewSlot: &next}, persist.SlotSwap{OldSet: &setA, NewSet: &setB, OldSlot: &five, NewSlot: &next})
	}
	for _, swap := range bad {
		swap.Source = source
		if made, err := s.slots.Swap(s.Context(), s.name, swap); made || !errors.Is(err, persist.ErrInvalid) {
			s.Errorf("swap %s: %v, %v", show(swap), made, err)
		}
	}
	for _, name := range []string{"", "\xff", strings.Repeat("x", 1025)} {
		_, look := s.slots.Look(s.Context(), name)
		made, swapped := s.slots.Swap(s.Context(), name, persist.SlotSwap{NewSet: &setA, Source: source})
		for what, err := range map[string]error{"look": look, "swap": swapped, "drop": s.slots.Drop(s.Context(), name)} {
			if made || !errors.Is(err, persist.ErrInvalid) {
				s.Errorf("%s %.10q: %v, %v", what, name, made, err)
			}
		}
	}
	s.holds(&setA, five)
}

func testSlotsContext(s *slotSuite) {
	five := slot(5)
	s.swap(true, persist.SlotSwap{NewSet: &setA})
	source := s.look().Source
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, look := s.slots.Look(ctx, s.name)
	made, swapped := s.slots.Swap(ctx, s.name, persist.SlotSwap{OldSet: &setA, NewSlot: &five, Source: source})
	for what, err := range map[string]error{"look": look, "swap": swapped, "drop": s.slots.Drop(ctx, s.name)} {
		if made || !errors.Is(err, context.Canceled) {
			s.Errorf("%s: %v, %v", what, made, err)
		}
	}
	s.holds(&setA)
}

func testSlotsClosed(s *slotSuite) {
	s.swap(true, persist.SlotSwap{NewSet: &setA})
	source := s.look().Source
	if err := s.end(); err != nil {
		s.Fatal(err)
	}
	_, look := s.slots.Look(s.Context(), s.name)
	made, swapped := s.slots.Swap(s.Context(), s.name, persist.SlotSwap{OldSet: &setA, NewSet: &setB, Source: source})
	for what, err := range map[string]error{"look": look, "swap": swapped, "drop": s.slots.Drop(s.Context(), s.name)} {
		if made || !errors.Is(err, persist.ErrClosed) {
			s.Errorf("%s: %v, %v", what, made, err)
		}
	}
}
