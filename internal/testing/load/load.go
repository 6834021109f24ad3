// Package load makes the calls of callers and administrators to nodes, by every protocol that they
// speak, and records each with its answer. The fault laboratory and the simulation share it.
package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// Node is a node that callers reach. Its methods are safe for concurrent use.
type Node interface {
	Name() string
	// URL is the base of its HTTP API.
	URL() string
	// DialRESP connects to its port of the Redis protocol.
	DialRESP() (net.Conn, error)
	// Life counts its processes, from 1.
	Life() int
}

// Load makes calls to nodes as callers and administrators do.
type Load struct {
	Seed    int64
	Shapes  []Shape
	Nodes   []Node
	Journal *Journal
	HTTP    *http.Client
	Loops   Loops
	// Token is the secret of the usual callers; empty if none is needed.
	Token string
	// Pace multiplies the pauses of callers; 0 means 1.
	Pace int

	// Quiet is set while there must be no calls for SwitchedName.
	Quiet atomic.Bool
	// Sending is read-held by each call until it is in the journal.
	Sending sync.RWMutex

	jobs []*ordered // by orderJobs

	released sync.Map // the reservations whose release callers have asked for, by ID: see mayConfirm
}

// Loops are how many callers of each kind there are. Each makes one call at a time, except those of
// Burst.
type Loops struct {
	Mixed  int // numbers, batches, parsing, Idempotency-Keys
	Hammer int // the largest batches
	Burst  int // the same call from 40 callers at once
	Admin  int // changes of definitions
	RESP   int // the Redis protocol, in pipelines
	DropIn int // the protocols of Leaf, Tinyid and CosId
	Books  int // reservations and voids of gapless numbers
	Audit  int // accounts of gapless numbers
	Owners int // tokens of several callers, 0 or 1
	Jobs   int // jobs, 0 or 1

	Programs int // programs that lease worker IDs
	Machines int // clients of CosId that lease machine IDs
}

// Usual are the loops of the fault laboratory.
var Usual = Loops{Mixed: 16, Hammer: 3, Burst: 1, Admin: 1, RESP: 4, DropIn: 2, Books: 10, Audit: 1, Jobs: 1, Programs: 6}

const (
	burstSize = 40

	// UsualPatience and LongPatience are how long callers wait for an answer.
	UsualPatience  = 2500 * time.Millisecond
	LongPatience   = 8 * time.Second
	attempts       = 6 // for an idempotent request
	rememberedKeys = 50
)

// Loop is what a caller does until ctx ends. It makes its choices with d.
type Loop func(ctx context.Context, d *Dice)

// Run runs all loops, and others besides, until ctx ends.
func (l *Load) Run(ctx context.Context, others ...Loop) {
	var loops sync.WaitGroup
	defer loops.Wait()
	number := uint64(0)
	start := func(count int, loop Loop) {
		for range count {
			number++
			d := &Dice{seed: uint64(l.Seed), loop: number}
			loops.Go(func() { loop(ctx, d) })
		}
	}
	start(l.Loops.Mixed, l.mix)
	start(l.Loops.Hammer, l.hammer)
	start(l.Loops.Burst, l.burst)
	start(l.Loops.Admin, l.administer)
	start(l.Loops.RESP, l.pipelines)
	start(l.Loops.DropIn, l.dropIn)
	start(l.Loops.Books, l.books)
	start(l.Loops.Audit, l.audit)
	start(l.Loops.Owners, l.own)
	start(l.Loops.Programs, l.runPrograms)
	start(l.Loops.Jobs, l.orderJobs)
	for _, other := range others {
		start(1, other)
	}
	start(l.Loops.Machines, l.runMachines)
}

// Dice makes the random choices of one loop. Each round has its own generator, derived from the
// seed, the loop and the round. So a round does the same with the same seed, whatever the earlier
// answers were.
type Dice struct{ seed, loop, round uint64 }

func (d *Dice) Next() *rand.Rand {
	d.round++
	return rand.New(rand.NewPCG(d.seed, d.loop<<32|d.round))
}

// Pick returns one of the values.
func Pick[T any](r *rand.Rand, values []T) T { return values[r.IntN(len(values))] }

// Split returns the choices of one of several loops in place of the one of d.
func (d *Dice) Split(i int) *Dice { return &Dice{seed: d.seed, loop: d.loop<<8 | uint64(i)} }

// UpTo returns a random duration below d.
func UpTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// rest pauses for d at the pace of the load, or until ctx ends.
func (l *Load) rest(ctx context.Context, d time.Duration) { Rest(ctx, d*time.Duration(max(1, l.Pace))) }

// Rest pauses for d, or until ctx ends.
func Rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// mix makes all kinds of calls, one at a time.
func (l *Load) mix(ctx context.Context, d *Dice) {
	var last seen
	for ctx.Err() == nil {
		r := d.Next()
		pause := UpTo(r, 16*time.Millisecond)
		l.one(ctx, r, d, &last)
		l.rest(ctx, pause)
	}
}

