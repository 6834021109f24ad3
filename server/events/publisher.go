package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/logging"
	"github.com/seqd/seqd/server/terms"
)

const (
	// roundPause is the pause between two looks for batches, and roundPatience bounds one.
	roundPause    = time.Second
	roundPatience = 30 * time.Second
	// mostBatches is how many batches are read before they are published.
	mostBatches = 1000
	// mostWorks is how many streams a publisher owns without reading them again.
	mostWorks = 1000
	// leftPause is the pause between two looks for what nodes did not copy.
	leftPause = time.Hour
	// purgePause is the pause between two removals of pages that expired, and purgeAtOnce is how many are
	// removed by one operation.
	purgePause  = time.Minute
	purgeAtOnce = 500
	// keepFinal is how long it is remembered of a source without further events how far it is. Until then
	// whoever had copied these, and did not learn that, has copied them again.
	keepFinal = 90 * 24 * time.Hour
	// missing is how long a batch waits for the batch before it until the log says so.
	missing = 5 * time.Minute
)

// publisher writes the streams while this node leads. Only one goroutine uses it.
type publisher struct {
	*Streams
	works map[string]*terms.Work // the streams that this node owns, by biz type, as it wrote them
	waits error                  // says which batch waits for too long, nil for none
	// since says since when this node has seen batches wait, by the keys of their documents. now is the
	// same for the present round.
	since, now map[string]time.Time
	purged     time.Time // zero if that was before this node led
}

// Run publishes what happened while this node leads, until ctx ends.
func (f *Streams) Run(ctx context.Context) {
	var copying sync.WaitGroup
	copying.Go(func() { f.copyLeft(ctx) })
	defer copying.Wait()
	p := &publisher{Streams: f}
	trouble := logging.Trouble{Log: f.opts.Log, Begins: "events cannot be published; it is tried again"}
	waiting := logging.Trouble{Log: f.opts.Log, Begins: "events wait because those before them are missing"}
	ticker := time.NewTicker(roundPause)
	defer ticker.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, roundPatience)
		err := p.lead(within)
		cancel()
		if ctx.Err() != nil {
			return
		}
		trouble.Note(err)
		waiting.Note(p.waits)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// copyLeft copies what nodes did not copy while this node leads, until ctx ends. With very many biz
