package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// told is what the stream of a biz type says.
type told struct {
	last    map[string]int64 // by source: the number of its last event
	ended   map[string]bool  // reservations that expired
	numbers map[toldNumber]bool
}

// toldNumber is a number of a counter of which an event of a type tells.
type toldNumber struct {
	counter, kind string
	n             int64
}

// checkEvents compares the events of all biz types that have some with what the store says of them
// (V1). It waits until they are published.
func (w *World) checkEvents() {
	if !slices.ContainsFunc(w.load.Shapes, hasEvents) {
		return
	}
	view := w.store.View(nil)
	defer view.Kill()
	store, err := view.Open(context.Background(), storesim.Client{})
	if err != nil {
		w.journal.Find("the store cannot be opened: %v", err)
		return
	}
	docs := store.Documents()
	lost := w.options.Bolt || w.mayHaveLost()
	for _, shape := range w.load.Shapes {
		if !hasEvents(shape) {
			continue
		}
		if !awaitPublished(shape.Name, docs) && !lost {
			w.journal.Find("events of %s are not published", shape.Name)
		}
		var told *told
		for { // a reservation may expire just now
			before := ledgerEvents(shape.Name, docs)
			if told = w.readEvents(shape.Name); told == nil || lost || maps.Equal(before, ledgerEvents(shape.Name, docs)) {
				break
			}
			awaitPublished(shape.Name, docs)
		}
		if told == nil || lost {
			continue
		}
		if err := w.compareEvents(shape.Name, told, docs); err != nil {
			w.journal.Find("the events of %s cannot be compared: %v", shape.Name, err)
		}
	}
}

func hasEvents(s load.Shape) bool { return s.Setting["events"] == true }

// mayHaveLost reports whether the store may have lost what it acknowledged.
func (w *World) mayHaveLost() bool {
	w.entries.mu.Lock()
	defer w.entries.mu.Unlock()
	return slices.ContainsFunc(w.entries.all, func(e record.Entry) bool { return e.Fault != nil && (e.Fault.StoreLost || e.Fault.StoreBack) })
}

// awaitPublished waits until no event of a biz type is in a ledger or a batch.
func awaitPublished(bizType string, docs persist.Documents) bool {
	for end := time.Now().Add(settle); time.Now().Before(end); time.Sleep(time.Second) {
		left := 0
		for range persist.DocumentsUnder(context.Background(), docs, persist.EventKind, bizType+"/") {
			left++ // or it cannot be read
		}
		for doc, err := range persist.EveryDocument(context.Background(), docs, persist.LedgerKind) {
			if err != nil {
				return false
			}
			if state, err := ledger.Decode(&doc); base(doc.Key) == bizType && (err != nil || slices.ContainsFunc(state.Outbox, func(e *ledger.Entry) bool { return e.Seq > 0 })) {
				left++
			}
		}
		if left == 0 {
			return true
		}
	}
	return false
}

// ledgerEvents returns how many events the ledgers of a biz type have had.
func ledgerEvents(bizType string, docs persist.Documents) map[string]int64 {
	n := make(map[string]int64)
	for doc, err := range persist.EveryDocument(context.Background(), docs, persist.LedgerKind) {
		if err != nil {
			break // compareEvents says so
		}
		if state, err := ledger.Decode(&doc); err == nil && base(doc.Key) == bizType {
			n[doc.Key] = state.Events
		}
	}
	return n
}

// readEvents reads all events of a biz type. Positions and the numbers of each source have no holes,
// and none comes twice.
func (w *World) readEvents(bizType string) *told {
	t := &told{last: make(map[string]int64), ended: make(map[string]bool), numbers: make(map[toldNumber]bool)}
	list, ok := w.events(bizType)
	if !ok {
		return nil
	}
	for i, e := range list {
		if e.Position != int64(i)+1 || e.Seq != t.last[e.Source]+1 {
			w.journal.Find("the event %d of %s, at position %d, follows %d at %d", e.Seq, e.Source, e.Position, t.last[e.Source], i)
			return nil
		}
		t.last[e.Source] = e.Seq
		counter := seqd.CounterOf(bizType, e.Key)
		if e.Period != "" {
			counter += "@" + strings.ReplaceAll(e.Period, "-", "")
		}
		if e.Type == persist.EventExpired {
			t.ended[e.Data.Reservation] = true
		}
		for _, r := range e.Data.Runs {
			for n := r.From; n <= r.To && e.Type != persist.EventExhausting; n++ {
				t.numbers[toldNumber{counter, e.Type, n}] = true
			}
		}
	}
	return t
}

