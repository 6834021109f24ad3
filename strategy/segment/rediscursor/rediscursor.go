// Package rediscursor is the cursor that all nodes of a cluster take the numbers of one counter
// from: a hash in Redis that only the scripts in lua/ touch (invariant U4). The header of each file
// describes its arguments and results.
//
// The hash is trusted only under the replication ID that it was written under, and only on a
// primary (invariant U3). A server that was restarted, promoted or restored has another replication
// ID, and its hash may lack numbers that were handed out. Whenever the cursor is begun anew it gets
// a new random gen. An install must name the present gen, so that a late, repeated or misdirected
// install has no effect.
//
// Numbers of the counter may also have been issued without this Redis: after a restored backup,
// under another ordering, or with another Redis. So the hash has the sequencer epoch that it was
// seeded under, and callers name the epoch that the store holds. Numbers are taken only if these
// are equal (invariant U3b).
package rediscursor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/persist"
)

// FormatVersion is written into every hash. A hash with a larger one was written by a newer seqd
// and is refused.
const FormatVersion = 2

var (
	//go:embed lua/take.lua
	takeSource string
	//go:embed lua/install.lua
	installSource string
	//go:embed lua/drop.lua
	dropSource string

	takeScript    = redisonce.NewScript(takeSource)
	installScript = redisonce.NewScript(installSource)
	dropScript    = redisonce.NewScript(dropSource)
)

// Errors that do not pass by themselves. Every other error of this package means that Redis does
// not serve the cursor now.
var (
	// ErrNewer is returned for a hash that a newer version of seqd wrote.
	ErrNewer = errors.New("the cursor in Redis was written by a newer version of seqd")
	// ErrForeign is returned for a hash that belongs to a cluster with another store.
	ErrForeign = errors.New("the cursor in Redis" + persist.OfAnotherCluster)
)

// ErrReplica is returned when the server is no primary.
var ErrReplica = errors.New("the Redis server is a replica, not a primary")

// Options are what the cursors of one cluster share.
type Options struct {
	// Client must send a command at most once, as [redisonce.Do] does, and bound the time of every
	// call.
	Client redis.UniversalClient
	// Batch sends calls of different counters together, with Client. If it is nil, each has a round
	// trip of its own.
	Batch *redisbatch.Sender
	// Prefix begins every key.
	Prefix string
	// Cluster is the ID of the cluster, as its store has it.
	Cluster string
}

// Cursor is the cursor of one counter. It is safe for concurrent use.
type Cursor struct {
	client       redis.UniversalClient
	batch        *redisbatch.Sender // nil for none
	cluster, key string
}

// Open returns the cursor of a counter. It touches nothing.
func Open(opts Options, counter string) *Cursor {
	return &Cursor{client: opts.Client, batch: opts.Batch, cluster: opts.Cluster, key: Key(opts.Prefix, counter)}
}

// Key returns the key of the hash of a counter. The braces put it into one slot of a Redis Cluster.
func Key(prefix, counter string) string { return prefix + "{" + counter + "}" }

// Take says what to take.
type Take struct {
	// Count is how many numbers are wanted; 0 only looks.
	Count int64
	// Threshold is the share of buffer 1 whose use asks for a refill.
	Threshold float64
	// Reserve is how many ranges may wait behind buffer 2.
	Reserve int
	// UseReserve allows the ranges behind buffer 2 to be used.
	UseReserve bool
	// Claim is for how long a refill that is asked for is left to the caller, at most 1m; 0 claims
	// none.
	Claim time.Duration
	// Epoch is the sequencer epoch that the store believes in, as far as the caller knows; empty
	// for none, which only looks.
	Epoch string
}

// Low says whether the cursor wants a range: appended, or as a seed.
type Low int

// The values of Low.
const (
	Enough      Low = iota // no range is wanted
	Claimed                // one is, but it is claimed already, or the caller claims none
	WantsRefill            // one is, and the caller has claimed it
)

