package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/seqd/seqd/bench/openloop"
)

// The figures of this file are about a segment biz type with many keys, on the real binary and bolt.

// startKeyed starts the real binary with a keyed biz type.
func startKeyed(ctx context.Context, o options, liveKeys int) (p process, stop func() error, err error) {
	if o.binary == "" {
		return p, nil, errors.New("-binary is needed")
	}
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return p, nil, err
	}
	p, err = startFirst(ctx, o.binary, dir, "/seq/order?key=k000000", "SEQD_SERVER_STOPTIMEOUT=10m",
		fmt.Sprintf(`SEQD_BIZTYPES=[{"name":"order","start":%d,"keyed":true,"maxKeys":2000000,"liveKeys":%d}]`, firstNumber, liveKeys))
	if err != nil {
		return p, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, func() error { return errors.Join(p.stop(), os.RemoveAll(dir)) }, nil
}

// askKeys asks for the keys from 0 to n−1 once each, in this order but for those that 64 callers ask
// for at the same time.
func askKeys(ctx context.Context, url string, n int) error {
	callers := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer callers.CloseIdleConnections()
	return inParallel(n, 64, func(i int) error {
		return post(ctx, callers, fmt.Sprintf("%s/seq/order?key=k%06d", url, i), http.StatusOK, nil)
	})
}

// benchKeysMemory measures the memory of a process that a million keys were asked of.
func benchKeysMemory(ctx context.Context, o options) (results []result, err error) {
	n := 1_000_000
	if o.quick {
		n = 100_000
	}
	p, stop, err := startKeyed(ctx, o, 10_000)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := askKeys(ctx, p.url, n); err != nil {
		return nil, err
	}
	anonymous, err := p.anonymous()
	what := fmt.Sprintf("%s keys of a segment biz type on bolt, one after the other, liveKeys 10,000: anonymous memory", thousands(float64(n)))
	return []result{within(what, []float64{anonymous}, megabytes, 200e6)}, err
}

// benchKeysSpread compares 100,000 keys, asked for at random, with one.
func benchKeysSpread(ctx context.Context, o options) (results []result, err error) {
	const many = 100_000
	p, stop, err := startKeyed(ctx, o, many)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := askKeys(ctx, p.url, many); err != nil {
		return nil, err
	}
	load := func(spread int) func() (float64, error) {
		return func() (float64, error) {
			return saturated(ctx, openloop.Job{URL: p.url + "/seq/order?key=k000000", Connections: openConnections, Spread: spread}, o.duration)
		}
	}
	rates, err := measure(o.rounds, load(1), load(many))
	if err != nil {
		return nil, err
	}
	return []result{rates.result("segment on bolt, 100,000 keys at random, liveKeys 100,000, 64 connections", "one key", perSecond, true, 0.7)}, nil
}

// anonymous returns the anonymous resident memory of the process in bytes: what it does not share
// with files.
func (c *child) anonymous() (float64, error) {
	var kib float64
	_, err := fmt.Sscan(field(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid), "RssAnon"), &kib)
	return kib * 1024, err
}
