package counters

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd/persist"
)

// A recount compares the places that are taken with the keys that there are, and corrects the
// places. A place that was just taken belongs to a key whose counter is created at this moment. So
// a recount looks at the places, waits until each of those was used or is back (settle), looks
// again, counts the keys, and looks a third time. It corrects the places only if all three looks
// agree: then all places are old, and those that no key has are lost. Of two nodes that correct at
// the same time only one does, because it names the maximum that it replaces.
//
// A write may reach the store later than settle, for instance that of a node that was paused. Then
// there is one key more than there are places, until the next recount. A recount follows each
// correction.

const (
	// settle is longer than a node has a place before the counter of its key is created.
	settle = time.Minute
	// again is the pause before the next recount, and restFor how many times longer than it took.
	again   = time.Minute
	restFor = 100
)

// recountSoon begins to count, if places may be taken that no key has and no recount runs.
func (p *Places) recountSoon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recountLocked()
}

// recountLocked is recountSoon; mu is held.
func (p *Places) recountLocked() {
	if p.doubt && !p.counts && p.running.Err() == nil {
		p.counts = true
		go p.recount()
	}
}

// recount counts until the places are right, or the strategy is closed.
func (p *Places) recount() {
	for pause := inHand; Pause(p.running, pause) && p.stillInDoubt(); {
		right, took, err := p.compare()
		if err != nil {
			p.Env.Log.Debug("the keys of a biz type cannot be counted", "bizType", p.BizType.Name, "counter", p.name, "error", err)
		}
		pause = max(again, restFor*took)
		p.mu.Lock()
		p.doubt = p.doubt || !right
		p.next = time.Now().Add(pause)
		p.mu.Unlock()
	}
}

// stillInDoubt reports whether there is something to find. If not, recount ends.
func (p *Places) stillInDoubt() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts, p.doubt = p.doubt, false
	return p.counts
}

// compare is one recount. It reports whether nothing was wrong, and how long it took to count.
func (p *Places) compare() (right bool, took time.Duration, err error) {
	before, err := p.read(p.running)
	if errors.Is(err, persist.ErrNotFound) { // the period was purged, or no key is new
		return true, 0, nil
	}
	if err != nil || !Pause(p.running, settle) {
		return false, 0, err
	}
	began := time.Now()
	after, err := p.read(p.running)
	if err != nil || after != before { // as many may have been taken as were given back
		return false, 0, err
	}
	keys, err := p.keys(p.running)
	if err != nil {
		return false, time.Since(began), err
	}
	still, err := p.read(p.running)
	took = time.Since(began)
	if err != nil || still != after {
		return false, took, err
	}
	return keys == after.Max && !after.FailedOver, took, p.correct(after, keys)
}

// correct makes the places as many as there are keys.
func (p *Places) correct(c persist.Counter, keys int64) error {
	ctx, cancel := context.WithTimeout(p.running, timeout)
	defer cancel()
	switch {
	case keys > c.Max || c.FailedOver: // a failover has lost places, or a key was created late
		_, err := p.counters.Allocate(ctx, persist.Request{BizTag: p.name, Floor: keys, To: persist.Beside})
		return err
	case keys < c.Max:
		given, err := p.counters.GiveBack(ctx, p.name, persist.Range{First: keys + 1, Last: c.Max})
		if given {
			p.taken.Store(keys)
			p.Env.Log.Info("places of keys were taken that no key has", "bizType", p.BizType.Name, "counter", p.name, "places", c.Max, "keys", keys)
		}
		return err
	}
	return nil
}
