package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// anyOf makes the strategy that the settings ask for, with redis for the cursor of all counters.
func anyOf(env strategy.Env, bizType seqd.BizType, redis *redisModel) (*Counter, error) {
	o, err := originOf(env, bizType, bizType.Name)
	if err != nil {
		return nil, err
	}
	if o.settings.Ordering == PerNode {
		return buffered(o), nil
	}
	return newSequenced(o, o.cursor(redis)), nil
}

// spacedNode opens a node of an installation.
func spacedNode(t testing.TB, store persist.Store, redis *redisModel, o seqd.Observer, change func(*Settings)) *Counter {
	t.Helper()
	settings := usual()
	settings.Step, settings.MaxStep = 10, 40
	change(&settings)
	validate(t, &settings)
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: o}
	made := must.Get(anyOf(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, redis))(t)
	must.Do(t, made.Init(t.Context(), true))
	return made
}

// thirds gives an installation the numbers that leave this remainder when divided by 3.
func thirds(offset int64) func(*Settings) {
	return func(s *Settings) { s.Increment, s.Offset = 3, offset }
}

// orderings are all ways to issue.
var orderings = map[string]func(*Settings){
	"per-node": func(s *Settings) { s.Ordering = PerNode },
	"redis":    func(s *Settings) { s.Sequencer = SequencerRedis },
	"store":    func(s *Settings) { s.Sequencer = SequencerStore },
	"auto":     func(*Settings) {},
}

// TestOrdinals compares the conversion with counting.
func TestOrdinals(t *testing.T) {
	for increment := int64(1); increment <= 12; increment++ {
		for offset := range increment {
			p := (&Settings{Increment: increment, Offset: offset}).ordinals()
			ordinal := int64(0)
			for n := int64(0); n < 200; n++ {
				if n > 0 && n%increment == offset {
					ordinal++
					if p.number(ordinal) != n {
						t.Fatalf("%d mod %d: ordinal %d is %d, want %d", offset, increment, ordinal, p.number(ordinal), n)
					}
				}
				if p.upTo(n) != ordinal {
					t.Fatalf("%d mod %d: %d ordinals up to %d, want %d", offset, increment, p.upTo(n), n, ordinal)
				}
				if from := p.from(n + 1); from != ordinal+1 {
					t.Fatalf("%d mod %d: from %d on it is ordinal %d, want %d", offset, increment, n+1, from, ordinal+1)
				}
				for size := range int64(5) { // so many ordinals are in any range of that size
					if r := p.rangeOf(persist.Range{First: n + 1, Last: n + p.numbers(size)}); r.Size() != size || r.First != ordinal+1 {
						t.Fatalf("%d mod %d: %d ordinals from %d on are %+v", offset, increment, size, n+1, r)
					}
				}
			}
			last := p.last()
			if end := p.number(last); end > seqd.MaxNumber || end <= seqd.MaxNumber-increment {
				t.Fatalf("%d mod %d: the last ordinal %d is %d", offset, increment, last, p.number(last))
			}
			if n := p.before(last); p.upTo(n) != last || n > seqd.MaxNumber || p.before(0) < 0 || p.upTo(p.before(0)) != 0 || p.upTo(p.before(0)+1) != 1 {
				t.Fatalf("%d mod %d: %d is before the ordinal after the last", offset, increment, n)
			}
		}
	}
}

// TestThreeInstallations issues from three installations with nothing in common, in every ordering,
// each with nodes that come and go: no number comes twice, each has its installation's remainder,
// and strict ones are in order.
func TestThreeInstallations(t *testing.T) {
	for name, ordering := range orderings {
		for seed := range uint64(longtest.Or(3, 100)) {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					all := ordercheck.New()
					for offset := range int64(3) {
						store, redis, own := newHooked(), &redisModel{}, ordercheck.New()
						random := rand.New(rand.NewPCG(seed, uint64(offset)))
						nodes := make([]*Counter, 2)
						for range 60 {
							k := random.IntN(len(nodes))
							switch n := nodes[k]; {
							case n == nil:
								nodes[k] = spacedNode(t, store, redis, &observer{}, func(s *Settings) {
									thirds(offset)(s)
									ordering(s)
									s.Start = 1 + random.Int64N(20)
								})
							case random.IntN(8) == 0:
								if random.IntN(2) == 0 { // else it crashes
									_ = n.Close(t.Context())
								} else {
									defer n.Close(context.Background())
								}
								nodes[k] = nil
							case random.IntN(20) == 0:
								redis.lose()
							default:
								began := own.Now()
								got := someOf(t, n, random, 1+random.IntN(30))
								own.Add(began, name, got)
								all.Add(all.Now(), fmt.Sprint(offset), got)
								for _, number := range got {
									if number%3 != offset || number < 1 {
										t.Fatalf("%d is issued with offset %d", number, offset)
									}
								}
							}
						}
						for _, n := range nodes {
							if n != nil {
								_ = n.Close(t.Context())
							}
						}
						must.Report(t, own.Duplicates())
						if own.Numbers() < 200 {
							t.Errorf("only %d numbers were issued", own.Numbers())
						}
					}
					must.Report(t, all.Duplicates())
				})
			})
		}
	}
}

