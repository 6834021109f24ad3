package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// redisModel is a Redis with one cursor, as the scripts keep it, for tests in a bubble of time. The
// scripts themselves are tested on real servers and, by the model test, in a Lua interpreter.
type redisModel struct {
	mu     sync.Mutex
	replid int // grows with every restart
	gens   int
	hash   *hashModel
	down   error
	// runs ahead of each call, outside mu; its error keeps the call from happening
	before func(call string) error
	calls  int
}

type hashModel struct {
	replid           int
	gen              string
	ceil             int64
	epoch            string // empty in a stub
	replaced         string
	first, cur, last int64
	queue            []persist.Range
	claim            time.Time
}

func (r *redisModel) change(f func(*redisModel)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

var errDown = errors.New("connection refused")

// lose makes the server forget everything, as a restart without data does.
func (r *redisModel) lose() { r.change(func(r *redisModel) { r.replid++; r.hash = nil }) }

// call runs f as one script.
func (r *redisModel) call(ctx context.Context, name string, f func() error) error {
	r.mu.Lock()
	before := r.before
	r.mu.Unlock()
	if before != nil {
		if err := before(name); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.calls++
	err := r.down
	if err == nil {
		err = f()
	}
	r.mu.Unlock()
	return err
}

func (r *redisModel) newGen() string {
	r.gens++
	return fmt.Sprint("g", r.gens)
}

func (r *redisModel) claimed(claim *time.Time, ttl time.Duration) rediscursor.Low {
	now := time.Now()
	if ttl == 0 || claim.After(now) {
		return rediscursor.Claimed
	}
	*claim = now.Add(ttl)
	return rediscursor.WantsRefill
}

func (r *redisModel) Take(ctx context.Context, t rediscursor.Take) (taken rediscursor.Taken, err error) {
	err = r.call(ctx, "take", func() error {
		h := r.hash
		if h == nil || h.replid != r.replid {
			next := &hashModel{replid: r.replid, gen: r.newGen()}
			if h != nil {
				next.ceil = h.ceil
			}
			r.hash, h = next, next
		}
		taken.Gen, taken.Ceil = h.gen, h.ceil
		switch taken.Epoch = h.epoch; {
		case h.epoch == "":
			taken.Stub, taken.Low = true, r.claimed(&h.claim, t.Claim)
			return nil
		case h.epoch != t.Epoch:
			taken.Other, taken.Replaced = true, h.replaced
			return nil
		}
		if free := 1 + t.Reserve - len(h.queue); t.Count > 0 && h.cur+t.Count <= h.last &&
			(free <= 0 || float64(h.cur+t.Count-h.first+1) < t.Threshold*float64(h.last-h.first+1)) {
			h.cur += t.Count
			taken = rediscursor.Taken{Epoch: h.epoch, Ceil: h.ceil, Runs: []persist.Range{{First: h.cur - t.Count + 1, Last: h.cur}}}
			return nil
		}
		for promoted := 0; t.Count > 0; {
			if h.cur < h.last {
				n := min(t.Count, h.last-h.cur)
				taken.Runs = append(taken.Runs, persist.Range{First: h.cur + 1, Last: h.cur + n})
				h.cur, t.Count = h.cur+n, t.Count-n
			} else if len(h.queue) > 0 && (promoted == 0 || t.UseReserve) {
				h.first, h.cur, h.last = h.queue[0].First, h.queue[0].First-1, h.queue[0].Last
				h.queue = h.queue[1:]
				promoted++
			} else {
				break
			}
		}
		taken.Free = max(0, 1+t.Reserve-len(h.queue))
		if taken.Free > 0 && float64(h.cur-h.first+1) >= t.Threshold*float64(h.last-h.first+1) {
			taken.Low = r.claimed(&h.claim, t.Claim)
		}
		if len(taken.Runs) > 0 && t.Count == 0 {
			return nil
		}
		for _, q := range append([]persist.Range{{First: h.cur + 1, Last: h.last}}, h.queue...) {
			if q.Size() > 0 && taken.Hand == 0 {
				taken.Next = q.First
			}
			taken.Hand += max(0, q.Size())
		}
		return nil
	})
	if err != nil {
		return rediscursor.Taken{}, err
	}
	return taken, nil
}

func (r *redisModel) Install(ctx context.Context, in rediscursor.Install) (answer rediscursor.Answer, err error) {
	err = r.call(ctx, string(in.Mode), func() error {
		h := r.hash
		switch {
		case h == nil || h.replid != r.replid || h.gen != in.Gen || (in.Mode == rediscursor.Seed) == (h.epoch == in.Epoch):
			answer.Verdict = rediscursor.Moved
			return nil
		case in.Range.First <= h.ceil:
			answer.Verdict, answer.Ceil = rediscursor.Stale, h.ceil
			return nil
		case in.Mode == rediscursor.Append && len(h.queue) >= 1+in.Reserve:
			answer.Verdict = rediscursor.Full
			return nil
		}
		h.ceil = in.Range.Last
		if in.Mode == rediscursor.Append {
			h.queue = append(slices.Clone(h.queue), in.Range)
		} else {
			replaced := h.replaced
			if in.Mode == rediscursor.Seed {
				replaced = in.Replaced
			}
			*h = hashModel{replid: h.replid, gen: r.newGen(), ceil: in.Range.Last, epoch: in.Epoch, replaced: replaced,
				first: in.Range.First, cur: in.Range.First - 1, last: in.Range.Last}
		}
		answer = rediscursor.Answer{Verdict: rediscursor.Installed, Gen: h.gen, Free: 1 + in.Reserve - len(h.queue)}
		if answer.Free <= 0 {
			h.claim = time.Time{}
		}
		return nil
	})
	if err != nil {
		return rediscursor.Answer{}, err
	}
	return answer, nil
}

// Drop removes the cursor.
func (r *redisModel) Drop(ctx context.Context) error {
	return r.call(ctx, "drop", func() error { r.hash = nil; return nil })
}