// Taken is the result of a Take. A Take that got all it wanted from buffer 1, while the cursor
// wants no range, sets only Epoch, Ceil and Runs: that is the common case, and its reply is short.
type Taken struct {
	// Stub means that the cursor holds nothing and waits for a seed; only Gen, Ceil and Low are set
	// then.
	Stub bool
	// Other means that the cursor is live under another epoch than the caller's; only Gen, Ceil,
	// Epoch and Replaced are set then.
	Other bool
	// Replaced is the epoch that Epoch replaced in the store, empty for none.
	Replaced string
	// Epoch is the one that the cursor is live under, empty for a stub.
	Epoch string
	// Gen names this beginning of the cursor.
	Gen string
	// Ceil is the highest number that was ever installed.
	Ceil int64
	// Low and Free say whether a range is wanted and for how many there is room.
	Low  Low
	Free int
	// Next is the number that the next Take would begin with, 0 if there is none. A Take that got
	// all it wanted leaves Next and Hand 0.
	Next int64
	// Hand is how many numbers are left.
	Hand int64
	// Runs are the numbers that were taken, ascending; fewer than Count if there were no more.
	Runs []persist.Range
}

// Mode is how a range is put into the cursor.
type Mode string

// The modes of an install.
const (
	Append Mode = "append" // at the end of the queue
	// begins a cursor under a new epoch, over a stub or a cursor that does not count any more
	Seed    Mode = "seed"
	Advance Mode = "advance" // begins the live cursor anew
)

// Install says what to install.
type Install struct {
	Mode Mode
	// Gen is the one that the caller saw.
	Gen string
	// Epoch is the one that the range was allocated for. A seed must have drawn it, and written it
	// to the store, for itself alone (except the probe's, which no number is issued from). Replaced
	// is the one that it replaced there, empty for none.
	Epoch, Replaced string
	Range           persist.Range
	// Reserve is how many ranges may wait behind buffer 2.
	Reserve int
}

// Verdict is the result of an install. Every verdict except Installed means that the range is not
// in the cursor and never will be.
type Verdict string

// The verdicts.
const (
	Installed Verdict = "ok"
	Moved     Verdict = "moved" // the cursor is not the one the caller saw
	Stale     Verdict = "stale" // the range does not begin above all that was installed before
	Full      Verdict = "full"  // the queue has no room
)

// Answer is a verdict and what goes with it.
type Answer struct {
	Verdict Verdict
	// Gen is the present one, with Installed.
	Gen string
	// Free is how many more ranges the queue has room for, with Installed.
	Free int
	// Ceil is the highest number that was ever installed, with Stale.
	Ceil int64
}

// Take takes numbers. After an error they may have been taken nevertheless; then they are skipped.
func (c *Cursor) Take(ctx context.Context, t Take) (Taken, error) {
	reply, err := c.send(ctx, c.takeCall(t))
	if err != nil {
		return Taken{}, err
	}
	var taken Taken
	ceil, run, took := reply.took(t.Count)
	switch {
	case took:
		taken = Taken{Epoch: t.Epoch, Ceil: ceil, Runs: []persist.Range{run}}
	case reply.is("stub", 4):
		taken = Taken{Stub: true, Gen: reply.text(1), Ceil: reply.number(2), Low: reply.low(3)}
	case reply.is("other", 5):
		taken = Taken{Other: true, Gen: reply.text(1), Ceil: reply.number(2), Epoch: reply.text(3), Replaced: reply.text(4)}
	case reply.is("live", 7):
		taken = Taken{Epoch: t.Epoch, Gen: reply.text(1), Ceil: reply.number(2), Low: reply.low(3), Free: int(reply.number(4)), Next: reply.number(5), Hand: reply.number(6)}
		taken.Runs = reply.runs(7, t.Count, taken.Ceil)
	default:
		reply.spoil()
	}
	if reply.err != nil {
		return Taken{}, reply.err
	}
	return taken, nil
}