// someOf asks for n numbers in one of the ways that an installation has.
func someOf(t testing.TB, s *Counter, random *rand.Rand, n int) []int64 {
	t.Helper()
	var seq seqd.Sequence
	var err error
	switch random.IntN(4) {
	case 0:
		err = s.GenerateSome(t.Context(), n, &seq)
	case 1:
		err = s.GenerateRange(t.Context(), int64(n), &seq)
		if runs := seq.Runs(); err == nil && (len(runs) != 1 || runs[0].Stride != 3) {
			t.Errorf("a range of %v", runs)
		}
	default:
		err = s.Generate(t.Context(), n, &seq)
	}
	if err == nil && seq.Len() != n {
		t.Errorf("%d numbers instead of %d", seq.Len(), n)
	}
	return slices.Collect(seq.Numbers())
}

// TestLikeEveryNumber compares an installation, in every ordering, with one that issues every
// number: the one issues the numbers of the ordinals that the other issues, also if nodes stop and
// start. With Redis it is only in order.
func TestLikeEveryNumber(t *testing.T) {
	for name, ordering := range orderings {
		for offset := range int64(3) {
			t.Run(fmt.Sprint(name, offset), func(t *testing.T) {
				issue := func(change func(*Settings)) (issued []int64) {
					synctest.Test(t, func(t *testing.T) {
						store, redis, random := newHooked(), &redisModel{}, rand.New(rand.NewPCG(uint64(offset), 40))
						env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: &observer{}}
						for range 20 {
							settings := DefaultSettings()
							settings.Step, settings.MaxStep = 10, 10
							ordering(&settings)
							change(&settings)
							s := must.Get(anyOf(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, redis))(t)
							must.Do(t, s.Init(t.Context(), true))
							for range 7 {
								issued = append(issued, numbers(t, s, 1+random.IntN(5))...)
								synctest.Wait()
							}
							must.Do(t, s.Close(t.Context()))
						}
					})
					return issued
				}
				every := issue(func(s *Settings) { s.Start = 34 })
				got := issue(func(s *Settings) { s.Start = 100 - (3-offset)%3; thirds(offset)(s) })
				p := (&Settings{Increment: 3, Offset: offset}).ordinals()
				for i, ordinal := range every {
					if name == "redis" || name == "auto" { // which range goes to the cursor first is a matter of time
						if got[i]%3 != offset || got[i] < 100-(3-offset)%3 || i > 0 && got[i] <= got[i-1] {
							t.Fatalf("%d after %v", got[i], got[:i])
						}
						continue
					}
					if want := p.number(ordinal); got[i] != want {
						t.Fatalf("number %d is %d, want %d, which is at ordinal %d", i, got[i], want, ordinal)
					}
				}
			})
		}
	}
}

// TestRaisedCounter checks that a counter that was raised to any number goes on with the next one
// of the installation.
func TestRaisedCounter(t *testing.T) {
	for raised := int64(500); raised < 510; raised++ {
		store := memory.New(time.Now)
		s := spacedNode(t, store, nil, &observer{}, func(s *Settings) { thirds(1)(s); s.Ordering = PerNode })
		numbers(t, s, 1)
		_ = s.Close(t.Context())
		must.Get(store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 1, Floor: raised - 1}))(t)
		s = spacedNode(t, store, nil, &observer{}, func(s *Settings) { thirds(1)(s); s.Ordering = PerNode })
		want := raised + 1
		for want%3 != 1 {
			want++
		}
		if got := numbers(t, s, 2); got[0] != want || got[1] != want+3 {
			t.Errorf("raised to %d: %v, want %d", raised, got, want)
		}
		must.Do(t, s.Close(t.Context()))
		// all but the two numbers are given back, and the raise is not undone
		if c := counter(t, store); c.Max < max(raised, want+3) || c.Max > want+5 {
			t.Errorf("raised to %d: the counter is at %d after %d", raised, c.Max, want+3)
		}
	}
}

