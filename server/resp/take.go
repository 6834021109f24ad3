package resp

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/gate"
)

const (
	// mostTakes and mostNumbers are how many requests share a take, and how many numbers these may
	// ask for in all as text: more would make a large answer.
	mostTakes   = 256
	mostNumbers = 512
)

// run is requests for numbers of one biz type, and of one key if it is keyed, that arrived one
// behind the other. They are answered by one call of the issuer.
type run struct {
	bizType string
	key     string // "" for none
	integer bool   // all are answered by integers: INCR, INCRBY
	numbers int    // how many the calls ask for
	caller  access.Identity
	calls   []*seqd.Call
	errs    []error
	takes   []take

	spare []*seqd.Call // for calls
}

// take is one request for numbers.
type take struct {
	command int  // the index of INCR, INCRBY, SEQ.NEXT or SEQ.RESERVE
	array   bool // SEQ.NEXT with COUNT
	want    seqd.Want
	ttl     time.Duration // of SEQ.RESERVE; 0 for the biz type's own
}

var runs = sync.Pool{New: func() any { return new(run) }}

// add adds a request.
func (r *run) add(t take, count int) {
	n := len(r.calls)
	if n == len(r.spare) {
		r.spare = append(r.spare, new(seqd.Call))
	}
	call := r.spare[n]
	call.BizType, call.Key, call.Count, call.Want, call.TTL = r.bizType, r.key, count, t.want, t.ttl
	r.calls, r.errs, r.takes = append(r.calls, call), append(r.errs, nil), append(r.takes, t)
	r.numbers += count
}

// reset makes a run empty.
func (r *run) reset() {
	r.calls, r.errs, r.takes, r.numbers = r.calls[:0], r.errs[:0], r.takes[:0], 0
	r.caller = access.Identity{}
}

// forget frees the memory of the calls. What many numbers need is not kept, neither while a client
// reads them nor for other runs.
func (r *run) forget() { r.calls, r.spare = nil, nil }

// fits reports whether a request can share the take of a run that is not empty.
func (r *run) fits(bizType, key []byte, integer bool, count int) bool {
	return len(r.calls) < mostTakes && integer == r.integer && string(bizType) == r.bizType && string(key) == r.key &&
		(integer || r.numbers+count <= mostNumbers)
}

// take adds a request to the run, which it answers before if it does not fit. key is nil for none.
func (c *conn) take(t take, bizType, key []byte, count int, integer bool) {
	if c.run != nil && !c.run.fits(bizType, key, integer, count) {
		c.issue()
	}
	if c.run == nil {
		c.run = runs.Get().(*run)
		c.run.bizType, c.run.integer, c.run.key = c.names.of(bizType), integer, ""
		if key != nil {
			c.run.key = c.keys.of(key)
		}
	}
	c.run.add(t, count)
}

// issue answers the run.
func (c *conn) issue() {
	r := c.run
	if r == nil {
		return
	}
	c.run = nil
	defer func() {
		r.reset()
		runs.Put(r)
	}()
	ctx, rec := c.server.begin()
	if err := c.issueRun(ctx, r); err != nil {
		for i := range r.errs {
			r.errs[i] = err
		}
		c.noteRefused(r.takes[0].command, r.caller.Name, seqd.CodeOf(err))
		c.answerRun(r)
	}
	rec.end(c, r)
}

// issueRun issues and answers, or returns why all requests of a run are refused.
func (c *conn) issueRun(ctx context.Context, r *run) error {
	g := c.server.gate
	var err error
	if r.caller, err = c.allow(access.ScopeIssue, c.counter(r.bizType, r.key)); err != nil {
		return err
	}
	if err := keyInName(r.bizType); err != nil {
		return err
	}
	if !g.Requests.Enter() {
		g.Requests.Refused.Count()
		c.slowDown()
		return g.Requests.Refusal()
	}
	defer g.Requests.Leave()
	issuer, err := g.Issuer()
	if err != nil {
		return err
	}
	if r.integer {
		if err := c.server.integers(issuer, r.bizType); err != nil {
			return err
		}
	}
	for _, call := range r.calls {
		call.Caller = seqd.Caller{Name: r.caller.Name, Owner: r.caller.Owner, Addr: c.addr, RequestID: c.requestID}
	}
	if !r.integer && r.numbers > gate.Few && len(r.calls) == 1 {
		return c.issueMany(ctx, issuer, r)
	}
	issuer.IssueAll(ctx, r.calls, r.errs)
	c.answerRun(r)
	return nil
}

// issueMany issues for an answer that may take a lot of memory.
func (c *conn) issueMany(ctx context.Context, issuer *issuer.Issuer, r *run) error {
	g := c.server.gate
	loan, ok := g.Room.Borrow(r.bizType, r.numbers, gate.Numbers)
	if !ok {
		g.Room.Refused.Count()
		c.slowDown()
		return g.Room.Refusal()
	}
	defer loan.End()
	c.flush() // so that only this answer is held
	issuer.IssueAll(ctx, r.calls, r.errs)
	if r.errs[0] == nil {
		c.out = slices.Grow(c.out, int(loan.Expected())+r.numbers*perBulk)
	}
	c.answerRun(r)
	if r.errs[0] == nil {
		loan.Settle(len(c.out), cap(c.out))
	}
	r.forget()
	c.flush()
	if cap(c.out) > keepBytes {
		c.out = nil // small answers behind this one may wait long for a client that does not read
	}
	return nil
}

// perBulk is how much longer an ID is in the form of the protocol: $19, and twice CR LF.
const perBulk = 7

