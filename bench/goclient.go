package main

import (
	"context"
	"net/http"
	"testing"

	goclient "github.com/seqd/seqd/client"
)

// startForClient starts a node and returns a client of it.
func (s *servers) startForClient(ctx context.Context, o options) (*goclient.Client, node, error) {
	n, err := s.startNode(ctx, o.binary, bizTypes(order))
	if err != nil {
		return nil, n, err
	}
	c, err := goclient.New(goclient.Config{Addrs: []string{n.url}})
	return c, n, err
}

// benchClientBuffered measures IDs from a buffer by one goroutine, which takes them as fast as they
// come: what fetching them costs is part of it. Allocations are an error.
func benchClientBuffered(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		client, _, err := s.startForClient(ctx, o)
		if err != nil {
			return nil, err
		}
		buffer, err := client.Buffer("order", goclient.BufferOptions{Size: 20_000})
		if err != nil {
			return nil, err
		}
		defer buffer.Close()
		c := contest{rounds: o.rounds}
		c.addValue(newBinary, func() (float64, error) {
			return perOp(func(b *testing.B) {
				for b.Loop() {
					if _, err := buffer.Next(ctx); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		return []result{got.report("Go client, one ID from a buffer of 20,000", rateOf, nanoseconds).atMost(40)}, nil
	})
}

// benchClientNext compares an ID by the client with a bare call of net/http, one at a time. The
// bare call reads the answer and does not decode it.
func benchClientNext(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		client, n, err := s.startForClient(ctx, o)
		if err != nil {
			return nil, err
		}
		bare := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
		defer bare.CloseIdleConnections()
		const netHTTP = "the same request by net/http"
		got, err := callsInTurn(ctx, o.rounds, map[string]func() error{
			netHTTP: func() error {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"/seq/order", nil)
				if err != nil {
					return err
				}
				_, err = answer(bare, req, http.StatusOK)
				return err
			},
			newBinary: func() error {
				_, err := client.Next(ctx, "order")
				return err
			},
		})
		if err != nil {
			return nil, err
		}
		return []result{got.against(netHTTP, "Go client, `Next`, one at a time: p50", p50Of, microseconds).atMost(1.10)}, nil
	})
}
