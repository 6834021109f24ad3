package load

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// Sink keeps the entries of a record. It is safe for concurrent use.
type Sink interface{ Write(record.Entry) error }

// Journal makes the record of a run, with its one clock. It is safe for concurrent use.
type Journal struct {
	// Began is time 0.
	Began time.Time

	sink Sink
	out  io.Writer // for people
	last atomic.Int64
	lost atomic.Bool // see StoreLost

	mu     sync.Mutex // guards what follows
	lives  map[string]record.Life
	issued *issued
}

// NewJournal returns a journal that begins now. It writes the record to sink, and what people may
// want to read to out.
func NewJournal(sink Sink, out io.Writer, shapes []Shape) (*Journal, error) {
	issued, err := newIssued(shapes)
	return &Journal{Began: time.Now(), sink: sink, out: out, lives: map[string]record.Life{}, issued: issued}, err
}

// Now returns the time on the run's clock, in ns. No two calls return the same, and none returns 0.
// So even where time stands still between events, as it does in a simulation, the checker sees which
// came first.
func (j *Journal) Now() int64 {
	for {
		last := j.last.Load()
		if now := max(last+1, int64(time.Since(j.Began))); j.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// Write adds an entry. Errors are returned when the sink is closed, and fail the run.
func (j *Journal) Write(e record.Entry) {
	if e.Fault != nil && (e.Fault.StoreBack || e.Fault.StoreLost) {
		j.lost.Store(true)
	}
	_ = j.sink.Write(e)
}

// storeLost reports whether a fault has begun that can take the store back: a restore, or a
// failover that loses writes.
func (j *Journal) storeLost() bool { return j.lost.Load() }

// Say prints a line with the time of the run.
func (j *Journal) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(j.out, "%7.2fs  %s\n", time.Duration(j.Now()).Seconds(), fmt.Sprintf(format, args...))
}

// Call records a call, and notes the highest numbers that it got.
func (j *Journal) Call(c *record.Call) {
	j.Write(record.Entry{Call: c})
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.Kind != record.Parse {
		j.issued.note(c)
	}
}

// Lived records that a life began (how is empty) or ended.
func (j *Journal) Lived(node string, life int, how string) {
	j.change(node, life, func(l *record.Life) {
		if how == "" {
			l.Begin = j.Now()
		} else {
			l.End, l.How = j.Now(), how
		}
	})
}

// ready records the first time that a life was ready.
func (j *Journal) ready(node string, life int, at int64) {
	j.mu.Lock()
	known := j.lives[lifeKey(node, life)].Ready != 0
	j.mu.Unlock()
	if !known {
		j.change(node, life, func(l *record.Life) { l.Ready = at })
	}
}

// change records a change of a life. The last entry counts, so it is written under the lock.
// Otherwise the first 200 of /readyz could overwrite an end.
func (j *Journal) change(node string, life int, how func(*record.Life)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lives[lifeKey(node, life)]
	l.Node, l.Life = node, life
	how(&l)
	j.lives[lifeKey(node, life)] = l
	j.Write(record.Entry{Life: &l})
}

func lifeKey(node string, life int) string { return fmt.Sprintf("%s %d", node, life) }

// Find records a finding: a defect that only the run itself can see.
func (j *Journal) Find(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.Say("!! %s", text)
	j.Write(record.Entry{Finding: &record.Finding{At: j.Now(), Text: text}})
}

// messages has the lines of seqd's log that matter to the checker, by their beginning.
var messages = []struct{ begins, what string }{
	{"Redis does not serve the cursor; the node issues on its own", record.OnItsOwn},
	{"Redis serves the cursor again; the node takes from it", record.Back},
	{"the cursor was begun", record.Begun},
	{"the cursor was moved up", record.MovedUp},
	{"machine ID", record.GotMachine},
	{"the machine ID was lost;", record.LostMachine},
	{"the cursor offered numbers that are not above all this node has issued; they are skipped", record.Guarded},
	{"the store was restored from an older copy:", record.Restored},
}

// Line records a line of a node's log that matters to the checker.
func (j *Journal) Line(node string, life int, text []byte) {
	var entry struct {
		Level, Msg, BizType string
		First, Last         int64
		MachineID           int64
	}
	if json.Unmarshal(text, &entry) != nil {
		entry.Level, entry.Msg = "ERROR", string(text) // last words of a dying process
	}
	l := record.Line{At: j.Now(), Node: node, Life: life, BizType: entry.BizType, First: entry.First, Last: entry.Last, Machine: entry.MachineID, Text: entry.Msg,
		What: record.Other, Error: entry.Level == "ERROR"}
	for _, m := range messages {
		if strings.HasPrefix(entry.Msg, m.begins) {
			l.What = m.what
			break
		}
	}
	if l.What != record.Other || l.Error {
		j.Write(record.Entry{Line: &l})
	}
}
