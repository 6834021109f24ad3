package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"
)

const (
	changeNodes = 3
	// Changes come at once with Redis, and without it by asking the store.
	fastChanges, slowChanges = 50, 2
)

// benchChanges disables and enables a biz type on one node, and measures how soon all nodes follow.
func benchChanges(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) (results []result, err error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		for _, c := range []struct {
			name    string
			redis   bool
			changes int
			bound   float64 // µs
		}{{"with Redis", true, fastChanges, 1e6}, {"without Redis", false, slowChanges, 5e6}} {
			env, err := s.onPostgres(ctx, map[bool]string{true: "fast", false: "slow"}[c.redis], c.redis)
			if err != nil {
				return nil, err
			}
			var nodes []node
			for range changeNodes {
				n, err := s.startNode(ctx, o.binary, append(env, bizTypes(order))...)
				if err != nil {
					return nil, err
				}
				nodes = append(nodes, n)
			}
			took, err := followChanges(ctx, nodes, c.changes)
			if err != nil {
				return nil, err
			}
			what := "a change is seen by 3 nodes, " + c.name
			results = append(results,
				report(what+": p50", []float64{permille(took, 500)}, milliseconds),
				report(what+": slowest", []float64{permille(took, 1000)}, milliseconds).atMost(c.bound))
		}
		return results, nil
	})
}

// followChanges returns the sorted times from the answer to a change until the last node has followed.
func followChanges(ctx context.Context, nodes []node, changes int) (took []time.Duration, err error) {
	for range changes {
		for _, change := range []struct {
			path string
			want int // of a request for a number
		}{{"/disable", http.StatusConflict}, {"/enable", http.StatusOK}} {
			if err := post(ctx, http.DefaultClient, nodes[0].url+"/biz-types/order"+change.path, "", http.StatusOK, nil); err != nil {
				return nil, err
			}
			began := time.Now()
			for _, n := range nodes {
				if err := awaitStatus(ctx, n.url+"/seq/order", change.want); err != nil {
					return nil, err
				}
			}
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	return took, nil
}

// awaitStatus asks until the answer has a status.
func awaitStatus(ctx context.Context, url string, want int) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if _, err = answer(http.DefaultClient, req, want); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		time.Sleep(200 * time.Microsecond)
	}
}
