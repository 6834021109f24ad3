package counters

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
)

// flaky are counters that lose an answer now and then.
type flaky struct {
	persist.Counters
	mu   sync.Mutex
	rand *rand.Rand // nil if they lose none
}

var errLost = errors.New("the answer is lost")

func (f *flaky) loses() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rand != nil && f.rand.IntN(10) == 0
}

func (f *flaky) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	r, err := f.Counters.Allocate(ctx, req)
	if f.loses() {
		return persist.Range{}, errLost
	}
	return r, err
}

func (f *flaky) GiveBack(ctx context.Context, name string, r persist.Range) (bool, error) {
	if f.loses() {
		return false, errLost
	}
	return f.Counters.GiveBack(ctx, name, r)
}

// town is a biz type whose keys are made up.
type town struct {
	t         *testing.T
	counters  *flaky
	most      int64
	each      int64 // may one caller create in a day, 0 for all
	documents persist.Documents

	mu   sync.Mutex // guards what follows
	keys int64
}

// townStore is the store of a town.
type townStore struct {
	persist.Store
	w *town
}

func (s townStore) Counters() persist.Counters   { return s.w.counters }
func (s townStore) Documents() persist.Documents { return s.w.documents }

func newTown(t *testing.T, most int64) *town {
	store := memory.New(time.Now)
	return &town{t: t, counters: &flaky{Counters: store.Counters()}, documents: store.Documents(), most: most}
}

// node returns the places of a node, and what ends it, as a crash does.
func (w *town) node() (p *Places, crash func()) {
	ctx, cancel := context.WithCancel(context.Background())
	return newPlaces(ctx, &Base{
		Env:     &strategy.Env{Store: townStore{w: w}, Now: time.Now, Log: slog.New(slog.DiscardHandler)},
		BizType: &seqd.BizType{Name: "rent", Strategy: "gapless"}, Settings: &Settings{MaxKeys: w.most, NewKeysPerCaller: w.each},
	}, 0, func(context.Context, seqd.Period) (int64, error) { return w.count(0), nil }), cancel
}

// count adds to the keys and returns how many there are.
func (w *town) count(more int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys += more
	if w.keys > w.most {
		w.t.Errorf("there are %d keys of %d", w.keys, w.most)
	}
	return w.keys
}

// want checks how many places are taken, and how many keys there are.
func (w *town) want(places, keys int64) {
	w.t.Helper()
	c, err := w.counters.Read(w.t.Context(), "rent/")
	if err != nil || c.Max != places || w.count(0) != keys {
		w.t.Errorf("%d places are taken of %d keys, want %d and %d: %v", c.Max, w.count(0), places, keys, err)
	}
}

func (w *town) take(p *Places, code seqd.Code) {
	w.t.Helper()
	must.Code(w.t, must.Err(p.Take(w.t.Context(), "")), code)
}

// What is taken and not used comes back: at once for another key, after a while, and when the node
// stops.
func TestUnusedPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 30_000) // three at a time
		a, crash := w.node()
		defer crash()
		w.take(a, "")
		w.count(1)
		w.want(3, 1)
		time.Sleep(inHand + time.Second)
		w.want(1, 1)
		for range 5 {
			w.take(a, "")
			a.Spare(Place{})
		}
		w.want(4, 1)
		must.Report(t, a.Close(t.Context()))
		w.want(1, 1)
		w.take(a, "")
		time.Sleep(inHand)
		a.Spare(Place{}) // late: no node has it any more
		time.Sleep(time.Second)
		w.want(1, 1)
		if err := w.counters.Delete(t.Context(), "rent/"); err != nil { // the period was purged
			t.Fatal(err)
		}
		must.Report(t, errors.Join(a.Look(t.Context()), a.less(t.Context(), 1)))
	})
}

// What a node that crashed had taken is there again, for nodes that are new and for others; and
// keys whose places were lost count.
func TestRecount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 4)
		a, crashA := w.node()
		defer crashA()
		w.take(a, "")
		w.count(1)
		time.Sleep(5 * time.Minute)
		b, crash := w.node()
		for range 3 {
			w.take(b, "")
		}
		crash()
		w.take(a, seqd.CodeTooManyKeys)
		w.want(4, 1)
		time.Sleep(3 * time.Minute)
		w.want(1, 1)
		w.take(a, "")
		w.count(2) // one was created late
		time.Sleep(time.Minute)
		c, crash := w.node()
		defer crash()
		w.take(c, "")
		w.count(1)
		time.Sleep(5 * time.Minute)
		w.want(4, 4)
		w.take(c, seqd.CodeTooManyKeys)
		w.take(a, seqd.CodeTooManyKeys)
		time.Sleep(5 * time.Minute)
		w.want(4, 4)
	})
}

// A recount does not take the place of a key that is being created, whether it was taken before the
// recount began or while it waited.
func TestRecountLeavesWhatIsUnderWay(t *testing.T) {
	for _, at := range []time.Duration{inHand - 5*time.Second, inHand + settle - 5*time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, 4)
			a, crashA := w.node()
			b, crashB := w.node()
			defer crashA()
			defer crashB()
			w.take(a, "")
			w.count(1)
			time.Sleep(at)
			w.take(b, "")
			time.Sleep(20 * time.Second)
			w.want(2, 1)
			w.count(1)
			time.Sleep(5 * time.Minute)
			w.want(2, 2)
		})
	}
}

