package counters

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/persist"
)

// Places counts the keys of a biz type, or of one of its periods, so that there are no more than
// maxKeys. A key takes a place before its counter is created. How many places are taken is the
// maximum of a counter of the store, whose name is that of a counter without a key: invoice/ or
// invoice/@2026. Places is safe for concurrent use.
//
// Whoever does not create the counter after all gives its place back. A crash or an answer that is
// lost leaves a place that no key has. So each process counts the keys after the first one that is
// new to it, and again if there are no places or it may have lost one. A count takes more than a
// minute, and there is a pause before the next: see recount.go. What bounds the new keys of one
// caller is in share.go.
type Places struct {
	*Base
	running  context.Context // ends what runs in the background
	counters persist.Counters
	name     string // of the counter of places
	// keys counts the counters of keys that the places are for.
	keys func(context.Context) (int64, error)

	// turn holds one value while nobody takes from the store.
	turn  chan struct{}
	taken atomic.Int64 // how many were taken when this node last looked

	mu      lockorder.Inner // guards what follows
	hand    int64           // places that this node has taken and not used
	fetched time.Time       // when it last took some
	back    *time.Timer     // gives those in hand back; nil if there are none
	full    time.Time       // until when there are none, as far as this node knows
	doubt   bool            // places may be taken that no key has
	counts  bool            // recount runs
	next    time.Time       // when full places are counted again
	shares  shares
}

const (
	// inHand is how long a node keeps places that it does not use, after it last took some; soon is
	// how long it does if it takes one at a time.
	inHand = 10 * time.Second
	soon   = 100 * time.Millisecond
	// fullFor is for how long a node does not look whether there are places again.
	fullFor = time.Second
	// timeout bounds what the package does in the background.
	timeout = 10 * time.Second
)

// newPlaces returns the places of the keys of a period, which count counts. It does no I/O.
func newPlaces(running context.Context, b *Base, period seqd.Period, count func(context.Context, seqd.Period) (int64, error)) *Places {
	p := &Places{
		Base: b, running: running, counters: b.Env.Store.Counters(), name: PlacesName(b.BizType.Name, period), turn: make(chan struct{}, 1),
		keys:  func(ctx context.Context) (int64, error) { return count(ctx, period) },
		doubt: true, // what was there before may have crashed
	}
	p.turn <- struct{}{}
	return p
}

// block returns how many places a node takes at a time, so that many new keys share one write. It
// is 1 if few are left.
func (p *Places) block() int64 {
	left := p.Settings.MaxKeys - p.taken.Load()
	return max(1, min(p.Settings.MaxKeys/10_000, left/100, 1000))
}

// Taken returns how many places were taken when this node last looked.
func (p *Places) Taken() int64 { return p.taken.Load() }

// Look looks how many places are taken.
func (p *Places) Look(ctx context.Context) error {
	_, err := p.read(ctx)
	if errors.Is(err, persist.ErrNotFound) {
		return nil
	}
	return err
}

func (p *Places) read(ctx context.Context) (persist.Counter, error) {
	c, err := p.counters.Read(ctx, p.name)
	if err == nil {
		p.taken.Store(c.Max)
	}
	return c, err
}

// Take takes a place for a key whose counter is created now. It returns an error with
// [seqd.CodeTooManyKeys] if there is none, and otherwise that of the store or of ctx. Within 30 s,
// Take's caller calls Spare if it has not created the counter, and Doubt if it does not know. by is
// who asks for the key: see [Places.Check].
func (p *Places) Take(ctx context.Context, by string) (Place, error) {
	place, err := p.countNew(by)
	if err != nil {
		return place, err
	}
	if err = p.take(ctx); err != nil {
		p.uncountNew(place)
	}
	return place, err
}

