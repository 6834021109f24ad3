package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/server/idempotency"
)

// answers are what requests with an Idempotency-Key are answered from, once the back ends are open.
type answers struct {
	open atomic.Pointer[idempotency.Answers]
}

var _ httpapi.Answers = (*answers)(nil)

// Once implements [httpapi.Answers].
func (a *answers) Once(ctx context.Context, key string, call *seqd.Call, issue func(context.Context, *seqd.Call) error) (replayed string, err error) {
	opened := a.open.Load()
	if opened == nil { // no request comes as far before the issuer is ready, which is later
		return "", &seqd.Error{Code: seqd.CodeStarting, Detail: "the service is starting", RetryAfter: time.Second}
	}
	return opened.Once(ctx, key, call, issue)
}

// How long a request waits for another one with the same key: longer than a claim lasts that nobody
// renews, so that it can take over; but most of writeTimeout is left for issuing.
const (
	waitForAnswer = idempotency.Lease + time.Second
	shareOfWrite  = 3
)

// openAnswers keeps answers in Redis where there is one, else in the store. Never in both: nodes
// could disagree on where an answer is.
func (r *runtime) openAnswers(ctx context.Context) {
	backend, clean := answersInStore(r.store, r.now)
	if r.redis != nil {
		backend = idempotency.NewRedis(idempotency.RedisOptions{Client: r.redis, Prefix: r.cfg.Redis.KeyPrefix, Away: r.redisAway})
	}
	r.answers.open.Store(idempotency.New(idempotency.Options{
		Backend: backend, Cluster: r.cluster, TTL: r.cfg.Idempotency.TTL, Log: r.log,
		Wait: min(waitForAnswer, r.cfg.Server.WriteTimeout/shareOfWrite),
	}))
	go clean.run(ctx, r.log)
}

// answersInStore returns the backend that keeps answers in a store, and what cleans it.
func answersInStore(store persist.Store, now func() time.Time) (idempotency.Backend, cleaner) {
	if offers, ok := store.(persist.Answerer); ok {
		kept := idempotency.NewKept(offers.Answers())
		return kept, cleaner{purge: kept.Purge}
	}
	clock := idempotency.NewClock(store, now, nil)
	kept := idempotency.NewStore(store.Documents(), clock)
	return kept, cleaner{purge: kept.Purge, skew: clock.Skew}
}

// purgePause is how often answers are removed that have ended, those too that are there from before
// Redis was configured.
const purgePause = time.Minute

// cleaner removes answers that have ended.
type cleaner struct {
	purge func(context.Context) (int, error)
	// returns why the clocks are not to be trusted; nil for nobody to ask
	skew func(context.Context) error
}

// run cleans until ctx ends. Each trouble is logged when it begins and when it ends.
func (c cleaner) run(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(purgePause)
	defer ticker.Stop()
	purging := trouble{log: log, begins: "answers to requests with an Idempotency-Key that have ended cannot be removed; it is tried again every minute",
		ends: "answers that have ended are removed again"}
	clocks := trouble{log: log, begins: "the clocks of this node and of the store differ", ends: "the clocks of this node and of the store agree again"}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, err := c.purge(ctx)
		if ctx.Err() != nil {
			return
		}
		purging.note(err)
		if c.skew != nil && err == nil {
			clocks.note(c.skew(ctx))
		}
	}
}

// trouble warns when something begins to fail, and not again before it is over.
type trouble struct {
	log          *slog.Logger
	begins, ends string
	there        failing
}

func (t *trouble) note(err error) {
	was := bool(t.there)
	switch {
	case t.there.begins(err):
		t.log.Warn(t.begins, "error", err)
	case err == nil && was:
		t.log.Info(t.ends)
	}
}
