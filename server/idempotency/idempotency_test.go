package idempotency_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/idempotency"
)

// world is a backend shared by nodes.
type world struct {
	*testing.T
	backend idempotency.Backend
	next    atomic.Int64
}

func newWorld(t *testing.T) *world {
	return &world{T: t, backend: idempotency.NewStore(memory.New(time.Now).Documents(), rightClock(time.Now))}
}

// node returns the answers of a node.
func (w *world) node(change ...func(*idempotency.Options)) *idempotency.Answers {
	o := idempotency.Options{Backend: w.backend, Cluster: "c", TTL: time.Hour, Wait: 6 * time.Second, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	return idempotency.New(o)
}

// issue issues the next numbers.
func (w *world) issue(_ context.Context, call *seqd.Call) error {
	call.Sequence.Reset()
	call.Sequence.Add(w.next.Add(int64(call.Count))-int64(call.Count)+1, call.Count, 1)
	return nil
}

// slowly returns an issue function that takes a while.
func (w *world) slowly(d time.Duration) func(context.Context, *seqd.Call) error {
	return func(ctx context.Context, call *seqd.Call) error {
		time.Sleep(d)
		return w.issue(ctx, call)
	}
}

// damaged is a backend whose records cannot be read.
type damaged struct{ idempotency.Backend }

func (damaged) Claim(context.Context, string, string, time.Duration) (string, error) { return "?", nil }

// Callers who ask again and again for an answer that cannot be read leave few lines.
func TestFewLinesOfDamagedAnswers(t *testing.T) {
	var log testlog.Text
	w := newWorld(t)
	a := w.node(func(o *idempotency.Options) { o.Backend, o.Log = damaged{}, slog.New(slog.NewTextHandler(&log, nil)) })
	for range 400 {
		if r := w.ask(t.Context(), a, "k", 1, w.issue); r.err == nil {
			t.Fatalf("answered %+v", r)
		}
	}
	if n := log.Count("request failed"); n < 100 || n > 250 { // one a second after the first 100
		t.Errorf("%d lines", n)
	}
}

type result struct {
	ids      string
	replayed bool
	err      error
}

// ask asks for count IDs of the biz type order as the caller shop.
func (w *world) ask(ctx context.Context, a *idempotency.Answers, key string, count int, issue func(context.Context, *seqd.Call) error) result {
	call := &seqd.Call{BizType: "order", Count: count, Caller: seqd.Caller{Name: "shop"}}
	call.Sequence.Add(999, 1, 1) // of the request before: callers use their calls again
	return once(ctx, a, key, call, issue)
}

func once(ctx context.Context, a *idempotency.Answers, key string, call *seqd.Call, issue func(context.Context, *seqd.Call) error) result {
	replayed, err := a.Once(ctx, key, call, issue)
	if replayed != "" && call.Sequence.Len() > 0 {
		err = errors.New("replayed and issued")
	}
	return result{cmp.Or(replayed, strings.Join(call.Sequence.IDs(), "\n")), replayed != "", err}
}

func (w *world) wants(got result, ids string, replayed bool) {
	w.Helper()
	if got != (result{ids, replayed, nil}) {
		w.Errorf("got %.80q, replayed %v, %v; want %.80q, replayed %v", got.ids, got.replayed, got.err, ids, replayed)
	}
}

func (w *world) refused(got result, code seqd.Code) {
	w.Helper()
	if seqd.CodeOf(got.err) != code || got.ids != "" {
		w.Errorf("got %.80q, replayed %v, %v; want %s", got.ids, got.replayed, got.err, code)
	}
}

// quota notes for whom something is kept.
type quota []string

func (q *quota) Admit(owner string) error { return errors.New("too much of " + owner) }
func (q *quota) Kept(owner string, bytes int, life time.Duration) {
	*q = append(*q, fmt.Sprintf("%s %t %s", owner, bytes > 9, life))
}

// Each answer that is kept here counts once.
func TestQuota(t *testing.T) {
	w, q, ctx := newWorld(t), new(quota), t.Context()
	a := w.node(func(o *idempotency.Options) { o.Quota = q })
	w.wants(w.ask(ctx, a, "k", 1, w.issue), "1", false)
	w.wants(w.ask(ctx, a, "k", 1, w.issue), "1", true)
	w.ask(ctx, a, "e", 1, func(ctx context.Context, call *seqd.Call) error {
		call.AnswerKept = false
		return w.issue(ctx, call)
	})
	if want := (quota{"shop true 1h0m0s"}); !slices.Equal(*q, want) {
		t.Errorf("kept is %q, want %q", *q, want)
	}
	call := seqd.Call{Caller: seqd.Caller{Name: "shop"}}
	if a.Admit(&call); call.NoAnswer == nil || call.NoAnswer.Error() != "too much of shop" {
		t.Errorf("%v", call.NoAnswer)
	}
	if w.node().Admit(&call); call.NoAnswer != nil {
		t.Errorf("without a quota: %v", call.NoAnswer)
	}
}

// An answer that the strategy has kept is kept there only, and the claim ends.
func TestKeptElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, ctx, began := w.node(), t.Context(), time.Now()
		elsewhere := func(ctx context.Context, call *seqd.Call) error {
			call.AnswerKept = false
			return w.issue(ctx, call)
		}
		w.wants(w.ask(ctx, a, "k", 1, elsewhere), "1", false)
		w.wants(w.ask(ctx, a, "k", 1, w.issue), "2", false)
		w.wants(w.ask(ctx, a, "k", 1, elsewhere), "2", true)
		if took := time.Since(began); took > 0 {
			t.Errorf("the second waited %s for the claim of the first", took)
		}
	})
}

