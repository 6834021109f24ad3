package issuer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd"
)

// IssueAll issues calls, such as those of a pipeline, in their order: errs[k] is what
// [Issuer.Issue] would return for calls[k], and errs is as long as calls. Calls of one biz type
// that follow each other share one Generate of the strategy. Each has its own plugins, refusal and
// count. Before of all of them runs before After of the first. A caller who reuses its calls
// allocates nothing, unless there are plugins.
//
// If the strategy orders its numbers, those of a call are below those of later calls, except those
// of a [seqd.OneRange].
func (is *Issuer) IssueAll(ctx context.Context, calls []*seqd.Call, errs []error) {
	errs = errs[:len(calls)]
	for len(calls) > 0 {
		n := together(calls)
		if n == 1 {
			errs[0] = is.Issue(ctx, calls[0])
		} else {
			is.issueAll(ctx, calls[:n], errs[:n])
		}
		calls, errs = calls[n:], errs[n:]
	}
}

// together returns how many of the first calls can share a Generate.
func together(calls []*seqd.Call) (n int) {
	total := 0
	for n, call := range calls {
		if uint(call.Count) <= seqd.MaxCount { // others are refused
			total += call.Count
		}
		alone := call.Want > seqd.Consecutive || call.Once != ""
		if alone || call.BizType != calls[0].BizType || call.Key != calls[0].Key || total > seqd.MaxCount {
			return max(n, 1)
		}
	}
	return len(calls)
}

// pipeline is calls of one biz type that share a Generate.
type pipeline struct {
	*Issuer
	seat  *seat
	calls []*seqd.Call
	// errs is why calls were refused. A call without an error is done, or it is still to be issued.
	errs    []error
	members []progress // of the calls through the plugins; nil if there are none
	waits   waits      // what all calls have waited for together
	singly  bool       // a shared Generate failed, so each call has its own
}

// issueAll issues calls of one biz type.
func (is *Issuer) issueAll(ctx context.Context, calls []*seqd.Call, errs []error) {
	name := calls[0].BizType
	s := is.names.find(name)
	if s == nil {
		if err := is.fetcher.absent(name); err != nil {
			for k, call := range calls {
				clearAnswer(call)
				errs[k] = err
			}
			return
		}
	}
	valid := 0
	for k, call := range calls {
		clearAnswer(call)
		errs[k] = nil
		if err := checkCall(call); err != nil {
			errs[k] = err
		} else {
			valid++
		}
	}
	if valid == 0 {
		return
	}
	p := pipeline{Issuer: is, seat: s, calls: calls, errs: errs, waits: waits{pluginTimeout: is.pluginTimeout}}
	if is.latency == nil {
		p.run(ctx)
		return
	}
	began := time.Now()
	p.run(ctx)
	if p.seat == nil {
		return
	}
	took, strategy := int64(time.Since(began)), p.seat.strategy()
	for range valid {
		is.latency.Took(strategy, took)
	}
}

// run issues from the instance in the seat. If a change replaces that instance, it issues from the
// next one what is left.
func (p *pipeline) run(ctx context.Context) {
	for from := 0; from < len(p.calls); {
		i := p.seat.enter()
		if i == nil {
			var err error
			if p.seat, i, err = p.admit(ctx, p.calls[0].BizType, &p.waits, false); err != nil {
				for k := range p.pending(from, len(p.calls)) {
					p.errs[k] = p.refuse(ctx, p.calls[k], seqd.AsError(err))
				}
				return
			}
		}
		from = p.issueFrom(ctx, i, from)
		i.leave()
	}
}

// pending yields the calls of [from, to) that were not refused.
func (p *pipeline) pending(from, to int) func(yield func(k int) bool) {
	return func(yield func(k int) bool) {
		for k := from; k < to; k++ {
			if p.errs[k] == nil && !yield(k) {
				return
			}
		}
	}
}

// issueFrom issues from an instance, and returns the first call that is left for another one.
func (p *pipeline) issueFrom(ctx context.Context, i *instance, from int) (next int) {
	to := p.before(ctx, i, from)
	supplied, err := p.generate(ctx, i, from, to)
	for k := range p.pending(from, supplied) {
		if err := p.deliver(ctx, i, k); err != nil && p.replaced(p.seat, i, err) {
			p.undo(ctx, i, k, to, err) // not only this one: the order of calls is that of numbers
			return k
		} else if err != nil {
			p.refuseAt(ctx, i, k, err)
		}
	}
	if err != nil && p.replaced(p.seat, i, err) {
		p.undo(ctx, i, supplied, to, err)
		return supplied
	}
	for k := range p.pending(supplied, to) {
		p.refuseAt(ctx, i, k, err)
	}
	return to
}

