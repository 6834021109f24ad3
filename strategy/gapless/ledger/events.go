package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// Events tell other programs what happened to numbers. If a biz type has them, an entry that is one
// gets its number in the write that makes it true (V1), and leaves the outbox as all entries do:
// copied to a batch of events first. Numbers of events have no holes, and begin at 1 in each era.

// mostRuns is how many runs one event has. An entry with more is several events.
const mostRuns = 32

// event makes an entry the next events, if the biz type has any.
func (s *State) event(e *Entry) *Entry {
	if s.Told {
		e.Seq = s.Events + 1
		s.Events += e.events()
	}
	return e
}

// events returns how many events an entry is, if it is one.
func (e *Entry) events() int64 { return int64(len(e.Runs)+mostRuns-1) / mostRuns }

// tells reports whether events wait in the outbox.
func (s *State) tells() bool {
	return slices.ContainsFunc(s.Outbox, func(e *Entry) bool { return e.Seq > 0 })
}

// tellIssued adds what one write issues to one event, as long as there is room in it, and no other
// event in between: that may say how the numbers came back. runs are issued as of this write.
func (s *State) tellIssued(runs []Run, now int64) {
	if !s.Told {
		return
	}
	for i := len(s.Outbox) - 1; i >= 0 && s.Outbox[i].Rev == s.Revision+1; i-- {
		last := s.Outbox[i]
		if last.Seq == 0 {
			continue
		}
		merged := merge(last.Runs, runs)
		if last.Kind != IssuedEntry || last.Era != s.Era || len(merged) > mostRuns || Count(merged) != Count(last.Runs)+Count(runs) {
			break
		}
		more := *last
		more.Runs = merged
		more.text = string(more.append(nil))
		s.size += len(more.text) - len(last.text)
		s.Outbox[i] = &more
		return
	}
	s.add(s.event(&Entry{Kind: IssuedEntry, Runs: runs, At: now}))
}

// merge returns the runs of both, ascending.
func merge(runs, others []Run) (merged []Run) {
	all := slices.Concat(runs, others)
	slices.SortFunc(all, func(a, b Run) int { return cmp.Compare(a.From, b.From) })
	for _, r := range all {
		merged = join(merged, r)
	}
	return merged
}

// tellExhausting adds an event if the last number passed the hundredth that is left of all numbers.
func (s *State) tellExhausting(last, now int64, p *Policy) {
	limit := p.limit()
	if from := limit - limit/100; s.Told && last <= from && s.Last > from {
		s.add(s.event(&Entry{Kind: ExhaustingEntry, Runs: []Run{{s.Last, limit}}, At: now}))
	}
}

// batches returns the events of some entries of the outbox. These are in the order of their numbers;
// others may have copied those between them.
func (s *State) batches(counter string, entries []*Entry) (docs []persist.Document) {
	b := &persist.EventBatch{}
	end := func() {
		if len(b.Events) > 0 {
			if doc, err := b.Document(); err == nil { // what an entry can say is bounded
				docs = append(docs, doc)
			}
		}
	}
	for _, e := range entries {
		if e.Seq == 0 {
			continue
		}
		if source := e.source(counter, s.Born); source != b.Source || e.Seq != b.Last()+1 {
			end()
			b = newBatch(counter, source, e.Seq)
		}
		for _, event := range e.sourceEvents(counter) {
			if len(b.Events) == persist.MostBatchEvents {
				end()
				b = newBatch(counter, b.Source, b.Last()+1)
			}
			b.Events = append(b.Events, event)
		}
	}
	end()
	return docs
}

func newBatch(counter, source string, first int64) *persist.EventBatch {
	b := &persist.EventBatch{Source: source, First: first}
	var digits string
	b.BizType, b.Key, digits, _ = seqd.SplitCounter(counter)
	b.Period = digits
	for _, at := range []int{4, 7} {
		if len(b.Period) > at {
			b.Period = b.Period[:at] + "-" + b.Period[at:]
		}
	}
	return b
}

// source identifies who counts the events of an entry: a ledger that was lost and made anew counts
// anew, and so does a new era, which does not know how far the lost one had come.
func (e *Entry) source(counter, born string) string {
	if e.Era == 0 {
		return counter + "@" + born
	}
	return fmt.Sprintf("%s@%s.%d", counter, born, e.Era)
}

// eventText is what an event says.
type eventText struct {
	Runs        []eventRun `json:"runs"`
	Reservation string     `json:"reservation,omitempty"`
	Caller      string     `json:"caller,omitempty"`
	Reason      string     `json:"reason,omitempty"`
}

type eventRun struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// sourceEvents returns the events that an entry is.
func (e *Entry) sourceEvents(counter string) (list []persist.SourceEvent) {
	for runs := range slices.Chunk(e.Runs, mostRuns) {
		text := eventText{Reason: e.Reason, Caller: seqd.OwnerName(e.Caller)}
		if e.ID != "" {
			_, key, digits, _ := seqd.SplitCounter(counter)
			text.Reservation = FullID(e.ID, key, digits)
		}
		for _, r := range runs {
			text.Runs = append(text.Runs, eventRun(r))
		}
		data, _ := json.Marshal(text) // numbers and texts
		list = append(list, persist.SourceEvent{Type: e.eventType(), At: e.At, Data: data})
	}
	return list
}

func (e *Entry) eventType() string {
	switch e.Kind {
	case EndedEntry:
		return persist.EventExpired
	case VoidEntry:
		return persist.EventVoid
	case ExhaustingEntry:
		return persist.EventExhausting
	}
	return persist.EventIssued
}

// FullID returns the ID of a reservation as callers know it: own is its [Reservation.ID], key and
// digits those of the counter.
func FullID(own, key, digits string) string {
	if digits != "" || key != "" {
		own += "." + digits
	}
	if key != "" {
		own += "." + key
	}
	return own
}
