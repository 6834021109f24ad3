package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// What scenarios show.

// describe shows a command and what became of it.
func (tl *tale) describe(n *teller, c *Command, out Outcome, fate string) {
	text := ""
	switch c.Action {
	case Read:
		text = "reads"
		if out.Err == nil {
			text += fmt.Sprintf(" %d", out.Doc.Revision)
		}
	case Write:
		text = fmt.Sprintf("writes %d", c.Doc.Revision)
	case Keep:
		text = "copies " + strings.Join(entries(c.Docs), ", ")
	case LookUp:
		text = "looks up " + shortKeys(c.Look)
		if out.Err == nil {
			text += ": " + cmp.Or(strings.Join(entries(out.Docs), ", "), "nothing")
		}
	}
	switch {
	case fate == "late" || fate == "lost" || fate == "unanswered" || fate == "slow" || fate == "stuck":
		text += ": " + fate
	case errors.Is(out.Err, persist.ErrConflict), errors.Is(out.Err, persist.ErrExists):
		text += ": another was first"
	case errors.Is(out.Err, persist.ErrNotFound):
		text += ": nothing"
	case out.Err != nil:
		text += ": " + out.Err.Error()
	}
	if fate == "comes late" {
		text += ", late"
	}
	tl.say("%s %s", n.name, text)
}

// shortKeys returns what is looked up, without the name of the counter.
func shortKeys(l *Look) string {
	keys := slices.Clone(l.Keys)
	if len(keys) == 0 {
		keys = []string{l.Until}
	}
	for i, key := range keys {
		about, era, later := strings.Cut(strings.TrimPrefix(key, counter+"#"), "#")
		keys[i] = strings.TrimLeft(about, "0")
		if later {
			keys[i] += " in the era of " + moment(number(era))
		}
		if l.Kind == persist.EndedKind {
			keys[i] = "r" + keys[i]
		}
	}
	return strings.Join(keys, " or ")
}

// tell shows what callers are told.
func (tl *tale) tell(n *teller) {
	for _, r := range n.m.Finished() {
		i := slices.Index(n.waiting, r)
		n.waiting = slices.Delete(n.waiting, i, i+1)
		for _, run := range r.Result.Runs {
			n.since[run.From] = r.Result.Since
		}
		tl.told(n.name, r)
	}
	for _, e := range n.m.Expired() {
		tl.say("%s reclaims %s", n.name, entryText(e))
	}
}

func (tl *tale) told(name string, r *Request) {
	text := fmt.Sprintf("%s tells %s:", name, r.Tag)
	res := &r.Result
	switch e, refused := errors.AsType[*seqd.Error](r.Err); {
	case refused:
		text += fmt.Sprintf(" %s, %s", e.Code, e.Detail)
	case r.Err != nil:
		text += " " + r.Err.Error()
	case len(res.Runs) > 0:
		text += " " + runsText(res.Runs)
	default:
		text += " done"
	}
	if res.ID != "" {
		text += fmt.Sprintf(", %s of %s", reservationText(res.ID), cmp.Or(res.Caller, r.Op.Caller))
		if res.End == Open {
			text += ", due " + moment(res.Due)
		} else {
			text += ", " + ends[res.End]
		}
	}
	if res.Made != 0 && res.Made != tl.clock {
		text += ", made at " + moment(res.Made)
	}
	if res.Replayed {
		text += ", again"
	}
	tl.say("%s", text)
}

var ends = map[End]string{Open: "open", Confirmed: "confirmed", Ungiven: "released", Expired: "expired"}

// show shows the ledger if it has changed, and what is wrong.
func (tl *tale) show() {
	if text := tl.ledger(); text != tl.shown {
		tl.shown = text
		tl.say("%s", text)
	}
	if tl.wrong != nil {
		tl.say("WRONG: %v", tl.wrong)
		tl.wrong = nil
	}
	if tl.out.Len() == 0 {
		tl.say("ok")
	}
}

// ledger returns what the document says.
func (tl *tale) ledger() string {
	d, err := tl.Read(context.Background(), persist.LedgerKind, counter)
	if err != nil {
		return "no ledger"
	}
	s, err := Decode(&d)
	if err != nil {
		return err.Error()
	}
	records, _ := tl.List(context.Background(), persist.VoidKind, "", 1000)
	voids, err := s.AllVoids(records)
	if err != nil {
		return err.Error()
	}
	var free, reserved []Run
	var parts []string
	part := func(what string, runs []Run) {
		if len(runs) > 0 {
			parts = append(parts, what+" "+runsText(runs))
		}
	}
	for _, r := range s.Released {
		free = append(free, r.Run)
	}
	for _, r := range s.Reserved {
		reserved = append(reserved, r.Runs...)
	}
	issued := without(without(without([]Run{{s.First, s.Last}}, voids), free), reserved)
	if s.Last < s.First {
		issued = nil
	}
	part("issued", issued)
	for _, r := range s.Reserved {
		text := fmt.Sprintf("%s due %s", reservationText(r.ID), moment(r.Made+r.TTL))
		if r.Suspect {
			text += " suspect"
		}
		part(text, r.Runs)
	}
	part("released since "+moment(s.OldestReleased()), free)
	part("void", voids)
	if s.Closed {
		parts = append(parts, "closed")
	}
	text := fmt.Sprintf("ledger %d: %s", s.Revision, cmp.Or(strings.Join(parts, "; "), "nothing"))
	if len(s.Eras) > 0 {
		text += fmt.Sprintf("; era %d", len(s.Eras))
	}
	if len(s.Outbox) > 0 {
		var list []string
		for _, e := range s.Outbox {
			list = append(list, entryText(e))
		}
		text += "\noutbox: " + strings.Join(list, ", ")
	}
	return text
}

