package segment

import (
	"context"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// local is the source of an embedded store, and of the ordering per-node: a double buffer in the
// memory of the node.
type local struct {
	ordinals ordinals // beside the first field of the buffer
	buffer   buffer
	*ranges
	heritage known // from the previous strategy; not changed once issuing began
}

// buffered returns a counter with a local source.
func buffered(o origin) *Counter {
	// In one piece: with very many biz types every allocation and every cache line counts.
	made := &struct {
		Counter
		local
		source source
	}{Counter: Counter{ranges: ranges{origin: o}}}
	c, l := &made.Counter, &made.local
	l.ranges = &c.ranges
	l.buffer.init(l, o.settings.Threshold, o.settings.AcquireTimeout, o.settings.Start-1)
	l.ordinals = o.settings.ordinals()
	made.source, c.near = l, l
	c.present.Store(&made.source)
	return c
}

func (l *local) open(ctx context.Context, fresh bool) error {
	_, _, err := l.begin(ctx, fresh)
	return err
}

// openKey implements [source]. The first range is in the buffer then.
func (l *local) openKey(ctx context.Context, fresh bool) error {
	r, err := l.first(ctx, fresh, l.buffer.top())
	l.note(r, err)
	if err != nil {
		return storeError(err)
	}
	l.buffer.adopt(r)
	return nil
}

func (l *local) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	p := patience{wait: l.buffer.wait}
	return l.buffer.takeWith(ctx, n, seq, &p)
}

func (l *local) prepare()              { l.buffer.prepare() }
func (l *local) health() error         { return l.buffer.health() }
func (l *local) degraded() *seqd.Error { return l.storeAway() }
func (l *local) idle() bool            { return true }
func (l *local) measure() values       { return l.buffer.measure() }
func (l *local) sequencer() string     { return "" }

// knows implements [source]. What is left in the buffer does not count: close gives it back, and
// then the store's maximum is what was issued.
func (l *local) knows() known {
	k := l.heritage
	k.issued = max(k.issued, l.buffer.issued())
	k.alone = k.issued
	return k
}

func (l *local) inherit(k known) {
	l.heritage = k
	l.buffer.highest = max(l.buffer.highest, k.issued, k.ceil)
}

// stop implements [source]. Callers get numbers until close.
func (l *local) stop() bool { return true }

func (l *local) close(ctx context.Context) error {
	return l.giveBack(ctx, l.buffer.close(ctx, errStopping))
}

// fetch implements [fetcher].
func (l *local) fetch(want, floor int64, why cursor.Reason) (persist.Range, error) {
	return l.fetchFor(persist.Target{}, want, floor, why)
}
