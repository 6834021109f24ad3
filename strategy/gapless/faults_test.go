package gapless_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

var errBroken = errors.New("the connection broke")

// breaking is a store of which one operation fails, and changes nothing.
type breaking struct {
	failingOver
	lossy  bool            // a failover can lose something
	behind map[string]bool // the counters that nobody has raised since a failover

	mu    sync.Mutex // guards what follows
	calls []string
	fails int  // the number of the operation that fails, from 1; 0 for none
	stays bool // those after it fail too
	down  string
	first map[string]func() // called once before an operation
}

func newBreaking(lossy bool) *breaking {
	b := &breaking{lossy: lossy}
	b.Store = memory.New(time.Now)
	b.failOver("f1")
	return b
}

// do counts an operation, and carries it out unless it fails.
func (b *breaking) do(what, about string, op func() error) error {
	b.mu.Lock()
	b.calls = append(b.calls, what+" "+about)
	first := b.first[what+" "+about]
	delete(b.first, what+" "+about)
	b.mu.Unlock()
	if first != nil {
		first()
	}
	b.mu.Lock()
	broken := b.down == "*" || b.down == what || b.fails > 0 && (len(b.calls) == b.fails || b.stays && len(b.calls) > b.fails)
	b.mu.Unlock()
	if broken {
		return errBroken
	}
	return op()
}

// begin counts from here on, and lets the operation n fail, and those after it if the store stays away.
func (b *breaking) begin(n int, stays bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls, b.fails, b.stays = nil, n, stays
}

// mend lets nothing fail any more.
func (b *breaking) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails, b.down = 0, ""
}

// before calls do once before the next operation of that name.
func (b *breaking) before(operation string, do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first = map[string]func(){operation: do}
}

// away lets all operations of a kind fail, all if kind is "*", and none if it is "".
func (b *breaking) away(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = kind
}

// seen returns the operations since begin.
func (b *breaking) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.calls...)
}

func (b *breaking) Lossy() bool { return b.lossy }

func (b *breaking) Now(ctx context.Context) (now time.Time, err error) {
	err = b.do("now", "", func() error { now, err = b.Store.Now(ctx); return err })
	return now, err
}

func (b *breaking) Fence(ctx context.Context) (fence persist.Fence, err error) {
	err = b.do("fence", "", func() error { fence, err = b.failingOver.Fence(ctx); return err })
	return fence, err
}

func (b *breaking) CreateFenced(ctx context.Context, d persist.Document, fence string) error {
	return b.do("create", d.PersistID(), func() error { return b.failingOver.CreateFenced(ctx, d, fence) })
}

func (b *breaking) UpdateFenced(ctx context.Context, d persist.Document, fence string) error {
	return b.do("update", d.PersistID(), func() error { return b.failingOver.UpdateFenced(ctx, d, fence) })
}

func (b *breaking) Documents() persist.Documents { return breakingDocuments{b.Store.Documents(), b} }
func (b *breaking) Counters() persist.Counters   { return breakingCounters{b.Store.Counters(), b} }

type breakingDocuments struct {
	persist.Documents
	b *breaking
}

// Create sends what comes even if nobody waits for it any more, and so does Update.
func (d breakingDocuments) Create(ctx context.Context, doc persist.Document) error {
	return d.b.do("create", doc.PersistID(), func() error { return d.Documents.Create(context.WithoutCancel(ctx), doc) })
}

func (d breakingDocuments) Update(ctx context.Context, doc persist.Document) error {
	return d.b.do("update", doc.PersistID(), func() error { return d.Documents.Update(context.WithoutCancel(ctx), doc) })
}

func (d breakingDocuments) Keep(ctx context.Context, docs []persist.Document) error {
	return d.b.do("keep", "", func() error { return d.Documents.Keep(ctx, docs) })
}

func (d breakingDocuments) Read(ctx context.Context, kind, key string) (doc persist.Document, err error) {
	err = d.b.do("read", kind+"/"+key, func() error { doc, err = d.Documents.Read(ctx, kind, key); return err })
	return doc, err
}

func (d breakingDocuments) List(ctx context.Context, kind, after string, limit int) (list []persist.Document, err error) {
	err = d.b.do("list", kind, func() error { list, err = d.Documents.List(ctx, kind, after, limit); return err })
	return list, err
}

func (d breakingDocuments) Due(ctx context.Context, kind string, before int64, limit int) (list []persist.Document, err error) {
	err = d.b.do("due", kind, func() error { list, err = d.Documents.Due(ctx, kind, before, limit); return err })
	return list, err
}

func (d breakingDocuments) Purge(ctx context.Context, kind string, before int64, limit int) (n int, err error) {
	err = d.b.do("purge", kind, func() error { n, err = d.Documents.Purge(ctx, kind, before, limit); return err })
	return n, err
}

