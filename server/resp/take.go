package resp

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/gate"
)

const (
	// mostTakes and mostNumbers are how many requests share a take, and how many numbers these may
	// ask for in all as text: more would make a large answer.
	mostTakes   = 256
	mostNumbers = 512
)

// run is requests for numbers of one biz type that arrived one behind the other. They are answered
// by one call of the issuer.
type run struct {
	bizType string
	integer bool   // all are answered by integers: INCR, INCRBY
	numbers int    // how many the calls ask for
	caller  string // the name of the client's token
	calls   []*seqd.Call
	errs    []error
	takes   []take

	spare []*seqd.Call // for calls
}

// take is one request for numbers.
type take struct {
	command int  // the index of INCR, INCRBY or SEQ.NEXT
	array   bool // SEQ.NEXT with COUNT
}

var runs = sync.Pool{New: func() any { return new(run) }}

// add adds a request.
func (r *run) add(t take, count int, want seqd.Want) {
	n := len(r.calls)
	if n == len(r.spare) {
		r.spare = append(r.spare, new(seqd.Call))
	}
	call := r.spare[n]
	call.BizType, call.Count, call.Want = r.bizType, count, want
	r.calls, r.errs, r.takes = append(r.calls, call), append(r.errs, nil), append(r.takes, t)
	r.numbers += count
}

// reset makes a run empty.
func (r *run) reset() {
	for _, call := range r.calls {
		call.Caller = seqd.Caller{}
	}
	r.calls, r.errs, r.takes, r.numbers = r.calls[:0], r.errs[:0], r.takes[:0], 0
	r.caller = ""
}

// forget frees the memory of the calls. What many numbers need is not kept, neither while a client
// reads them nor for other runs.
func (r *run) forget() { r.calls, r.spare = nil, nil }

// fits reports whether a request can share the take of a run that is not empty.
func (r *run) fits(bizType []byte, integer bool, count int) bool {
	return len(r.calls) < mostTakes && integer == r.integer && string(bizType) == r.bizType &&
		(integer || r.numbers+count <= mostNumbers)
}

// take adds a request to the run, which it answers before if it does not fit.
func (c *conn) take(t take, bizType []byte, count int, want seqd.Want, integer bool) {
	if c.run != nil && !c.run.fits(bizType, integer, count) {
		c.issue()
	}
	if c.run == nil {
		c.run = runs.Get().(*run)
		c.run.bizType, c.run.integer = c.names.of(bizType), integer
	}
	c.run.add(t, count, want)
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
		c.answerRun(r)
	}
	rec.end(c, r)
	if len(c.out) >= flushAt {
		c.flush()
	}
}

// issueRun issues and answers, or returns why all requests of a run are refused.
func (c *conn) issueRun(ctx context.Context, r *run) error {
	g := c.server.gate
	var err error
	if r.caller, err = g.AllowDigest(&c.secret, access.ScopeIssue, r.bizType); err != nil {
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
		if plain, err := issuer.Plain(r.bizType); err != nil {
			return err
		} else if !plain {
			return notPlain(r.bizType)
		}
	}
	for _, call := range r.calls {
		call.Caller = seqd.Caller{Name: r.caller, Addr: c.addr, RequestID: c.requestID}
	}
	if !r.integer && r.numbers > gate.Few && len(r.calls) == 1 {
		return c.issueMany(ctx, issuer, r)
	}
	issuer.IssueAll(ctx, r.calls, r.errs)
	c.answerRun(r)
	return nil
}

// issueMany issues for an answer that may take a lot of memory.
func (c *conn) issueMany(ctx context.Context, issuer *seqd.Issuer, r *run) error {
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
		if err == nil && r.integer && call.Sequence.Shown() {
			err = notPlain(r.bizType) // it was changed meanwhile
		}
		switch {
		case err != nil:
			c.out = appendError(c.out, err)
			c.server.counters[t.command](seqd.CodeOf(err), 1)
			continue
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

func notPlain(bizType string) error {
	return seqd.Errorf(seqd.CodeInvalidRequest, "the IDs of %s are not plain numbers; SEQ.NEXT %s returns them as text", bizType, bizType)
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
	c.take(take{command: cmd}, args[1], 1, seqd.AnyNumbers, true)
	return nil
}

// incrBy is INCRBY bizType count.
func (c *conn) incrBy(cmd int, args [][]byte) error {
	n, err := c.count(args[2])
	if err != nil {
		return err
	}
	c.take(take{command: cmd}, args[1], n, seqd.Consecutive, true)
	return nil
}

// seqNext is SEQ.NEXT bizType [COUNT n].
func (c *conn) seqNext(cmd int, args [][]byte) error {
	n, given := 1, false
	for rest := args[2:]; len(rest) > 0; rest = rest[2:] {
		option := strings.ToUpper(string(rest[0]))
		switch {
		case option != "COUNT" && option != "KEY":
			return seqd.Errorf(seqd.CodeInvalidRequest, "syntax error: %.40q is not an option of SEQ.NEXT bizType [COUNT n]", rest[0])
		case len(rest) == 1:
			return seqd.Errorf(seqd.CodeInvalidRequest, "syntax error: %s has no value", option)
		case option == "KEY":
			return seqd.Errorf(seqd.CodeInvalidRequest, "no biz type has keys in this version: leave KEY out")
		case given:
			return seqd.Errorf(seqd.CodeInvalidCount, "COUNT is given more than once")
		}
		var err error
		if n, err = c.count(rest[1]); err != nil {
			return err
		}
		given = true
	}
	c.take(take{command: cmd, array: given}, args[1], n, seqd.AnyNumbers, false)
	return nil
}

// count reads how many numbers a client wants.
func (c *conn) count(arg []byte) (int, error) {
	n, ok := number(arg)
	if !ok {
		return 0, seqd.Errorf(seqd.CodeInvalidCount, "the count is %.40q and must be a whole number from 1 to %d", arg, c.server.gate.MaxCount)
	}
	if err := c.server.gate.CheckCount(n); err != nil {
		return 0, err
	}
	return int(n), nil
}

// number reads a decimal number. ok is false if it is none, or not in the range of an int64.
func number(arg []byte) (n int64, ok bool) {
	if len(arg) == 0 || len(arg) > 20 {
		return 0, false
	}
	if len(arg) == 1 && arg[0] >= '0' && arg[0] <= '9' {
		return int64(arg[0] - '0'), true
	}
	if arg[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(arg), 10, 64)
	return n, err == nil
}

// names holds names of biz types that a client used, so that commands need not make strings.
type names struct {
	last string
	all  map[string]string
}

// mostNames is how many names are held.
const mostNames = 64

// of returns a name as a string.
func (n *names) of(name []byte) string {
	if string(name) == n.last {
		return n.last
	}
	known, ok := n.all[string(name)]
	if !ok {
		known = string(name)
		if len(known) > seqd.MaxNameLength {
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