func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, ctx := w.node(), w.node(), t.Context()
		w.wants(w.ask(ctx, a, "k", 1, w.issue), "1", false)
		w.wants(w.ask(ctx, a, "k", 1, w.issue), "1", true)
		w.wants(w.ask(ctx, b, "k", 1, w.issue), "1", true)
		w.wants(w.ask(ctx, b, "K", 3, w.issue), "2\n3\n4", false)
		w.wants(w.ask(ctx, a, "K", 3, w.issue), "2\n3\n4", true)
		time.Sleep(time.Hour - time.Second)
		w.wants(w.ask(ctx, a, "k", 1, w.issue), "1", true)
		time.Sleep(2 * time.Minute)
		w.wants(w.ask(ctx, a, "k", 1, w.issue), "1", true) // still kept
		must.Equal(t, purge(t, w.backend.(purger)), 2, "how many were removed")
		w.wants(w.ask(ctx, a, "k", 1, w.issue), "5", false)
	})
}

func TestScope(t *testing.T) {
	w := newWorld(t)
	seen := make(map[string]bool)
	for _, s := range []struct{ cluster, bizType, caller, key string }{
		{"c", "order", "", "k"}, {"d", "order", "", "k"}, {"c", "orders", "", "k"}, {"c", "order", "s", "k"}, {"c", "order", "", "sk"}, {"c", "order", "sk", ""}, {"c", "o", "rder", "k"},
	} {
		a := w.node(func(o *idempotency.Options) { o.Cluster = s.cluster })
		got := once(t.Context(), a, s.key, &seqd.Call{BizType: s.bizType, Count: 1, Caller: seqd.Caller{Name: s.caller}}, w.issue)
		if got.err != nil || got.replayed || seen[got.ids] {
			t.Errorf("%+v: %+v", s, got)
		}
		seen[got.ids] = true
	}
}

func TestReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, ctx := w.node(), w.node(), t.Context()
		go w.ask(ctx, a, "k", 1, w.slowly(time.Second))
		synctest.Wait()
		w.refused(w.ask(ctx, b, "k", 2, w.issue), seqd.CodeIdempotencyKeyReused) // in progress
		time.Sleep(2 * time.Second)
		w.refused(w.ask(ctx, b, "k", 2, w.issue), seqd.CodeIdempotencyKeyReused)
		w.wants(w.ask(ctx, b, "k", 1, w.issue), "1", true)
	})
}