type breakingCounters struct {
	persist.Counters
	b *breaking
}

func (c breakingCounters) Create(ctx context.Context, counter persist.Counter) error {
	if c.b.behind[counter.BizTag] {
		return persist.ErrFailedOver
	}
	return c.b.do("create", counter.BizTag, func() error { return c.Counters.Create(ctx, counter) })
}

func (c breakingCounters) Read(ctx context.Context, name string) (counter persist.Counter, err error) {
	err = c.b.do("read", name, func() error { counter, err = c.Counters.Read(ctx, name); return err })
	counter.FailedOver = err == nil && c.b.behind[name]
	return counter, err
}

func (c breakingCounters) Allocate(ctx context.Context, req persist.Request) (r persist.Range, err error) {
	err = c.b.do("allocate", req.BizTag, func() error { r, err = c.Counters.Allocate(ctx, req); return err })
	return r, err
}

// scene is a store with a biz type, whose nodes begin and end.
type scene struct {
	*breaking
	t        *testing.T
	settings gapless.Settings
	id       string // of a reservation
	log      *slog.Logger
	observer seqd.Observer
}

// newScene returns a store that is empty.
func newScene(t *testing.T, lossy bool, settings func(*gapless.Settings)) *scene {
	s := &scene{breaking: newBreaking(lossy), t: t, settings: gapless.DefaultSettings(), log: slog.New(slog.DiscardHandler), observer: seqd.NopObserver{}}
	if settings != nil {
		settings(&s.settings)
	}
	return s
}

func (s *scene) env() strategy.Env {
	return strategy.Env{
		Store: s.breaking, Now: time.Now, Log: s.log, Observer: s.observer, AnswerTTL: 48 * time.Hour,
		Clock: storeclock.New(s.breaking, time.Now, nil),
	}
}

// node returns a new node, which has read nothing.
func (s *scene) node() *gapless.Strategy {
	s.t.Helper()
	return newNode(s.t, s.env(), s.settings)
}

// on calls f with a new node, and ends it.
func (s *scene) on(f func(*gapless.Strategy) (string, error)) (string, error) {
	s.t.Helper()
	node := s.node()
	text, err := f(node)
	s.mend() // otherwise Close would wait for ever
	must.Report(s.t, node.Close(context.Background()))
	return text, err
}

// order hands out numbers, and returns what callers see.
func order(node *gapless.Strategy, key string, o seqd.Order) (string, seqd.Reservation, error) {
	var seq seqd.Sequence
	if key != "" {
		seq.For(key)
	}
	r, replayed, err := node.HandOut(context.Background(), o, &seq)
	if err != nil {
		return fmt.Sprint(seq.Len()), r, err
	}
	return fmt.Sprintf("%v of %s, again %v", runs(&seq), seq.Period(), replayed), r, nil
}

func runs(seq *seqd.Sequence) (list [][2]int64) {
	for _, r := range seq.Runs() {
		list = append(list, [2]int64{r.First, r.First + int64(r.Count) - 1})
	}
	return list
}

// filled lets there be issued, released, void and reserved numbers, and an answer, all of which have
// left the document.
func (s *scene) filled() {
	s.t.Helper()
	_, err := s.on(func(node *gapless.Strategy) (string, error) {
		key := map[bool]string{true: "k1"}[s.settings.Keyed]
		must := func(_ any, _ any, err error) {
			must.Do(s.t, err)
		}
		must(nil, nil, node.Init(s.t.Context(), true))
		must(order(node, key, seqd.Order{Count: 5}))
		must(order(node, key, seqd.Order{Count: 2, Once: "order-1"}))
		_, r, err := order(node, key, seqd.Order{Count: 2, Reserve: true, TTL: 24 * time.Hour})
		must(nil, nil, err)
		s.id = r.ID
		_, given, err := order(node, key, seqd.Order{Count: 1, Reserve: true})
		must(nil, nil, err)
		must(nil, nil, node.Release(s.t.Context(), seqd.Settlement{ID: given.ID}))
		must(nil, nil, node.Void(s.t.Context(), seqd.Voiding{Key: key, Number: 3, Reason: "spoilt"}))
		time.Sleep(time.Second) // they are copied
		must(order(node, key, seqd.Order{Count: 1}))
		return "", nil
	})
	must.Do(s.t, err)
}

func keyed(s *gapless.Settings) { s.Keyed = true }
func everyDay(s *gapless.Settings) {
	s.Reset = seqd.ResetDaily
}

// asked is something that callers, operators or seqd ask of a strategy.
type asked struct {
	name     string
	settings func(*gapless.Settings) // nil for the default ones
	empty    bool                    // nothing is in the store before
	before   func(*scene)            // nil if there is nothing to do
	ask      func(*scene) (string, error)
}

