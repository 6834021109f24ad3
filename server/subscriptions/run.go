package subscriptions

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/events"
	"github.com/seqd/seqd/server/terms"
)

const (
	// pause is between two looks for what there is to do.
	pause = time.Second
	// parallel is for how many subscriptions a node uses the store at once, except for attempts.
	parallel = 8
	// mostAttempts is how many attempts of a node wait for an answer at once.
	mostAttempts = 1000
	// sweepPause is between two looks of the leader for deliveries that nobody removes.
	sweepPause = 10 * time.Minute
)

// counts count attempts.
type counts struct{ delivered, failed, dead, gone atomic.Int64 }

// Figures are what a node measures: totals of this process, and how much the subscriptions that it
// sends for have now.
type Figures struct {
	Delivered, Failed, Dead, Gone int64
	Subscriptions, Pending, Kept  int64
}

// Figures returns them.
func (s *Subscriptions) Figures() Figures {
	s.mu.Lock()
	f := s.figures
	s.mu.Unlock()
	c := &s.counts
	f.Delivered, f.Failed, f.Dead, f.Gone = c.delivered.Load(), c.failed.Load(), c.dead.Load(), c.gone.Load()
	return f
}

// workIn returns the state in the document of a work, and its owner.
func workIn(doc persist.Document) (s state, owner terms.Owner, err error) {
	var b terms.Body
	if err := json.Unmarshal([]byte(doc.Body), &b); err != nil || b.State == nil {
		return s, b.Owner, err
	}
	doc.Body = string(b.State)
	err = decode(doc, &s, &s.Version)
	return s, b.Owner, err
}

// Wanted returns the works that the leader distributes: see [terms.Options].
func (s *Subscriptions) Wanted(ctx context.Context) (map[string]string, error) {
	wanted := make(map[string]string)
	s.mu.Lock()
	for name := range s.definitions {
		wanted[name] = ""
	}
	s.mu.Unlock()
	for doc, err := range persist.EveryDocument(ctx, s.opts.Documents, workKind) {
		if err != nil {
			return nil, err
		}
		_, owner, _ := workIn(doc) // what cannot be read has no owner
		wanted[doc.Key] = owner.Session
	}
	return wanted, nil
}

// Run sends until ctx ends, and returns when all attempts are over.
func (s *Subscriptions) Run(ctx context.Context) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		s.round(ctx)
		select {
		case <-ctx.Done():
			s.drop(true)
			s.sending.Wait()
			return
		case <-ticker.C:
		case <-s.wake:
		}
	}
}

// drop ends sending for the subscriptions whose session was interrupted, or for all.
func (s *Subscriptions) drop(all bool) {
	for _, h := range s.held {
		if all || h.sends.Err() != nil {
			s.lose(h)
		}
	}
}

// lose ends sending for a subscription whose work was not released. If the same session goes on, it owns
// the work: it must take it again, be it to release it.
func (s *Subscriptions) lose(h *held) {
	h.end()
	delete(s.held, h.name)
	s.owned[h.name] = true
}

// round does what there is to do now.
func (s *Subscriptions) round(all context.Context) {
	session, working, ok := s.opts.Terms.Session()
	s.drop(!ok)
	if !ok {
		return
	}
	if !s.loaded {
		ctx, cancel := context.WithTimeout(all, storePatience)
		s.loaded = s.Reload(ctx) == nil
		cancel()
	}
	take, release := moves(s.opts.Terms.Manifest().Works, session, func(name string) bool { return s.held[name] != nil })
	for name := range s.owned {
		if !slices.Contains(take, name) {
			take = append(take, name)
		}
	}
	var mu sync.Mutex // guards held and owned, of which Run is the only user otherwise
	each(take, func(name string) {
		h, err := s.hold(all, working, name)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			s.held[name] = h
			delete(s.owned, name)
		case errors.Is(err, terms.ErrTaken):
			delete(s.owned, name)
		}
	})
	lasts := s.lasts(all)
	each(slices.Collect(maps.Values(s.held)), func(h *held) {
		err := h.step(all, lasts, slices.Contains(release, h.name))
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		s.lose(h)
		if errors.Is(err, errReleased) {
			delete(s.owned, h.name)
		}
	})
	s.measure()
	if now := s.opts.Now(); s.opts.Terms.Leading() && now.Sub(s.swept) > sweepPause {
		s.swept = now
		s.sweep(all)
	}
}

// each calls f for all of a list, a few at a time.
func each[T any](list []T, f func(T)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, parallel)
	for _, one := range list {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			f(one)
		})
	}
	all.Wait()
}

