package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/idempotency"
	"github.com/seqd/seqd/server/logging"
)

// keptBytes returns how many bytes are kept in all, and how many may be, 0 for any number.
func (b *back) keptBytes() (bytes, most int64) {
	return b.quota.Bytes(), b.base.now.Load().Idempotency.MaxBytes
}

// waitForAnswer is how long a request waits for another one with the same key: longer than the
// lease of a claim, so that it can take over a claim that is not renewed. It is at most one part in
// shareOfWrite of writeTimeout, so that most of that is left for issuing.
const (
	waitForAnswer = idempotency.Lease + time.Second
	shareOfWrite  = 3
)

// openHome makes what says where the cluster keeps its answers.
func (b *back) openHome(context.Context) error {
	if env := b.env(); env.Store.Shared() {
		b.home = idempotency.NewHome(env.Store.Documents(), env.Redis, env.RedisPrefix, b.base.opts.now)
	}
	return nil
}

// openAnswers returns what keeps answers: in Redis if there is one, else in the store. Never in
// both: nodes could disagree on where an answer is.
func (b *back) openAnswers(ctx context.Context) *idempotency.Answers {
	cfg, env := b.base.cfg, b.env()
	b.base.background.run(ctx, b.quota.Follow)
	backend, clean := answersInStore(env.Store, b.duties(), env.Clock)
	if env.Redis != nil {
		backend = idempotency.NewRedis(idempotency.RedisOptions{Client: env.Redis, Prefix: env.RedisPrefix, Away: b.redis.Away})
	}
	if b.home != nil {
		b.home.Look(ctx)
		b.base.background.run(ctx, func(ctx context.Context) { b.home.Follow(ctx, env.Log) })
	}
	b.base.background.run(ctx, func(ctx context.Context) { clean.run(ctx, env.Log) })
	return idempotency.New(idempotency.Options{
		Backend: backend, Home: b.home, Cluster: env.Cluster, TTL: cfg.Idempotency.TTL, Log: env.Log,
		Quota: b.quota,
		Wait:  min(waitForAnswer, cfg.Server.WriteTimeout/shareOfWrite),
	})
}

// usesRedis returns whether Redis is configured, or other nodes keep their answers in one, and why
// this node cannot use it, "" if it can.
func (b *back) usesRedis() (used bool, trouble string) {
	elsewhere := b.home.Cause()
	if b.redis == nil && !errors.Is(elsewhere, idempotency.ErrNotHome) {
		return false, ""
	}
	if b.redis != nil {
		if _, cause := b.redis.Away(); cause != nil {
			return true, "Redis cannot be used"
		}
	}
	if elsewhere != nil {
		return true, elsewhere.Error()
	}
	return true, ""
}

// tellRedis tells whether Redis can be used, if it is used.
func (b *back) tellRedis(tell func(name string, up bool)) {
	if used, trouble := b.usesRedis(); used {
		tell("redis", trouble == "")
	}
}

// answersInStore returns the backend that keeps answers in a store, and its cleaner.
func answersInStore(store persist.Store, documents persist.Documents, clock *storeclock.Clock) (idempotency.Backend, cleaner) {
	if offers, ok := store.(persist.Answerer); ok {
		kept := idempotency.NewKept(offers.Answers())
		return kept, cleaner{purge: kept.Purge}
	}
	kept := idempotency.NewStore(documents, clock)
	return kept, cleaner{purge: kept.Purge, skew: kept.Skew}
}

// purgePause is the pause between two removals of answers that have expired, including those from
// before Redis was configured.
const purgePause = time.Minute

// cleaner removes answers that have expired.
type cleaner struct {
	purge func(context.Context) (int, error)
	// skew returns why the clocks cannot be trusted. It is nil if there is nothing to compare.
	skew func(context.Context) error
}

// run removes answers until ctx ends.
func (c cleaner) run(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(purgePause)
	defer ticker.Stop()
	purging := logging.Trouble{Log: log, Begins: "answers to requests with an Idempotency-Key that have ended cannot be removed; it is tried again every minute",
		Ends: "answers that have ended are removed again"}
	clocks := logging.Trouble{Log: log, Begins: "the clocks of this node and of the store differ", Ends: "the clocks of this node and of the store agree again"}
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
		purging.Note(err)
		if c.skew != nil && err == nil {
			clocks.Note(c.skew(ctx))
		}
	}
}