var everything = []asked{
	{name: "begin", empty: true, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) { return "", n.Init(s.t.Context(), true) })
	}},
	{name: "begin again", ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) { return "", n.Init(s.t.Context(), false) })
	}},
	{name: "lost", empty: true, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) { return "", n.Init(s.t.Context(), false) })
	}},
	{name: "take over", before: func(s *scene) { s.counter(50) }, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			if err := n.Init(s.t.Context(), true); err != nil {
				return "", err
			}
			text, _, err := order(n, "", seqd.Order{Count: 1})
			return text, err
		})
	}},
	{name: "take over only", before: func(s *scene) { s.counter(50) }, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) { return "", n.Init(s.t.Context(), true) })
	}},
	{name: "take over after a failover", before: func(s *scene) {
		if s.counter(50); s.lossy {
			s.behind = map[string]bool{"invoice": true}
		}
	}, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) { return "", n.Init(s.t.Context(), true) })
	}},
	{name: "reopen", settings: everyDay, before: closesPeriod("Pacific/Niue"), ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			n.Reopen()
			if err := n.Init(s.t.Context(), true); err != nil {
				return "", err
			}
			text, _, err := order(n, "", seqd.Order{Count: 1, Once: "order-4"})
			return text, err
		})
	}},
	{name: "take over keys", settings: keyed, before: func(s *scene) { s.named("invoice/k1", 50) }, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			if err := n.Init(s.t.Context(), true); err != nil {
				return "", err
			}
			text, _, err := order(n, "k1", seqd.Order{Count: 1})
			return text, err
		})
	}},
	{name: "begin after another strategy", empty: true, before: func(s *scene) { s.counter(50) }, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			if err := n.Init(s.t.Context(), true); err != nil {
				return "", err
			}
			text, _, err := order(n, "", seqd.Order{Count: 1})
			return text, err
		})
	}},
	{name: "hand over", ask: func(s *scene) (string, error) { return "", s.handOver() }},
	{name: "hand over to a counter", before: func(s *scene) { s.counter(5) }, ask: func(s *scene) (string, error) { return "", s.handOver() }},
	{name: "hand over keys", settings: keyed, ask: func(s *scene) (string, error) { return "", s.handOver() }},
	{name: "hand over periods", settings: everyDay, ask: func(s *scene) (string, error) { return "", s.handOver() }},
	orders("issue", nil, "", seqd.Order{Count: 2}),
	orders("reserve", nil, "", seqd.Order{Count: 2, Reserve: true}),
	orders("issue once", nil, "", seqd.Order{Count: 2, Once: "order-2"}),
	orders("repeat", nil, "", seqd.Order{Count: 2, Once: "order-1"}),
	orders("issue for a new key", keyed, "k2", seqd.Order{Count: 2}),
	orders("issue for a key", keyed, "k1", seqd.Order{Count: 2}),
	{name: "issue for a new key after another strategy", settings: keyed, before: func(s *scene) { s.named("invoice/k2", 50) },
		ask: orders("", keyed, "k2", seqd.Order{Count: 2}).ask},
	orders("issue once in a period", everyDay, "", seqd.Order{Count: 2, Once: "order-2"}),
	{name: "repeat a day later", settings: everyDay, before: func(*scene) { time.Sleep(24 * time.Hour) },
		ask: orders("", nil, "", seqd.Order{Count: 2, Once: "order-1"}).ask},
	{name: "repeat in a closed period", settings: everyDay, before: closesPeriod("UTC"), ask: orders("", nil, "", seqd.Order{Count: 2, Once: "order-1"}).ask},
	{name: "recall", ask: func(s *scene) (string, error) {
		var seq seqd.Sequence
		_, found, err := s.factory().Recall(s.t.Context(), s.env(), "invoice", seqd.Order{Count: 2, Once: "order-1"}, &seq)
		return fmt.Sprint(found, runs(&seq)), err
	}},
	{name: "find", ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			var seq seqd.Sequence
			r, err := n.Find(s.t.Context(), s.id, &seq)
			return fmt.Sprint(r.State, runs(&seq)), err
		})
	}},
	{name: "find an unknown one", ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			r, err := n.Find(s.t.Context(), strings.Repeat("0", 20), &seqd.Sequence{})
			return fmt.Sprint(r.State), err
		})
	}},
	{name: "confirm", ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			var seq seqd.Sequence
			r, err := n.Confirm(s.t.Context(), seqd.Settlement{ID: s.id}, &seq)
			return fmt.Sprint(r.State, runs(&seq)), err
		})
	}},
	{name: "release", ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			return "", n.Release(s.t.Context(), seqd.Settlement{ID: s.id})
		})
	}},
	{name: "void", ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			return "", n.Void(s.t.Context(), seqd.Voiding{Number: 2, Reason: "spoilt"})
		})
	}},
	{name: "reclaim", before: func(*scene) { time.Sleep(25 * time.Hour) }, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) { return "", n.Reclaim(s.t.Context(), "", 0) })
	}},
	{name: "account", ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			a, err := n.Account(s.t.Context(), seqd.AccountQuery{Limit: 9})
			return fmt.Sprint(a), err
		})
	}},
	{name: "keys", settings: keyed, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			keys, err := n.Keys(s.t.Context(), "", 9)
			return fmt.Sprint(keys), err
		})
	}},
}

