package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
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

// How long a request waits for another one with the same key: longer than a claim lasts that nobody renews, so that it can take over; but most of
// writeTimeout is left for issuing.
const (
	waitForAnswer = idempotency.Lease + time.Second
	shareOfWrite  = 3
)

// openAnswers keeps answers in Redis where there is one, else in the store. Never in both: nodes could disagree on where an answer is.
func (r *runtime) openAnswers(ctx context.Context) {
	var backend idempotency.Backend = idempotency.NewStore(r.store.Documents(), r.now)
	if r.redis != nil {
		backend = idempotency.NewRedis(idempotency.RedisOptions{Client: r.redis, Prefix: r.cfg.Redis.KeyPrefix, Away: r.redisAway})
	}
	r.answers.open.Store(idempotency.New(idempotency.Options{
		Backend: backend, Cluster: r.cluster, TTL: r.cfg.Idempotency.TTL, Log: r.log,
		Wait: min(waitForAnswer, r.cfg.Server.WriteTimeout/shareOfWrite),
	}))
	go r.purgeAnswers(ctx)
}

// purgePause is how often answers are removed that have ended, those too that are there from before Redis was configured.
const purgePause = time.Minute

// purgeAnswers removes answers that have ended until ctx ends.
func (r *runtime) purgeAnswers(ctx context.Context) {
	ticker := time.NewTicker(purgePause)
	defer ticker.Stop()
	var full failing
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, err := idempotency.Purge(ctx, r.store.Documents(), r.now())
		if full.begins(err) && ctx.Err() == nil {
			r.log.Warn("answers that have ended cannot be removed; it is tried again", "error", err)
		}
	}
}