// before calls Before of the plugins for the calls that begin with from. It returns the first call
// that is left for another instance, or the number of calls.
func (p *pipeline) before(ctx context.Context, i *instance, from int) (to int) {
	if len(i.chain) > 0 && p.members == nil {
		p.members = make([]progress, len(p.calls))
	}
	for k := range p.pending(from, len(p.calls)) {
		err := p.beforeAt(ctx, i, k)
		if err != nil && p.replaced(p.seat, i, err) {
			p.undo(ctx, i, k, k+1, err)
			return k
		} else if err != nil {
			p.refuseAt(ctx, i, k, err)
		}
	}
	return len(p.calls)
}

// beforeAt calls Before of the plugins for one call.
func (p *pipeline) beforeAt(ctx context.Context, i *instance, k int) error {
	if p.members == nil {
		return i.checkAllowed(p.calls[k])
	}
	m := &p.members[k]
	m.resume()
	*m = progress{call: p.calls[k], waits: waits{pluginTimeout: p.pluginTimeout, deadline: m.waits.deadline}}
	err := m.before(ctx, i)
	if err == nil {
		m.pause()
	}
	return err
}

// count returns how many numbers a call gets, and whether they must be one run.
func (p *pipeline) count(k int) (count int, consecutive bool) {
	if p.members != nil {
		a := &p.members[k].asked
		return a.count, a.want == seqd.Consecutive
	}
	return p.calls[k].Count, p.calls[k].Want == seqd.Consecutive
}

// key returns the key that a call asked for.
func (p *pipeline) key(k int) string {
	if p.members != nil {
		return p.members[k].asked.key
	}
	return p.calls[k].Key
}

// at returns the progress of a call that is treated now.
func (p *pipeline) at(k int) *progress {
	if p.members == nil {
		return &progress{call: p.calls[k]}
	}
	p.members[k].resume()
	return &p.members[k]
}

// errBroken is why numbers were skipped that are no run as long as a call wants.
var errBroken = errors.New("others hold the numbers that would follow")

// spare holds sequences for numbers that calls share.
var spare = sync.Pool{New: func() any { return new(seqd.Sequence) }}

// generate makes the numbers of the calls of [from, to). It returns the first call that got none,
// and why.
func (p *pipeline) generate(ctx context.Context, i *instance, from, to int) (supplied int, err error) {
	if from == to {
		return to, nil
	}
	if !i.ready.Load() {
		if err := p.initialise(ctx, i, &p.waits); err != nil {
			return from, err
		}
	}
	numbers := spare.Get().(*seqd.Sequence)
	defer spare.Put(numbers)
	for supplied = from; supplied < to && err == nil; {
		numbers.Reset()
		i.prepare(numbers, p.key(from), &p.calls[from].Caller) // all calls have the same key
		supplied, err = p.generateSome(ctx, i, supplied, to, numbers)
	}
	return supplied, err
}

// generateSome makes the numbers of some of the calls of [from, to), and returns the first call
// that got none. If that is from, err says why.
func (p *pipeline) generateSome(ctx context.Context, i *instance, from, to int, numbers *seqd.Sequence) (supplied int, err error) {
	total := 0
	for k := range p.pending(from, to) {
		n, _ := p.count(k)
		if total += n; p.singly {
			to = k + 1
			break
		}
	}
	if total == 0 {
		return to, nil
	}
	keeps, err := generateShared(ctx, i, total, numbers)
	if err != nil && !keeps {
		if p.singly || ctx.Err() != nil || p.replaced(p.seat, i, err) {
			return from, err
		}
		p.singly = true
		return from, nil
	}
	if got := numbers.Len(); err == nil && got != total {
		return from, fmt.Errorf("strategy %s returned %d numbers instead of %d", i.kind, got, total)
	}
	supplied = p.share(i, numbers, from, to)
	if supplied == from && err == nil {
		return p.generateRun(ctx, i, from)
	}
	return supplied, err
}

