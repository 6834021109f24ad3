package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
)

// kind is the kind of the documents.
const kind = persist.KeptAnswerKind

// Store is a [Backend] in documents of the store. An answer is returned until it is purged,
// whatever the clocks say. Only a claim is taken over, when it has ended by the store's clock. If
// that happens too early, the revision of the document decides which claim is valid.
type Store struct {
	documents persist.Documents
	clock     *storeclock.Clock
}

var _ Backend = (*Store)(nil)

// NewStore returns a backend in documents. It touches nothing.
func NewStore(documents persist.Documents, clock *storeclock.Clock) *Store {
	return &Store{documents, clock}
}

// Claim implements [Backend].
func (s *Store) Claim(ctx context.Context, id, text string, lease time.Duration) (held string, err error) {
	for attempt := range claimAttempts {
		if err := again(ctx, attempt); err != nil {
			return "", err
		}
		now, err := s.clock.Times(ctx)
		if err != nil {
			return "", requestError(err)
		}
		err = s.documents.Create(ctx, claimed(id, text, lease, 1, now))
		if !errors.Is(err, persist.ErrExists) {
			return "", requestError(err)
		}
		known, err := s.documents.Read(ctx, kind, id)
		if errors.Is(err, persist.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", requestError(err)
		}
		if !ended(known, now) {
			return known.Body, nil
		}
		err = s.documents.Update(ctx, claimed(id, text, lease, known.Revision+1, now))
		if !changed(err) {
			return "", requestError(err)
		}
	}
	return "", errContended
}

// Swap implements [Backend].
func (s *Store) Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error) {
	for attempt := range claimAttempts {
		if err := again(ctx, attempt); err != nil {
			return "", err
		}
		now, err := s.clock.Times(ctx)
		if err != nil {
			return "", requestError(err)
		}
		kept := answered
		if text == old {
			kept = claimed
		}
		known, err := s.documents.Read(ctx, kind, id)
		switch {
		case errors.Is(err, persist.ErrNotFound):
			return "", errEnded
		case err == nil && known.Body != old:
			return known.Body, nil
		case err == nil:
			err = s.documents.Update(ctx, kept(id, text, keep, known.Revision+1, now))
		}
		if !changed(err) {
			return "", requestError(err)
		}
	}
	return "", errContended
}

// Drop implements [Backend].
func (s *Store) Drop(ctx context.Context, id, old string) error {
	for attempt := range claimAttempts {
		if err := again(ctx, attempt); err != nil {
			return err
		}
		known, err := s.documents.Read(ctx, kind, id)
		if errors.Is(err, persist.ErrNotFound) || err == nil && known.Body != old {
			return nil
		}
		if err == nil {
			err = s.documents.Delete(ctx, kind, id, known.Revision)
		}
		if !changed(err) {
			return requestError(err)
		}
	}
	return errContended
}

// again pauses before every attempt except the first. A shared store may need a moment to show what
// another node wrote.
func again(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return nil
	}
	select {
	case <-time.After(firstLook << attempt):
		return nil
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
}

// claimed returns the document of a claim.
func claimed(id, text string, lease time.Duration, revision int64, now storeclock.Times) persist.Document {
	return persist.Document{Kind: kind, Key: id, Revision: revision, Body: text, Timestamp: now.Store, Expires: now.Store + lease.Milliseconds()}
}

// answered returns the document of an answer.
func answered(id, text string, keep time.Duration, revision int64, now storeclock.Times) persist.Document {
	return persist.Document{Kind: kind, Key: id, Revision: revision, Body: text, Timestamp: now.Store, Expires: now.Latest + keep.Milliseconds()}
}

// mostEarly is how far in the future a claim may begin. If it begins later, the clock of its node
// was wrong, and the claim counts as ended: its owner may be dead, and others would wait for too
// long.
const mostEarly = time.Minute

// ended reports whether a document is a claim that may be taken over.
func ended(known persist.Document, now storeclock.Times) bool {
	if e, err := parse(known.Body); err != nil || e.done {
		return false
	}
	return known.Expires <= now.Store || known.Timestamp > now.Store+mostEarly.Milliseconds()
}

// changed reports whether somebody else changed the document meanwhile.
func changed(err error) bool {
	return persist.Overtaken(err) || errors.Is(err, persist.ErrNotFound)
}

// requestError returns what a request gets for an error of the store.
func requestError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return seqd.AsError(err)
	case errors.Is(err, persist.ErrNewer):
		return &seqd.Error{Code: seqd.CodeConflict, Detail: errNewer.Detail, Err: err}
	}
	return &seqd.Error{
		Code: seqd.CodeStoreUnavailable, Detail: "the store, where the answers to requests with an Idempotency-Key are kept, cannot be used now", RetryAfter: time.Second, Err: err,
	}
}

// How Purge works: the number of documents read at a time, and how long a document stays after its
// end, because clocks differ a little.
const (
	purgeAtOnce = 500
	purgeGrace  = time.Minute
)

// Purge removes records that have ended, until there are no more or ctx ends. An answer is valid
// until it is removed.
func (s *Store) Purge(ctx context.Context) (purged int, err error) {
	before, ok, err := s.clock.Past(ctx, s.documents)
	if !ok {
		return 0, err
	}
	for {
		n, err := s.documents.Purge(ctx, kind, before-purgeGrace.Milliseconds(), purgeAtOnce)
		purged += n
		if err != nil || n < purgeAtOnce {
			return purged, err
		}
	}
}