// types that takes minutes, so events are published meanwhile.
func (f *Streams) copyLeft(ctx context.Context) {
	var copied time.Time // zero if that was before this node led
	trouble := logging.Trouble{Log: f.opts.Log, Begins: "events of definitions that a node did not copy cannot be copied; it is tried again"}
	ticker := time.NewTicker(roundPause)
	defer ticker.Stop()
	for {
		var err error
		if f.opts.Terms.Leading() {
			err = since(&copied, f.opts.Now(), leftPause, func() error { return f.opts.Left(ctx) })
		} else {
			copied = time.Time{}
		}
		if ctx.Err() != nil {
			return
		}
		trouble.Note(err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// lead publishes, if this node leads. Who leads decides only who does it: another node may still be
// at it, and one of them finds that it does not own the stream any more.
func (p *publisher) lead(ctx context.Context) error {
	if !p.opts.Terms.Leading() {
		p.works, p.waits, p.since, p.purged = nil, nil, nil, time.Time{}
		return nil
	}
	now := p.opts.Now()
	return errors.Join(
		since(&p.purged, now, purgePause, func() error { return p.purge(ctx, now) }),
		p.round(ctx),
	)
}

// since calls do if it did not succeed within a pause.
func since(last *time.Time, now time.Time, pause time.Duration, do func() error) error {
	if !last.IsZero() && now.Sub(*last).Abs() < pause {
		return nil
	}
	err := do()
	if err == nil {
		*last = now
	}
	return err
}

// purge removes pages and sources that expired.
func (p *publisher) purge(ctx context.Context, now time.Time) error {
	before := now.UnixMilli()
	if p.opts.Past != nil {
		past, ok, err := p.opts.Past(ctx)
		if !ok || err != nil {
			return err
		}
		before = past
	}
	for _, kind := range []string{pageKind, sourceKind} {
		for n := purgeAtOnce; n == purgeAtOnce; {
			var err error
			if n, err = p.opts.Documents.Purge(ctx, kind, before, purgeAtOnce); err != nil {
				return err
			}
		}
	}
	return nil
}

// round publishes all batches that there are. One that fails does not keep others from it.
func (p *publisher) round(ctx context.Context) error {
	var failed []error
	p.waits, p.now = nil, make(map[string]time.Time)
	for after, more := "", true; more; {
		docs, err := p.opts.Documents.List(ctx, persist.EventKind, after, mostBatches)
		if err != nil {
			return err
		}
		byType := make(map[string][]batch)
		var order []string
		for _, doc := range docs {
			after = doc.Key
			b, err := persist.DecodeEventBatch(&doc)
			if err != nil {
				failed = append(failed, err)
				continue
			}
			if byType[b.BizType] == nil {
				order = append(order, b.BizType)
			}
			byType[b.BizType] = append(byType[b.BizType], batch{EventBatch: b, doc: doc, late: p.late(&b, doc)})
		}
		for _, bizType := range order {
			err := p.one(ctx, bizType, byType[bizType])
			if err != nil && !errors.Is(err, terms.ErrTaken) && !errors.Is(err, terms.ErrNoSession) && !errors.Is(err, terms.ErrLost) {
				failed = append(failed, fmt.Errorf("%s: %w", bizType, err))
			}
		}
		more = len(docs) == mostBatches && ctx.Err() == nil
	}
	p.since = p.now
	return errors.Join(failed...)
}

// late reports whether those before a batch are lost, with the writes that a failover or a restore has
// lost: it is as old as a page may be, and this node has led for so long that nodes have copied
// what they have to copy.
func (p *publisher) late(b *persist.EventBatch, doc persist.Document) bool {
	since, waits := p.since[doc.Key]
	if !waits || time.Since(since) < leftPause || p.opts.Now().Sub(time.UnixMilli(doc.Timestamp)) < p.opts.Keep {
		return false
	}
	p.opts.Log.Warn("events are published without those before them, which the store has lost", "bizType", b.BizType, "source", b.Source, "first", b.First, "last", b.Last())
	return true
}

// one publishes batches of one biz type. The stream is a work: a node that was paused, and whose
// session is over, writes it no more (K4).
func (p *publisher) one(ctx context.Context, bizType string, batches []batch) error {
	for more := true; more; {
		w := p.works[bizType]
		if w == nil {
			var err error
			if w, err = p.opts.Terms.Take(ctx, kind, bizType); err != nil {
				return err
			}
			if len(p.works) >= mostWorks || p.works == nil {
				p.works = make(map[string]*terms.Work)
			}
			p.works[bizType] = w
		}
		done, again, err := p.step(ctx, w, bizType, batches)
		if err != nil {
			delete(p.works, bizType) // it may be written nevertheless
			return err
		}
		more = again
		batches = rest(batches, done)
	}
	for _, b := range batches {
		since, waited := p.since[b.doc.Key]
		if !waited {
			since = time.Now()
		}
		p.now[b.doc.Key] = since
		if age := p.opts.Now().Sub(time.UnixMilli(b.doc.Timestamp)); age > missing {
			p.waits = fmt.Errorf("events %d to %d of %s wait for those before since %s", b.First, b.Last(), b.Source, age.Round(time.Second))
		}
	}
	return nil
}

// rest returns the batches that are not done.
func rest(batches []batch, done []persist.Document) (left []batch) {
	gone := make(map[string]bool, len(done))
	for _, doc := range done {
		gone[doc.Key] = true
	}
	for _, b := range batches {
		if !gone[b.doc.Key] {
			left = append(left, b)
		}
	}
	return left
}

// step makes one step of a stream: it keeps what leaves the document, writes the document, and
// deletes the batches whose events are in it, in this order. done are the documents of these. more is
// true if another step follows.
func (p *publisher) step(ctx context.Context, w *terms.Work, bizType string, batches []batch) (done []persist.Document, more bool, err error) {
	s, err := decode(bizType, w.State)
	if err != nil {
		return nil, false, err
	}
	others, err := p.others(ctx, s, bizType, batches)
	if err != nil {
		return nil, false, err
	}
	st := s.publish(batches, others, p.without)
	if p.without.Has(ruleDeleted) {
		p.delete(ctx, st.done)
	}
	if err := p.keep(ctx, w, s.Page, &st); err != nil {
		return nil, false, err
	}
	if st.changed {
		if err := w.Write(ctx, st.next.encode(), 0); err != nil {
			return nil, false, err
		}
	}
	return st.done, st.more, p.delete(ctx, st.done)
}

// others returns the number of the last event of each source that the stream does not remember.
func (p *publisher) others(ctx context.Context, s *stream, bizType string, batches []batch) (map[string]int64, error) {
	others := make(map[string]int64)
	for _, b := range batches {
		_, known := s.lastOf(b.Source)
		if _, asked := others[b.Source]; known || asked {
			continue
		}
		last, _, err := p.source(ctx, bizType, b.Source)
		if err != nil {
			return nil, err
		}
		others[b.Source] = last
	}
	return others, nil
}

// source reads the number of the last event of a source that a stream has forgotten, and the revision
// of the document that has it; 0 and 0 if there is none.
func (p *publisher) source(ctx context.Context, bizType, name string) (last, revision int64, err error) {
	doc, err := p.opts.Documents.Read(ctx, sourceKind, bizType+"/"+name)
	if errors.Is(err, persist.ErrNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	var b sourceBody
	if err := json.Unmarshal([]byte(doc.Body), &b); err != nil {
		return 0, 0, fmt.Errorf("%w: %s: %w", persist.ErrInvalid, doc.PersistID(), err)
	}
	return b.Last, doc.Revision, check(doc.PersistID(), b.Version, b.Last > 0)
}

// keep keeps what leaves the document of a stream. A node that does not own the stream any more may
// do it too: what it knows was so, the page is full, and a source never goes back.
func (p *publisher) keep(ctx context.Context, w *terms.Work, page int64, st *step) error {
	now, bizType := p.opts.Now(), w.Key()
	if st.full != nil && !p.without.Has(rulePage) {
		doc := pageDocument(bizType, page, st.full, now.UnixMilli(), now.Add(p.opts.Keep).UnixMilli())
		if err := p.keepPage(ctx, w, doc); err != nil {
			return err
		}
	}
	for _, of := range st.leave {
		if p.without.Has(ruleSource) {
			return nil
		}
		last, revision, err := p.source(ctx, bizType, of.Name)
		if err != nil {
			return err
		}
		if last >= of.Last {
			continue
		}
		doc := persist.Document{
			Kind: sourceKind, Key: bizType + "/" + of.Name, Revision: revision + 1, Body: string(text(sourceBody{version, of.Last})), Timestamp: now.UnixMilli(),
		}
		if of.Final {
			doc.Expires = now.Add(keepFinal).UnixMilli()
		}
		err = persist.Put(ctx, p.opts.Documents, doc)
		if err != nil {
			return err
		}
	}
	return nil
}

// keepPage keeps a page that is full. If there is another one, a failover has lost the events that it
// has, or a restore. Only the owner of the stream replaces it: that it owns the stream is shown by a
// write that changes nothing.
func (p *publisher) keepPage(ctx context.Context, w *terms.Work, doc persist.Document) error {
	if err := p.opts.Documents.Keep(ctx, []persist.Document{doc}); err != nil {
		return err
	}
	there, err := p.opts.Documents.Read(ctx, doc.Kind, doc.Key)
	if err != nil || there.Body == doc.Body {
		return err
	}
	if err := w.Write(ctx, w.State, 0); err != nil {
		return err
	}
	doc.Revision = there.Revision + 1
	return p.opts.Documents.Update(ctx, doc)
}

// delete deletes batches.
func (p *publisher) delete(ctx context.Context, done []persist.Document) error {
	for _, doc := range done {
		err := p.opts.Documents.Delete(ctx, doc.Kind, doc.Key, doc.Revision)
		if err != nil && !errors.Is(err, persist.ErrNotFound) {
			return err
		}
	}
	return nil
}