func (tl *tale) records() {
	for _, key := range slices.Sorted(maps.Keys(tl.docs)) {
		if d := tl.docs[key]; d.Kind != persist.LedgerKind {
			expires := "for ever"
			if d.Expires != 0 {
				expires = "until " + moment(d.Expires)
			}
			tl.say("%s, %s", strings.Join(entries([]persist.Document{d}), ""), expires)
		}
	}
}

// recall shows what the document and the records have for a request.
func (tl *tale) recall(once string) {
	e, err := tl.decoded().Recall(context.Background(), tl.world, counter, once)
	switch {
	case err != nil:
		tl.say("%v", err)
	case e == nil:
		tl.say("nothing")
	default:
		tl.say("%s", entryText(e))
	}
}

// decoded returns the ledger, which must be there.
func (tl *tale) decoded() *State {
	d := tl.docs["ledger/"+counter]
	s := must.Get(Decode(&d))(tl.t)
	return s
}

// stats shows what a node knows of the ledger without the store.
func (tl *tale) stats(n *teller) {
	st := n.m.Stats()
	if !st.Known {
		tl.say("%s knows nothing", n.name)
		return
	}
	tl.say("%s knows: up to %d, %d reserved, %d released since %s, %d void",
		n.name, st.Last, st.Reserved, st.Released, moment(st.OldestReleased), st.Voids)
}

// account shows a page of the account.
func (tl *tale) account(words []datadriven.CmdArg) {
	after, limit := int64(0), int64(100)
	for _, w := range words {
		switch w.Key {
		case "after":
			after = number(w.Vals[0])
		case "limit":
			limit = number(w.Vals[0])
		}
	}
	s := tl.decoded()
	voids, more, err := s.ListVoids(context.Background(), tl.world, counter, after, int(limit))
	must.Do(tl.t, err)
	gaps, next := s.Account(&tl.policy, after, int(limit), voids, more)
	for _, g := range gaps {
		text := fmt.Sprintf("%s %s", runsText([]Run{g.Run}), g.State)
		if g.At != 0 {
			text += " since " + moment(g.At)
		}
		if g.ID != "" {
			text += fmt.Sprintf(" as %s, due %s", reservationText(g.ID), moment(g.Due))
		}
		if g.Reason != "" {
			text += fmt.Sprintf(" by %q: %s", g.By, g.Reason)
		}
		tl.say("%s", text)
	}
	tl.say("of %d to %d, %d are issued; next %d", s.First, s.Last, s.NumIssued(), next)
}

// entries returns what records say.
func entries(records []persist.Document) (list []string) {
	for i := range records {
		if records[i].Kind == persist.EventKind {
			list = append(list, batchText(&records[i]))
			continue
		}
		e, err := DecodeEntry(&records[i])
		if err != nil {
			list = append(list, err.Error())
			continue
		}
		list = append(list, entryText(e))
	}
	return list
}

// batchText returns what a batch of events says.
func batchText(d *persist.Document) string {
	b, err := persist.DecodeEventBatch(d)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("events %d-%d of %s:", b.First, b.Last(), b.Source)
	for _, e := range b.Events {
		text += fmt.Sprintf(" %s %s", e.Type, e.Data)
	}
	return text
}

func entryText(e *Entry) string {
	text := runsText(e.Runs)
	if e.Seq > 0 {
		text = fmt.Sprintf("%s event %d", text, e.Seq)
	}
	switch e.Kind {
	case IssuedEntry:
		return text + ": issued"
	case ExhaustingEntry:
		return text + ": left"
	case AnswerEntry:
		return e.Once + " got " + text
	case EndedEntry:
		return fmt.Sprintf("%s %s %s", reservationText(e.ID), ends[e.End], text)
	}
	return fmt.Sprintf("%s void: %s", text, e.Reason)
}

func reservationText(id string) string { return "r" + strings.TrimLeft(id, "0") }

func runsText(runs []Run) string {
	var list []string
	for _, r := range runs {
		text := strconv.FormatInt(r.From, 10)
		if r.To > r.From {
			text += fmt.Sprintf("-%d", r.To)
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// moment returns a time of the store's clock, counted from the start.
func moment(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return (time.Duration(ms-start) * time.Millisecond).String()
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// duration returns a duration in ms.
func duration(text string) int64 {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d.Milliseconds()
}