// TestUnderWay checks that a second request waits for the first, at most for the configured time,
// and longer than a lease while the first one's node lives.
func TestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, ctx := w.node(), w.node(), t.Context()
		first := make(chan result)
		go func() { first <- w.ask(ctx, a, "k", 1, w.slowly(30*time.Second)) }()
		synctest.Wait()
		began := time.Now()
		w.refused(w.ask(ctx, b, "k", 1, w.issue), seqd.CodeTimeout)
		must.Equal(t, time.Since(began), 6*time.Second, "waited")
		impatient, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		w.refused(w.ask(impatient, b, "k", 1, w.issue), seqd.CodeTimeout)
		time.Sleep(20 * time.Second)
		w.wants(w.ask(ctx, b, "k", 1, w.issue), "1", true)
		w.wants(<-first, "1", false)
		must.Equal(t, w.next.Load(), 1, "the numbers issued")
	})
}

// TestNotRemembered checks that a refusal, a panic and an answer that is too large are not kept.
func TestNotRemembered(t *testing.T) {
	w := newWorld(t)
	a, ctx := w.node(), t.Context()
	refusal := seqd.Errorf(seqd.CodeExhausted, "no more")
	w.refused(w.ask(ctx, a, "k", 1, func(_ context.Context, call *seqd.Call) error {
		call.Sequence.Add(1, 1, 1) // which the caller must not see
		return refusal
	}), seqd.CodeExhausted)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		w.ask(ctx, a, "k", 1, func(context.Context, *seqd.Call) error { panic("x") })
	}()
	w.refused(w.ask(ctx, a, "k", 10_000, func(ctx context.Context, call *seqd.Call) error {
		_ = w.issue(ctx, call)
		call.Sequence.Show(func(dst []byte, _ int64, _ []byte) []byte { return append(dst, noise(200)...) })
		return nil
	}), seqd.CodeInvalidCount)
	w.wants(w.ask(ctx, a, "k", 1, w.issue), "10001", false)
}

// noise returns n bytes that do not get shorter when they are deflated and then written in base64.
func noise(n int) []byte {
	line := make([]byte, n)
	for i := range line {
		line[i] = byte('!' + rand.IntN('~'-'!'+1))
	}
	return line
}

// sizes is a backend that notes what was kept last, and its size.
type sizes struct {
	idempotency.Backend
	text string
	last int
}

func (s *sizes) Swap(ctx context.Context, id, old, text string, keep time.Duration) (string, error) {
	s.text, s.last = text, len(text)
	return s.Backend.Swap(ctx, id, old, text, keep)
}

