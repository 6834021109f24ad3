package main

import (
	"context"
	"errors"
	"strings"
	"time"
)

const (
	// consoleTypes and consoleNodes are what the console shows in this figure.
	consoleTypes = 1000
	consoleNodes = 3
	// consolePause is the pause between two requests of the page for the overview, and askPause the
	// pause in this figure: the answer to the last one must have expired.
	consolePause = 5 * time.Second
	askPause     = 1100 * time.Millisecond
	// asks is how often the overview is asked for in a round that measures CPU, and asksRounds the
	// number of these rounds.
	asks       = 4
	asksRounds = 2
)

// benchConsole measures what an open console costs the node that it asks.
func benchConsole(ctx context.Context, o options) ([]result, error) {
	const none = "no console"
	return with(func(s *servers) ([]result, error) {
		n, err := s.startConsoleNodes(ctx, o)
		if err != nil {
			return nil, err
		}
		load := o.loading(ctx, n.child, n.url+"/seq/"+template)
		c := contest{rounds: o.rounds}
		c.add(none, load)
		c.add(newBinary, func() (sample, error) { return watched(n.url, time.Second, load) })
		issuing, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		used := func() (sample, error) { return uses(ctx, n.child, asks*askPause) }
		idle := contest{rounds: asksRounds}
		idle.add(none, used)
		idle.add(newBinary, func() (sample, error) { return watched(n.url, askPause, used) })
		cpu, err := idle.run(ctx)
		if err != nil {
			return nil, err
		}
		var shares []float64
		for i, s := range cpu[newBinary] {
			perAsk := (s.cpu - cpu[none][i].cpu) / (asks - 1) // there is a pause before the first one
			shares = append(shares, 100*perAsk/consolePause.Seconds())
		}
		return []result{
			issuing.against(none, "issuing while a console is open, 3 nodes, 1,000 biz types", rateOf, perSecond).atLeast(0.98),
			report("an open console: share of a core of the node that it asks", shares, percent).atMost(1),
		}, nil
	})
}

// startConsoleNodes starts nodes on PostgreSQL and returns the first one. It waits until that shows
// the figures of all.
func (s *servers) startConsoleNodes(ctx context.Context, o options) (first node, err error) {
	if err := s.startPostgres(ctx); err != nil {
		return first, err
	}
	env, err := s.onPostgres(ctx, "console", false)
	if err != nil {
		return first, err
	}
	if err := s.fillPostgres(ctx, "console", o.binary, consoleTypes, env); err != nil {
		return first, err
	}
	for i := range consoleNodes {
		n, err := s.startNode(ctx, o.binary, append(env, fromStore)...)
		if err != nil {
			return first, err
		}
		if err := warm(ctx, n, consoleTypes); err != nil {
			return first, err
		}
		if i == 0 {
			first = n
		}
	}
	for ctx.Err() == nil {
		body, err := get(first.url + "/overview")
		if err != nil || strings.Count(string(body), `"figures":{`) == consoleNodes {
			return first, err
		}
		time.Sleep(askPause)
	}
	return first, ctx.Err()
}

// watched calls run while the overview is asked for.
func watched(url string, pause time.Duration, run func() (sample, error)) (s sample, err error) {
	c, err := newClient(url + "/overview")
	if err != nil {
		return s, err
	}
	s, err = meanwhile(pause, c.get, run)
	return s, errors.Join(err, c.close())
}

// uses returns how many seconds of CPU a process uses in a time.
func uses(ctx context.Context, c *child, d time.Duration) (s sample, err error) {
	before, err := c.onCPU()
	if err != nil {
		return s, err
	}
	select {
	case <-ctx.Done():
		return s, ctx.Err()
	case <-time.After(d):
	}
	after, err := c.onCPU()
	return sample{cpu: after - before}, err
}
