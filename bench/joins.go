package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/strategy/segment"
)

// The load of the figure joins: a segment lasts joinEvery, and fetching the next takes two replies
// of the store.
const (
	joinEvery  = 150 * time.Millisecond
	storeDelay = 50 * time.Millisecond
)

// A round alternates short slices of both loads, so that a slow spell of the machine affects both.
const joinSlices = 5

var joinSlice = pace{perSecond: 2000, requests: 4000, connections: 32}

// benchJoins compares the slowest requests of two counters on a slow store: one switches segments
// all the time, the other never.
func benchJoins(ctx context.Context, o options) (results []result, err error) {
	b, err := startBackends(ctx, o, true) // with a replica set the driver would bypass the proxy
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	slow, err := delayed(strings.TrimPrefix(b.mongoURI, "mongodb://"), storeDelay)
	if err != nil {
		return nil, err
	}
	b.cleanUps = append(b.cleanUps, slow.stop)
	b.mongoURI = "mongodb://" + slow.addr

	refills := &refills{}
	step := int64(joinSlice.perSecond) * joinEvery.Milliseconds() / 1000
	small, err := b.seqd(ctx, b.config("small", []seqd.BizType{fixedStep(step)}), server.WithObserver(refills))
	if err != nil {
		return nil, err
	}
	huge, err := b.seqd(ctx, b.config("huge", []seqd.BizType{fixedStep(1_000_000_000)}))
	if err != nil {
		return nil, err
	}
	var p pairs
	for round := range o.rounds + 1 {
		before := refills.Load()
		base, value, err := slowest(ctx, huge+"/seq/order", small+"/seq/order")
		if err != nil {
			return nil, err
		}
		// the last refills are still under way
		if joins, needed := refills.Load()-before, int64(joinSlices*joinSlice.requests)/step; joins < needed*9/10 {
			return nil, fmt.Errorf("the store allocated %d ranges, and the load needs %d", joins, needed)
		}
		if round > 0 { // round 0 is the warm-up
			p.base, p.value = append(p.base, base), append(p.value, value)
		}
	}
	return []result{p.result(
		fmt.Sprintf("strict over Redis, p99.9 at %d requests/s with a join every %s, each reply of the store after %s", joinSlice.perSecond, joinEvery, storeDelay),
		"the same without joins", milliseconds, false, 1.2)}, nil
}

// slowest loads both in turn and returns the p99.9 latency of each, in microseconds.
func slowest(ctx context.Context, base, value string) (b, v float64, err error) {
	var took [2][]time.Duration
	for range joinSlices {
		for i, url := range []string{base, value} {
			slice, err := joinSlice.run(url)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return 0, 0, err
			}
			took[i] = append(took[i], slice...)
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	return permille(took[0], 999), permille(took[1], 999), nil
}

// fixedStep returns a biz type whose segments all have the same size.
func fixedStep(step int64) seqd.BizType {
	settings := segment.DefaultSettings()
	settings.Start, settings.Step, settings.MaxStep = firstNumber, step, step
	return seqd.BizType{Name: "order", Strategy: segment.Name, Settings: &settings}
}

// refills counts the ranges that the store allocated.
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

// link is a TCP proxy that delays everything that comes from upstream.
type link struct {
	addr     string
	upstream string
	by       atomic.Int64 // nanoseconds
	listener net.Listener
	ctx      context.Context // ended by stop
	end      context.CancelFunc
}

func delayed(upstream string, by time.Duration) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{addr: listener.Addr().String(), upstream: upstream, listener: listener}
	l.by.Store(int64(by))
	l.ctx, l.end = context.WithCancel(context.Background())
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.relay(conn)
		}
	}()
	return l, nil
}

func (l *link) stop() error { l.end(); return l.listener.Close() }

// relay serves one connection until one of its ends closes it, or the link stops.
func (l *link) relay(down net.Conn) {
	defer down.Close()
	up, err := net.Dial("tcp", l.upstream)
	if err != nil {
		return
	}
	defer up.Close()
	defer context.AfterFunc(l.ctx, func() { _, _ = up.Close(), down.Close() })()
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
			pieces <- piece{time.Now().Add(time.Duration(l.by.Load())), data[:n]}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := down.Write(p.data); err != nil {
			_ = up.Close() // and the reader ends
		}
	}
}