// TestForms checks that ten thousand IDs fit, whatever characters they contain, that they are given
// back byte for byte, and that the numbers are kept, not what is the same in all IDs.
func TestForms(t *testing.T) {
	long := strings.Repeat("x", 90)
	for name, test := range map[string]struct {
		show func(dst []byte, number int64, shown []byte) []byte
		most int // bytes that are kept
	}{
		"plain":    {nil, 100},
		"before":   {func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, long...), shown...) }, 200},
		"after":    {func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, shown...), long...) }, 200},
		"padded":   {func(dst []byte, n int64, _ []byte) []byte { return fmt.Appendf(dst, "№ %010d-%s", n, long) }, 200},
		"zeros":    {func(dst []byte, n int64, _ []byte) []byte { return fmt.Appendf(dst, "00%d0", n) }, 120_000},
		"twice":    {func(dst []byte, n int64, _ []byte) []byte { return fmt.Appendf(dst, "%s%d-%d", long, n, n) }, 200_000},
		"other":    {func(dst []byte, n int64, _ []byte) []byte { return fmt.Appendf(dst, "%s%x", long, n*1_000_003) }, 200_000},
		"no UTF-8": {func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, '\xff'), shown...) }, 100_000},
	} {
		w := newWorld(t)
		kept := &sizes{Backend: w.backend}
		w.backend = kept
		a := w.node()
		var want string
		got := w.ask(t.Context(), a, name, 10_000, func(ctx context.Context, call *seqd.Call) error {
			_ = w.issue(ctx, call)
			if test.show != nil {
				call.Sequence.Show(test.show)
			}
			want = strings.Join(call.Sequence.IDs(), "\n")
			return nil
		})
		w.wants(got, want, false)
		w.wants(w.ask(t.Context(), a, name, 10_000, w.issue), want, true)
		// The first version of the format has not all forms.
		if form := strings.SplitN(kept.text, " ", 5)[4][0]; strings.HasPrefix(kept.text, "2 ") != (form == 'f' || form == 'z') {
			t.Errorf("%s: %.20q", name, kept.text)
		}
		if kept.last > test.most {
			t.Errorf("%s: %d bytes are kept of %d, want at most %d", name, kept.last, len(want), test.most)
		}
	}
	w := newWorld(t)
	for _, test := range []struct {
		count, size int
		show        string // after size times x
		form        byte
	}{
		{1, 128, "", 't'}, {1, 129, "", 'z'}, // few bytes are not worth deflating
		{2, 10, "%d", 't'}, {2, 11, "%d", 'f'}, // nor are numbers worth another form that takes no less
	} {
		kept := &sizes{Backend: w.backend}
		a := newWorld(t).node(func(o *idempotency.Options) { o.Backend = kept })
		w.ask(t.Context(), a, fmt.Sprint(test), test.count, func(_ context.Context, call *seqd.Call) error {
			call.Sequence.Reset()
			call.Sequence.Add(5, test.count, 1)
			call.Sequence.Show(func(dst []byte, n int64, _ []byte) []byte {
				if dst = append(dst, strings.Repeat("x", test.size)...); test.show != "" {
					dst = fmt.Appendf(dst, test.show, n)
				}
				return dst
			})
			return nil
		})
		must.Equal(t, strings.SplitN(kept.text, " ", 5)[4][0], test.form, "%+v: the form of %s", test, kept.text)
	}
	// What earlier versions kept is read.
	for text, want := range map[string]string{"1 d x 2 tA-1\nA-2": "A-1\nA-2", "1 d x 2 b/zEK/zI=": "\xff1\n\xff2", "1 d x 2 n7:1:2": "7\n8"} {
		a := w.node(func(o *idempotency.Options) { o.Backend = holding{text} })
		w.wants(w.ask(t.Context(), a, "k", 2, w.issue), want, true)
	}
}

// TestRuns uses numbers with gaps, such as those of snowflake.
func TestRuns(t *testing.T) {
	w := newWorld(t)
	a := w.node()
	const want = "5\n1029\n2053\n9223372036854775807\n7"
	w.wants(w.ask(t.Context(), a, "k", 5, func(_ context.Context, call *seqd.Call) error {
		call.Sequence.Add(5, 3, 1024)
		call.Sequence.Add(1<<63-1, 1, 0)
		call.Sequence.Add(7, 1, -1)
		return nil
	}), want, false)
	w.wants(w.ask(t.Context(), a, "k", 5, w.issue), want, true)
}

// TestCallerGone checks that numbers are kept if the caller leaves while they are being issued.
func TestCallerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.node()
		ctx, cancel := context.WithCancel(t.Context())
		w.wants(w.ask(ctx, a, "k", 1, func(ctx context.Context, call *seqd.Call) error { cancel(); return w.issue(ctx, call) }), "1", false)
		w.wants(w.ask(t.Context(), a, "k", 1, w.issue), "1", true)
		w.refused(w.ask(ctx, a, "l", 1, w.issue), seqd.CodeCanceled)
		ctx, cancel = context.WithCancel(t.Context())
		w.refused(w.ask(ctx, w.node(func(o *idempotency.Options) { o.Backend = unheard{w.backend, cancel} }), "m", 1, w.issue), seqd.CodeCanceled)
		began := time.Now()
		w.wants(w.ask(t.Context(), a, "l", 1, w.issue), "2", false)
		w.wants(w.ask(t.Context(), a, "m", 1, w.issue), "3", false)
		must.Equal(t, time.Since(began), 0, "how long it waited for a caller who has gone")
	})
}

