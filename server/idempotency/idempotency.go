// Package idempotency makes a repeated request return the numbers of the first one. A caller names
// its request by an Idempotency-Key. The IDs issued for it are kept for a while, for all nodes, in
// Redis or in the store.
//
// A request with a new key first claims the key. The claim is a lease, renewed while numbers are
// being issued. Then the request replaces the claim by the IDs, and only then answers. So if two
// requests have the same key, one issues and the other waits for it. If the owner of the claim
// dies, another request takes over when the lease ends. If the owner was only slow, it finds that
// its claim is gone, and answers what the other request issued.
//
// Invariant I1: a request with a key is only answered with the numbers that are kept for the key.
//
// The main types are [Answers], which implements this, and [Backend], which keeps the records:
// [Redis], [Store] or [Kept]. To add a backend, implement Backend and run the suite in package
// idempotencytest.
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
	"github.com/seqd/seqd/internal/fewlines"
	"github.com/seqd/seqd/internal/sabotage"
)

// Backend keeps one text for each ID: first a claim, then the answer. A text has at most 1 MiB and
// is kept at least for the given time. All nodes share a backend. It is safe for concurrent use.
// Errors are of type [*seqd.Error]; after an error the operation may have been done, or may still
// be done later.
type Backend interface {
	// Claim keeps text and returns "" if nothing is kept or if the lease of the claim that is kept
	// has ended. Otherwise it returns what is kept.
	Claim(ctx context.Context, id, text string, lease time.Duration) (held string, err error)
	// Swap replaces the claim old by text and returns "". If something else is kept, Swap changes
	// nothing and returns that. If nothing is, it changes nothing and returns an error: somebody may
	// have had the claim since, and was answered from elsewhere. With text equal to old it renews the
	// claim.
	Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error)
	// Drop atomically removes the claim old if it is still kept.
	Drop(ctx context.Context, id, old string) error
}

// claimAttempts is how often a backend reads a record again that changes between two reads.
const claimAttempts = 5

// errEnded is returned if a claim has ended and nothing else is kept.
var errEnded = &seqd.Error{Code: seqd.CodeTimeout, Detail: "the request took so long that its claim of the Idempotency-Key ended; try again", RetryAfter: time.Second}

var errContended = &seqd.Error{Code: seqd.CodeTimeout, Detail: "the answer kept for this Idempotency-Key keeps changing; try again", RetryAfter: time.Second}

// Options are the options of [New].
type Options struct {
	Backend Backend
	// Home says whether the cluster keeps its answers in Backend; nil if no other node has any.
	Home *Home
	// Cluster is the ID of the cluster. It keeps clusters that share a Redis by mistake from
	// sharing answers.
	Cluster string
	// TTL is how long an answer is kept.
	TTL time.Duration
	// Wait is how long a request waits for another request with the same key. If it is longer than
	// Lease, the request can take over from a node that died.
	Wait time.Duration
	// Quota bounds what is kept; nil if nothing does.
	Quota Quota
	Log   *slog.Logger
}

// Quota bounds what is kept for each owner. It is safe for concurrent use.
type Quota interface {
	// Admit returns why nothing more may be kept for an owner, nil if something may.
	Admit(owner string) error
	// Kept counts an answer whose text has a number of bytes, and which is kept for a time.
	Kept(owner string, bytes int, life time.Duration)
}

// Lease is how long a claim lasts without a renewal. It is renewed every third of that.
const Lease = 5 * time.Second

// Pauses between two looks of a request that waits for another one. They double from the first to
// the last.
const (
	firstLook = 2 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)

// Answers keeps and replays answers. It is safe for concurrent use.
type Answers struct {
	opts     Options
	failures *fewlines.Log
	owner    string        // identifies this process
	last     atomic.Uint64 // the number of its last claim
	down     atomic.Bool   // the last call of the backend failed
}

// New returns answers kept in a backend.
func New(opts Options) *Answers {
	var random [12]byte
	_, _ = rand.Read(random[:]) // it never fails
	if opts.Home != nil {
		opts.Backend = atHome{opts.Backend, opts.Home}
	}
	return &Answers{opts: opts, failures: fewlines.New(opts.Log), owner: base64.RawURLEncoding.EncodeToString(random[:]) + "."}
}

// Once fills call by calling issue. If numbers were already issued for the same Idempotency-Key,
// biz type, key and caller, it returns their display forms instead, separated by line breaks. It
// returns [seqd.CodeIdempotencyKeyReused] if the count differs from that of the first request. An
// error of issue is returned and not kept. After any error, call has no numbers. The answer is kept
// by the strategy, and not here, if issue clears call.AnswerKept.
func (a *Answers) Once(ctx context.Context, key string, call *seqd.Call, issue func(context.Context, *seqd.Call) error) (replayed string, err error) {
	call.Sequence.Reset()
	call.Limit, call.AnswerKept = seqd.Limit{}, true
	r := request{Answers: a, id: a.id(call, key), call: call, issue: issue}
	r.record = record{owner: a.owner + strconv.FormatUint(a.last.Add(1), 36), count: call.Count}
	r.claim = r.record.text()
	return r.run(ctx)
}

// Admit sets call.NoAnswer, by which a new key is refused if much is kept for its owner.
func (a *Answers) Admit(call *seqd.Call) {
	call.NoAnswer = nil
	if a.opts.Quota != nil {
		call.NoAnswer = a.opts.Quota.Admit(call.Caller.OwnerID())
	}
}

// request is one call of Once.
type request struct {
	*Answers
	id     string // the ID of its key in the backend
	record record // what it writes there
	claim  string // its record as text while there are no IDs
	call   *seqd.Call
	issue  func(context.Context, *seqd.Call) error
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
			late = time.After(r.opts.Wait)
		}
		if err := sleep(ctx, pause, late); err != nil {
			return "", err
		}
	}
}

