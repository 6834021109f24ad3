package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment"
)

// benchActive asks 10,000 strict biz types for numbers, at random.
func benchActive(ctx context.Context, o options) (results []result, err error) {
	const many = 10_000
	b := &backends{}
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.startRedis(ctx); err != nil {
		return nil, err
	}
	var bizTypes []seqd.BizType
	for i := range many {
		bizTypes = append(bizTypes, bizType(fmt.Sprintf("type%06d", i)))
	}
	one, err := b.withoutStore(ctx, "one", bizTypes[:1], 0)
	if err != nil {
		return nil, err
	}
	all, err := b.withoutStore(ctx, "all", bizTypes, 0)
	if err != nil {
		return nil, err
	}
	if err := warmAll(ctx, all, many); err != nil {
		return nil, err
	}
	var allTrips []float64
	measurement := func(url string, n int, trips *[]float64) func() (float64, error) {
		return func() (float64, error) {
			l, perID, err := b.during(ctx, func() (load, error) { return runWrkSpread(ctx, o, url, n) })
			*trips = append(*trips, perID.trips)
			return l.rate, err
		}
	}
	p, err := measure(o.rounds, measurement(one, 1, new([]float64)), measurement(all, many, &allTrips))
	if err != nil {
		return nil, err
	}
	// the first value is from the warm-up round
	trips := report("strict: Redis round trips per ID at that load", allTrips[1:], ratio)
	trips.target, trips.reached = "≤ 0.25", median(allTrips[1:]) <= 0.25
	return []result{
		p.result("strict, 10,000 biz types, all asked for at random, 64 connections", "1 biz type, same load script", perSecond, true, 0.65),
		trips,
	}, nil
}

// sharedMemory is a store in memory that claims to be shared by nodes.
type sharedMemory struct{ persist.Store }

// Shared implements [persist.Store].
func (sharedMemory) Shared() bool { return true }

// withoutStore serves biz types over Redis and a store in memory. The stand-in for MongoDB would
// need an hour to allocate this many first ranges, because it reads every document to change one.
// No request of this figure waits for the store, so the kind of store does not matter. At most
// maxInFlight requests are answered at once; 0 means no limit.
func (b *backends) withoutStore(ctx context.Context, name string, bizTypes []seqd.BizType, maxInFlight int) (url string, err error) {
	client := redis.NewClient(&redis.Options{ // as the runtime makes it
		Addr: b.redisAddr, Protocol: 2, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
		ReadTimeout: time.Second, WriteTimeout: time.Second, PoolTimeout: time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	b.cleanUps = append(b.cleanUps, client.Close)
	store := sharedMemory{memory.New(time.Now)}
	cluster, err := persist.ClusterID(ctx, store, time.Now)
	if err != nil {
		return "", err
	}
	env := strategy.Env{
		Store: store, Now: time.Now, Log: discard(), Observer: seqd.NopObserver{}, Redis: client, RedisBatch: redisbatch.New(client), RedisPrefix: name + ":", Cluster: cluster,
	}
	factory, err := strategy.Lookup(segment.Name)
	if err != nil {
		return "", err
	}
	var definitions []seqd.Definition
	for _, bizType := range bizTypes {
		s, err := factory.New(env, bizType)
		if err != nil {
			return "", err
		}
		definitions = append(definitions, seqd.Definition{BizType: bizType, Strategy: s})
	}
	return b.issue(ctx, definitions, maxInFlight)
}

// issue serves biz types with seqd's HTTP handlers only.
func (b *backends) issue(ctx context.Context, definitions []seqd.Definition, maxInFlight int) (url string, err error) {
	issuer, err := seqd.NewIssuer(definitions, seqd.Options{Log: discard()})
	if err != nil {
		return "", err
	}
	issuer.Init(ctx)
	b.cleanUps = append(b.cleanUps, func() error { return issuer.Close(context.Background()) })
	defaults := config.Default().Server
	g := gate.New(gate.Options{MaxCount: defaults.MaxCount, MaxInFlight: maxInFlight, Log: discard()})
	api, err := httpapi.New(g, httpapi.Options{MaxBodyBytes: defaults.MaxBodyBytes})
	if err != nil {
		return "", err
	}
	g.Ready(issuer)
	url, stop, err := serve(api)
	if err != nil {
		return "", err
	}
	b.cleanUps = append(b.cleanUps, stop)
	return url, nil
}
