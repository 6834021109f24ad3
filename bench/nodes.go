package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server"
)

// benchNodes loads 1, 2 and 4 processes that share one counter.
func benchNodes(ctx context.Context, o options) (results []result, err error) {
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	sizes := []int{1, 2, 4}
	urls, err := b.startNodes(ctx, o, sizes[len(sizes)-1])
	if err != nil {
		return nil, err
	}
	cpu, calls := make([][]float64, len(sizes)), make([][]float64, len(sizes))
	var measurements []func() (float64, error)
	for i, n := range sizes {
		measurements = append(measurements, func() (float64, error) {
			l, perID, err := b.during(ctx, func() (load, error) { return wrkAll(ctx, o, urls[:n]) })
			cpu[i] = append(cpu[i], perID.cpu*1e6)
			calls[i] = append(calls[i], perID.scripts)
			return l.rate, err
		})
	}
	rates, err := turns(o.rounds, measurements...)
	if err != nil {
		return nil, err
	}
	for i, n := range sizes {
		what := fmt.Sprintf("strict, %d nodes and one Redis on these %d cores, 64 connections each", n, runtime.NumCPU())
		if i == 0 {
			results = append(results, report(fmt.Sprintf("strict, 1 node and one Redis on these %d cores, 64 connections", runtime.NumCPU()), rates[0], perSecond))
		} else {
			results = append(results, pairs{base: rates[0], value: rates[i]}.report(what, "1 node", perSecond))
		}
	}
	for i, n := range sizes {
		results = append(results, report(fmt.Sprintf("Redis CPU per ID, nodes: %d", n), cpu[i][1:], tenths),
			report(fmt.Sprintf("Redis calls per ID, nodes: %d", n), calls[i][1:], ratio))
	}
	return results, nil
}

func tenths(n float64) string { return fmt.Sprintf("%.2f µs", n) }

// startNodes starts seqd processes on these servers and returns where each issues numbers of the biz type order.
func (b *backends) startNodes(ctx context.Context, o options, n int) (urls []string, err error) {
	if o.binary == "" {
		return nil, errors.New("-binary is needed")
	}
	bizTypes, err := json.Marshal([]map[string]any{{"name": "order", "start": firstNumber}})
	if err != nil {
		return nil, err
	}
	database := b.databaseFor("nodes")
	for range n {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		env := []string{
			"SEQD_SERVER_ADDR=" + addr, "SEQD_LOG_LEVEL=error", "SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + b.mongoURI,
			"SEQD_STORE_MONGO_DATABASE=" + database, "SEQD_REDIS_ADDRS=" + b.redisAddr, "SEQD_BIZTYPES=" + string(bizTypes),
		}
		if err := b.start(ctx, addr, env, o.binary); err != nil {
			return nil, err
		}
		if err := awaitReady(ctx, "http://"+addr); err != nil {
			return nil, err
		}
		urls = append(urls, "http://"+addr+"/seq/order")
	}
	return urls, nil
}

// wrkAll loads all URLs at the same time, each from connections of its own.
func wrkAll(ctx context.Context, o options, urls []string) (sum load, err error) {
	loads, failed := make([]load, len(urls)), make([]error, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() { loads[i], failed[i] = runWrk(ctx, o, url) })
	}
	all.Wait()
	for _, l := range loads {
		sum.rate += l.rate
		sum.requests += l.requests
	}
	return sum, errors.Join(failed...)
}

// benchActive asks for numbers of very many biz types at random, under strict ordering.
func benchActive(ctx context.Context, o options) (results []result, err error) {
	const many = 10_000
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	var names []seqd.BizType
	for i := range many {
		names = append(names, bizType(fmt.Sprintf("type%06d", i)))
	}
	one, err := b.seqd(ctx, b.config("one", names[:1]))
	if err != nil {
		return nil, err
	}
	store := &storeUse{}
	cfg := b.config("many", names)
	cfg.Server.StopTimeout = 5 * time.Minute // all standby ranges go back, one by one
	all, err := b.seqd(ctx, cfg, server.WithObserver(store))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(warmAll(ctx, all, many), store.settle(ctx)); err != nil {
		return nil, err
	}
	var oneCalls, allCalls []float64
	measurement := func(url string, n int, calls *[]float64) func() (float64, error) {
		return func() (float64, error) {
			l, perID, err := b.during(ctx, func() (load, error) { return runWrkSpread(ctx, o, url, n) })
			*calls = append(*calls, perID.scripts)
			return l.rate, err
		}
	}
	p, err := measure(o.rounds, measurement(one, 1, &oneCalls), measurement(all, many, &allCalls))
	if err != nil {
		return nil, err
	}
	calls := pairs{base: oneCalls[1:], value: allCalls[1:]}
	return []result{
		p.report("strict, 10,000 biz types, all asked for at random, 64 connections", "1 biz type, same load script", perSecond),
		calls.report("Redis calls per ID at that load", "1 biz type", ratio),
	}, nil
}

// storeUse notes when the store was last asked for ranges.
type storeUse struct {
	seqd.NopObserver
	last atomic.Int64 // ns since the Unix epoch
}

var _ seqd.Observer = (*storeUse)(nil)

// Event implements [seqd.Observer].
func (s *storeUse) Event(e seqd.Event) {
	if e.Kind == seqd.EventRefilled || e.Kind == seqd.EventRefillFailed {
		s.last.Store(time.Now().UnixNano())
	}
}

// settle waits until what the first request of every biz type set off in the background is over.
func (s *storeUse) settle(ctx context.Context) error {
	for time.Since(time.Unix(0, s.last.Load())) < 3*time.Second {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}
