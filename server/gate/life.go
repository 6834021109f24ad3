package gate

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// Life says how far the service has started or stopped. It is safe for concurrent use.
type Life struct {
	issuer   atomic.Pointer[seqd.Issuer] // nil until the service is ready
	waiting  atomic.Pointer[seqd.Error]  // why there is no issuer yet; never nil
	draining atomic.Bool
	watched  atomic.Pointer[watched] // nil until it is known
}

// watched are the functions that [Life.Watch] has set.
type watched struct{ store, definitions func() *seqd.Error }

func (l *Life) begin() {
	l.waiting.Store(&seqd.Error{Code: seqd.CodeStarting, Detail: "the service is starting", RetryAfter: time.Second})
}

// Ready sets the issuer and starts issuing.
func (l *Life) Ready(issuer *seqd.Issuer) { l.issuer.Store(issuer) }

// Wait sets why there is no issuer yet.
func (l *Life) Wait(reason *seqd.Error) { l.waiting.Store(reason) }

// Watch sets what tells whether an operator has to look at the store, or at where the definitions of
// nodes come from: then the service is degraded.
func (l *Life) Watch(store, definitions func() *seqd.Error) {
	l.watched.Store(&watched{store, definitions})
}

// Drain says that the service is about to stop. Requests are still answered.
func (l *Life) Drain() { l.draining.Store(true) }

// Draining reports whether the service is about to stop.
func (l *Life) Draining() bool { return l.draining.Load() }

// Issuer returns the issuer, or the reason why there is none yet.
func (l *Life) Issuer() (*seqd.Issuer, error) {
	if issuer := l.issuer.Load(); issuer != nil {
		return issuer, nil
	}
	return nil, l.waiting.Load()
}

// Waiting returns why there was no issuer when that was last known.
func (l *Life) Waiting() *seqd.Error { return l.waiting.Load() }

// Troubles returns why an operator has to look at the store, and why at where the definitions of nodes
// come from; nil if nobody has to.
func (l *Life) Troubles() (store, definitions *seqd.Error) {
	if w := l.watched.Load(); w != nil {
		return w.store(), w.definitions()
	}
	return nil, nil
}

// Trouble returns the first of the troubles, nil if there is none.
func (l *Life) Trouble() *seqd.Error { return cmp.Or(l.Troubles()) }
