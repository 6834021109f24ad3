package httpapi

import (
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// lifecycle says how far the service has started or stopped. It is safe for concurrent use.
type lifecycle struct {
	issuer   atomic.Pointer[seqd.Issuer] // nil until the service is ready
	waiting  atomic.Pointer[seqd.Error]  // why there is no issuer yet; never nil
	draining atomic.Bool
	store    atomic.Pointer[func() *seqd.Error] // nil until it is known
}

func newLifecycle() *lifecycle {
	l := new(lifecycle)
	l.waiting.Store(&seqd.Error{Code: seqd.CodeStarting, Detail: "the service is starting", RetryAfter: time.Second})
	return l
}

// ready returns the issuer, or the reason why there is none yet.
func (l *lifecycle) ready() (*seqd.Issuer, error) {
	if issuer := l.issuer.Load(); issuer != nil {
		return issuer, nil
	}
	return nil, l.waiting.Load()
}

// storeTrouble returns why an operator has to look at the store, nil if nobody has to.
func (l *lifecycle) storeTrouble() *seqd.Error {
	if trouble := l.store.Load(); trouble != nil {
		return (*trouble)()
	}
	return nil
}
