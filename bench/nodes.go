package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
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
		results = append(results, report(fmt.Sprintf("Redis CPU per ID, nodes: %d", n), cpu[i][1:], hundredths),
			report(fmt.Sprintf("Redis calls per ID, nodes: %d", n), calls[i][1:], ratio))
	}
	return results, nil
}

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