// unheard is a backend whose claims are made after the caller has gone.
type unheard struct {
	idempotency.Backend
	gone func()
}

func (u unheard) Claim(ctx context.Context, id, text string, lease time.Duration) (string, error) {
	u.gone()
	_, err := u.Backend.Claim(context.WithoutCancel(ctx), id, text, lease)
	return "", errors.Join(err, ctx.Err())
}

// frozen is a backend as seen by a paused node: operations block until it is thawed.
type frozen struct {
	idempotency.Backend
	thawed chan struct{} // nil while it runs
}

func (f *frozen) Swap(ctx context.Context, id, old, text string, keep time.Duration) (string, error) {
	if f.thawed != nil {
		<-f.thawed
	}
	return f.Backend.Swap(ctx, id, old, text, keep)
}

// TestPausedOwner pauses the owner of a claim while it issues. Another node takes over when the
// lease ends. The owner answers what the other node issued, or an error.
func TestPausedOwner(t *testing.T) {
	for name, taking := range map[string]time.Duration{"the other is done": 0, "the other is at it": 2 * time.Second, "the other takes long": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				paused := &frozen{Backend: w.backend, thawed: make(chan struct{})}
				a, b, ctx := w.node(func(o *idempotency.Options) { o.Backend = paused }), w.node(), t.Context()
				first, second := make(chan result), make(chan result)
				go func() { first <- w.ask(ctx, a, "k", 1, w.issue) }()
				synctest.Wait() // it has issued 1 and cannot keep it
				go func() { second <- w.ask(ctx, b, "k", 1, w.slowly(taking)) }()
				time.Sleep(idempotency.Lease + time.Second)
				close(paused.thawed)
				if taking < 6*time.Second {
					w.wants(<-first, "2", true)
				} else {
					w.refused(<-first, seqd.CodeTimeout)
				}
				w.wants(<-second, "2", false)
				w.wants(w.ask(ctx, a, "k", 1, w.issue), "2", true)
			})
		})
	}
}

// TestPausedAlone pauses the owner beyond its lease while nobody else asks. Its numbers are valid.
func TestPausedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		paused := &frozen{Backend: w.backend, thawed: make(chan struct{})}
		a := w.node(func(o *idempotency.Options) { o.Backend = paused })
		first := make(chan result)
		go func() { first <- w.ask(t.Context(), a, "k", 1, w.issue) }()
		time.Sleep(time.Minute)
		close(paused.thawed)
		w.wants(<-first, "1", false)
		w.wants(w.ask(t.Context(), w.node(), "k", 1, w.issue), "1", true)
	})
}

// failing is a backend whose operations fail before or after they are done.
type failing struct {
	idempotency.Backend
	claim, swap bool
	after       bool
}

var errAway = &seqd.Error{Code: seqd.CodeRedisUnavailable, Detail: "away"}

func (f *failing) Claim(ctx context.Context, id, text string, lease time.Duration) (held string, err error) {
	if !f.claim {
		return f.Backend.Claim(ctx, id, text, lease)
	}
	if f.after {
		_, _ = f.Backend.Claim(ctx, id, text, lease)
	}
	return "", errAway
}

func (f *failing) Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error) {
	if !f.swap {
		return f.Backend.Swap(ctx, id, old, text, keep)
	}
	if f.after {
		_, _ = f.Backend.Swap(ctx, id, old, text, keep)
	}
	return "", errAway
}

// TestBackendAway checks that nothing is issued if the claim may have failed, and nothing is
// answered if the IDs may not be kept. When the backend is back, every request with the key gets
// the same numbers.
func TestBackendAway(t *testing.T) {
	for name, test := range map[string]struct {
		failing failing
		next    string
		wait    time.Duration // for a claim whose reply was lost
		replay  bool
	}{
		"a claim that is not made":     {failing{claim: true}, "1", 0, false},
		"a claim whose reply is lost":  {failing{claim: true, after: true}, "1", idempotency.Lease, false},
		"IDs that are not kept":        {failing{swap: true}, "2", idempotency.Lease, false},
		"IDs that are kept, unknowing": {failing{swap: true, after: true}, "1", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				test.failing.Backend = w.backend
				a := w.node(func(o *idempotency.Options) { o.Backend = &test.failing })
				w.refused(w.ask(t.Context(), a, "k", 1, w.issue), seqd.CodeRedisUnavailable)
				test.failing.claim, test.failing.swap = false, false
				began := time.Now()
				w.wants(w.ask(t.Context(), a, "k", 1, w.issue), test.next, test.replay)
				if took := time.Since(began); took < test.wait || took > test.wait+time.Second {
					t.Errorf("waited %v, want %v", took, test.wait)
				}
				w.wants(w.ask(t.Context(), w.node(), "k", 1, w.issue), test.next, true)
			})
		})
	}
}