// seen is what a loop keeps from answers.
type seen struct {
	shape *Shape
	id    string
	keys  []request // idempotent requests that were answered
}

// one runs one round of a mixed loop.
func (l *Load) one(ctx context.Context, r *rand.Rand, d *Dice, last *seen) {
	q := request{node: Pick(r, l.Nodes), shape: l.weighted(r), timeout: UsualPatience, text: r.IntN(10) < 3}
	q.of = q.shape.key(r)
	if r.IntN(10) == 0 {
		q.timeout = LongPatience
	}
	roll, count := r.IntN(100), Pick(r, q.shape.counts)
	switch {
	case roll < 8 && last.id != "":
		q.kind, q.shape, q.id, q.of, q.text = record.Parse, last.shape, last.id, "", false
		l.send(ctx, q)
		return
	case roll < 20:
		q.kind, q.count, q.key = record.Idempotent, count, fmt.Sprintf("key-%d-%d-%d", d.seed, d.loop, d.round)
		l.insist(ctx, r, q, last)
		return
	case roll < 22 && len(last.keys) > 0:
		again := Pick(r, last.keys)
		again.node = q.node
		l.send(ctx, again)
		return
	case roll < 26:
		q.leave = UpTo(r, 12*time.Millisecond) + 1
	}
	if q.kind, q.count = record.Single, 1; roll >= 65 && count > 1 {
		q.kind, q.count = record.Batch, count
	}
	last.remember(q.shape, l.send(ctx, q))
}

// remember keeps an ID for a later parse.
func (s *seen) remember(of *Shape, c *record.Call) {
	switch {
	case len(c.Texts) > 0:
		s.shape, s.id = of, c.Texts[0]
	case len(c.Runs) > 0:
		s.shape, s.id = of, fmt.Sprint(c.Runs[0].First)
	}
}

// insist repeats an idempotent request on other nodes until it is answered, and sometimes once
// more.
func (l *Load) insist(ctx context.Context, r *rand.Rand, q request, last *seen) {
	once, pauses := r.IntN(3) > 0, [attempts]time.Duration{}
	for i := range pauses {
		pauses[i] = 20*time.Millisecond + UpTo(r, 300*time.Millisecond)
	}
	nodes := r.Perm(len(l.Nodes))
	for i := range attempts {
		q.node = l.Nodes[nodes[i%len(nodes)]]
		c := l.send(ctx, q)
		if c.Status == 200 {
			last.remember(q.shape, c)
			last.keys = append(last.keys, q)
			if len(last.keys) > rememberedKeys {
				last.keys = last.keys[1:]
			}
			if once {
				return
			}
			once = true
		} else if c.Status != 0 && c.Status < 500 || ctx.Err() != nil {
			return // a permanent rejection
		}
		Rest(ctx, pauses[i])
	}
}

// weighted draws a biz type by weight.
func (l *Load) weighted(r *rand.Rand) *Shape {
	total := 0
	for i := range l.Shapes {
		total += l.Shapes[i].weight
	}
	roll := r.IntN(total)
	i := 0
	for ; roll >= l.Shapes[i].weight; i++ {
		roll -= l.Shapes[i].weight
	}
	if l.Shapes[i].Name == SwitchedName && l.Quiet.Load() {
		i = 0
	}
	return &l.Shapes[i]
}

// hammer asks for batches of the largest size.
func (l *Load) hammer(ctx context.Context, d *Dice) {
	var targets []*Shape
	for i := range l.Shapes {
		if l.Shapes[i].hammer {
			targets = append(targets, &l.Shapes[i])
		}
	}
	for ctx.Err() == nil {
		r := d.Next()
		q := request{node: Pick(r, l.Nodes), shape: Pick(r, targets), kind: record.Batch, count: hammerCount, text: true, timeout: UsualPatience}
		pause := UpTo(r, 12*time.Millisecond)
		if c := l.send(ctx, q); c.Status != 200 {
			pause += 50 * time.Millisecond // this loop is for numbers, not for rejections
		}
		l.rest(ctx, pause)
	}
}

// burst makes many callers send the same request at once.
func (l *Load) burst(ctx context.Context, d *Dice) {
	for ctx.Err() == nil {
		r := d.Next()
		q := request{shape: l.weighted(r), kind: record.Single, count: 1, timeout: UsualPatience}
		q.of = q.shape.key(r)
		pause := 200*time.Millisecond + UpTo(r, time.Second)
		var callers sync.WaitGroup
		for range burstSize {
			one := q
			one.node = Pick(r, l.Nodes)
			callers.Go(func() { l.send(ctx, one) })
		}
		callers.Wait()
		l.rest(ctx, pause)
	}
}