// event is an event as a node shows it.
type event struct {
	Position    int64
	ID          string
	Type        string
	Source      string
	Seq         int64
	Key, Period string
	Data        struct {
		Reservation string
		Runs        []struct{ From, To int64 }
	}
}

// events returns all events of a biz type, asking one node after the other. ok is false if they cannot
// be read: then it returns those before.
func (w *World) events(bizType string) (list []event, ok bool) {
	for {
		after := len(list)
		status, text := w.send(context.Background(), w.load.Nodes[after%len(w.load.Nodes)], http.MethodGet, fmt.Sprintf("/events?bizType=%s&after=%d&limit=100", bizType, after), "")
		var page struct{ Events []event }
		if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK {
			w.journal.Find("the events of %s after %d cannot be read: %d %.200s", bizType, after, status, text)
			return list, false
		}
		if len(page.Events) == 0 {
			return list, true
		}
		if at := page.Events[0].Position; at != int64(after)+1 {
			w.journal.Find("after %d events of %s comes the one at position %d", after, bizType, at)
			return list, false
		}
		list = append(list, page.Events...)
	}
}

// compareEvents looks for an event of each number that is issued or void, and of each reservation that
// expired.
func (w *World) compareEvents(bizType string, t *told, docs persist.Documents) error {
	for doc, err := range persist.EveryDocument(context.Background(), docs, persist.LedgerKind) {
		if err != nil {
			return err
		}
		if base(doc.Key) != bizType {
			continue
		}
		state, err := ledger.Decode(&doc)
		if err != nil {
			return err
		}
		source := doc.Key + "@" + state.Born
		if state.Era != 0 {
			source += fmt.Sprintf(".%d", state.Era)
		}
		if t.last[source] != state.Events {
			w.journal.Find("%s has %d events, and the stream has %d of them", source, state.Events, t.last[source])
		}
		open, err := openNumbers(doc.Key, state, docs)
		if err != nil {
			return err
		}
		for n := state.First; n <= state.Last; n++ {
			kind, is := open[n]
			if !is {
				kind = persist.EventIssued
			}
			if kind != "" && !t.numbers[toldNumber{doc.Key, kind, n}] {
				w.journal.Find("there is no event %s of %d of %s", kind, n, doc.Key)
				break
			}
		}
	}
	return w.compareEnded(bizType, t, docs)
}

// openNumbers returns the numbers of a ledger that are not issued: which event they must have, "" for
// none.
func openNumbers(counter string, state *ledger.State, docs persist.Documents) (map[int64]string, error) {
	var records []persist.Document
	for doc, err := range persist.DocumentsUnder(context.Background(), docs, persist.VoidKind, counter+"#") {
		if err != nil {
			return nil, err
		}
		records = append(records, doc)
	}
	voids, err := state.AllVoids(records)
	if err != nil {
		return nil, err
	}
	open := make(map[int64]string)
	mark := func(kind string, runs ...ledger.Run) {
		for _, r := range runs {
			for n := r.From; n <= r.To; n++ {
				open[n] = kind
			}
		}
	}
	mark(persist.EventVoid, voids...)
	for _, r := range state.Released {
		mark("", r.Run)
	}
	for _, r := range state.Reserved {
		mark("", r.Runs...)
	}
	return open, nil
}

func (w *World) compareEnded(bizType string, t *told, docs persist.Documents) error {
	for doc, err := range persist.EveryDocument(context.Background(), docs, persist.EndedKind) {
		if err != nil {
			return err
		}
		counter, _, _ := strings.Cut(doc.Key, "#")
		e, err := ledger.DecodeEntry(&doc)
		if err != nil {
			return err
		}
		_, key, digits, _ := seqd.SplitCounter(counter)
		id := ledger.FullID(e.ID, key, digits)
		if base(counter) == bizType && e.End == ledger.Expired && !t.ended[id] {
			w.journal.Find("there is no event of the reservation %s of %s, which expired", id, counter)
		}
	}
	return nil
}

// send sends a request to a node, and returns what it answers.
func (w *World) send(ctx context.Context, n load.Node, method, path, body string) (status int, text string) {
	status, _, text = w.load.Raw(ctx, n, method, path, body)
	return status, text
}