// TestLog checks that the log says once that the backend fails and once that it works again. A
// caller that has gone causes no log message.
func TestLog(t *testing.T) {
	w, log := newWorld(t), &strings.Builder{}
	b := &failing{Backend: w.backend, claim: true}
	a := w.node(func(o *idempotency.Options) { o.Backend, o.Log = b, slog.New(slog.NewTextHandler(log, nil)) })
	for range 3 {
		w.refused(w.ask(t.Context(), a, "k", 1, w.issue), seqd.CodeRedisUnavailable)
	}
	b.claim = false
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w.refused(w.ask(gone, a, "k", 1, func(ctx context.Context, _ *seqd.Call) error { return ctx.Err() }), seqd.CodeCanceled)
	for range 3 {
		next := strconv.FormatInt(w.next.Load()+1, 10)
		w.wants(w.ask(t.Context(), a, "another "+next, 1, w.issue), next, false)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "are refused") || !strings.Contains(log.String(), "answered again") {
		t.Errorf("logged %d lines: %s", n, log)
	}
}

// TestUnreadable checks that records that this version cannot read are refused and stay as they
// are.
func TestUnreadable(t *testing.T) {
	for text, code := range map[string]seqd.Code{
		"3 d x 1 t5": seqd.CodeConflict, "3": seqd.CodeConflict, "2 d x 1 f0:1:1:ab": seqd.CodeInternal, "2 d x 1 f0:9:0:a5:1:1": seqd.CodeInternal,
		"2 d x 1 f0:-1:0:5:1:1": seqd.CodeInternal, "2 d x 1 f0:1:0:\n5:1:1": seqd.CodeInternal, "2 d x 1 f999999999999:0:0:5:1:1": seqd.CodeInternal, "2 d x 1 f0:5:1:1": seqd.CodeInternal, "2 d x 1 zAA": seqd.CodeInternal, "2 d x 1 zAAEA/v81AAAA//8=": seqd.CodeInternal /* a 5 without its end */, "": seqd.CodeInternal, "x": seqd.CodeInternal, "1 p": seqd.CodeInternal, "1 p x": seqd.CodeInternal,
		"1 d x 1": seqd.CodeInternal, "1 d x 1 ": seqd.CodeInternal, "1 d x 1 t": seqd.CodeInternal, "1 d x 1 q5": seqd.CodeInternal, "1 d x 2 t5": seqd.CodeIdempotencyKeyReused,
		"0 d x 1 t5": seqd.CodeInternal, "99999999999999999999 d x 1 t5": seqd.CodeInternal, "1 d  1 t5": seqd.CodeInternal, "1 q x 1 t5": seqd.CodeInternal, "1 p x 1 t5": seqd.CodeInternal,
		"1 d x a t5": seqd.CodeInternal, "1 d x 1000000 t5": seqd.CodeIdempotencyKeyReused, "1 d x 1000001 t5": seqd.CodeInternal,
		"1 d x 1 n5:1:0": seqd.CodeInternal, "1 d x 1 n5:a:1": seqd.CodeInternal, "1 d x 1 na:1:1": seqd.CodeInternal, "1 d x 1 n5:1:1,6:1:1": seqd.CodeInternal, "1 d x 1 n5:1:2,6:1:-1": seqd.CodeInternal, "1 d x 1 b": seqd.CodeInternal,
		"1 d x 1 n5": seqd.CodeInternal, "1 d x 1 n5:1:2": seqd.CodeInternal, "1 d x 0 t5": seqd.CodeInternal, "1 d x 1 b!": seqd.CodeInternal, "1 d x 1 bNTU!": seqd.CodeInternal, "1 d x 1 t5\n6": seqd.CodeInternal,
	} {
		w, log := newWorld(t), new(testlog.Text)
		a := w.node(func(o *idempotency.Options) {
			o.Backend, o.Log = holding{text}, slog.New(slog.NewTextHandler(log, nil))
		})
		w.refused(w.ask(t.Context(), a, "k", 1, w.issue), code)
		if n := log.Count("request failed"); n > 1 || n > 0 != (code == seqd.CodeInternal) {
			t.Errorf("%s: the log says\n%s", text, log)
		}
	}
	w := newWorld(t)
	few := w.node(func(o *idempotency.Options) { o.Backend = holding{"1 d x 2 n5:1:1"} })
	w.refused(w.ask(t.Context(), few, "k", 2, w.issue), seqd.CodeInternal)
}

