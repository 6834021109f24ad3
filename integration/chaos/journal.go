package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd/integration/chaos/record"
)

// journal writes the record, with the single clock of the run.
type journal struct {
	began  time.Time
	writer *record.Writer
	out    io.Writer // for people

	mu      sync.Mutex // guards what follows
	lives   map[string]record.Life
	numbers int64
	calls   int64
	issued  *issued
}

func newJournal(path string, out io.Writer, shapes []shape) (*journal, error) {
	issued, err := newIssued(shapes)
	if err != nil {
		return nil, err
	}
	writer, err := record.Create(path)
	return &journal{began: time.Now(), writer: writer, out: out, lives: map[string]record.Life{}, issued: issued}, err
}

// now returns the time on the run's clock, never 0.
func (j *journal) now() int64 { return max(1, int64(time.Since(j.began))) }

// write adds an entry. Errors are returned when the writer is closed, and fail the run.
func (j *journal) write(e record.Entry) { _ = j.writer.Write(e) }

// say prints a line with the time of the run.
func (j *journal) say(format string, args ...any) {
	_, _ = fmt.Fprintf(j.out, "%7.2fs  %s\n", time.Duration(j.now()).Seconds(), fmt.Sprintf(format, args...))
}

// call records a call and counts what it got.
func (j *journal) call(c *record.Call) {
	j.write(record.Entry{Call: c})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls++
	if c.Kind != record.Parse {
		j.issued.note(c)
		for _, r := range c.Runs {
			j.numbers += r.Count
		}
		j.numbers += int64(len(c.Texts))
	}
}

// lived records that a life began (how is empty) or ended.
func (j *journal) lived(node string, life int, how string) {
	j.change(node, life, func(l *record.Life) {
		if how == "" {
			l.Begin = j.now()
		} else {
			l.End, l.How = j.now(), how
		}
	})
}

// ready records the first time that a life was ready.
func (j *journal) ready(node string, life int, at int64) {
	j.mu.Lock()
	known := j.lives[lifeKey(node, life)].Ready != 0
	j.mu.Unlock()
	if !known {
		j.change(node, life, func(l *record.Life) { l.Ready = at })
	}
}

// change records a change of a life. The last entry counts, so it is written under the lock.
// Otherwise the first 200 of /readyz could overwrite an end.
func (j *journal) change(node string, life int, how func(*record.Life)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lives[lifeKey(node, life)]
	l.Node, l.Life = node, life
	how(&l)
	j.lives[lifeKey(node, life)] = l
	j.write(record.Entry{Life: &l})
}

func lifeKey(node string, life int) string { return fmt.Sprintf("%s %d", node, life) }

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

// line records a line of a node's log that matters to the checker.
func (j *journal) line(node string, life int, text []byte) {
	var entry struct {
		Level, Msg, BizType string
		First, Last         int64
		MachineID           int64
	}
	if json.Unmarshal(text, &entry) != nil {
		entry.Level, entry.Msg = "ERROR", string(text) // last words of a dying process
	}
	l := record.Line{At: j.now(), Node: node, Life: life, BizType: entry.BizType, First: entry.First, Last: entry.Last, Machine: entry.MachineID, Text: entry.Msg,
		What: record.Other, Error: entry.Level == "ERROR"}
	for _, m := range messages {
		if strings.HasPrefix(entry.Msg, m.begins) {
			l.What = m.what
			break
		}
	}
	if l.What != record.Other || l.Error {
		j.write(record.Entry{Line: &l})
	}
}