// hold is V3, sender: it takes the work of a subscription, and returns what this node sends for it.
func (s *Subscriptions) hold(all, working context.Context, name string) (*held, error) {
	ctx, cancel := context.WithTimeout(all, storePatience)
	defer cancel()
	h := &held{Subscriptions: s, name: name}
	if err := h.take(ctx); err != nil {
		if !errors.Is(err, terms.ErrTaken) {
			s.opts.Log.Debug("a subscription cannot be taken", "subscription", name, "error", err)
		}
		return nil, err
	}
	h.sends, h.stop = context.WithCancel(all)
	h.unhook = context.AfterFunc(working, h.stop)
	return h, nil
}

// take takes the work, also again after a write that failed.
func (h *held) take(ctx context.Context) error {
	w, err := h.opts.Terms.Take(ctx, workKind, h.name)
	if errors.Is(err, terms.ErrTaken) && sabotage.Off(sabotage.OneSender) {
		err = nil
	}
	if err != nil {
		return err
	}
	h.state = state{}
	if w.State != nil {
		if err := decode(persist.Document{Kind: workKind, Key: h.name, Body: string(w.State)}, &h.state, &h.state.Version); err != nil {
			return err
		}
	}
	h.work = w
	return nil
}

// lasts returns the position of the last event of each stream that a subscription of this node has. A
// stream is read once in a round for all of them; one that cannot be read is missing.
func (s *Subscriptions) lasts(all context.Context) map[string]int64 {
	wanted := make(map[string]bool)
	s.mu.Lock()
	for name := range s.held {
		if d := s.definitions[name]; d != nil && d.Enabled {
			for _, b := range d.BizTypes {
				wanted[b] = true
			}
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(all, storePatience)
	defer cancel()
	var mu sync.Mutex // guards of
	of := make(map[string]int64, len(wanted))
	each(slices.Collect(maps.Keys(wanted)), func(bizType string) {
		last, err := s.opts.Streams.Last(ctx, bizType)
		if err != nil {
			s.opts.Log.Debug("a stream of events cannot be read", "bizType", bizType, "error", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		of[bizType] = last
	})
	return of
}

// measure notes how much there is.
func (s *Subscriptions) measure() {
	f := Figures{Subscriptions: int64(len(s.held))}
	for _, h := range s.held {
		h.mu.Lock()
		n := h.queue.pending()
		f.Pending, f.Kept = f.Pending+int64(n), f.Kept+int64(len(h.queue.list)-n)
		h.mu.Unlock()
	}
	s.mu.Lock()
	s.figures = f
	s.mu.Unlock()
}

// sweep removes deliveries whose subscription is gone: a node that had lost the work may have made
// them after its successor removed all. It looks at one delivery of each subscription.
func (s *Subscriptions) sweep(all context.Context) {
	ctx, cancel := context.WithTimeout(all, time.Minute)
	defer cancel()
	for after := ""; ; {
		docs, err := s.opts.Documents.List(ctx, persist.DeliveryKind, after, 1)
		if err != nil || len(docs) == 0 {
			return
		}
		name, _, _ := strings.Cut(docs[0].Key, "/")
		if d, err := s.definition(ctx, name); err == nil && d == nil {
			// one that was made meanwhile may have deliveries by now
			_ = s.removeAll(ctx, name, nil, s.opts.Now().Add(-sweepPause)) // otherwise the next sweep does
		}
		after = name + "0" // which follows every key that begins with the name and /
	}
}

// removeAll removes the deliveries of a subscription that were written before a time, except those of
// the definition d.
func (s *Subscriptions) removeAll(ctx context.Context, name string, d *definition, before time.Time) error {
	for doc, err := range persist.DocumentsUnder(ctx, s.opts.Documents, persist.DeliveryKind, name+"/") {
		if err != nil {
			return err
		}
		v, err := deliveryIn(doc)
		if d != nil && (err != nil || v.Made == d.Made) || doc.Timestamp > before.UnixMilli() {
			continue
		}
		if err := s.opts.Documents.Delete(ctx, doc.Kind, doc.Key, doc.Revision); err != nil && !errors.Is(err, persist.ErrNotFound) {
			return err
		}
	}
	return nil
}

// read reads the next events of a stream. missed is how many before them are not kept any more.
func (s *Subscriptions) read(ctx context.Context, bizType string, after int64, limit int) (list []events.Event, missed int64, err error) {
	list, err = s.opts.Streams.Read(ctx, bizType, after, limit)
	if gone := (*events.GoneError)(nil); errors.As(err, &gone) {
		missed = max(0, gone.Oldest-1-after)
		list, err = s.opts.Streams.Read(ctx, bizType, max(after, gone.Oldest-1), limit)
	}
	return list, missed, err
}
