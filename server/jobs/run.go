package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/brake"
	"github.com/seqd/seqd/server/terms"
)

const (
	// pause is between two looks for what is due.
	pause = 2 * time.Second
	// mostDue is how many jobs one look sees.
	mostDue = 100
	// chunkPatience bounds the issuing of a chunk, and storePatience everything else.
	chunkPatience = time.Minute
	storePatience = 5 * time.Second
	// The document of the permits.
	permitKind = "permit"
	permitKey  = "jobs"
)

// look lets this node look for what is due soon.
func (s *Jobs) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run runs jobs until ctx ends, and returns when all have stopped.
func (s *Jobs) Run(ctx context.Context) {
	defer s.running.Wait()
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		death := s.opts.Terms.Death()
		if err := s.round(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.Debug("the jobs that are due cannot be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.wake:
		case <-death: // its jobs are free now
		}
	}
}

// round begins the jobs that are due, in their order (J2), and removes those that have expired.
func (s *Jobs) round(running context.Context) error {
	ctx, cancel := context.WithTimeout(running, storePatience)
	defer cancel()
	now := s.opts.Now().UnixMilli()
	all, err := s.due(ctx, now, mostDue)
	if err != nil {
		return err
	}
	var left room
	past, stay := now, false // stay: some documents will still be due
	if s.opts.Past != nil && slices.ContainsFunc(all, found.over) {
		before, ok, err := s.opts.Past(ctx)
		if past = before; !ok || err != nil {
			past, stay = 0, true
		}
	}
	if slices.ContainsFunc(all, found.repeats) {
		if left, err = s.room(ctx); err != nil {
			return err
		}
		stay = stay || slices.ContainsFunc(all, func(f found) bool { return f.repeats() && left.refuses(f.job.Owner) != nil })
	}
	if stay {
		if all, err = s.due(ctx, now, mostDue+s.opts.Most); err != nil { // what stays hides no job
			return err
		}
	}
	if sabotage.Off(sabotage.JobOrder) {
		slices.Reverse(all)
	}
	free, waiting := s.opts.AtOnce > 0, int64(0)
	for _, f := range all {
		doc, j, failed := f.doc, f.job, f.err
		if failed == nil && j.State == queued {
			waiting++
		}
		switch {
		case errors.Is(failed, errRemoved):
			if s.opts.Terms.Leading() && doc.Expires <= past {
				err = errors.Join(err, s.deleteRemains(ctx, doc))
			}
		case failed != nil:
			s.opts.Log.Debug("a job cannot be read", "error", failed)
		case j.Untold:
			err = errors.Join(err, s.tell(ctx, doc.Key, j))
		case j.ended():
			if s.opts.Terms.Leading() && doc.Expires <= past {
				err = errors.Join(err, s.delete(ctx, doc, j))
			}
		case s.opts.Draining():
		case j.Every != "" && !j.Cancel:
			err = errors.Join(err, s.repeat(ctx, doc, j, left.refuses(j.Owner) == nil))
			left.take(j.Owner)
		case free || j.Cancel:
			more, failed := s.begin(ctx, running, doc.Key, f.owner, j.Cancel)
			free = free && more
			err = errors.Join(err, failed)
		}
	}
	s.note(func(f *Figures) { f.Waiting = waiting })
	return err
}

// found is a document that is due, and the job in it, or why there is none.
type found struct {
	doc   persist.Document
	job   *job
	owner terms.Owner
	err   error
}

// due returns so many documents that are due, the earliest first.
func (s *Jobs) due(ctx context.Context, now int64, most int) ([]found, error) {
	docs, err := s.opts.Documents.Due(ctx, kind, now+1, most)
	all := make([]found, len(docs))
	for i, doc := range docs {
		j, owner, failed := jobIn(doc)
		all[i] = found{doc, j, owner, failed}
	}
	return all, err
}

// over reports whether a document has nothing left but to be removed.
func (f found) over() bool {
	return errors.Is(f.err, errRemoved) || f.err == nil && f.job.ended()
}

// repeats reports whether a document is a schedule that has not ended.
func (f found) repeats() bool { return f.err == nil && f.job.Every != "" && !f.job.ended() }

// begin begins a job if nobody runs it, which ends with all. more is false if no further job may
// begin (J4). One that only has to end needs no permit: all may be held for long, or no node may
// give any.
func (s *Jobs) begin(ctx, all context.Context, id string, owner terms.Owner, ends bool) (more bool, err error) {
	if s.isHere(id) {
		return true, nil
	}
	key, working, ok := s.opts.Terms.Session()
	if !ok {
		return false, nil
	}
	if owner.Session != key {
		if gone, err := s.opts.Terms.Gone(ctx, owner.Session); !gone || err != nil {
			return err == nil, err
		}
	}
	var permit *terms.Permit
	if !ends {
		permit, err = s.opts.Terms.Acquire(ctx, permitKind, permitKey, id, s.opts.AtOnce, s.isHere)
	}
	if errors.Is(err, terms.ErrNoPermit) || errors.Is(err, terms.ErrNoSession) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.here[id] = true
	s.mu.Unlock()
	run, cancel := context.WithCancel(all)
	s.running.Go(func() {
		defer cancel()
		defer context.AfterFunc(working, cancel)()
		ended := s.work(run, id)
		s.leave(all, id, permit)
		if ended { // otherwise the next round is soon enough
			s.look()
		}
	})
	return true, nil
}

// isHere reports whether this node does a job, and uses its permit.
func (s *Jobs) isHere(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.here[id]
}

