package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/postgres"
	"github.com/seqd/seqd/persist/sqlstore"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment"
)

// The figures of this file are about a PostgreSQL store. The peer is what a team would write first:
// a table with one row for each sequence, and one UPDATE … RETURNING for each request.

// onPostgres returns a configuration on the PostgreSQL server. With Redis, strict numbers come from
// a cursor there, and without it from the store itself.
func (b *backends) onPostgres(ctx context.Context, name string, redis bool, bizTypes ...seqd.BizType) (*config.Config, error) {
	cfg := config.Default()
	cfg.Store.Driver, cfg.Store.Postgres.URL = "postgres", b.postgresURL+name
	if redis {
		cfg.Redis.Addrs, cfg.Redis.KeyPrefix = []string{b.redisAddr}, name+":"
	}
	cfg.BizTypes = bizTypes
	return &cfg, b.createDatabase(ctx, name)
}

// perNode returns a biz type whose numbers are in order on each node only.
func perNode(name string) seqd.BizType {
	b := bizType(name)
	b.Settings.(*segment.Settings).Ordering = segment.PerNode
	return b
}

const (
	createPeer = "CREATE TABLE peer (name text PRIMARY KEY, max bigint NOT NULL)"
	insertPeer = "INSERT INTO peer VALUES ('order', $1)"
	updatePeer = "UPDATE peer SET max = max + $1 WHERE name = 'order' RETURNING max"
)

// peer returns a pool with the default settings of the library, and the peer's table.
func (b *backends) peer(ctx context.Context) (*pgxpool.Pool, error) {
	if err := b.createDatabase(ctx, "peer"); err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, b.postgresURL+"peer")
	if err != nil {
		return nil, err
	}
	b.cleanUps = append(b.cleanUps, func() error { pool.Close(); return nil })
	if _, err := pool.Exec(ctx, createPeer); err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, insertPeer, firstNumber)
	return pool, err
}

// startUpdate serves a counter for comparison: one UPDATE … RETURNING for each request.
func (b *backends) startUpdate(ctx context.Context) (url string, err error) {
	pool, err := b.peer(ctx)
	if err != nil {
		return "", err
	}
	engine := newEngine()
	engine.GET("/update", func(c *gin.Context) {
		var n int64
		if err := pool.QueryRow(c.Request.Context(), updatePeer, 1).Scan(&n); err != nil {
			c.Status(http.StatusServiceUnavailable)
			return
		}
		body := strconv.AppendInt([]byte(`{"bizType":"order","id":"`), n, 10)
		c.Data(http.StatusOK, "application/json", append(body, `"}`...))
	})
	url, stop, err := serve(engine)
	if err != nil {
		return "", err
	}
	b.cleanUps = append(b.cleanUps, stop)
	return url + "/update", nil
}

// startWithPostgres starts Redis, the store of the other figures, and PostgreSQL.
func startWithPostgres(ctx context.Context, o options) (*backends, error) {
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return nil, err
	}
	if err := b.startPostgres(ctx); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

// benchPostgresPerNode compares numbers from a node's own buffer on PostgreSQL and on bolt.
func benchPostgresPerNode(ctx context.Context, o options) (results []result, err error) {
	b := new(backends)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.startPostgres(ctx); err != nil {
		return nil, err
	}
	onBolt, stop, err := startWith(ctx, []seqd.BizType{perNode("order")})
	if err != nil {
		return nil, err
	}
	b.cleanUps = append(b.cleanUps, stop)
	cfg, err := b.onPostgres(ctx, "pernode", false, perNode("order"))
	if err != nil {
		return nil, err
	}
	url, err := b.seqd(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p, err := measure(o.rounds,
		func() (float64, error) { return wrk(ctx, o, onBolt+"/seq/order") },
		func() (float64, error) { return wrk(ctx, o, url+"/seq/order") })
	if err != nil {
		return nil, err
	}
	return []result{p.result("per-node on PostgreSQL, one ID per request, 64 connections", "the same on bolt", perSecond, true, 0.98)}, nil
}

// benchPostgresAllocate compares one Allocate with a bare UPDATE … RETURNING, one at a time.
func benchPostgresAllocate(ctx context.Context, o options) (results []result, err error) {
	b := new(backends)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.startPostgres(ctx); err != nil {
		return nil, err
	}
	pool, err := b.peer(ctx)
	if err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, postgres.Options{
		URL: b.postgresURL + "seqd", Options: sqlstore.Options{Timeout: 2 * time.Second, MaxConnections: 8, Now: time.Now},
	})
	if err != nil {
		return nil, err
	}
	b.cleanUps = append(b.cleanUps, store.Close)
	if err := store.Counters().Create(ctx, persist.Counter{BizTag: "order", Max: firstNumber, Step: 1000}); err != nil {
		return nil, err
	}
	update := func() error {
		var n int64
		return pool.QueryRow(ctx, updatePeer, 1000).Scan(&n)
	}
	allocate := func() error {
		_, err := store.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 1000, Step: 1000})
		return err
	}
	p, err := timesInTurn(ctx, o.rounds, update, allocate)
	if err != nil {
		return nil, err
	}
	return []result{p.result("PostgreSQL: one Allocate", "a bare UPDATE … RETURNING", microseconds, false, 1.5)}, nil
}

