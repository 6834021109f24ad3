package subscriptions

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/terms"
)

const (
	// mostPending is how many events of a subscription are pending at most. Others wait in their
	// streams.
	mostPending = 1000
	// mostReads is how often a stream is read in a round. A read returns at most a page of it.
	mostReads = 4
	// listPause is how often the deliveries are listed anew: a node that had lost the work may have
	// made some.
	listPause = time.Minute
)

// held is a subscription that this node sends for.
type held struct {
	*Subscriptions
	name   string
	sends  context.Context // attempts end with it
	stop   context.CancelFunc
	unhook func() bool

	// Only one goroutine at a time uses these: see Subscriptions.round.
	work   *terms.Work // nil if it must be taken again
	state  state
	listed time.Time // when the deliveries were listed, by the clock of the node

	mu    sync.Mutex // guards what follows
	queue queue
}

// end ends all attempts.
func (h *held) end() {
	h.unhook()
	h.stop()
}

// step does what there is to do now. lasts are the positions of the last events of streams. leave is
// true if another node should send. step returns an error if this node does not send for the
// subscription any more: errReleased if it does not own the work either.
func (h *held) step(all context.Context, lasts map[string]int64, leave bool) error {
	ctx, cancel := context.WithTimeout(all, storePatience)
	defer cancel()
	h.mu.Lock()
	h.queue.leaving = leave
	left := leave && len(h.queue.busy) == 0
	h.mu.Unlock()
	err := h.do(ctx, lasts, left)
	switch {
	case errors.Is(err, errReleased), errors.Is(err, terms.ErrTaken), errors.Is(err, terms.ErrNoSession):
		return err
	case err != nil:
		h.work = nil // it may have been written or not
		if all.Err() == nil {
			h.opts.Log.Debug("a subscription cannot go on now; it is tried again", "subscription", h.name, "error", err)
		}
	}
	return nil
}

// errReleased is returned if the work was released or removed.
var errReleased = errors.New("the work was released")

// do is step without locks. left is true if the work is to be released now.
func (h *held) do(ctx context.Context, lasts map[string]int64, left bool) error {
	if h.work == nil {
		if err := h.take(ctx); err != nil {
			return err
		}
	}
	d, err := h.definition(ctx, h.name)
	if err != nil {
		return err
	}
	if d == nil {
		return h.remove(ctx)
	}
	if left {
		return h.release(ctx)
	}
	if h.state.Made != d.Made && h.isSending() {
		return nil // the answers to an earlier one must not remove deliveries of this one
	}
	if err := h.follow(ctx, d); err != nil {
		return err
	}
	if time.Since(h.listed) > listPause {
		if err := h.list(ctx, d); err != nil {
			return err
		}
	}
	if err := h.expire(ctx); err != nil {
		return err
	}
	if d.Enabled {
		if err := h.fill(ctx, d, lasts); err != nil {
			return err
		}
		h.start()
	}
	return nil
}

// definition returns a definition, nil if there is none. The store is asked if this node knows none:
// it may be new.
func (s *Subscriptions) definition(ctx context.Context, name string) (*definition, error) {
	s.mu.Lock()
	d := s.definitions[name]
	s.mu.Unlock()
	if d != nil {
		return d, nil
	}
	d, err := s.find(ctx, name)
	if seqd.CodeOf(err) == seqd.CodeUnknownSubscription {
		return nil, nil
	}
	if err == nil {
		s.settle(name, d)
	}
	return d, err
}

// isSending reports whether attempts wait for an answer.
func (h *held) isSending() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.queue.busy) > 0
}

// release lets another node send. All that this node sends is answered: otherwise the other one would
// send it again.
func (h *held) release(ctx context.Context) error {
	if err := h.work.Release(ctx, h.work.State, 0); err != nil {
		return err
	}
	return errReleased
}

// remove removes all that the store has of a subscription that was deleted.
func (h *held) remove(ctx context.Context) error {
	h.stop()
	if err := h.removeAll(ctx, h.name, nil, h.opts.Now().Add(time.Hour)); err != nil {
		return err
	}
	doc, err := h.opts.Documents.Read(ctx, workKind, h.name)
	if err == nil {
		if _, owner, _ := workIn(doc); owner == h.work.Owner {
			err = h.opts.Documents.Delete(ctx, workKind, h.name, doc.Revision)
		}
	}
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		return err
	}
	return errReleased
}

// follow brings the state to what the definition says.
func (h *held) follow(ctx context.Context, d *definition) error {
	next := h.state.of(d)
	if h.state.Made != d.Made { // deliveries of an earlier one have other positions
		if err := h.removeAll(ctx, h.name, d, h.opts.Now().Add(time.Hour)); err != nil {
			return err
		}
		h.mu.Lock()
		h.queue.list = nil
		h.mu.Unlock()
		h.listed = time.Time{}
	}
	for _, o := range d.Orders {
		if o.Number <= next.Done {
			continue
		}
		if err := h.revive(ctx, d, o); err != nil {
			return err
		}
		next.order(o)
		h.listed = time.Time{}
	}
	if h.state.Made == next.Made && maps.Equal(h.state.At, next.At) && h.state.Done == next.Done {
		return nil
	}
	return h.write(ctx, next)
}

// write writes the state.
func (h *held) write(ctx context.Context, next state) error {
	err := h.work.Write(ctx, json.RawMessage(text(next)), 0)
	if err == nil {
		h.state = next
	}
	return err
}

