package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/ruleset"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/terms"
)

var errLost = errors.New("connection reset")

// shaky is documents that lose requests and answers.
type shaky struct {
	persist.Documents
	rng *rand.Rand
}

func (s *shaky) fate(do func() error) error {
	if s.rng == nil {
		return do()
	}
	switch s.rng.IntN(12) {
	case 0:
		return errLost
	case 1:
		_ = do()
		return errLost
	}
	return do()
}

func (s *shaky) Create(ctx context.Context, d persist.Document) error {
	return s.fate(func() error { return s.Documents.Create(ctx, d) })
}

func (s *shaky) Update(ctx context.Context, d persist.Document) error {
	return s.fate(func() error { return s.Documents.Update(ctx, d) })
}

func (s *shaky) Keep(ctx context.Context, list []persist.Document) error {
	return s.fate(func() error { return s.Documents.Keep(ctx, list) })
}

func (s *shaky) Delete(ctx context.Context, kind, key string, revision int64) error {
	return s.fate(func() error { return s.Documents.Delete(ctx, kind, key, revision) })
}

// world is a store with sources, and publishers that come and go.
type world struct {
	docs    *shaky
	without ruleset.Set[rule]
	rng     *rand.Rand
	made    map[string]int64 // by source: the number of its last event
	copied  map[string]int64 // up to which all are copied
}

func newWorld(seed uint64, without ruleset.Set[rule]) *world {
	rng := rand.New(rand.NewPCG(seed, 7))
	return &world{
		docs: &shaky{memory.New(time.Now).Documents(), rng}, without: without, rng: rng,
		made: make(map[string]int64), copied: make(map[string]int64),
	}
}

func (w *world) streams() *Streams {
	log := slog.New(slog.DiscardHandler)
	f := New(Options{
		Documents: w.docs, Now: time.Now, Keep: time.Hour, Log: log, Left: func(context.Context) error { return nil },
		Stopping: func() bool { return false },
		Terms:    terms.New(terms.Options{Documents: w.docs, Node: "n", Now: time.Now, Log: log}),
	})
	f.without = w.without
	return f
}

// copy keeps a batch of a source.
func (w *world) copy(source string, first, last int64) {
	b := persist.EventBatch{BizType: "invoice", Source: source, First: first}
	for n := first; n <= last; n++ {
		b.Events = append(b.Events, persist.SourceEvent{Type: persist.EventIssued, At: 1000 + n, Data: json.RawMessage(fmt.Sprint(n))})
	}
	doc, err := b.Document()
	if err == nil {
		err = w.docs.Documents.Keep(context.Background(), []persist.Document{doc})
	}
	if err != nil {
		panic(err)
	}
}

// happen adds events of a source, and lets nodes copy some of its events, maybe again.
func (w *world) happen() {
	source := fmt.Sprintf("invoice/%d@b", w.rng.IntN(6))
	w.made[source] += int64(w.rng.IntN(40))
	for range w.rng.IntN(3) {
		if last := w.made[source]; last > 0 {
			from := max(w.copied[source]+1-int64(w.rng.IntN(20)), 1) + int64(w.rng.IntN(4))
			to := min(from+int64(w.rng.IntN(60)), last)
			if from <= to {
				w.copy(source, from, to)
				if from <= w.copied[source]+1 {
					w.copied[source] = max(w.copied[source], to)
				}
			}
		}
	}
}

// run lets things happen, and returns what is wrong with the stream in the end.
func (w *world) run(t *testing.T) error {
	ctx := t.Context()
	p := &publisher{Streams: w.streams()}
	for range 60 {
		w.happen()
		_ = p.round(ctx)
		if w.rng.IntN(5) == 0 {
			p = &publisher{Streams: w.streams()}
		}
	}
	w.docs.rng = nil
	for source, last := range w.made {
		for from := w.copied[source] + 1; from <= last; from += 100 {
			w.copy(source, from, min(from+99, last))
		}
	}
	if err := p.round(ctx); err != nil {
		return err
	}
	return w.check(ctx, p.Streams)
}

