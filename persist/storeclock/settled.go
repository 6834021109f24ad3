package storeclock

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seqd/seqd/persist"
)

// A clock that is ahead by months, as that of a machine whose battery is empty, would end all that
// is kept for a time. If nodes last saw the clock long before, either nobody was there or it is
// wrong. So nothing is removed for a while then, and a clock that is put right meanwhile has
// removed nothing.

const (
	// settledKey is the key of the document that says when nodes last saw the clock.
	settledKey = "clock"
	// jump is how far apart two looks may be. Nodes look every hour at least.
	jump = 3 * time.Hour
	// mostSettling is how long nothing is removed after a jump. It is a quarter of the jump if that
	// is less, so that a machine that is off at night removes something by day.
	mostSettling = 24 * time.Hour
	// lookPause is how long a look counts.
	lookPause = time.Minute
)

// sight is the body of the document, with times in ms since the Unix epoch.
type sight struct {
	Last  int64 `json:"last"`
	Until int64 `json:"until"` // the clock is not trusted before
}

// Settled asks the store for its time, and reports whether what has ended may be removed: the clock
// has not jumped of late. It is called at least every hour.
func (c *Clock) Settled(ctx context.Context, documents persist.Documents) (bool, error) {
	c.mu.Lock()
	until, recent := c.until, c.looked != 0 && c.elapsed()-c.looked < lookPause
	c.mu.Unlock()
	t, err := c.Fresh(ctx)
	if err != nil {
		return false, err
	}
	if !recent {
		if until, err = look(ctx, documents, t.Store); err != nil {
			return false, err
		}
		c.mu.Lock()
		c.until, c.looked = until, c.elapsed()
		c.mu.Unlock()
	}
	return t.Store >= until, nil
}

// Past returns the time before which what has ended may be removed, in ms since the Unix epoch: the
// earliest by the clocks that this node knows. ok is false if nothing may be removed now. See
// [Clock.Settled].
func (c *Clock) Past(ctx context.Context, documents persist.Documents) (before int64, ok bool, err error) {
	if ok, err = c.Settled(ctx, documents); !ok {
		return 0, false, err
	}
	return c.times().Earliest, true, nil // Settled has asked the store
}

// look notes that the clock shows now, and returns from when it is trusted.
func look(ctx context.Context, documents persist.Documents, now int64) (until int64, err error) {
	doc, err := documents.Read(ctx, persist.BeatKind, settledKey)
	s := sight{Last: now}
	if err == nil {
		err = json.Unmarshal([]byte(doc.Body), &s)
	}
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		return 0, err
	}
	if moved := max(now-s.Last, s.Last-now); moved > jump.Milliseconds() {
		s.Until = now + min(moved/4, mostSettling.Milliseconds())
	}
	s.Last = now
	body, err := json.Marshal(s)
	if err != nil {
		return 0, err
	}
	next := persist.Document{Kind: persist.BeatKind, Key: settledKey, Revision: doc.Revision + 1, Body: string(body), Timestamp: now}
	err = persist.Put(ctx, documents, next)
	if persist.Overtaken(err) {
		return look(ctx, documents, now) // another node has looked
	}
	return s.Until, nil // if it was not written, nodes wait longer
}
