package segment

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// keyPlaces counts the keys of a biz type, so that there are no more than maxKeys. It is a counter in
// the store like others, whose numbers are places: a key takes one before its counter is created. A
// node takes several at a time. What it does not use it gives back at a stop, or they are lost: then
// there may be fewer keys, never more.
type keyPlaces struct {
	store   persist.Store
	now     func() time.Time
	bizType string
	name    string // of the counter: invoice/ or invoice/@2026
	most    int64

	// turn holds one value while nobody takes from the store.
	turn chan struct{}
	seen atomic.Int64 // how many places were taken when this node last looked

	mu     sync.Mutex    // guards what follows
	block  persist.Range // places of this node; empty if First is above Last
	unused int64         // places that were taken and not used, apart from block
	full   time.Time     // until when there are none, as far as this node knows
}

// fullFor is for how long a node does not look whether there are places again.
const fullFor = time.Second

func newKeyPlaces(store persist.Store, now func() time.Time, bizType, name string, most int64) *keyPlaces {
	p := &keyPlaces{store: store, now: now, bizType: bizType, name: name, most: most, turn: make(chan struct{}, 1), block: persist.Range{First: 1}}
	p.turn <- struct{}{}
	return p
}

// blockSize is how many places a node takes at a time: few enough that a crash loses hardly any.
func (p *keyPlaces) blockSize() int64 { return min(max(1, p.most/10_000), 1000) }

// take takes a place for a key, or returns an error with [seqd.CodeTooManyKeys].
func (p *keyPlaces) take(ctx context.Context) error {
	if ok, err := p.inHand(); ok || err != nil {
		return err
	}
	select {
	case <-p.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if ok, err := p.inHand(); ok || err != nil { // somebody has fetched some meanwhile
		return err
	}
	r, err := p.fetch(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.First > r.Last {
		p.full = time.Now().Add(fullFor)
		return p.tooMany()
	}
	p.block = persist.Range{First: r.First + 1, Last: r.Last}
	return nil
}

// inHand takes a place that this node has.
func (p *keyPlaces) inHand() (ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.unused > 0:
		p.unused--
		return true, nil
	case p.block.First <= p.block.Last:
		p.block.First++
		return true, nil
	case time.Now().Before(p.full):
		return false, p.tooMany()
	}
	return false, nil
}

func (p *keyPlaces) tooMany() error {
	return seqd.Errorf(seqd.CodeTooManyKeys, "%s has as many keys as segment.maxKeys allows, %d: raise it, or use a key that exists", p.bizType, p.most)
}

// fetch takes places from the store. If there are none, the range is empty.
func (p *keyPlaces) fetch(ctx context.Context) (persist.Range, error) {
	none, counters := persist.Range{First: 1}, p.store.Counters()
	if p.seen.Load() >= p.most { // so that vain attempts take none
		c, err := counters.Read(ctx, p.name)
		if err != nil && !isNotFound(err) {
			return none, err
		}
		if p.seen.Store(c.Max); c.Max >= p.most {
			return none, nil
		}
	}
	size := p.blockSize()
	r, err := counters.Allocate(ctx, persist.Request{BizTag: p.name, Size: size, To: persist.Beside})
	if isNotFound(err) {
		err = counters.Create(ctx, persist.Counter{BizTag: p.name, Step: size, Timestamp: p.now().UnixMilli()})
		if err == nil || isExists(err) {
			r, err = counters.Allocate(ctx, persist.Request{BizTag: p.name, Size: size, To: persist.Beside})
		}
	}
	if err != nil {
		return none, err
	}
	p.seen.Store(r.Last)
	if r.Last > p.most {
		above := persist.Range{First: max(r.First, p.most+1), Last: r.Last}
		if given, err := counters.GiveBack(ctx, p.name, above); err == nil && given {
			p.seen.Store(above.First - 1)
		}
		r.Last = above.First - 1
	}
	return r, nil
}

// spare returns a place that was not used after all.
func (p *keyPlaces) spare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unused++
}

// giveBack returns the places of this node to the store, if nobody has taken any since.
func (p *keyPlaces) giveBack(ctx context.Context) error {
	p.mu.Lock()
	r := p.block
	p.block, p.unused = persist.Range{First: 1}, 0
	p.mu.Unlock()
	if r.First > r.Last {
		return nil
	}
	_, err := p.store.Counters().GiveBack(ctx, p.name, r)
	if isNotFound(err) { // the period was purged
		return nil
	}
	return err
}
