package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy"
)

// The figures of this file are about gapless numbers. The peer is what a team would write first:
// one UPDATE … RETURNING on a row of PostgreSQL for each number.

// gaplessCallers is how many callers ask one counter at the same time.
const gaplessCallers = 64

// gapless returns a gapless biz type.
func gapless(name string) (seqd.BizType, error) {
	factory, err := strategy.Lookup("gapless")
	if err != nil {
		return seqd.BizType{}, err
	}
	return seqd.BizType{Name: name, Strategy: factory.Name, Settings: factory.Settings()}, nil
}

// startGapless serves the peer, and a gapless biz type on bolt and on PostgreSQL.
func (b *backends) startGapless(ctx context.Context) (update, onBolt, onPostgres string, err error) {
	invoice, err := gapless("invoice")
	if err != nil {
		return "", "", "", err
	}
	if err := b.startPostgres(ctx); err != nil {
		return "", "", "", err
	}
	if update, err = b.startUpdate(ctx); err != nil {
		return "", "", "", err
	}
	onBolt, stop, err := startWith(ctx, []seqd.BizType{invoice})
	if err != nil {
		return "", "", "", err
	}
	b.cleanUps = append(b.cleanUps, stop)
	cfg, err := b.onPostgres(ctx, "gapless", false, invoice)
	if err != nil {
		return "", "", "", err
	}
	onPostgres, err = b.seqd(ctx, cfg)
	return update, onBolt, onPostgres, err
}

// benchGaplessIssue compares gapless numbers with the peer.
func benchGaplessIssue(ctx context.Context, o options) (results []result, err error) {
	b := new(backends)
	defer func() { err = errors.Join(err, b.stop()) }()
	update, onBolt, onPostgres, err := b.startGapless(ctx)
	if err != nil {
		return nil, err
	}
	lists, err := turns(o.rounds,
		func() (float64, error) { return wrk(ctx, o, update) },
		func() (float64, error) { return wrk(ctx, o, onBolt+"/seq/invoice") },
		func() (float64, error) { return wrk(ctx, o, onPostgres+"/seq/invoice") })
	if err != nil {
		return nil, err
	}
	const peer = "gin route with one UPDATE … RETURNING per request, on PostgreSQL"
	return []result{
		atLeast("gapless on bolt, one number per request, 64 connections on one counter", lists[1], perSecond, 10_000),
		atLeast("gapless on PostgreSQL, one number per request, 64 connections on one counter", lists[2], perSecond, 4000),
		pairs{base: lists[0], value: lists[1]}.result("gapless on bolt", peer, perSecond, true, 5),
		pairs{base: lists[0], value: lists[2]}.result("gapless on PostgreSQL", peer, perSecond, true, 5),
	}, nil
}

// benchGaplessReserve compares numbers that are reserved and confirmed, two requests each, with
// numbers that are issued at once. Both are asked for by the same callers of net/http.
func benchGaplessReserve(ctx context.Context, o options) (results []result, err error) {
	b := new(backends)
	defer func() { err = errors.Join(err, b.stop()) }()
	_, onBolt, onPostgres, err := b.startGapless(ctx)
	if err != nil {
		return nil, err
	}
	callers := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: gaplessCallers}}
	defer callers.CloseIdleConnections()
	for _, store := range []struct{ name, url string }{{"bolt", onBolt}, {"PostgreSQL", onPostgres}} {
		seq := store.url + "/seq/invoice"
		p, err := measure(o.rounds,
			func() (float64, error) {
				return callersRate(ctx, o.duration, func() error { return post(ctx, callers, seq, http.StatusOK, nil) })
			},
			func() (float64, error) {
				return callersRate(ctx, o.duration, func() error { return reserveAndConfirm(ctx, callers, seq) })
			})
		if err != nil {
			return nil, err
		}
		results = append(results, p.result("gapless on "+store.name+": reserve and confirm, 64 callers", "issue at once, the same callers", perSecond, true, 0.33))
	}
	return results, nil
}

// reserveAndConfirm is two requests.
func reserveAndConfirm(ctx context.Context, callers *http.Client, seq string) error {
	var r struct {
		Reservation string `json:"reservation"`
	}
	if err := post(ctx, callers, seq+"/reservations", http.StatusCreated, &r); err != nil {
		return err
	}
	return post(ctx, callers, seq+"/reservations/"+r.Reservation+"/confirm", http.StatusOK, nil)
}

// post sends a request without a body, and decodes the answer unless into is nil.
func post(ctx context.Context, callers *http.Client, url string, want int, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	resp, err := callers.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != want:
		return fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	case into == nil:
		return nil
	}
	return json.Unmarshal(body, into)
}

// callersRate returns how often per second callers together do something.
func callersRate(ctx context.Context, duration time.Duration, do func() error) (float64, error) {
	counts, failed := make([]int, gaplessCallers), make([]error, gaplessCallers)
	began := time.Now()
	var all sync.WaitGroup
	for caller := range gaplessCallers {
		all.Go(func() {
			for time.Since(began) < duration && ctx.Err() == nil && failed[caller] == nil {
				failed[caller] = do()
				counts[caller]++
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / time.Since(began).Seconds(), errors.Join(failed...)
}
