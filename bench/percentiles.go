package main

import (
	"context"

	"github.com/seqd/seqd/bench/openloop"
)

// percentileNames are the points of the plot of percentiles.
var percentileNames = []string{"p50", "p90", "p99", "p99.9"}

// points returns the times of the plot, in µs.
func points(p openloop.Percentiles) []float64 { return []float64{p.P50, p.P90, p.P99, p.P999} }

// shares are the loads of the plot, as shares of what the constant route gets through in a closed loop
// in the same run. All services get the same rates.
var shares = []struct {
	of    float64
	title string
}{{0.15, "at 15 % of full load"}, {0.4, "at 40 % of full load"}}

// benchPercentiles measures the percentiles of every kind of request, and of the constant route, at
// fixed rates and at saturation.
func benchPercentiles(ctx context.Context, o options) (out outcome, err error) {
	_, err = with(func(s *servers) ([]result, error) {
		list, err := s.kinds(ctx, o)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, k := range list {
			names = append(names, k.name)
		}
		a := axis{name: "percentile", x: []float64{0, 1, 2, 3}, labels: percentileNames}
		for _, share := range shares {
			out.panels = append(out.panels, a.panel(share.title, plotTime, true, names...))
		}
		out.panels = append(out.panels, a.panel("at full load", plotTime, true, names...))
		most, err := mustGood(ctx, o.closed(list[len(list)-1].url))
		if err != nil {
			return nil, err
		}
		return nil, inTurn(o.rounds, len(list)*len(out.panels), func(_, i int) error {
			line, panel := i%len(list), i/len(list)
			job := o.closed(list[line].url)
			if panel < len(shares) {
				job.Rate = shares[panel].of * most.Rate
			}
			r, err := mustGood(ctx, job)
			for x, value := range points(r.Took) {
				out.panels[panel].note(line, x, value)
			}
			return err
		})
	})
	return out, err
}

// kind is one kind of request.
type kind struct{ name, url string }

// kinds starts what the plots compare. The constant route is the last.
func (s *servers) kinds(ctx context.Context, o options) (list []kind, err error) {
	if err := s.startRedisAndPostgres(ctx); err != nil {
		return nil, err
	}
	o.oldBinary = ""
	embedded, err := s.startNode(ctx, o.binary, bizTypes(order, definition{"name": "user", "strategy": "snowflake"}))
	if err != nil {
		return nil, err
	}
	overRedis, err := s.startStrict(ctx, o, bizTypes(order))
	if err != nil {
		return nil, err
	}
	env, err := s.onPostgres(ctx, "kinds", false)
	if err != nil {
		return nil, err
	}
	onPostgres, err := s.startNode(ctx, o.binary, append(env, bizTypes(order))...)
	if err != nil {
		return nil, err
	}
	_, constant, err := s.startConstant(ctx, embedded.url+"/seq/order")
	return []kind{
		{"bolt", embedded.url + "/seq/order"},
		{"strict over Redis", overRedis[0].url + "/seq/order"},
		{"strict from PostgreSQL", onPostgres.url + "/seq/order"},
		{"snowflake", embedded.url + "/seq/user"},
		{constantRoute, constant + "0"},
	}, err
}