// orders asks a new node for numbers.
func orders(name string, settings func(*gapless.Settings), key string, o seqd.Order) asked {
	return asked{name: name, settings: settings, ask: func(s *scene) (string, error) {
		return s.on(func(n *gapless.Strategy) (string, error) {
			text, r, err := order(n, key, o)
			return text + string(r.State), err
		})
	}}
}

// closesPeriod lets the next day close the first one. Then another zone is set.
func closesPeriod(zone string) func(*scene) {
	return func(s *scene) {
		time.Sleep(24 * time.Hour)
		must.Do(s.t, must.Err(orders("", nil, "", seqd.Order{Count: 1, Once: "order-3"}).ask(s)))
		s.settings.TimeZone = zone
	}
}

// counter makes the counter of another strategy.
func (s *scene) counter(last int64) { s.named("invoice", last) }

func (s *scene) named(name string, last int64) {
	s.t.Helper()
	must.Do(s.t, s.Store.Counters().Create(s.t.Context(), persist.Counter{BizTag: name, Max: last, Step: 1}))
}

func (s *scene) factory() strategy.Factory {
	s.t.Helper()
	return must.Get(strategy.Lookup(gapless.Name))(s.t)
}

func (s *scene) handOver() error {
	return s.factory().Handover(s.t.Context(), s.env(), "invoice")
}

// state returns what the store says of numbers.
func (s *scene) state() (text string) {
	counters := must.Get(s.Store.Counters().List(s.t.Context(), "", 9))(s.t)
	for _, c := range counters {
		if !strings.HasPrefix(c.BizTag, "invoice/@") && c.BizTag != "invoice/" { // places may be lost
			text += fmt.Sprintf(", %s at %d", c.BizTag, c.Max)
		}
	}
	docs, err := s.Store.Documents().List(s.t.Context(), persist.LedgerKind, "", 9)
	for _, d := range docs {
		l, damage := ledger.Decode(&d)
		if err = errors.Join(err, damage); err == nil {
			text += fmt.Sprintf(", %s to %d: %d issued, %d reserved, %d void", d.Key, l.Last, l.NumIssued(), l.NumReserved(), l.Voids)
		}
	}
	must.Do(s.t, err)
	return text
}

// played is what was answered, and what the store says then, and what was asked of the store.
type played struct {
	answer string
	err    error
	calls  []string
}

// play prepares a store, lets the operation n fail, and those after it if the store stays away, and asks.
func (a *asked) play(t *testing.T, lossy bool, n int, stays bool) (p played) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, lossy, a.settings)
		if !a.empty {
			s.filled()
		}
		if a.before != nil {
			a.before(s)
		}
		s.begin(n, stays)
		p.answer, p.err = a.ask(s)
		p.calls = s.seen()
		s.mend()
		if p.err == nil {
			p.answer += s.state()
		}
		if s.id != "" {
			p.answer = strings.ReplaceAll(p.answer, s.id, "the reservation")
		}
		if n > 0 && p.err != nil { // it can be asked again
			if _, again := a.ask(s); seqd.CodeOf(again) == seqd.CodeStoreUnavailable {
				t.Errorf("%q failed, and it fails again: %v", p.calls[n-1], again)
			}
		}
		time.Sleep(time.Minute) // nothing looks at the store any more
	})
	return p
}

// Whichever operation of the store fails: a caller is told so, or the answer is the same as otherwise.
// No error becomes an answer that lacks something.
func TestNoErrorIsSwallowed(t *testing.T) {
	for _, a := range everything {
		for _, lossy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lossy=%t", a.name, lossy), func(t *testing.T) {
				want := a.play(t, lossy, 0, false)
				for n := range 2 * len(want.calls) {
					p := a.play(t, lossy, n/2+1, n%2 > 0)
					code := seqd.CodeOf(p.err)
					told := code == seqd.CodeStoreUnavailable || code == seqd.CodeTimeout && n%2 > 0
					if !told && (p.answer != want.answer || fmt.Sprint(p.err) != fmt.Sprint(want.err)) {
						t.Errorf("%q fails, and the answer is %q, %v; want %q, %v", p.calls[n/2], p.answer, p.err, want.answer, want.err)
					}
				}
			})
		}
	}
}
