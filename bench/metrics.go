package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/config"
)

// benchMetrics loads seqd with and without metrics, and then with 10,000 biz types while it is
// scraped far too often.
func benchMetrics(ctx context.Context, o options) ([]result, error) {
	cost, err := benchCounting(ctx, o)
	if err != nil {
		return nil, err
	}
	scrapes, err := benchScrapes(ctx, o)
	return append(cost, scrapes...), err
}

// benchCounting compares metrics on with metrics off.
func benchCounting(ctx context.Context, o options) (results []result, err error) {
	off, stopOff, err := startMeasured(ctx, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopOff()) }()
	on, stopOn, err := startMeasured(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopOn()) }()
	p, err := measure(o.rounds,
		func() (float64, error) { return wrk(ctx, o, off+"/seq/order") },
		func() (float64, error) { return wrk(ctx, o, on+"/seq/order") })
	if err != nil {
		return nil, err
	}
	return []result{p.result("metrics on, one ID per request, 64 connections", "metrics off", perSecond, true, 0.95)}, nil
}

// startMeasured runs seqd with or without metrics on a new store.
func startMeasured(ctx context.Context, enabled bool) (url string, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return "", nil, err
	}
	cfg := config.Default()
	cfg.Store.Bolt.Path, cfg.BizTypes, cfg.Metrics.Enabled = filepath.Join(dir, "seqd.db"), []seqd.BizType{bizType("order")}, enabled
	url, stopSeqd, err := runSeqd(ctx, &cfg)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return url, func() error { return errors.Join(stopSeqd(), os.RemoveAll(dir)) }, nil
}

// benchScrapes measures /metrics with 10,000 biz types that have all issued, and issuing while
// /metrics is requested 100 times a second.
func benchScrapes(ctx context.Context, o options) (results []result, err error) {
	const many = 10_000
	var bizTypes []seqd.BizType
	for i := range many {
		bizTypes = append(bizTypes, bizType(fmt.Sprintf("type%06d", i)))
	}
	url, stop, err := startWith(ctx, bizTypes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := warmAll(ctx, url, many); err != nil {
		return nil, err
	}
	fresh, sizes, err := freshScrapes(o.rounds, url)
	if err != nil {
		return nil, err
	}
	issue := func() (float64, error) { return wrk(ctx, o, url+"/seq/type000000") }
	p, err := measure(o.rounds, issue, func() (float64, error) { return scraped(url, issue) })
	if err != nil {
		return nil, err
	}
	one := report("`/metrics`, 10,000 biz types, collected anew", fresh, milliseconds)
	one.target, one.reached = "< 1 s", median(fresh) < 1e6
	return []result{
		one,
		report("its size as text", sizes, kilobytes),
		p.result("issuing while scraped 100 times a second, 10,000 biz types", "not scraped", perSecond, true, 0.95),
	}, nil
}

// collectPause is longer than /metrics caches its values with so many biz types.
const collectPause = 4 * time.Second

// freshScrapes returns the time in µs and the uncompressed size in bytes of scrapes that find
// nothing cached.
func freshScrapes(rounds int, url string) (took, sizes []float64, err error) {
	for range rounds {
		time.Sleep(collectPause)
		began := time.Now()
		body, err := get(url + "/metrics")
		if err != nil {
			return nil, nil, err
		}
		took, sizes = append(took, float64(time.Since(began).Microseconds())), append(sizes, float64(len(body)))
	}
	return took, sizes, nil
}

// scraped calls run while /metrics is requested 100 times a second, compressed as for Prometheus.
func scraped(url string, run func() (float64, error)) (value float64, err error) {
	c, err := newClient(url + "/metrics")
	if err != nil {
		return 0, err
	}
	c.request = append(c.request[:len(c.request)-len("\r\n")], "Accept-Encoding: gzip\r\n\r\n"...)
	return polled(c, 10*time.Millisecond, run)
}

// polled calls run while a client, which it closes, makes its request again and again.
func polled(c *client, pause time.Duration, run func() (float64, error)) (value float64, err error) {
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for err := error(nil); ; {
			select {
			case <-done:
				ended <- errors.Join(err, c.close())
				return
			case <-ticker.C:
			}
			if err == nil {
				err = c.get()
			}
		}
	}()
	value, err = run()
	close(done)
	return value, errors.Join(err, <-ended)
}
