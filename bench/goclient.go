package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	goclient "github.com/seqd/seqd/client"
)

// The figures of this file are about the Go client, on the real binary and bolt.

// startForClient starts the real binary and returns a client of it.
func startForClient(ctx context.Context, o options) (c *goclient.Client, url string, stop func() error, err error) {
	if o.binary == "" {
		return nil, "", nil, errors.New("-binary is needed")
	}
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return nil, "", nil, err
	}
	p, err := startFirst(ctx, o.binary, dir, "/seq/order", fmt.Sprintf(`SEQD_BIZTYPES=[{"name":"order","start":%d}]`, firstNumber))
	if err != nil {
		return nil, "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() error { return errors.Join(p.stop(), os.RemoveAll(dir)) }
	c, err = goclient.New(goclient.Config{Addrs: []string{p.url}})
	if err != nil {
		return nil, "", nil, errors.Join(err, stop())
	}
	return c, p.url, stop, nil
}

// benchClientBuffered measures IDs from a buffer by one goroutine, which takes them as fast as they
// come: what fetching them costs is part of it. Allocations are an error.
func benchClientBuffered(ctx context.Context, o options) (results []result, err error) {
	c, _, stop, err := startForClient(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	buffer, err := c.Buffer("order", goclient.BufferOptions{Size: 20_000})
	if err != nil {
		return nil, err
	}
	defer buffer.Close()
	lists, err := turns(o.rounds, func() (float64, error) {
		return perOp(func(b *testing.B) {
			for b.Loop() {
				if _, err := buffer.Next(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return []result{within("Go client, a buffer of 20,000, one goroutine, 0 allocations: time per ID", lists[0], nanoseconds, 40)}, nil
}

// benchClientNext compares an ID by the client with a bare call of net/http, one at a time. The
// bare call reads the answer and does not decode it.
func benchClientNext(ctx context.Context, o options) (results []result, err error) {
	c, url, stop, err := startForClient(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	bare := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer bare.CloseIdleConnections()
	call := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/seq/order", nil)
		if err != nil {
			return err
		}
		resp, err := bare.Do(req)
		if err != nil {
			return err
		}
		_, err = io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
	next := func() error {
		_, err := c.Next(ctx, "order")
		return err
	}
	p, err := timesInTurn(ctx, o.rounds, call, next)
	if err != nil {
		return nil, err
	}
	return []result{p.result("Go client, `Next`, one at a time, bolt", "the same request by net/http", microseconds, false, 1.10)}, nil
}