// note logs when the backend begins to fail and when it works again. Rejection handlers do not see
// these errors.
func (a *Answers) note(err error) {
	code := seqd.CodeOf(err)
	switch down := code == seqd.CodeRedisUnavailable || code == seqd.CodeStoreUnavailable; {
	case down && a.down.CompareAndSwap(false, true):
		a.opts.Log.Warn("requests with an Idempotency-Key are refused", "error", err)
	case err == nil && a.down.CompareAndSwap(true, false):
		a.opts.Log.Info("requests with an Idempotency-Key are answered again")
	}
}

// take claims the key and returns "", or returns what is kept for it.
func (r *request) take(ctx context.Context) (held string, err error) {
	held, err = r.opts.Backend.Claim(ctx, r.id, r.claim, Lease)
	r.note(err)
	switch {
	case err == nil && (held == r.claim || sabotage.Off(sabotage.Claim)):
		return "", nil // this claim is ours: the reply to the command was lost
	case err != nil && ctx.Err() != nil:
		r.drop(context.WithoutCancel(ctx)) // the caller has gone and will ask again
	}
	return held, err
}

// drop ends a claim. If that fails, the claim ends when its lease does.
func (r *request) drop(ctx context.Context) {
	if err := r.opts.Backend.Drop(ctx, r.id, r.claim); err != nil {
		r.opts.Log.Debug("a claim of an Idempotency-Key could not be removed", "error", err)
	}
}

// fill issues under a claim and keeps the answer, even if the caller has gone, because it will ask
// again. If another request took over the claim, fill returns the record of that request, and call
// has no numbers: the ones it issued are skipped (invariant I1).
func (r *request) fill(ctx context.Context) (held string, err error) {
	lasting := context.WithoutCancel(ctx)
	end := r.renew(lasting)
	issued, kept := false, false
	defer func() { // even if issue panics
		end()
		if !issued {
			r.call.Sequence.Reset()
		}
		if !kept {
			r.drop(lasting)
		}
	}()
	if err := r.issue(ctx, r.call); err != nil {
		return "", err
	}
	if !r.call.AnswerKept {
		issued = true
		return "", nil
	}
	answer := r.record
	answer.done, answer.ids = true, write(&r.call.Sequence)
	if len(answer.ids) > mostBytes {
		return "", seqd.Errorf(seqd.CodeInvalidCount, "%d IDs of %s take more than the %d bytes that are kept for an Idempotency-Key: ask for fewer at a time",
			r.call.Count, r.call.BizType, mostBytes)
	}
	// From here on the answer may be kept, unless the backend says otherwise.
	issued, kept = true, true
	text := answer.text()
	held, err = r.opts.Backend.Swap(lasting, r.id, r.claim, text, r.opts.TTL)
	r.note(err)
	if held == text {
		held = "" // it is kept: the reply to the command was lost
	}
	if held == "" && r.opts.Quota != nil {
		r.opts.Quota.Kept(r.call.Caller.OwnerID(), len(text), r.opts.TTL)
	}
	if err != nil || held != "" {
		r.call.Sequence.Reset()
	}
	return held, err
}

// errReused is returned for a key that was used with another count.
var errReused = &seqd.Error{Code: seqd.CodeIdempotencyKeyReused, Detail: "this Idempotency-Key was used with another count; a new request needs a new key"}

// replay returns the IDs of a finished record.
func (r *request) replay(found record, err error) (lines string, _ error) {
	if err == nil {
		lines, err = found.lines()
	}
	if errors.Is(err, errDamaged) {
		r.failures.Error("request failed", "bizType", r.call.BizType, "requestId", r.call.Caller.RequestID, "error", err)
	}
	return lines, err
}

// sleep pauses, but not past late.
func sleep(ctx context.Context, pause time.Duration, late <-chan time.Time) error {
	select {
	case <-time.After(pause):
		return nil
	case <-late:
		return &seqd.Error{Code: seqd.CodeTimeout, Detail: "another request with this Idempotency-Key is under way", RetryAfter: time.Second}
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
}

// renew renews the claim until end is called, once. end waits for a renewal in progress.
func (r *request) renew(ctx context.Context) (end func()) {
	busy := make(chan struct{}, 1) // full during a renewal, until timer is set, and after end
	var timer *time.Timer
	busy <- struct{}{}
	timer = time.AfterFunc(Lease/3, func() {
		select {
		case busy <- struct{}{}:
		default:
			return
		}
		defer func() { <-busy }()
		// The result does not matter. A lost claim shows when the answer is kept, and a failed
		// renewal does not mean that it is lost.
		_, _ = r.opts.Backend.Swap(ctx, r.id, r.claim, r.claim, Lease)
		timer.Reset(Lease / 3)
	})
	<-busy
	return func() {
		busy <- struct{}{}
		timer.Stop()
	}
}

// id returns the ID under which an Idempotency-Key is kept. It depends on the biz type, its key and
// the caller's owner too. It is a hash, so it is short enough for the name of a document and
// contains nothing that callers send.
func (a *Answers) id(call *seqd.Call, key string) string {
	buf := make([]byte, 0, 256)
	parts := [...]string{a.opts.Cluster, call.BizType, call.Caller.OwnerID(), key, call.Key}
	kept := parts[:]
	if call.Key == "" {
		kept = parts[:4] // as before there were keys
	}
	for _, part := range kept {
		buf = strconv.AppendInt(buf, int64(len(part)), 10)
		buf = append(buf, ':')
		buf = append(buf, part...)
	}
	sum := sha256.Sum256(buf)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