// holding is a backend that keeps the same text for every ID.
type holding struct{ text string }

func (h holding) Claim(context.Context, string, string, time.Duration) (string, error) {
	if h.text == "" {
		return " ", nil
	}
	return h.text, nil
}

func (h holding) Swap(context.Context, string, string, string, time.Duration) (string, error) {
	return h.text, nil
}
func (holding) Drop(context.Context, string, string) error { return nil }

// FuzzRecord checks that reading any text neither panics nor returns another number of IDs than was
// asked for.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{"1 p o 1", "1 d o 1 n5:1:1", "1 d o 3 n1:-5:2,9:0:1", "1 d o 2 ta\nb", "1 d o 1 b/w==", "3 x", "2 d o 2 f4:1:2:ab№5:1:2", "2 d o 1 zSrQEBAAA//8=", "1 d o 2 n9223372036854775807:9223372036854775807:2"} {
		f.Add(text, 1)
	}
	f.Fuzz(func(t *testing.T, text string, count int) {
		if count < 1 || count > 1000 || text == "" || strings.HasPrefix(text, "1 p ") {
			return
		}
		w := newWorld(t)
		a := w.node(func(o *idempotency.Options) { o.Backend, o.Wait = holding{text}, time.Nanosecond })
		got := w.ask(t.Context(), a, "k", count, w.issue)
		if got.err == nil && (!got.replayed || strings.Count(got.ids, "\n") != count-1) {
			t.Errorf("%q was read as %q", text, got.ids)
		}
	})
}

// idKeeper is a backend that keeps the IDs it is asked for.
type idKeeper struct {
	idempotency.Backend
	ids []string
}

func (k *idKeeper) Claim(ctx context.Context, id, text string, lease time.Duration) (string, error) {
	k.ids = append(k.ids, id)
	return k.Backend.Claim(ctx, id, text, lease)
}

// TestKeyOfBizType checks that an Idempotency-Key belongs to the key of a keyed biz type too, and
// that without one it is kept where earlier versions kept it.
func TestKeyOfBizType(t *testing.T) {
	w := newWorld(t)
	keeper := &idKeeper{Backend: w.backend}
	w.backend = keeper
	for i, key := range []string{"", "a", "b", "a", ""} {
		call := &seqd.Call{BizType: "order", Key: key, Count: 1, Caller: seqd.Caller{Name: "shop"}}
		got := once(t.Context(), w.node(), "k", call, w.issue)
		w.wants(got, []string{"1", "2", "3", "2", "1"}[i], i > 2)
	}
	must.Equal(t, keeper.ids[0], "_mXVmDf58rEZCJqCeS3j14pN3bBLj-X7cnREj_OSblY", "the ID without a key, under which earlier versions kept it,")
	// the parts of a key and an Idempotency-Key cannot be taken for each other
	call := &seqd.Call{BizType: "order", Key: "k", Count: 1, Caller: seqd.Caller{Name: "shop"}}
	w.wants(once(t.Context(), w.node(), "a", call, w.issue), "4", false)
}
