package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd/bench/openloop"
)

// upTo returns the powers of ten from 1.
func upTo(most float64) (list []float64) {
	for n := 1.0; n <= most; n *= 10 {
		list = append(list, n)
	}
	return list
}

// steadyRate is the rate at which plots measure p99. It is far below the capacity of every service,
// even over one connection.
const steadyRate = 2000

// growConnections loads from 1 to 1,000 connections.
func growConnections(ctx context.Context, o options) (out outcome, err error) {
	a := axis{name: "connections", x: upTo(1000), log: true}
	if o.quick {
		a.x = upTo(100)
	}
	_, err = with(func(s *servers) ([]result, error) {
		all, err := s.kinds(ctx, o)
		if err != nil {
			return nil, err
		}
		list := []kind{all[0], all[1], all[len(all)-1]}
		names := []string{list[0].name, list[1].name, list[2].name}
		most := a.panel("closed loop", plotRate, false, names...)
		slowest := a.panel(fmt.Sprintf("p99 at %s requests/s", thousands(steadyRate)), plotTime, true, names...)
		err = inTurn(o.rounds, len(list)*len(a.x), func(_, i int) error {
			line, x := i%len(list), i/len(list)
			for _, p := range []struct {
				job  openloop.Job
				note func(openloop.Report)
			}{
				{o.closed(list[line].url), func(r openloop.Report) { most.note(line, x, r.Rate) }},
				{o.open(list[line].url, steadyRate), func(r openloop.Report) { slowest.note(line, x, r.Took.P99) }},
			} {
				p.job.Connections = int(a.x[x])
				r, err := mustGood(ctx, p.job)
				if err != nil {
					return err
				}
				p.note(r)
			}
			return nil
		})
		out.panels = []panel{most, slowest}
		return nil, err
	})
	return out, err
}

// growNodes loads one strict counter on 1 to 4 nodes.
func growNodes(ctx context.Context, o options) (out outcome, err error) {
	a := axis{name: "nodes on one counter", x: []float64{1, 2, 3, 4}}
	_, err = with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		const overRedis, fromStore = "strict over Redis", "strict from PostgreSQL"
		most := a.panel("closed loop, all nodes together", plotRate, false, overRedis, fromStore)
		var urls [2][]string
		for line, redis := range []bool{true, false} {
			env, err := s.onPostgres(ctx, fmt.Sprintf("nodes%d", line), redis)
			if err != nil {
				return nil, err
			}
			for range a.x {
				n, err := s.startNode(ctx, o.binary, append(env, bizTypes(order))...)
				if err != nil {
					return nil, err
				}
				urls[line] = append(urls[line], n.url+"/seq/order")
			}
		}
		err := inTurn(o.rounds, len(urls)*len(a.x), func(_, i int) error {
			line, x := i%len(urls), i/len(urls)
			rate, err := saturateAll(ctx, o, urls[line][:x+1])
			most.note(line, x, rate)
			return err
		})
		out.panels = []panel{most}
		return nil, err
	})
	return out, err
}

// saturateAll loads all URLs at the same time, each over its own connections, and returns the sum of
// the rates.
func saturateAll(ctx context.Context, o options, urls []string) (sum float64, err error) {
	rates, failed := make([]float64, len(urls)), make([]error, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() {
			r, err := mustGood(ctx, o.closed(url))
			rates[i], failed[i] = r.Rate, err
		})
	}
	all.Wait()
	for _, rate := range rates {
		sum += rate
	}
	return sum, errors.Join(failed...)
}

// growBizTypes starts nodes on bolt stores with 1 to 1,000,000 biz types.
func growBizTypes(ctx context.Context, o options) (out outcome, err error) {
	a := axis{name: "biz types in the store", x: []float64{1, 1000, 100_000, 1_000_000}, log: true}
	if o.quick {
		a.x = []float64{1, 1000, 10_000}
	}
	most := a.panel("up to 1,000 asked at random", plotRate, false, "")
	memory := a.panel("resident memory at rest", plotMemory, true, "")
	ready := a.panel("from the start until ready", plotTime, true, "")
	for x, n := range a.x {
		_, err := with(func(s *servers) ([]result, error) {
			dir, err := s.folder()
			if err != nil {
				return nil, err
			}
			if err := s.fillBolt(ctx, dir, o.binary, int(n)); err != nil {
				return nil, err
			}
			for range o.rounds {
				node, rate, resident, err := s.askSome(ctx, o, dir, min(int(n), 1000))
				if err != nil {
					return nil, err
				}
				most.note(0, x, rate)
				memory.note(0, x, resident)
				ready.note(0, x, node.took)
			}
			return nil, nil
		})
		if err != nil {
			return out, fmt.Errorf("%.0f biz types: %w", n, err)
		}
	}
	out.panels = []panel{most, memory, ready}
	return out, nil
}

// askSome starts a node, asks for some of its biz types at random, and stops it.
func (s *servers) askSome(ctx context.Context, o options, dir string, types int) (n node, rate, resident float64, err error) {
	n, err = s.startNodeIn(ctx, dir, o.binary, "/readyz", fromStore)
	if err != nil {
		return n, 0, 0, err
	}
	time.Sleep(settling)
	if resident, err = n.resident(); err != nil {
		return n, 0, 0, err
	}
	if err := warm(ctx, n, types); err != nil {
		return n, 0, 0, err
	}
	job := o.closed(n.url + "/seq/" + template)
	job.Spread = types
	r, err := mustGood(ctx, job)
	return n, r.Rate, resident, errors.Join(err, n.stop())
}