// generateShared makes numbers for several calls. If it fails and keeps is true, those in seq
// belong to the calls.
func generateShared(ctx context.Context, i *instance, n int, seq *seqd.Sequence) (keeps bool, err error) {
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	if i.can.some != nil {
		return true, i.can.some.GenerateSome(ctx, n, seq)
	}
	return false, i.strategy.Generate(ctx, n, seq)
}

// generateRun makes the numbers of a call that wants one run, and got several.
func (p *pipeline) generateRun(ctx context.Context, i *instance, k int) (supplied int, err error) {
	for k := range p.pending(k, len(p.calls)) {
		n, _ := p.count(k)
		i.prepare(&p.calls[k].Sequence, p.key(k), &p.calls[k].Caller)
		if err := generateOne(ctx, i, seqd.Consecutive, n, &p.calls[k].Sequence); err != nil {
			p.calls[k].Sequence.Reset()
			return k, err
		}
		return k + 1, nil
	}
	return k, nil
}

// share hands numbers to the calls of [from, to) and returns the first one that gets none. Each
// call gets the front of what is left, which takeFrom cuts off, so no number goes to two calls. If
// a call wants one run, the rest of a run that is too short or has another stride than 1 is
// skipped.
func (p *pipeline) share(i *instance, numbers *seqd.Sequence, from, to int) (supplied int) {
	rest := numbers.Runs() // which it cuts
	var skipped seqd.Sequence
	skipped.Inherit(numbers)
	for supplied = from; supplied < to; supplied++ {
		if p.errs[supplied] != nil {
			continue
		}
		n, consecutive := p.count(supplied)
		for consecutive && len(rest) > 0 && (rest[0].Count < n || n > 1 && rest[0].Stride != 1) {
			skipped.Add(rest[0].First, rest[0].Count, rest[0].Stride)
			rest = rest[1:]
		}
		var ok bool
		if rest, ok = takeFrom(&p.calls[supplied].Sequence, rest, n); !ok {
			break
		}
		p.calls[supplied].Sequence.Inherit(numbers)
	}
	for _, r := range rest {
		skipped.Add(r.First, r.Count, r.Stride)
	}
	if skipped.Len() > 0 {
		p.skip(i, &skipped)
	}
	return supplied
}

// skip gives numbers back that no call got.
func (p *pipeline) skip(i *instance, numbers *seqd.Sequence) {
	p.giveBack(i, i.undeliveredOf(numbers), errBroken)
}

// deliver calls After of the plugins for a call that has its numbers.
func (p *pipeline) deliver(ctx context.Context, i *instance, k int) error {
	if p.members != nil {
		return p.Issuer.deliver(ctx, i, &p.members[k])
	}
	p.observer.Issued(i.name, p.calls[k].Sequence.Len())
	return nil
}

// undo takes the calls of [from, to) back to before their plugins, because another instance is to
// issue them. Their numbers are skipped; those of from were reported.
func (p *pipeline) undo(ctx context.Context, i *instance, from, to int, err error) {
	for k := range p.pending(from, to) {
		call, m := p.calls[k], p.at(k)
		if call.Sequence.Len() > 0 && k > from {
			p.giveBack(i, i.undelivered(call), err)
		}
		p.Issuer.undo(ctx, i, m, seqd.AsError(err))
		call.Limit = seqd.Limit{}
		m.pause()
	}
}

// refuseAt refuses one call.
func (p *pipeline) refuseAt(ctx context.Context, i *instance, k int, err error) {
	p.errs[k] = p.reject(ctx, i, p.at(k), err)
}

// takeFrom appends the first n numbers of runs, which it changes, to s, and returns what is left of
// runs. If there are fewer, it takes none. Calls that share numbers rely on rest: a number that was
// taken is not in it.
func takeFrom(s *seqd.Sequence, runs []seqd.Run, n int) (rest []seqd.Run, ok bool) {
	held := 0
	for k := 0; k < len(runs) && held < n; k++ {
		held += runs[k].Count
	}
	if held < n {
		return runs, false
	}
	for n > 0 {
		r := &runs[0]
		part := min(n, r.Count)
		s.Add(r.First, part, r.Stride)
		if n -= part; part == r.Count {
			runs = runs[1:]
			continue
		}
		r.First, r.Count = r.First+int64(part)*r.Stride, r.Count-part
	}
	return runs, true
}
