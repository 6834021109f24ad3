package gate

import (
	"cmp"
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
)

// Running is what a service has once its back ends are open.
type Running struct {
	Issuer *issuer.Issuer
	// Catalogue, Nodes and Figures are what administrators read and change.
	Catalogue admin.Catalogue
	Nodes     admin.Nodes
	Figures   admin.Figures
	// Standings shows how far counters have come.
	Standings admin.Standings
	// Workers leases worker IDs to other programs.
	Workers admin.Workers
	// Jobs issue many numbers in the background.
	Jobs admin.Jobs
	// Events are what happened to biz types.
	Events admin.Events
	// Subscriptions send events to receivers.
	Subscriptions admin.Subscriptions
	// Answers keeps the answers to requests with an Idempotency-Key. If it is nil, such requests are
	// refused.
	Answers Answers
	// Snapshot writes all that the store has.
	Snapshot func(ctx context.Context, w io.Writer) error
	// Documents are those of the store.
	Documents persist.Documents
	// Node is the ID of this node.
	Node string
	// Clock is the time that all nodes have in common.
	Clock func() time.Time
	// Troubles returns why an operator has to look at the store, why at where the definitions of nodes
	// come from, and why at the coordinator; nil if nobody has to. If Troubles is nil, nobody ever has
	// to.
	Troubles func() (store, definitions, coordinator *seqd.Error)
}

// Answers keeps and replays answers to requests with an Idempotency-Key.
type Answers interface {
	// Once fills call by calling issue. If numbers were already issued for the same Idempotency-Key,
	// biz type, key and caller, it returns their display forms instead, separated by line breaks and
	// never "". After an error, call has no numbers. It sets call.AnswerKept, and keeps no answer if
	// issue clears that.
	Once(ctx context.Context, key string, call *seqd.Call, issue func(context.Context, *seqd.Call) error) (replayed string, err error)
	// Admit sets call.NoAnswer.
	Admit(call *seqd.Call)
}

// Life says how far the service has started or stopped. It is safe for concurrent use.
type Life struct {
	running  atomic.Pointer[Running]    // nil until the service is ready
	waiting  atomic.Pointer[seqd.Error] // why it is not ready yet; never nil
	draining atomic.Bool
}

func (l *Life) begin() {
	l.waiting.Store(&seqd.Error{Code: seqd.CodeStarting, Detail: "the service is starting", RetryAfter: time.Second})
}

// Ready says what the service has, once, and starts issuing.
func (l *Life) Ready(r *Running) { l.running.Store(r) }

// Wait sets why the service is not ready yet.
func (l *Life) Wait(reason *seqd.Error) { l.waiting.Store(reason) }

// Drain says that the service is about to stop. Requests are still answered.
func (l *Life) Drain() { l.draining.Store(true) }

// Draining reports whether the service is about to stop.
func (l *Life) Draining() bool { return l.draining.Load() }

// Running returns what the service has, or the reason why it is not ready yet.
func (l *Life) Running() (*Running, error) {
	if r := l.running.Load(); r != nil {
		return r, nil
	}
	return nil, l.waiting.Load()
}

// Issuer returns the issuer, or the reason why there is none yet.
func (l *Life) Issuer() (*issuer.Issuer, error) {
	if r := l.running.Load(); r != nil {
		return r.Issuer, nil
	}
	return nil, l.waiting.Load()
}

// Troubles returns what [Running] says of them, nothing until the service is ready.
func (l *Life) Troubles() (store, definitions, coordinator *seqd.Error) {
	if r := l.running.Load(); r != nil && r.Troubles != nil {
		return r.Troubles()
	}
	return nil, nil, nil
}

// Trouble returns the first of the troubles, nil if there is none.
func (l *Life) Trouble() *seqd.Error { return cmp.Or(l.Troubles()) }