// revive makes deliveries due at once: those that are dead, or all from a position on. It can be
// repeated, and goes on where it ended.
func (h *held) revive(ctx context.Context, d *definition, o order) error {
	from := h.name + "/" + keyIn(o.BizType, o.From)
	for doc, err := range persist.DocumentsUnder(ctx, h.opts.Documents, persist.DeliveryKind, h.name+"/") {
		if err != nil {
			return err
		}
		v, err := deliveryIn(doc)
		if err != nil || o.BizType == "" && !v.Dead || o.BizType != "" && (v.Event.BizType != o.BizType || doc.Key < from) {
			continue
		}
		now := h.opts.Now().UnixMilli()
		if !v.Dead && v.Attempts == 0 && doc.Expires <= now {
			continue
		}
		v.revive()
		if err := h.update(ctx, doc, &v, now); err != nil && !errors.Is(err, persist.ErrConflict) && !errors.Is(err, persist.ErrNotFound) {
			return err // after those two an attempt was just answered
		}
	}
	return nil
}

// update writes a delivery, and notes when it is due.
func (h *held) update(ctx context.Context, doc persist.Document, v *delivery, due int64) error {
	doc.Revision, doc.Body, doc.Expires, doc.Timestamp = doc.Revision+1, text(v), due, h.opts.Now().UnixMilli()
	if err := h.opts.Documents.Update(ctx, doc); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if i, known := h.queue.find(doc.Key); known {
		h.queue.list[i].due, h.queue.list[i].dead = due, v.Dead
	}
	return nil
}

// list learns of all deliveries.
func (h *held) list(ctx context.Context, d *definition) error {
	at := time.Now()
	for doc, err := range persist.DocumentsUnder(ctx, h.opts.Documents, persist.DeliveryKind, h.name+"/") {
		if err != nil {
			return err
		}
		if v, err := deliveryIn(doc); err == nil && v.Made == d.Made {
			h.mu.Lock()
			h.queue.add(newQueued(doc.Key, &v, doc.Expires))
			h.mu.Unlock()
		}
	}
	h.listed = at
	return nil
}

// expire removes dead deliveries whose time is over.
func (h *held) expire(ctx context.Context) error {
	now := h.opts.Now().UnixMilli()
	h.mu.Lock()
	expired := h.queue.expired(now)
	h.mu.Unlock()
	if len(expired) > 0 && h.opts.Past != nil {
		past, ok, err := h.opts.Past(ctx)
		if !ok || err != nil {
			return err
		}
		now = past
	}
	for _, w := range expired {
		if w.due > now {
			continue
		}
		doc, err := h.opts.Documents.Read(ctx, persist.DeliveryKind, w.key)
		if err == nil {
			if v, err := deliveryIn(doc); err != nil || !v.Dead {
				continue // somebody has revived it; it is listed again
			}
			err = h.opts.Documents.Delete(ctx, doc.Kind, doc.Key, doc.Revision)
		}
		if err != nil && !errors.Is(err, persist.ErrNotFound) {
			return err
		}
		h.forget(w)
	}
	return nil
}

// fill makes deliveries of the next events of all streams, as long as there is room. lasts are the
// positions of the last events.
func (h *held) fill(ctx context.Context, d *definition, lasts map[string]int64) error {
	for _, bizType := range d.BizTypes {
		last, known := lasts[bizType]
		for range mostReads {
			at := h.state.At[bizType]
			if !known || at >= last {
				break
			}
			h.mu.Lock()
			limit := mostPending - h.queue.pending()
			h.mu.Unlock()
			if limit <= 0 {
				break
			}
			if err := h.makeDeliveries(ctx, d, bizType, at, limit); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeDeliveries is V2, kept: it writes deliveries of the next events of a stream, and then the
// position. If the node is killed in between, the next one writes them again, which changes nothing.
func (h *held) makeDeliveries(ctx context.Context, d *definition, bizType string, at int64, limit int) error {
	list, missed, err := h.read(ctx, bizType, at, limit)
	if err != nil {
		return err
	}
	if missed > 0 && at >= 0 {
		h.opts.Log.Warn("events were removed from their stream before a subscription could send them", "subscription", h.name, "bizType", bizType, "events", missed)
	}
	if len(list) == 0 {
		return nil
	}
	now := h.opts.Now()
	next := h.state
	next.At = maps.Clone(next.At)
	next.At[bizType] = list[len(list)-1].Position
	if at >= 0 {
		next.Missed += missed
	}
	var docs []persist.Document
	var added []*queued
	for _, e := range list {
		if d.sends(&e) {
			doc := documentOf(d, e, now)
			docs, added = append(docs, doc), append(added, newQueued(doc.Key, &delivery{Event: e}, now.UnixMilli()))
		}
	}
	first, second := func() error { return h.opts.Documents.Keep(ctx, docs) }, func() error { return h.write(ctx, next) }
	if sabotage.Off(sabotage.DeliveryFirst) {
		first, second = second, first
	}
	if err = first(); err == nil {
		err = second()
	}
	if err != nil {
		h.listed = time.Time{} // they may be there or not
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range added {
		if _, known := h.queue.find(w.key); !known { // one that is known has waited for longer
			h.queue.add(w)
		}
	}
	return nil
}