func (w *world) check(ctx context.Context, f *Streams) error {
	seen := make(map[string]int64)
	for at := int64(0); ; {
		list, err := f.Read(ctx, "invoice", at, 50)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for _, e := range list {
			at++
			source, seq := e.Source()
			if e.Position != at || seq != seen[source]+1 || string(e.Data) != fmt.Sprint(seq) || e.At != 1000+seq {
				return fmt.Errorf("position %d after %d of its source: %+v", at, seen[source], e)
			}
			seen[source] = seq
		}
	}
	for source, last := range w.made {
		if seen[source] != last {
			return fmt.Errorf("%s has %d events, and %d are published", source, last, seen[source])
		}
	}
	if left, _ := w.docs.List(ctx, persist.EventKind, "", 9); len(left) > 0 {
		return fmt.Errorf("%d batches are left", len(left))
	}
	return nil
}

func fewSources(t *testing.T) {
	was := mostSources
	mostSources = 2
	t.Cleanup(func() { mostSources = was })
}

// Whatever fails, and whoever copies what again: every event is in the stream once, in the order of
// its source.
func TestOnce(t *testing.T) {
	fewSources(t)
	for seed := range uint64(longtest.Or(10, 150)) {
		if err := newWorld(seed, 0).run(t); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// Without each rule, something goes wrong.
func TestRulesAreNeeded(t *testing.T) {
	fewSources(t)
	for r := range rules {
		t.Run(r.String(), func(t *testing.T) {
			for seed := range uint64(100) {
				if err := newWorld(seed, ruleset.Of(r)).run(t); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no seed notices that the rule is missing")
		})
	}
}

// What is not kept any more is gone, and the error says what is the oldest.
func TestGone(t *testing.T) {
	w := newWorld(1, 0)
	w.docs.rng = nil
	f := w.streams()
	p := &publisher{Streams: f}
	for n := int64(1); n < 400; n += 100 {
		w.copy("invoice@b", n, n+99)
	}
	must.Do(t, p.round(t.Context()))
	must.Equal(t, must.Get(f.Last(t.Context(), "invoice"))(t), 400)
	list := must.Get(f.Read(t.Context(), "invoice", Oldest, 1000))(t)
	must.Equal(t, fmt.Sprint(list[0].Position, len(list)), "1 128")
	must.Equal(t, len(must.Get(f.Read(t.Context(), "invoice", 400, 1000))(t)), 0)
	must.Equal(t, len(must.Get(f.Read(t.Context(), "order", Oldest, 1000))(t)), 0)
	must.Equal(t, must.Get(w.docs.Purge(t.Context(), pageKind, time.Now().Add(2*time.Hour).UnixMilli(), 2))(t), 2)
	for after, want := range map[int64]string{0: "gone", 255: "gone", 256: "257", Oldest: "257", 383: "384", 384: "385", 399: "400"} {
		list, err := f.Read(t.Context(), "invoice", after, 1)
		got := "gone"
		var gone *GoneError
		switch {
		case err == nil:
			got = fmt.Sprint(list[0].Position)
		case !errors.As(err, &gone) || gone.Oldest != 257:
			t.Errorf("after %d: %v", after, err)
		}
		must.Equal(t, got, want, "after %d", after)
	}
}

// A page that a failover has lost, and that is written late, is replaced.
func TestOtherPage(t *testing.T) {
	w := newWorld(1, 0)
	w.docs.rng = nil
	p := &publisher{Streams: w.streams()}
	var other []Event
	for range pageSize {
		other = append(other, Event{Data: json.RawMessage("{}")})
	}
	must.Do(t, w.docs.Keep(t.Context(), []persist.Document{pageDocument("invoice", 0, other, 1, 1)}))
	for range 3 {
		last := w.made["invoice@b"]
		w.made["invoice@b"] = last + 100
		w.copy("invoice@b", last+1, last+100)
		must.Do(t, p.round(t.Context()))
	}
	must.Do(t, w.check(t.Context(), p.Streams))
}

// An event is read from JSON as it was written.
func TestEventText(t *testing.T) {
	e := Event{
		Position: 7, ID: "invoice/a@2026@b/12", Type: persist.EventVoid, BizType: "invoice", Key: "a", Period: "2026", At: 1_700_000_000_123, Data: json.RawMessage(`{"runs":[]}`),
	}
	text := string(must.Get(json.Marshal(e))(t))
	must.Equal(t, text, `{"position":7,"id":"invoice/a@2026@b/12","type":"number.void","bizType":"invoice","key":"a","period":"2026",`+
		`"at":"2023-11-14T22:13:20.123Z","source":"invoice/a@2026@b","seq":12,"data":{"runs":[]}}`)
	var back Event
	must.Do(t, json.Unmarshal([]byte(text), &back))
	must.Equal(t, fmt.Sprint(back), fmt.Sprint(e))
	if json.Unmarshal([]byte(`{"at":"now"}`), &back) == nil {
		t.Error("now is a time")
	}
}

// Those who wait learn of what another node publishes. However many wait, one looks.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, 0)
		w.docs.rng = nil
		reader, writer := w.streams(), w.streams()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			writer.Run(ctx)
		}()
		done := make(chan error, 3)
		for range 3 {
			go func() { done <- reader.Wait(t.Context(), "invoice", 0) }()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		must.Equal(t, len(done), 0)
		must.Equal(t, len(reader.polls), 1)
		w.copy("invoice@b", 1, 3)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for range 3 {
			must.Do(t, <-done)
		}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		must.Do(t, reader.Wait(short, "invoice", 2))
		must.Is(t, reader.Wait(short, "invoice", 3), context.DeadlineExceeded)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		must.Equal(t, len(reader.polls), 0)
		stop()
		<-ended
	})
}