// TestEndOfSpacedNumbers checks that an installation ends with its last number, in every ordering
// and wherever the counter stands.
func TestEndOfSpacedNumbers(t *testing.T) {
	for name, ordering := range orderings {
		for at := range int64(4) {
			t.Run(fmt.Sprint(name, at), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, redis, o := newHooked(), &redisModel{}, &observer{}
					start := seqd.MaxNumber - 100 - at
					s := spacedNode(t, store, redis, o, func(s *Settings) { thirds(1)(s); ordering(s); s.Start = start })
					traits := (&Settings{Start: start, Increment: 3, Offset: 1}).Traits()
					first, last := traits.First, traits.Last
					if first < start || first%3 != 1 || last != seqd.MaxNumber {
						t.Fatalf("bounds %d to %d", first, last)
					}
					before := first - 3
					for {
						got, code := try(t, s, 1)
						if code == seqd.CodeExhausted {
							break
						}
						if code != "" || got[0] <= before || got[0] > last || got[0]%3 != 1 {
							t.Fatalf("%v, %s after %d; the last is %d", got, code, before, last)
						}
						before = got[0]
					}
					if before != last && name != "redis" && name != "auto" { // a standby range may be the last
						t.Errorf("exhausted after %d, and the last is %d", before, last)
					}
					for _, n := range []int{1, 100} {
						must.Code(t, s.Generate(t.Context(), n, &seqd.Sequence{}), seqd.CodeExhausted)
					}
					must.Code(t, s.GenerateRange(t.Context(), 1, &seqd.Sequence{}), seqd.CodeExhausted)
					if err := s.Health(); err != nil {
						t.Errorf("an exhausted biz type is healthy, but: %v", err)
					}
					if o.numbers(seqd.EventNearlyExhausted) == 0 {
						t.Error("nobody was warned")
					}
					_ = s.Close(t.Context())
				})
			})
		}
	}
}

// TestSpacedHeirs checks that what a strategy knew is numbers for the next one, whatever the
// increments of the two are.
func TestSpacedHeirs(t *testing.T) {
	for _, increments := range [][2]int64{{1, 3}, {3, 1}, {3, 5}, {5, 3}, {3, 3}} {
		store := newHooked()
		settings := func(k int) func(*Settings) {
			return func(s *Settings) { s.Increment, s.Offset, s.Ordering = increments[k], increments[k]-1, PerNode }
		}
		open := func(k int) *Counter {
			s := usual()
			s.Step, s.MaxStep = 10, 10
			settings(k)(&s)
			env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: &observer{}}
			return must.Get(anyOf(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &s}, nil))(t)
		}
		old, next := open(0), open(1)
		must.Do(t, old.Init(t.Context(), true))
		highest := numbers(t, old, 25)[24]
		must.Equal(t, old.knows().issued, highest, "%v: the highest number that it knows", increments)
		_ = old.Close(t.Context())
		next.Learn(old.Knowledge())
		// the store is restored: only the heir knows better
		must.Do(t, store.Counters().Delete(t.Context(), "order"))
		must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 1, Step: 10}))
		p := (&Settings{Increment: increments[1], Offset: increments[1] - 1}).ordinals()
		gap := int64(DefaultSettings().RestoreGap)
		must.Equal(t, numbers(t, next, 1)[0], p.number(p.upTo(highest)+gap+1), "%v: the number after %d", increments, highest)
		_ = next.Close(t.Context())
	}
}

// TestSpacedSettings checks the bounds of the settings and what follows from them.
func TestSpacedSettings(t *testing.T) {
	for _, test := range []struct {
		start, increment, offset int64
		wrong                    string
	}{
		{1, 1, 0, ""}, {1, 3, 2, ""}, {seqd.MaxNumber, 1, 0, ""}, {1, 65_535, 65_534, ""},
		{1, 0, 0, "increment"}, {1, -3, 0, "increment"}, {1, 65_536, 0, "increment"},
		{seqd.MaxNumber, 3, 0, "start"}, {seqd.MaxNumber - 10, 100, 50, "start"},
	} {
		s := DefaultSettings()
		s.Start, s.Increment, s.Offset = test.start, test.increment, test.offset
		problems := s.Validate()
		if test.wrong == "" && problems != nil || test.wrong != "" && (len(problems) != 1 || problems[0].Key != test.wrong) {
			t.Errorf("%+v: %v", test, problems)
		}
	}
	s := DefaultSettings()
	s.Start, s.Increment, s.Offset = 100, 7, 3
	if first, last := s.Traits().First, s.Traits().Last; first != 101 || last%7 != 3 {
		t.Errorf("bounds %d, %d", first, last)
	}
	must.Equal(t, s.LostGap(0), 7_000_000, "the numbers that a failover may have lost")
}

