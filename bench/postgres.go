package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/postgres"
	"github.com/seqd/seqd/persist/sqlstore"
)

// updateRoute is a peer with the default pool of pgx.
const updateRoute = "gin route with one UPDATE … RETURNING"

// startUpdate starts a peer on PostgreSQL.
func (s *servers) startUpdate(ctx context.Context) (c *child, url string, err error) {
	if err := s.createDatabase(ctx, "peer"); err != nil {
		return nil, "", err
	}
	return s.startPeer(ctx, peerJob{Postgres: s.database("peer")})
}

// benchPostgresStrict compares strict order from PostgreSQL itself with a route that does one UPDATE,
// and with strict order over Redis.
func benchPostgresStrict(ctx context.Context, o options) ([]result, error) {
	const overRedis = "strict over Redis"
	return with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		c := contest{rounds: o.rounds}
		peer, url, err := s.startUpdate(ctx)
		if err != nil {
			return nil, err
		}
		c.add(updateRoute, o.loading(ctx, peer, url))
		nodes, err := s.startStrict(ctx, o, bizTypes(order))
		if err != nil {
			return nil, err
		}
		c.add(overRedis, o.loading(ctx, nodes[0].child, nodes[0].url+"/seq/order"))
		if err := s.addOnPostgres(ctx, o, &c, order); err != nil {
			return nil, err
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what = "strict from PostgreSQL, one ID per request"
		return got.withOld([]result{
			got.against(updateRoute, what, rateOf, perSecond).atLeast(8),
			got.against(overRedis, what, rateOf, perSecond).atLeast(0.85),
		}, what), nil
	})
}

// addOnPostgres adds a node of each binary on PostgreSQL alone to a contest.
func (s *servers) addOnPostgres(ctx context.Context, o options, c *contest, d definition) error {
	for i, b := range o.binaries() {
		env, err := s.onPostgres(ctx, []string{"newer", "older"}[i], false)
		if err != nil {
			return err
		}
		n, err := s.startNode(ctx, b.path, append(env, bizTypes(d))...)
		if err != nil {
			return err
		}
		c.add(b.name, o.loading(ctx, n.child, n.url+"/seq/"+d["name"].(string)))
	}
	return nil
}

// benchPostgresPerNode compares numbers from a node's own buffer on PostgreSQL and on bolt.
func benchPostgresPerNode(ctx context.Context, o options) ([]result, error) {
	const onBolt = "on bolt"
	local := definition{"name": "order", "start": firstNumber, "ordering": "per-node"}
	return with(func(s *servers) ([]result, error) {
		if err := s.startPostgres(ctx); err != nil {
			return nil, err
		}
		c := contest{rounds: o.rounds}
		n, err := s.startNode(ctx, o.binary, bizTypes(local))
		if err != nil {
			return nil, err
		}
		c.add(onBolt, o.loading(ctx, n.child, n.url+"/seq/order"))
		if err := s.addOnPostgres(ctx, o, &c, local); err != nil {
			return nil, err
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what = "per-node on PostgreSQL, one ID per request"
		return got.withOld([]result{got.against(onBolt, what, rateOf, perSecond).atLeast(0.98)}, what), nil
	})
}

// benchPostgresAllocate compares one Allocate with a bare UPDATE … RETURNING, one at a time.
func benchPostgresAllocate(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		if err := s.startPostgres(ctx); err != nil {
			return nil, err
		}
		if err := s.createDatabase(ctx, "allocate"); err != nil {
			return nil, err
		}
		pool, err := openPeerTable(ctx, s.database("allocate"))
		if err != nil {
			return nil, err
		}
		s.cleanUps = append(s.cleanUps, func() error { pool.Close(); return nil })
		store, err := postgres.Open(ctx, postgres.Options{
			URL: s.database("allocate"), Options: sqlstore.Options{Timeout: 2 * time.Second, MaxConnections: 8, Now: time.Now},
		})
		if err != nil {
			return nil, err
		}
		s.cleanUps = append(s.cleanUps, store.Close)
		if err := store.Counters().Create(ctx, persist.Counter{BizTag: "order", Max: firstNumber, Step: 1000}); err != nil {
			return nil, err
		}
		const update = "a bare UPDATE … RETURNING"
		got, err := callsInTurn(ctx, o.rounds, map[string]func() error{
			update: func() error {
				var n int64
				return pool.QueryRow(ctx, updatePeer, 1000).Scan(&n)
			},
			newBinary: func() error {
				_, err := store.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 1000, Step: 1000})
				return err
			},
		})
		if err != nil {
			return nil, err
		}
		return []result{got.against(update, "PostgreSQL: one Allocate, p50", p50Of, microseconds).atMost(1.5)}, nil
	})
}

// callsInTurn makes calls one at a time and in turn, and returns the median time of each. An extra
// round comes first as a warm-up and does not count.
func callsInTurn(ctx context.Context, rounds int, calls map[string]func() error) (scores, error) {
	const each = 1000
	got := make(scores)
	for round := range rounds + 1 {
		took := make(map[string][]time.Duration)
		for range each {
			for name, call := range calls {
				began := time.Now()
				if err := errors.Join(call(), ctx.Err()); err != nil {
					return nil, err
				}
				took[name] = append(took[name], time.Since(began))
			}
		}
		for name, times := range took {
			slices.Sort(times)
			if round > 0 {
				got[name] = append(got[name], sample{p50: permille(times, 500)})
			}
		}
	}
	return got, nil
}