func (p *Places) take(ctx context.Context) error {
	p.recountSoon()
	if ok, err := p.fromHand(); ok || err != nil {
		return err
	}
	select {
	case <-p.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.turn <- struct{}{} }()
	if ok, err := p.fromHand(); ok || err != nil { // somebody has fetched some meanwhile
		return err
	}
	n, err := p.fetch(ctx)
	if n == 0 && err == nil && Pause(ctx, 2*soon) { // other nodes may have places that they do not need
		n, err = p.fetch(ctx)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n == 0 {
		p.full = time.Now().Add(fullFor)
		return p.tooMany()
	}
	p.fetched = time.Now()
	p.keep(n - 1)
	return nil
}

// keep adds to the places in hand. mu is held.
func (p *Places) keep(n int64) {
	if p.hand += n; p.hand == 0 || p.back != nil {
		return
	}
	wait := time.Until(p.fetched.Add(inHand))
	if p.block() == 1 {
		wait = min(wait, soon)
	}
	p.back = time.AfterFunc(wait, func() { _ = p.giveBack(p.running) })
}

// fromHand takes a place that this node has.
func (p *Places) fromHand() (ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.hand > 0:
		p.hand--
		return true, nil
	case time.Now().Before(p.full):
		return false, p.tooMany()
	}
	return false, nil
}

// tooMany returns the refusal. mu is held.
func (p *Places) tooMany() error {
	if !time.Now().Before(p.next) {
		p.doubt = true
	}
	p.recountLocked()
	return seqd.Errorf(seqd.CodeTooManyKeys, "%s has as many keys as %s.maxKeys allows, %d: raise it, or use a key that exists", p.BizType.Name, p.BizType.Strategy, p.Settings.MaxKeys)
}

// fetch takes places from the store, and returns how many. It is not cancelled: places whose fate
// is unknown are lost until the next recount.
func (p *Places) fetch(ctx context.Context) (n int64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if p.taken.Load() >= p.Settings.MaxKeys { // so that vain attempts take none
		c, err := p.read(ctx)
		if err != nil && !errors.Is(err, persist.ErrNotFound) {
			return 0, err
		}
		if c.Max >= p.Settings.MaxKeys {
			return 0, nil
		}
	}
	// With the step the record gets the present time, by which a recount sees that places were taken.
	size := p.block()
	req := persist.Request{BizTag: p.name, Size: size, Step: size, To: persist.Beside}
	r, err := p.counters.Allocate(ctx, req)
	if errors.Is(err, persist.ErrNotFound) {
		err = p.counters.Create(ctx, persist.Counter{BizTag: p.name, Step: req.Size, Timestamp: p.Env.Now().UnixMilli()})
		if err == nil || errors.Is(err, persist.ErrExists) {
			r, err = p.counters.Allocate(ctx, req)
		}
	}
	if err != nil {
		p.Doubt()
		return 0, err
	}
	p.taken.Store(r.Last)
	above := min(max(0, r.Last-p.Settings.MaxKeys), req.Size)
	_ = p.less(ctx, above) // which notes the doubt
	return req.Size - above, nil
}

// Spare takes back the place of a key whose counter another node has created, or that got none.
// Another key gets it, or the store does in the background.
func (p *Places) Spare(place Place) {
	p.uncountNew(place)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(1)
}

// Doubt notes that a place may be taken that no key has.
func (p *Places) Doubt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubt = true
	p.recountLocked()
}

// Close gives back the places that this node has not used, and notes who has created keys.
func (p *Places) Close(ctx context.Context) error {
	return errors.Join(p.noteShares(ctx), p.giveBack(ctx))
}

func (p *Places) giveBack(ctx context.Context) error {
	p.mu.Lock()
	n := p.hand
	if p.hand = 0; p.back != nil {
		p.back.Stop()
		p.back = nil
	}
	p.mu.Unlock()
	return p.less(ctx, n)
}

// tries is how often a place is given back while others take some.
const tries = 20

// less gives back n places. Which ones does not matter: only how many are taken counts.
func (p *Places) less(ctx context.Context, n int64) error {
	if n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	for range tries {
		c, err := p.read(ctx)
		if errors.Is(err, persist.ErrNotFound) { // the period was purged
			return nil
		}
		if err != nil || c.FailedOver || c.Max < n {
			p.Doubt()
			return err
		}
		given, err := p.counters.GiveBack(ctx, p.name, persist.Range{First: c.Max - n + 1, Last: c.Max})
		if err != nil {
			p.Doubt()
			return err
		}
		if given {
			p.taken.Store(c.Max - n)
			return nil
		}
	}
	p.Doubt()
	return nil
}
