// Package idempotency lets a repeated request get the numbers that the first one got. A caller
// names its request by a key; the IDs that were issued for it are kept for a while, for all nodes,
// in Redis or in the store.
//
// Whoever comes with a new key claims it, for a lease that is renewed while numbers are being
// issued, then puts the IDs in place of the claim, and only then answers. So of two requests with
// one key, one issues and the other waits for it. Where the claim's owner dies, another takes over
// when the lease ends. Where it was only held up, it finds that its claim is no longer there, and
// answers what the other one issued: invariant I1, numbers are never answered unless they are what
// is kept for the key.
package idempotency

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
)

// Backend keeps one text for each ID, of at most 1 MiB, at least until its time has passed: first a
// claim, then the answer. It is shared by all nodes, and safe for concurrent use. Errors are of
// type [*seqd.Error]; after one, what was to be done may have been done, or may be done yet.
type Backend interface {
	// Claim keeps text where nothing is kept, or a claim whose lease has ended, and returns "";
	// otherwise it returns what is kept.
	Claim(ctx context.Context, id, text string, lease time.Duration) (held string, err error)
	// Swap keeps text in place of the claim old, also where nothing is kept any more, and returns
	// ""; otherwise it changes nothing and returns what is kept. It renews the claim if text is
	// old.
	Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error)
	// Drop removes the claim old if it is still kept, in one atomic step.
	Drop(ctx context.Context, id, old string) error
}

// claimAttempts is how often a backend looks again at an entry that changes between two looks.
const claimAttempts = 5

var errContended = &seqd.Error{Code: seqd.CodeTimeout, Detail: "the answer kept for this Idempotency-Key changes all the time", RetryAfter: time.Second}

// Options are how answers are kept.
type Options struct {
	Backend Backend
	// Cluster is the ID of the cluster: clusters that share a Redis by mistake do not share
	// answers.
	Cluster string
	// TTL is how long an answer is kept.
	TTL time.Duration
	// Wait is how long a request waits for another one with the same key. More than Lease lets it
	// take over from one whose node died.
	Wait time.Duration
	Log  *slog.Logger
}

// Lease is how long a claim holds that nobody renews. A claim is renewed three times as often.
const Lease = 5 * time.Second

// How long a request that waits for another one pauses between two looks: doubling from the first
// to the last.
const (
	firstLook = 2 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)

// Answers remembers what was answered. It is safe for concurrent use.
type Answers struct {
	opts  Options
	owner string        // of this process
	last  atomic.Uint64 // numbers its claims
	down  atomic.Bool   // the backend failed when it was asked last
}

// New returns answers kept in a backend.
func New(opts Options) *Answers {
	var random [12]byte
	_, _ = rand.Read(random[:]) // it never fails
	return &Answers{opts: opts, owner: base64.RawURLEncoding.EncodeToString(random[:]) + "."}
}

// Once fills call by issue, or returns the display forms of the numbers that were issued before for
// the same key, biz type and caller, with a line break between two. It returns
// [seqd.CodeIdempotencyKeyReused] when another count was asked for then. An error of issue is
// returned and not remembered. Any error leaves call without numbers.
func (a *Answers) Once(ctx context.Context, key string, call *seqd.Call, issue func(context.Context, *seqd.Call) error) (replayed string, err error) {
	call.Sequence.Reset()
	call.Limit = seqd.Limit{}
	r := request{Answers: a, id: a.id(call.BizType, call.Caller.Name, key), call: call, issue: issue}
	r.entry = entry{owner: a.owner + strconv.FormatUint(a.last.Add(1), 36), count: call.Count}
	r.claim = r.entry.text()
	return r.run(ctx)
}

// request is one call of Once.
type request struct {
	*Answers
	id    string // what its key is kept under
	entry entry  // what it keeps there
	claim string // the same as text, before there are IDs
	call  *seqd.Call
	issue func(context.Context, *seqd.Call) error
}

// run issues, or waits for another request with the same key.
func (r *request) run(ctx context.Context) (replayed string, err error) {
	var late <-chan time.Time
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		held, err := r.take(ctx)
		if err == nil && held == "" {
			held, err = r.fill(ctx)
		}
		if err != nil || held == "" {
			return "", err
		}
		found, err := parse(held)
		if err == nil && found.count != r.call.Count {
			err = errReused
		}
		if err != nil || found.done {
			return r.replay(found, err)
		}
		if late == nil {
			timer := time.NewTimer(r.opts.Wait)
			defer timer.Stop()
			late = timer.C
		}
		if err := sleep(ctx, pause, late); err != nil {
			return "", err
		}
	}
}

