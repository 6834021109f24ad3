package idempotency_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/idempotency"
)

// TestMostBytes checks that an answer of exactly the most bytes is kept, and one more is not.
func TestMostBytes(t *testing.T) {
	const most = 1<<20 - 256 - len("t")
	w := newWorld(t)
	a := w.node()
	id := noise(most + 1)
	shown := func(n int) func(context.Context, *seqd.Call) error {
		return func(ctx context.Context, call *seqd.Call) error {
			_ = w.issue(ctx, call)
			call.Sequence.Show(func(dst []byte, _ int64, _ []byte) []byte { return append(dst, id[:n]...) })
			return nil
		}
	}
	w.refused(w.ask(t.Context(), a, "k", 1, shown(most+1)), seqd.CodeInvalidCount)
	w.wants(w.ask(t.Context(), a, "k", 1, shown(most)), string(id[:most]), false)
	w.wants(w.ask(t.Context(), a, "k", 1, w.issue), string(id[:most]), true)
}

// undroppable is a backend that removes no claim.
type undroppable struct{ idempotency.Backend }

func (undroppable) Drop(context.Context, string, string) error { return errAway }

// TestLogOfErrors checks that the log says it if answers cannot be kept or claims not be removed, and
// says nothing else.
func TestLogOfErrors(t *testing.T) {
	refuse := func(context.Context, *seqd.Call) error { return seqd.Errorf(seqd.CodeExhausted, "no more") }
	for name, test := range map[string]struct {
		wrap  func(idempotency.Backend) idempotency.Backend
		issue func(context.Context, *seqd.Call) error // nil for one that issues
		code  seqd.Code
		want  string
	}{
		"a swap that fails":    {func(b idempotency.Backend) idempotency.Backend { return &failing{Backend: b, swap: true} }, nil, errAway.Code, "are refused"},
		"a drop that fails":    {func(b idempotency.Backend) idempotency.Backend { return undroppable{b} }, refuse, seqd.CodeExhausted, "could not be removed"},
		"a drop that succeeds": {func(b idempotency.Backend) idempotency.Backend { return b }, refuse, seqd.CodeExhausted, ""},
	} {
		w, log := newWorld(t), &strings.Builder{}
		a := w.node(func(o *idempotency.Options) {
			o.Backend, o.Log = test.wrap(o.Backend), slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		if test.issue == nil {
			test.issue = w.issue
		}
		w.refused(w.ask(t.Context(), a, "k", 1, test.issue), test.code)
		if !strings.Contains(log.String(), test.want) || (test.want == "") != (log.Len() == 0) {
			t.Errorf("%s: logged %s", name, log)
		}
	}
}

// contended is documents that another node changes between every two calls.
type contended struct {
	persist.Documents
	body  string
	reads int
	write func() error // why a write fails
	err   error        // of reads
}

func (c *contended) Read(context.Context, string, string) (persist.Document, error) {
	c.reads++
	return persist.Document{Kind: "answer", Key: "k", Revision: 1, Body: c.body}, c.err
}

func (c *contended) Create(context.Context, persist.Document) error { return persist.ErrExists }
func (c *contended) Update(context.Context, persist.Document) error { return c.write() }
func (c *contended) Delete(context.Context, string, string, int64) error {
	return c.write()
}

// TestContended checks that operations on a record that keeps changing end after five attempts, or
// when the caller leaves, and at once if the store is away.
func TestContended(t *testing.T) {
	for _, code := range []seqd.Code{seqd.CodeTimeout, seqd.CodeCanceled, seqd.CodeStoreUnavailable, seqd.CodeConflict} {
		for name, do := range map[string]func(context.Context, *idempotency.Store) error{
			"claim": func(ctx context.Context, s *idempotency.Store) error {
				_, err := s.Claim(ctx, "k", another, idempotency.Lease)
				return err
			},
			"swap": func(ctx context.Context, s *idempotency.Store) error {
				_, err := s.Swap(ctx, "k", pending, finished, day)
				return err
			},
			"drop": func(ctx context.Context, s *idempotency.Store) error { return s.Drop(ctx, "k", pending) },
		} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				reads, took := 1, time.Duration(0)
				d := &contended{body: pending, write: func() error {
					switch code {
					case seqd.CodeCanceled:
						cancel()
					case seqd.CodeStoreUnavailable:
						return persist.ErrUnavailable
					case seqd.CodeConflict:
						return persist.ErrNewer
					}
					return persist.ErrConflict
				}}
				if code == seqd.CodeTimeout {
					reads, took = 5, 60*time.Millisecond
				}
				began := time.Now()
				err := do(ctx, idempotency.NewStore(d, rightClock(time.Now)))
				if seqd.CodeOf(err) != code || d.reads != reads || time.Since(began) != took {
					t.Errorf("%s: %v after %d attempts and %v, want %s after %d and %v", name, err, d.reads, time.Since(began), code, reads, took)
				}
			})
		}
	}
}

// A claim is tried again if its rival is gone when it looks, and not if it cannot look.
func TestClaimOfAnother(t *testing.T) {
	for err, reads := range map[error]int{persist.ErrNotFound: 5, persist.ErrUnavailable: 1} {
		d := &contended{err: err}
		_, got := idempotency.NewStore(d, rightClock(time.Now)).Claim(t.Context(), "k", another, idempotency.Lease)
		must.Code(t, got, map[int]seqd.Code{5: seqd.CodeTimeout, 1: seqd.CodeStoreUnavailable}[reads])
		must.Equal(t, d.reads, reads, "%v: the attempts", err)
	}
}

// unpurgeable is documents that fail to purge all.
type unpurgeable struct{ persist.Documents }

func (unpurgeable) Purge(context.Context, string, int64, int) (int, error) { return 3, errAway }

// TestPurgeFails checks that the error of a purge is returned, with what was removed.
func TestPurgeFails(t *testing.T) {
	if n, err := idempotency.NewStore(unpurgeable{memory.New(time.Now).Documents()}, rightClock(time.Now)).Purge(t.Context()); n != 3 || err == nil {
		t.Errorf("purged %d, %v", n, err)
	}
}

// seenTwice is a backend that finds the claim or the answer that it has just made, as after a lost
// reply.
type seenTwice struct{ idempotency.Backend }

func (s seenTwice) Claim(ctx context.Context, id, text string, lease time.Duration) (string, error) {
	if held, err := s.Backend.Claim(ctx, id, text, lease); held != "" || err != nil {
		return held, err
	}
	return s.Backend.Claim(ctx, id, text, lease)
}

func (s seenTwice) Swap(ctx context.Context, id, old, text string, keep time.Duration) (string, error) {
	if held, err := s.Backend.Swap(ctx, id, old, text, keep); held != "" || err != nil {
		return held, err
	}
	return s.Backend.Swap(ctx, id, old, text, keep)
}

// TestOwnClaim checks that a request that finds its own claim issues at once, and that its own answer
// is no replay.
func TestOwnClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.node(func(o *idempotency.Options) { o.Backend = seenTwice{o.Backend} })
		began := time.Now()
		w.wants(w.ask(t.Context(), a, "k", 1, w.issue), "1", false)
		must.Equal(t, time.Since(began), 0, "how long it waited for itself")
	})
}