// answerRun appends the answers of a run, and counts them.
func (c *conn) answerRun(r *run) {
	var good [takers]int
	for i, call := range r.calls {
		t := r.takes[i]
		err := r.errs[i]
		switch {
		case err == nil && r.integer && call.Sequence.Shown():
			err = notPlain(r.bizType) // it was changed meanwhile
		case err == nil && r.integer && !c.server.opts.LargeIntegers && call.Sequence.Last() > seqd.MaxNumber:
			err = notExact(r.bizType) // likewise
		case r.integer && seqd.CodeOf(err) == seqd.CodeInvalidKey && !strings.Contains(r.bizType, "/"):
			err = needsKey(r.bizType)
		}
		switch {
		case err != nil:
			c.out = appendError(c.out, err)
			c.server.counters[t.command](seqd.CodeOf(err), 1)
			continue
		case t.want == seqd.ReservedNumbers:
			c.appendReservation(call)
		case r.integer:
			c.out = appendInt(c.out, call.Sequence.Last())
		default:
			c.out = appendIDs(c.out, &call.Sequence, t.array)
		}
		good[t.command]++
	}
	for i, n := range good {
		if n > 0 {
			c.server.counters[i]("", n)
		}
	}
}

// appendIDs appends IDs as text.
func appendIDs(dst []byte, seq *seqd.Sequence, array bool) []byte {
	if array {
		dst = appendHead(dst, '*', seq.Len())
	}
	for shown := range seq.Displays() {
		dst = appendBulk(dst, shown)
	}
	return dst
}

// integers returns why a biz type does not answer with integers.
func (s *Server) integers(issuer *issuer.Issuer, bizType string) error {
	form, err := issuer.Form(bizType)
	switch {
	case err != nil:
		return err
	case !form.Plain:
		return notPlain(bizType)
	case !form.Exact && !s.opts.LargeIntegers:
		return notExact(bizType)
	}
	return nil
}

// notExact is about JavaScript and other languages whose clients keep integers as doubles: two
// callers would read the same number.
func notExact(bizType string) error {
	return seqd.Errorf(seqd.CodeInvalidRequest, "the numbers of %s may be above 2^53 - 1, and some Redis clients round such integers; SEQ.NEXT %s returns them as text (resp.largeIntegers allows integers)", bizType, bizType)
}

func notPlain(bizType string) error {
	return seqd.Errorf(seqd.CodeInvalidRequest, "the IDs of %s are not plain numbers; SEQ.NEXT %s returns them as text", bizType, bizType)
}

// keyInName returns an error for a key that a client put behind the name of a biz type.
func keyInName(name string) error {
	bizType, key, ok := strings.Cut(name, "/")
	if !ok || seqd.CheckName(bizType) != nil || seqd.CheckKey(key) != nil {
		return nil
	}
	return seqd.Errorf(seqd.CodeInvalidKey, "a key is given by KEY alone: SEQ.NEXT %s KEY %s", bizType, key)
}

func needsKey(bizType string) error {
	return seqd.Errorf(seqd.CodeInvalidKey, "%s counts for each key on its own; SEQ.NEXT %s KEY <key> names one", bizType, bizType)
}

// slowDown delays a refusal for a client that was refused less than a second ago, so that clients
// that ask again at once do not take the processor from those that are served. Of commands that
// arrived together only one is delayed: the client waits for the answers of all of them.
func (c *conn) slowDown() {
	now := time.Now()
	if !c.delayed && now.Sub(c.refused) < time.Second {
		c.delayed = true
		time.Sleep(impatience)
	}
	c.refused = now
}

// impatience is how long a refusal is delayed.
const impatience = 100 * time.Millisecond

// incr is INCR bizType.
func (c *conn) incr(cmd int, args [][]byte) error {
	c.take(take{command: cmd}, args[1], nil, 1, true)
	return nil
}

// incrBy is INCRBY bizType count.
func (c *conn) incrBy(cmd int, args [][]byte) error {
	n, err := c.count(args[2])
	if err != nil {
		return err
	}
	c.take(take{command: cmd, want: seqd.Consecutive}, args[1], nil, n, true)
	return nil
}

// seqNext is SEQ.NEXT bizType [COUNT n] [KEY k].
func (c *conn) seqNext(cmd int, args [][]byte) error {
	o, err := c.options(cmd, args)
	if err != nil {
		return err
	}
	c.take(take{command: cmd, array: o.counted}, args[1], o.key, o.count, false)
	return nil
}

// seqReserve is SEQ.RESERVE bizType [COUNT n] [TTL ms] [KEY k].
func (c *conn) seqReserve(cmd int, args [][]byte) error {
	o, err := c.options(cmd, args)
	if err != nil {
		return err
	}
	c.take(take{command: cmd, want: seqd.ReservedNumbers, ttl: o.ttl}, args[1], o.key, o.count, false)
	return nil
}

// counter is [seqd.CounterOf], without making the string again.
func (c *conn) counter(bizType, key string) string {
	if key == "" {
		return bizType
	}
	var name [longestHeld]byte
	return c.counters.of(append(append(append(name[:0], bizType...), '/'), key...))
}

// names holds names of biz types, keys or counters that a client used, so that commands need not
// make strings.
type names struct {
	last string
	all  map[string]string
}

// mostNames is how many names are held, and longestHeld how long they are, in bytes.
const (
	mostNames   = 64
	longestHeld = seqd.MaxNameLength + len("/") + seqd.MaxKeyLength
)

// of returns a name as a string.
func (n *names) of(name []byte) string {
	if string(name) == n.last {
		return n.last
	}
	known, ok := n.all[string(name)]
	if !ok {
		known = string(name)
		if len(known) > longestHeld {
			return known
		}
		if n.all == nil || len(n.all) >= mostNames {
			n.all = make(map[string]string)
		}
		n.all[known] = known
	}
	n.last = known
	return known
}