// TestSpacedMeasures checks that what is measured are numbers, and how far they are apart.
func TestSpacedMeasures(t *testing.T) {
	s := spacedNode(t, memory.New(time.Now), nil, &observer{}, func(s *Settings) { thirds(1)(s); s.Ordering, s.Step, s.MaxStep = PerNode, 10, 10 })
	numbers(t, s, 1)
	got := gauges(t, s)
	if !s.Idle() || s.Details() != nil {
		t.Errorf("idle %t, details %v", s.Idle(), s.Details())
	}
	if got[seqd.GaugeHighest] != 28 || got[seqd.GaugeInHand] != 9 || got[seqd.GaugeStep] != 10 || got[seqd.GaugeIncrement] != 3 ||
		got[seqd.GaugeLimit] > float64(seqd.MaxNumber) || int64(got[seqd.GaugeLimit])%3 != 1 {
		t.Errorf("measured %v", got)
	}
	_ = s.Close(t.Context())
}

// TestSpacedKeys checks that each key of an installation counts through its own numbers, in every
// ordering.
func TestSpacedKeys(t *testing.T) {
	for name, ordering := range orderings {
		if name == "redis" {
			continue // build needs a server for it
		}
		settings := usual()
		settings.Keyed, settings.Step, settings.MaxStep = true, 10, 10
		ordering(&settings)
		thirds(2)(&settings)
		env := strategy.Env{Store: newHooked(), Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
		s := must.Get(build(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}))(t)
		must.Do(t, s.Init(t.Context(), true))
		for _, key := range []string{"a", "b", "a"} {
			var seq seqd.Sequence
			seq.For(key)
			must.Do(t, s.Generate(t.Context(), 15, &seq))
			if seq.Len() != 15 || seq.First()%3 != 2 || seq.Key() != key {
				t.Errorf("%s: %v of %s", name, seq.Runs(), seq.Key())
			}
			if key == "b" && (seq.First() != 2 || seq.Last() != 44) {
				t.Errorf("%s: a new key begins with %v", name, seq.Runs())
			}
		}
		must.Report(t, s.Close(t.Context()))
	}
}

// What is wrong with an offset says what to do: without an increment there is none to choose.
func TestOffsetProblems(t *testing.T) {
	for _, test := range []struct {
		increment, offset int64
		want              string
	}{
		{1, 1, "offset: 1 needs an increment above it: with increment 1 there is no other offset than 0"},
		{3, 3, "offset: 3 is outside 0 to 2, which is increment - 1"},
		{3, -1, "offset: -1 is outside 0 to 2, which is increment - 1"},
		{3, 2, ""},
		{1, 0, ""},
	} {
		s := DefaultSettings()
		s.Increment, s.Offset = test.increment, test.offset
		got := ""
		for _, p := range s.Validate() {
			got += p.Key + ": " + p.Text
		}
		must.Equal(t, got, test.want, "increment %d, offset %d", test.increment, test.offset)
	}
}

// Operators see numbers and not ordinals.
func TestArgs(t *testing.T) {
	settings := Settings{Increment: 3, Offset: 1}
	args := []any{"first", int64(2), "step", int64(2), "last", int64(4), "above", int64(0), "error", nil}
	must.Equal(t, fmt.Sprint(settings.ordinals().args(args)), "[first 4 step 2 last 10 above -2 error <nil>]", "the arguments")
	must.Equal[any](t, (&Settings{Increment: 1}).ordinals().args(args)[1], int64(2), "the step")
}

// A store and a cursor in ordinals pass on what fails, and a list is in ordinals too.
func TestOrdinalsPassOnFailures(t *testing.T) {
	store, redis := newHooked(), &redisModel{down: errDown}
	s := spacedNode(t, store, redis, &observer{}, func(s *Settings) { thirds(1)(s); s.Sequencer = SequencerRedis })
	shared := over(s)
	must.Is(t, must.Err(s.cursor.Take(t.Context(), rediscursor.Take{Count: 1})), errDown)
	if _, err := s.cursor.Install(t.Context(), rediscursor.Install{Range: persist.Range{First: 2, Last: 1}}); err == nil || errors.Is(err, errDown) {
		t.Errorf("an empty range: %v", err)
	}
	counters := shared.env.Store.Counters()
	must.Get(counters.Allocate(t.Context(), persist.Request{BizTag: "order", Size: 5, To: persist.Beside}))(t)
	list := must.Get(counters.List(t.Context(), "", 2))(t)
	if c := must.Get(counters.Read(t.Context(), "order"))(t); len(list) != 1 || list[0] != c || c.Max != 5 {
		t.Errorf("listed are %+v, and it is %+v", list, c)
	}
	for _, size := range []int64{seqd.MaxNumber, shared.last() - 5} {
		store.change(func(h *hookedStore) {
			h.before = func(op string) error { return map[string]error{"read": errDown}[op] }
		})
		must.Is(t, must.Err(counters.Allocate(t.Context(), persist.Request{BizTag: "order", Size: size, To: persist.Beside})), persist.ErrExhausted, "%d", size)
		store.change(func(h *hookedStore) { h.before = nil })
	}
	closeAll(t, s)
}