// Nobody waits for events of a biz type that has none, nor for those after a position that is none.
func TestWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, 0)
		w.docs.rng = nil
		f := w.streams()
		f.opts.Has = func(_ context.Context, bizType string) error {
			if bizType == "order" {
				return seqd.Errorf(seqd.CodeConflict, "it has no events")
			}
			return nil
		}
		began := time.Now()
		_, _, _, err := f.List(t.Context(), "order", Oldest, 10, time.Minute)
		must.Code(t, err, seqd.CodeConflict)
		_, _, _, err = f.List(t.Context(), "invoice", 7, 10, time.Minute)
		must.Code(t, err, seqd.CodeInvalidRequest)
		must.Equal(t, time.Since(began), 0)
		_, _, _, err = f.List(t.Context(), "invoice", 0, 10, time.Minute)
		must.Do(t, err)
		must.Equal(t, time.Since(began), time.Minute)
		time.Sleep(2 * pollPause) // until nobody looks any more
	})
}

// Requests that wait cost one look a second, however many they are. A store that does not answer ends
// them, and so does a node that is about to stop.
func TestManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, 0)
		w.docs.rng = nil
		f := w.streams()
		var stopping atomic.Bool
		docs := &counted{Documents: w.docs}
		f.opts.Documents, f.opts.Stopping = docs, stopping.Load
		f.opts.Has = func(context.Context, string) error { return nil }
		ended := make(chan error, 10)
		wait := func() {
			for range cap(ended) {
				go func() {
					_, _, _, err := f.List(t.Context(), "invoice", 0, 10, time.Minute)
					ended <- err
				}()
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
		}
		ends := func(want string) {
			t.Helper()
			time.Sleep(pollPause)
			synctest.Wait()
			must.Equal(t, len(ended), cap(ended), "how many do not wait any more")
			for range cap(ended) {
				must.Equal(t, string(seqd.CodeOf(<-ended)), want)
			}
			time.Sleep(2 * pollPause) // until nobody looks any more
		}
		wait()
		if n := docs.reads.Load(); n > 31 {
			t.Errorf("10 requests that wait for 20 seconds read %d times", n)
		}
		docs.away.Store(true)
		ends(string(seqd.CodeStoreUnavailable))
		docs.away.Store(false)
		wait()
		stopping.Store(true)
		ends("")
	})
}

// counted counts what is read.
type counted struct {
	persist.Documents
	reads atomic.Int64
	away  atomic.Bool
}

func (c *counted) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if c.reads.Add(1); c.away.Load() {
		return persist.Document{}, errLost
	}
	return c.Documents.Read(ctx, kind, key)
}