// note logs when the backend begins to fail and when it is back: what it refuses is told to no
// rejection handler.
func (a *Answers) note(err error) {
	code := seqd.CodeOf(err)
	switch down := code == seqd.CodeRedisUnavailable || code == seqd.CodeStoreUnavailable; {
	case down && a.down.CompareAndSwap(false, true):
		a.opts.Log.Warn("requests with an Idempotency-Key are refused", "error", err)
	case err == nil && a.down.Load() && a.down.CompareAndSwap(true, false):
		a.opts.Log.Info("requests with an Idempotency-Key are answered again")
	}
}

// take claims the key, or returns what is kept for it.
func (r *request) take(ctx context.Context) (held string, err error) {
	held, err = r.opts.Backend.Claim(ctx, r.id, r.claim, Lease)
	r.note(err)
	switch {
	case err == nil && (held == r.claim || sabotage.Off(sabotage.Claim)):
		return "", nil // by a command whose reply was lost
	case err != nil && ctx.Err() != nil:
		r.drop(context.WithoutCancel(ctx)) // the caller has gone, and will ask again
	}
	return held, err
}

// drop ends a claim. One that cannot be ended now does so by itself.
func (r *request) drop(ctx context.Context) {
	if err := r.opts.Backend.Drop(ctx, r.id, r.claim); err != nil {
		r.opts.Log.Debug("a claim of an Idempotency-Key could not be removed", "error", err)
	}
}

// fill issues under a claim and keeps the answer. Where the claim was lost to another request
// meanwhile it returns what that keeps, and the call has no numbers: those that were issued are
// skipped (invariant I1).
//
// What was issued is kept also when the caller has gone: it will ask again.
func (r *request) fill(ctx context.Context) (held string, err error) {
	lasting := context.WithoutCancel(ctx)
	end := r.renew(lasting)
	issued := false
	defer func() { // also when issue panics
		end()
		if !issued {
			r.call.Sequence.Reset()
			r.drop(lasting)
		}
	}()
	if err := r.issue(ctx, r.call); err != nil {
		return "", err
	}
	answer := r.entry
	answer.done, answer.ids = true, write(&r.call.Sequence)
	if len(answer.ids) > mostBytes {
		return "", seqd.Errorf(seqd.CodeInvalidCount, "%d IDs of %s take more than the %d bytes that are kept for an Idempotency-Key: ask for fewer at a time",
			r.call.Count, r.call.BizType, mostBytes)
	}
	end()
	// from here on nobody knows whether the answer is kept, unless the backend says so
	issued = true
	text := answer.text()
	held, err = r.opts.Backend.Swap(lasting, r.id, r.claim, text, r.opts.TTL)
	r.note(err)
	if err == nil && held == text {
		held = "" // it is kept, by a command whose reply was lost
	}
	if err != nil || held != "" {
		r.call.Sequence.Reset()
	}
	return held, err
}

// errReused is returned for a key that was used with another count.
var errReused = &seqd.Error{Code: seqd.CodeIdempotencyKeyReused, Detail: "this Idempotency-Key was used with another count; a new request needs a new key"}

// replay returns the IDs of an entry that is done.
func (r *request) replay(found entry, err error) (lines string, _ error) {
	if err == nil {
		lines, err = found.lines()
	}
	if errors.Is(err, errDamaged) {
		r.opts.Log.Error("request failed", "bizType", r.call.BizType, "requestId", r.call.Caller.RequestID, "error", err)
	}
	return lines, err
}

// sleep pauses, but not beyond late.
func sleep(ctx context.Context, pause time.Duration, late <-chan time.Time) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-late:
		return &seqd.Error{Code: seqd.CodeTimeout, Detail: "another request with this Idempotency-Key is under way", RetryAfter: time.Second}
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
}

// renew keeps the claim until end is called, which waits for a renewal that is under way.
func (r *request) renew(ctx context.Context) (end func()) {
	var (
		// full while a renewal is under way, or timer is not set yet; guards what follows
		busy  = make(chan struct{}, 1)
		ended bool
		timer *time.Timer
	)
	busy <- struct{}{}
	timer = time.AfterFunc(Lease/3, func() {
		busy <- struct{}{}
		defer func() { <-busy }()
		if ended {
			return
		}
		// Whoever lost it finds out in the end; one that could not be renewed may not be lost.
		_, _ = r.opts.Backend.Swap(ctx, r.id, r.claim, r.claim, Lease)
		timer.Reset(Lease / 3)
	})
	<-busy
	return func() {
		busy <- struct{}{}
		ended = true
		timer.Stop()
		<-busy
	}
}

// id is what a key is kept under: the biz type and the caller are part of it, and nothing of what
// callers send stands in it. It is also the name of a document, so it is short.
func (a *Answers) id(bizType, caller, key string) string {
	buf := make([]byte, 0, 256)
	for _, part := range [...]string{a.opts.Cluster, bizType, caller, key} {
		buf = strconv.AppendInt(buf, int64(len(part)), 10)
		buf = append(buf, ':')
		buf = append(buf, part...)
	}
	sum := sha256.Sum256(buf)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
