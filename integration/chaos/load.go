package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seqd/seqd/integration/chaos/record"
)

const (
	mixedLoops  = 16
	hammerLoops = 3
	burstLoops  = 1
	burstSize   = 40
	respLoops   = 4
	dropInLoops = 2
	bookLoops   = 10

	usualPatience  = 2500 * time.Millisecond
	longPatience   = 8 * time.Second
	attempts       = 6 // for an idempotent request
	rememberedKeys = 50
)

// load runs all loops until ctx ends.
func (l *laboratory) load(ctx context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	number := uint64(0)
	start := func(count int, loop func(context.Context, *dice)) {
		for range count {
			number++
			d := &dice{seed: uint64(l.Seed), loop: number}
			loops.Go(func() { loop(ctx, d) })
		}
	}
	start(mixedLoops, l.mix)
	start(hammerLoops, l.hammer)
	start(burstLoops, l.burst)
	start(1, l.administer)
	start(respLoops, l.pipelines)
	start(dropInLoops, l.dropIn)
	start(1, l.buffers)
	start(bookLoops, l.books)
	start(1, l.audit)
}

// dice makes the random choices of one loop. Each round has its own generator, derived from the
// seed, the loop and the round. So a round does the same with the same seed, whatever the earlier
// answers were.
type dice struct{ seed, loop, round uint64 }

func (d *dice) next() *rand.Rand {
	d.round++
	return rand.New(rand.NewPCG(d.seed, d.loop<<32|d.round))
}

func pick[T any](r *rand.Rand, values []T) T { return values[r.IntN(len(values))] }

// upTo returns a random duration below d.
func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// rest pauses for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// mix makes all kinds of calls, one at a time.
func (l *laboratory) mix(ctx context.Context, d *dice) {
	var last seen
	for ctx.Err() == nil {
		r := d.next()
		pause := upTo(r, 16*time.Millisecond)
		l.one(ctx, r, d, &last)
		rest(ctx, pause)
	}
}

// seen is what a loop keeps from answers.
type seen struct {
	shape *shape
	id    string
	keys  []request // idempotent requests that were answered
}

// one runs one round of a mixed loop.
func (l *laboratory) one(ctx context.Context, r *rand.Rand, d *dice, last *seen) {
	q := request{node: pick(r, l.world.seqds), shape: l.weighted(r), timeout: usualPatience, text: r.IntN(10) < 3}
	q.of = q.shape.key(r)
	if r.IntN(10) == 0 {
		q.timeout = longPatience
	}
	roll, count := r.IntN(100), pick(r, q.shape.counts)
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
		again := pick(r, last.keys)
		again.node = q.node
		l.send(ctx, again)
		return
	case roll < 26:
		q.leave = upTo(r, 12*time.Millisecond) + 1
	}
	if q.kind, q.count = record.Single, 1; roll >= 65 && count > 1 {
		q.kind, q.count = record.Batch, count
	}
	last.remember(q.shape, l.send(ctx, q))
}

// remember keeps an ID for a later parse.
func (s *seen) remember(of *shape, c *record.Call) {
	switch {
	case len(c.Texts) > 0:
		s.shape, s.id = of, c.Texts[0]
	case len(c.Runs) > 0:
		s.shape, s.id = of, fmt.Sprint(c.Runs[0].First)
	}
}

// insist repeats an idempotent request on other nodes until it is answered, and sometimes once
// more.
func (l *laboratory) insist(ctx context.Context, r *rand.Rand, q request, last *seen) {
	once, pauses := r.IntN(3) > 0, [attempts]time.Duration{}
	for i := range pauses {
		pauses[i] = 20*time.Millisecond + upTo(r, 300*time.Millisecond)
	}
	nodes := r.Perm(len(l.world.seqds))
	for i := range attempts {
		q.node = l.world.seqds[nodes[i%len(nodes)]]
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
		rest(ctx, pauses[i])
	}
}

// weighted draws a biz type by weight.
func (l *laboratory) weighted(r *rand.Rand) *shape {
	total := 0
	for i := range l.shapes {
		total += l.shapes[i].weight
	}
	roll := r.IntN(total)
	i := 0
	for ; roll >= l.shapes[i].weight; i++ {
		roll -= l.shapes[i].weight
	}
	if l.shapes[i].Name == switchedName && l.quiet.Load() {
		i = 0
	}
	return &l.shapes[i]
}

// hammer asks for batches of the largest size.
func (l *laboratory) hammer(ctx context.Context, d *dice) {
	var targets []*shape
	for i := range l.shapes {
		if l.shapes[i].hammer {
			targets = append(targets, &l.shapes[i])
		}
	}
	for ctx.Err() == nil {
		r := d.next()
		q := request{node: pick(r, l.world.seqds), shape: pick(r, targets), kind: record.Batch, count: hammerCount, text: true, timeout: usualPatience}
		pause := upTo(r, 12*time.Millisecond)
		if c := l.send(ctx, q); c.Status != 200 {
			pause += 50 * time.Millisecond // this loop is for numbers, not for rejections
		}
		rest(ctx, pause)
	}
}

// burst makes many callers send the same request at once.
func (l *laboratory) burst(ctx context.Context, d *dice) {
	for ctx.Err() == nil {
		r := d.next()
		q := request{shape: l.weighted(r), kind: record.Single, count: 1, timeout: usualPatience}
		q.of = q.shape.key(r)
		pause := 200*time.Millisecond + upTo(r, time.Second)
		var callers sync.WaitGroup
		for range burstSize {
			one := q
			one.node = pick(r, l.world.seqds)
			callers.Go(func() { l.send(ctx, one) })
		}
		callers.Wait()
		rest(ctx, pause)
	}
}
