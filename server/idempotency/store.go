package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// kind is that of the documents.
const kind = "answer"

// Store keeps entries as documents of the store. Whether one has ended is judged by the node that looks: where clocks differ, one may be taken over early or
// late, and the revision sees to it that only one of those who hold it counts.
type Store struct {
	documents persist.Documents
	now       func() time.Time
}

var _ Backend = (*Store)(nil)

// NewStore returns entries in a store. It touches nothing.
func NewStore(documents persist.Documents, now func() time.Time) *Store {
	return &Store{documents, now}
}

// Claim implements [Backend].
func (s *Store) Claim(ctx context.Context, id, text string, lease time.Duration) (held string, err error) {
	for attempt := range claimAttempts {
		if err := again(ctx, attempt); err != nil {
			return "", err
		}
		err := s.documents.Create(ctx, s.document(id, text, lease, 1))
		if err == nil {
			return "", nil
		}
		if !errors.Is(err, persist.ErrExists) {
			return "", refusal(err)
		}
		known, err := s.documents.Read(ctx, kind, id)
		if errors.Is(err, persist.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", refusal(err)
		}
		if known.Expires > s.now().UnixMilli() {
			return known.Body, nil
		}
		err = s.documents.Update(ctx, s.document(id, text, lease, known.Revision+1))
		switch {
		case err == nil:
			return "", nil
		case !changed(err):
			return "", refusal(err)
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
		known, err := s.documents.Read(ctx, kind, id)
		switch {
		case errors.Is(err, persist.ErrNotFound):
			err = s.documents.Create(ctx, s.document(id, text, keep, 1))
		case err == nil && known.Body != old:
			return known.Body, nil
		case err == nil:
			err = s.documents.Update(ctx, s.document(id, text, keep, known.Revision+1))
		}
		if err == nil || !changed(err) {
			return "", refusal(err)
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
		if err == nil || !changed(err) {
			return refusal(err)
		}
	}
	return errContended
}

// again pauses before every attempt but the first: a shared store may not show at once what another node has written.
func again(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return nil
	}
	timer := time.NewTimer(firstLook << attempt)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
}

func (s *Store) document(id, text string, keep time.Duration, revision int64) persist.Document {
	now := s.now()
	return persist.Document{Kind: kind, Key: id, Revision: revision, Body: text, Timestamp: now.UnixMilli(), Expires: now.Add(keep).UnixMilli()}
}

// changed reports whether somebody else changed the document meanwhile.
func changed(err error) bool {
	return errors.Is(err, persist.ErrExists) || errors.Is(err, persist.ErrConflict) || errors.Is(err, persist.ErrNotFound)
}

// refusal is what a request gets for an error of the store.
func refusal(err error) error {
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

// How Purge goes about it: documents at a time, and how long one stays beyond its end, for nodes whose clocks are behind.
const (
	purgeAtOnce = 500
	purgeGrace  = time.Minute
)

// Purge removes entries that have ended, some at a time, until there are no more or ctx ends. Requests do not depend on it: an entry that has ended counts
// as none.
func Purge(ctx context.Context, documents persist.Documents, now time.Time) (purged int, err error) {
	for {
		n, err := documents.Purge(ctx, kind, now.Add(-purgeGrace).UnixMilli(), purgeAtOnce)
		purged += n
		if err != nil || n < purgeAtOnce {
			return purged, err
		}
	}
}