// A caller that leaves while others take places gets none, and is told why.
func TestCallerLeaves(t *testing.T) {
	w := newTown(t, 7)
	p, crash := w.node()
	defer crash()
	<-p.turn // somebody fetches places
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Is(t, must.Err(p.Take(ctx, "")), context.Canceled)
}

// Nodes that come and go, crash and lose answers make no more keys than they may, and in the end
// there are as many places as keys.
func TestRandomPlaces(t *testing.T) {
	for seed := range uint64(longtest.Or(20, 300)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newTown(t, []int64{3, 40, 50_000}[seed%3])
			w.counters.rand = rand.New(rand.NewPCG(seed, 2))
			var nodes sync.WaitGroup
			for n := range 3 {
				own := rand.New(rand.NewPCG(seed, uint64(n)+3))
				nodes.Go(func() { w.live(own) })
			}
			nodes.Wait()
			w.counters.mu.Lock()
			w.counters.rand = nil
			w.counters.mu.Unlock()
			p, crash := w.node()
			defer crash()
			if must.Err(p.Take(t.Context(), "")) == nil {
				w.count(1)
			}
			time.Sleep(time.Duration(10+r.IntN(10)) * time.Minute)
			w.want(w.count(0), w.count(0))
		})
	}
}

// live is the lives of a node.
func (w *town) live(r *rand.Rand) {
	for range 1 + r.IntN(4) {
		p, crash := w.node()
		for range r.IntN(15) {
			time.Sleep(time.Duration(r.IntN(40_000)) * time.Millisecond)
			place, err := p.Take(context.Background(), "")
			if err != nil {
				continue
			}
			time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
			switch r.IntN(4) {
			case 0:
				p.Spare(place)
			case 1:
				p.Doubt()
			default:
				w.count(1)
			}
		}
		if r.IntN(2) == 0 {
			_ = p.Close(context.Background())
		}
		crash()
	}
}

// A caller creates as many keys a day as its share, over nodes and restarts; what was not created
// does not count, and others are not refused.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 100)
		w.each = 5
		a, _ := w.node()
		b, crash := w.node()
		defer crash()
		check := func(p *Places, by string, code seqd.Code) {
			t.Helper()
			must.Code(t, p.Check(t.Context(), by), code, by)
		}
		take := func(p *Places, by string, code seqd.Code) Place {
			t.Helper()
			place, err := p.Take(t.Context(), by)
			must.Code(t, err, code, by)
			return place
		}
		for _, p := range []*Places{a, b, a, b} {
			take(p, "shop", "")
		}
		time.Sleep(3 * time.Second) // both have noted it
		last := take(a, "shop", "")
		time.Sleep(2 * time.Second) // and a has seen what b has noted
		take(a, "shop", seqd.CodeRateLimited)
		a.Spare(last)
		check(a, "shop", "")
		take(a, "shop", "")
		check(a, "shop", seqd.CodeRateLimited)
		check(a, "other", "")
		must.Report(t, a.Close(t.Context()))
		again, crashed := w.node()
		defer crashed()
		check(again, "shop", seqd.CodeRateLimited)
		time.Sleep(24 * time.Hour)
		take(again, "shop", "")
		time.Sleep(2 * time.Second)
		if docs, err := w.documents.List(t.Context(), shareKind, "", 10); err != nil || len(docs) != 1 || docs[0].Body != `{"day":10958,"keys":1}` {
			t.Error(docs, err)
		}
		time.Sleep(48 * time.Hour)
		take(again, "other", "")
		time.Sleep(2 * time.Second)
		if docs, err := w.documents.List(t.Context(), shareKind, "", 10); err != nil || len(docs) != 1 || docs[0].Key != "rent/:other" {
			t.Error(docs, err)
		}
	})
}

// unread are documents that sometimes cannot be read.
type unread struct {
	persist.Documents
	away atomic.Bool
}

func (u *unread) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if u.away.Load() {
		return persist.Document{}, persist.ErrUnavailable
	}
	return u.Documents.Read(ctx, kind, key)
}

// What is noted late of a day that is over changes nothing of the next one, and so does what was
// taken on that day and is spared on the next one.
func TestShareOverMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 100)
		w.each = 5
		docs := &unread{Documents: w.documents}
		w.documents = docs
		a, crash := w.node()
		defer crash()
		b, crashed := w.node()
		defer crashed()
		take := func(p *Places) (last Place) {
			for range 5 {
				last = must.Get(p.Take(t.Context(), "shop"))(t)
			}
			return last
		}
		time.Sleep(24*time.Hour - time.Second/2)
		spare := take(a)
		docs.away.Store(true)
		time.Sleep(600 * time.Millisecond) // the next day has begun, and a has noted nothing
		take(b)
		time.Sleep(950 * time.Millisecond)
		docs.away.Store(false)
		time.Sleep(2 * time.Second) // b notes something, and then a
		c, ended := w.node()
		defer ended()
		must.Code(t, c.Check(t.Context(), "shop"), seqd.CodeRateLimited, "a new node")
		a.Spare(spare)
		must.Code(t, a.Check(t.Context(), "shop"), seqd.CodeRateLimited, "after Spare")
		must.Report(t, errors.Join(a.Close(t.Context()), b.Close(t.Context())))
		must.Code(t, c.Check(t.Context(), "shop"), seqd.CodeRateLimited, "in the end")
	})
}
