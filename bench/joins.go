package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/strategy/segment"
)

// The load of the figure joins: a segment lasts joinEvery, and getting the next takes two replies of the store.
const (
	joinEvery  = 150 * time.Millisecond
	storeDelay = 50 * time.Millisecond
)

var joinPace = pace{perSecond: 2000, requests: 20_000, connections: 32}

// benchJoins compares the slowest requests of a counter that joins segment to segment all the time, on a slow store, with those of one that never does.
func benchJoins(ctx context.Context, o options) (results []result, err error) {
	b, err := startBackends(ctx, o, true) // a replica set would lead the driver around the proxy
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	slow, stop, err := delayed(strings.TrimPrefix(b.mongoURI, "mongodb://"), storeDelay)
	if err != nil {
		return nil, err
	}
	b.cleanUps = append(b.cleanUps, stop)
	b.mongoURI = "mongodb://" + slow

	refills := &refills{}
	step := int64(joinPace.perSecond) * joinEvery.Milliseconds() / 1000
	small, err := b.seqd(ctx, b.config("small", []seqd.BizType{fixedStep(step)}), server.WithObserver(refills))
	if err != nil {
		return nil, err
	}
	huge, err := b.seqd(ctx, b.config("huge", []seqd.BizType{fixedStep(1_000_000_000)}))
	if err != nil {
		return nil, err
	}
	slowest := func(url string) (float64, error) {
		took, err := joinPace.run(url + "/seq/order")
		if err := errors.Join(err, ctx.Err()); err != nil {
			return 0, err
		}
		return permille(took, 999), nil
	}
	p, err := measure(o.rounds,
		func() (float64, error) { return slowest(huge) },
		func() (float64, error) {
			before := refills.Load()
			value, err := slowest(small)
			if joins, least := refills.Load()-before, int64(joinPace.requests)/step; err == nil && joins < least {
				err = fmt.Errorf("the store gave %d ranges, and the load needs %d: joins did not come as they should", joins, least)
			}
			return value, err
		})
	if err != nil {
		return nil, err
	}
	return []result{p.result(
		fmt.Sprintf("strict over Redis, p99.9 at %d requests/s with a join every %s, each reply of the store after %s", joinPace.perSecond, joinEvery, storeDelay),
		"the same without joins", milliseconds, false, 1.2)}, nil
}

// fixedStep is a biz type whose segments are all of one size.
func fixedStep(step int64) seqd.BizType {
	settings := segment.DefaultSettings()
	settings.Start, settings.Step, settings.MaxStep = firstNumber, step, step
	return seqd.BizType{Name: "order", Strategy: segment.Name, Settings: &settings}
}

// refills counts the ranges that the store gave.
type refills struct {
	seqd.NopObserver
	atomic.Int64
}

var _ seqd.Observer = (*refills)(nil)

// Event implements [seqd.Observer].
func (r *refills) Event(e seqd.Event) {
	if e.Kind == seqd.EventRefilled {
		r.Add(1)
	}
}

// delayed starts a TCP proxy that passes on everything that comes back from upstream later than it came.
func delayed(upstream string, by time.Duration) (addr string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(ctx, conn, upstream, by)
		}
	}()
	return listener.Addr().String(), func() error { cancel(); return listener.Close() }, nil
}

// relay serves one connection until one of its ends closes it, or ctx ends.
func relay(ctx context.Context, down net.Conn, upstream string, by time.Duration) {
	defer down.Close()
	up, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	defer up.Close()
	defer context.AfterFunc(ctx, func() { _, _ = up.Close(), down.Close() })()
	go func() {
		_, _ = io.Copy(up, down)
		_ = up.Close()
	}()
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			data := make([]byte, 16<<10)
			n, err := up.Read(data)
			if err != nil {
				return
			}
			pieces <- piece{time.Now().Add(by), data[:n]}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := down.Write(p.data); err != nil {
			_ = up.Close() // and the reader ends
		}
	}
}