// benchPostgresStrict compares strict numbers on PostgreSQL, from the store itself and over Redis,
// with each other, with a route that does one UPDATE … RETURNING, and with MongoDB below Redis.
func benchPostgresStrict(ctx context.Context, o options) (results []result, err error) {
	b, err := startWithPostgres(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	update, err := b.startUpdate(ctx)
	if err != nil {
		return nil, err
	}
	urls := []string{update}
	for _, redis := range []bool{false, true} {
		cfg, err := b.onPostgres(ctx, fmt.Sprintf("strict_%t", redis), redis, bizType("order"))
		if err != nil {
			return nil, err
		}
		url, err := b.seqd(ctx, cfg)
		if err != nil {
			return nil, err
		}
		urls = append(urls, url+"/seq/order")
	}
	onMongo, err := b.seqd(ctx, b.config("strict", []seqd.BizType{bizType("order")}))
	if err != nil {
		return nil, err
	}
	urls = append(urls, onMongo+"/seq/order")
	var loads []func() (float64, error)
	for _, url := range urls {
		loads = append(loads, func() (float64, error) { return wrk(ctx, o, url) })
	}
	lists, err := turns(o.rounds, loads...)
	if err != nil {
		return nil, err
	}
	const fromStore = "strict from PostgreSQL itself, one ID per request, 64 connections"
	return []result{
		pairs{base: lists[0], value: lists[1]}.result(fromStore, "gin route with one UPDATE … RETURNING per request", perSecond, true, 8),
		pairs{base: lists[2], value: lists[1]}.result(fromStore, "strict over Redis", perSecond, true, 0.85),
		pairs{base: lists[3], value: lists[2]}.result("strict over Redis, PostgreSQL below it", "MongoDB below it", perSecond, true, 0.98),
	}, nil
}

// benchPostgresNodes loads one counter on 1, 2 and 4 nodes, once over Redis and once from the
// store.
func benchPostgresNodes(ctx context.Context, o options) (results []result, err error) {
	b := new(backends)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := errors.Join(b.startRedis(ctx), b.startPostgres(ctx)); err != nil {
		return nil, err
	}
	nodes := []int{1, 2, 4}
	var urls [2][]string
	for i, redis := range []string{b.redisAddr, ""} {
		name := fmt.Sprintf("nodes%d", i)
		if err := b.createDatabase(ctx, name); err != nil {
			return nil, err
		}
		urls[i], err = b.startNodesOn(ctx, o, slices.Max(nodes),
			"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL="+b.postgresURL+name, "SEQD_REDIS_ADDRS="+redis)
		if err != nil {
			return nil, err
		}
	}
	rates, slowest := make([]pairs, len(nodes)), make([]pairs, len(nodes))
	err = inTurn(o.rounds+1, 2*len(nodes), func(round, i int) error {
		fromStore, n := i%2 == 1, i/2
		sum, p99, err := saturateEach(ctx, urls[i%2][:nodes[n]], o.duration)
		switch {
		case round == 0: // the warm-up
		case fromStore:
			rates[n].value, slowest[n].value = append(rates[n].value, sum), append(slowest[n].value, p99)
		default:
			rates[n].base, slowest[n].base = append(rates[n].base, sum), append(slowest[n].base, p99)
		}
		return err
	})
	for n, count := range nodes {
		what := fmt.Sprintf("strict from PostgreSQL itself, %d nodes, 64 connections each", count)
		results = append(results, rates[n].report(what, "strict over Redis", perSecond), slowest[n].report(what+", p99", "strict over Redis", milliseconds))
	}
	return results, err
}

// saturateEach loads all URLs at the same time, and returns the rate of all together and the
// highest p99, in microseconds.
func saturateEach(ctx context.Context, urls []string, duration time.Duration) (rate, p99 float64, err error) {
	reports, err := saturateReports(ctx, urls, duration)
	for _, r := range reports {
		rate, p99 = rate+r.Rate, max(p99, r.Took.P99)
	}
	return rate, p99, err
}