// What is remembered of a source that has no further events is removed in the end, and only that.
func TestFinalSources(t *testing.T) {
	fewSources(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, 0)
		w.docs.rng = nil
		p := &publisher{Streams: w.streams()}
		for i, source := range []string{"b", "job/1", "c", "job/2", "d", "e"} {
			b := persist.EventBatch{BizType: "invoice", Source: source, First: 1, Final: strings.HasPrefix(source, "job/"), Events: []persist.SourceEvent{{Type: "t", At: 1, Data: json.RawMessage("{}")}}}
			must.Do(t, w.docs.Keep(t.Context(), []persist.Document{must.Get(b.Document())(t)}))
			must.Do(t, p.lead(t.Context()))
			must.Equal(t, must.Get(p.Last(t.Context(), "invoice"))(t), int64(i)+1)
		}
		for _, want := range []string{"[invoice/b invoice/c invoice/job/1 invoice/job/2]", "[invoice/b invoice/c]"} {
			must.Do(t, p.lead(t.Context()))
			var keys []string
			for _, doc := range must.Get(w.docs.List(t.Context(), sourceKind, "", 10))(t) {
				keys = append(keys, doc.Key)
			}
			must.Equal(t, fmt.Sprint(keys), want)
			time.Sleep(keepFinal + time.Hour)
		}
	})
}

// Events that wait for some that are lost are published in the end, if one node has led for long enough
// to know that.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, 0)
		w.docs.rng = nil
		w.copy("invoice@b", 1, 2)
		w.copy("invoice@b", 5, 7) // their time is long ago
		w.copy("invoice@b", 8, 8)
		w.copy("invoice@b", 11, 11)
		for range 2 {
			p := &publisher{Streams: w.streams()}
			for range 5 {
				must.Do(t, p.lead(t.Context()))
				must.Equal(t, must.Get(p.Last(t.Context(), "invoice"))(t), 2)
				time.Sleep(12*time.Minute - 1)
			}
		}
		p := &publisher{Streams: w.streams()}
		must.Do(t, p.lead(t.Context()))
		time.Sleep(time.Hour)
		must.Do(t, p.lead(t.Context()))
		w.copy("invoice@b", 3, 4) // too late
		w.copy("invoice@b", 13, 13)
		must.Do(t, p.lead(t.Context()))
		var got []string
		for _, e := range must.Get(p.Read(t.Context(), "invoice", Oldest, 100))(t) {
			got = append(got, e.ID)
		}
		must.Equal(t, fmt.Sprint(got), "[invoice@b/1 invoice@b/2 invoice@b/5 invoice@b/6 invoice@b/7 invoice@b/8 invoice@b/11]")
		if p.waits == nil {
			t.Error("the new one does not wait")
		}
	})
}

// TestCopyLeft copies what was left while the node leads, and publishes although that takes hours.
func TestCopyLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, 0)
		w.docs.rng = nil
		f := w.streams()
		var copies atomic.Int64
		f.opts.Left = func(ctx context.Context) error {
			copies.Add(1)
			select {
			case <-time.After(3 * time.Hour):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { f.Run(ctx); close(ended) }()
		time.Sleep(time.Minute)
		w.copy("invoice@b", 1, 100)
		time.Sleep(time.Minute)
		must.Equal(t, must.Get(f.Last(t.Context(), "invoice"))(t), 100)
		time.Sleep(10 * time.Hour)
		must.Equal(t, copies.Load(), 4, "one after the other")
		cancel()
		<-ended
	})
}

// Run warns of events that wait for others, and says when that is over. It removes what expired.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1, 0)
		w.docs.rng = nil
		f := w.streams()
		p := &publisher{Streams: f}
		for n := int64(1); n < 400; n += 100 {
			w.copy("invoice@b", n, n+99)
		}
		w.copy("invoice@c", 2, 2)
		must.Do(t, p.lead(t.Context()))
		if p.waits == nil { // its time is long ago
			t.Error("nobody learns that an event waits")
		}
		w.copy("invoice@c", 1, 1)
		must.Do(t, p.lead(t.Context()))
		must.Do(t, p.waits)
		must.Equal(t, must.Get(f.Last(t.Context(), "invoice"))(t), 402)
		settled := false
		f.opts.Past = func(context.Context) (int64, bool, error) { return time.Now().UnixMilli(), settled, nil }
		time.Sleep(2 * time.Hour)
		must.Do(t, p.lead(t.Context()))
		must.Equal(t, must.Get(f.Read(t.Context(), "invoice", Oldest, 1))(t)[0].Position, 1, "a clock has jumped")
		settled = true
		time.Sleep(2 * time.Minute)
		must.Do(t, p.lead(t.Context()))
		must.Equal(t, must.Get(f.Read(t.Context(), "invoice", Oldest, 1))(t)[0].Position, 385)
	})
}