// leave gives the permit of a job back, if it has one. It tries that until all ends: the permit would
// be held for as long as the session lives.
func (s *Jobs) leave(all context.Context, id string, permit *terms.Permit) {
	for permit != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(all), storePatience)
		err := permit.Free(ctx)
		cancel()
		if err == nil || all.Err() != nil {
			break
		}
		s.opts.Log.Debug("the permit of a job cannot be given back", "job", id, "error", err)
		sleep(all, pause)
	}
	s.mu.Lock()
	delete(s.here, id)
	s.mu.Unlock()
}

// work does a job as long as this node owns it, and reports whether it ended.
func (s *Jobs) work(ctx context.Context, id string) (ended bool) {
	var last block
	b := brake.New(s.opts.Served)
	for again := true; again && ctx.Err() == nil; {
		w, err := s.opts.Terms.Take(ctx, kind, id)
		switch {
		case err != nil:
			s.opts.Log.Debug("a job cannot be taken", "job", id, "error", err)
			return false
		case w.State == nil: // it was removed, and taking it has made it anew
			_ = s.opts.Documents.Delete(ctx, kind, id, 1)
			return false
		}
		if ended, again, err = s.drive(ctx, id, w, &last, b); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("a job stopped; it continues on this node or another one", "job", id, "error", err)
		}
	}
	return ended
}

// drive does what comes next until the job ends, or must be taken again. It decides from what is in
// the store, and what it has issued counts only once that is written (J1): last is nothing once it
// was to be written, whatever became of that.
func (s *Jobs) drive(ctx context.Context, id string, w *terms.Work, last *block, b *brake.Brake) (ended, again bool, err error) {
	for {
		j, err := decode(id, w.State)
		if err != nil {
			return false, false, err
		}
		due := j.due(s.opts.ResultTTL)
		if ctx.Err() != nil || s.opts.Draining() && !j.ended() {
			return false, false, s.write(ctx, w.Release, j, due)
		}
		pages, over, was := len(j.Pages), j.ended(), j.Done
		full, wait, elsewhere := s.step(ctx, id, j, last, b)
		if full != nil {
			if err := s.opts.Documents.Keep(ctx, pagesOf(j.under(id), pages, full)); err != nil {
				return false, false, err
			}
		}
		switch {
		case j.ended():
			err = s.write(ctx, w.Release, j, j.due(s.opts.ResultTTL))
		case !bytes.Equal(j.encode(), w.State):
			err = s.write(ctx, w.Write, j, due)
		}
		if err == nil || !sabotage.Off(sabotage.JobCounted) {
			*last = block{}
		}
		switch {
		case errors.Is(err, terms.ErrLost): // such as because it is to be cancelled
			return false, true, nil
		case err != nil:
			return false, !errors.Is(err, terms.ErrNoSession), err
		}
		s.note(func(f *Figures) {
			f.Numbers += j.Done - was
			if j.ended() && !over {
				*map[string]*int64{done: &f.Done, failed: &f.Failed, cancelled: &f.Cancelled}[j.State]++
			}
		})
		if j.ended() && !over {
			s.opts.Log.Info("a job ended", "job", id, "bizType", j.BizType, "state", j.State, "numbers", j.Done)
		}
		if j.ended() {
			return true, false, nil
		}
		if elsewhere {
			return false, false, s.write(ctx, w.Release, j, due)
		}
		sleep(ctx, wait)
	}
}

// write writes a job, also if ctx has ended.
func (s *Jobs) write(ctx context.Context, write func(context.Context, json.RawMessage, int64) error, j *job, due int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	return write(ctx, j.encode(), due)
}

// step does what comes next for a job. last is the block that it has issued. elsewhere is true if
// another node may be able to go on, and this one is not now.
func (s *Jobs) step(ctx context.Context, id string, j *job, last *block, b *brake.Brake) (full []pageBody, wait time.Duration, elsewhere bool) {
	now := s.opts.Now()
	ctx, cancel := context.WithTimeout(ctx, chunkPatience)
	defer cancel()
	var err error
	switch j.act() {
	case begin:
		var display string
		var ledger bool
		if display, ledger, err = s.opts.Issuer.Display(ctx, j.BizType, j.Key); err == nil && display == "" {
			err = seqd.Errorf(seqd.CodeStarting, "the node cannot say how %s shows its numbers", j.BizType)
		}
		if err == nil {
			j.begun(display, ledger, now)
		}
	case issue:
		if last.Runs != nil {
			return j.issued(*last, now), 0, false
		}
		call := &seqd.Call{
			BizType: j.BizType, Count: j.next(), Key: j.Key, Once: j.once(id), AnswerKept: true, Made: now.Truncate(time.Second), Display: j.Display,
			Caller: seqd.Caller{Name: seqd.OwnerName(j.Owner), Owner: j.Owner, RequestID: "job-" + id},
		}
		call.Sequence.Pace(b.Yield)
		if err = s.opts.Issuer.Issue(ctx, call); err == nil {
			*last = blockOf(&call.Sequence, j.Format, call.Made)
			full = j.issued(*last, s.opts.Now())
		}
	case end:
		tells, failed := s.tells(ctx, j.BizType)
		if failed != nil {
			s.opts.Log.Debug("a job cannot end: the store does not say if its biz type has events", "job", id, "error", failed)
			return nil, 0, true
		}
		full = j.end(now, s.opts.ResultTTL, tells)
	case nothing:
	}
	if err != nil {
		e := seqd.AsError(err)
		wait, elsewhere = j.refused(e), isOfNode(e)
	}
	return full, wait, elsewhere
}

func sleep(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