// alike is what takes have in common that share a run of the script.
type alike struct {
	cluster    string
	threshold  float64
	reserve    int
	useReserve bool
	claim      time.Duration
}

// Head implements [redisonce.Alike].
func (a alike) Head() []any {
	use := "0"
	if a.useReserve {
		use = "1"
	}
	return []any{
		FormatVersion, a.cluster, randomText(), strconv.FormatFloat(a.threshold, 'g', -1, 64),
		strconv.Itoa(a.reserve), use, strconv.FormatInt(a.claim.Milliseconds(), 10),
	}
}

// takeCall returns a take that can share a run with takes from other counters.
func (c *Cursor) takeCall(t Take) *redisonce.Call {
	common := alike{c.cluster, t.Threshold, t.Reserve, t.UseReserve, t.Claim}
	return takeScript.Joint(common, c.key, strconv.FormatInt(t.Count, 10), t.Epoch)
}

// randomText is for a new gen.
func randomText() string { return strconv.FormatUint(rand.Uint64(), 36) }

// Install installs a range. It is sent once. After an error the range may be in the cursor, or get
// there later: the caller must forget it. An invalid range or an empty epoch is not sent, and the
// error is [persist.ErrInvalid].
func (c *Cursor) Install(ctx context.Context, in Install) (Answer, error) {
	if err := in.Range.Validate(); err != nil {
		return Answer{}, err
	}
	if in.Epoch == "" {
		return Answer{}, fmt.Errorf("%w: a range for the cursor of no epoch", persist.ErrInvalid)
	}
	reply, err := c.run(ctx, &installScript, in.Gen, strconv.FormatInt(in.Range.First, 10), strconv.FormatInt(in.Range.Last, 10),
		string(in.Mode), strconv.Itoa(in.Reserve), in.Epoch, in.Replaced)
	if err != nil {
		return Answer{}, err
	}
	var answer Answer
	switch {
	case reply.is(string(Installed), 3):
		answer = Answer{Verdict: Installed, Gen: reply.text(1), Free: int(reply.number(2))}
	case reply.is(string(Stale), 2):
		answer = Answer{Verdict: Stale, Ceil: reply.number(1)}
	case reply.is(string(Moved), 1):
		answer = Answer{Verdict: Moved}
	case reply.is(string(Full), 1):
		answer = Answer{Verdict: Full}
	default:
		reply.spoil()
	}
	if reply.err != nil {
		return Answer{}, reply.err
	}
	return answer, nil
}

// Drop removes the cursor of a period that is over, with the numbers in it.
func (c *Cursor) Drop(ctx context.Context) error {
	_, err := c.run(ctx, &dropScript)
	return err
}

// run runs a script of one key.
func (c *Cursor) run(ctx context.Context, s *redisonce.Script, args ...any) (*reply, error) {
	head := make([]any, 0, 12)
	head = append(head, FormatVersion, c.cluster, randomText())
	return c.send(ctx, s.Call(c.key, append(head, args...)...))
}

// send sends a call and handles the replies that all scripts share.
func (c *Cursor) send(ctx context.Context, call *redisonce.Call) (*reply, error) {
	if c.batch != nil {
		c.batch.Do(ctx, call)
	} else {
		call.Send(ctx, c.client)
	}
	if call.Err != nil {
		return nil, call.Err
	}
	r := &reply{}
	switch said := call.Reply.(type) {
	case []any:
		r.items = said
	case string:
		r.short = said
	}
	switch {
	case r.is("replica", 1):
		return nil, ErrReplica
	case r.is("newer", 2):
		return nil, fmt.Errorf("%w: format %s, this build knows %d", ErrNewer, r.text(1), FormatVersion)
	case r.is("foreign", 2):
		return nil, ErrForeign
	}
	return r, nil
}
