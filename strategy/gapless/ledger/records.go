package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seqd/seqd/persist"
)

// The keys of records are the name of the counter, #, which no name has, and what the record is
// about. Those of later eras end with # and the era: a node that still holds what a failover lost may
// copy it at any time, and must not take the place of what is true.

// VoidKey returns the key of the record of void numbers that end with last, in era 0. The keys of one
// counter are in the order of the numbers.
func VoidKey(counter string, last int64) string { return fmt.Sprintf("%s#%016d", counter, last) }

// EndedKey returns the key of the record of a reservation that ended, and AnswerKey that of what a
// request with Once was given, in era 0.
func EndedKey(counter, id string) string { return counter + "#" + id }

// AnswerKey is described at [EndedKey].
func AnswerKey(counter, once string) string { return counter + "#" + once }

// inEra returns the key in an era.
func inEra(key string, era int64) string {
	if era == 0 {
		return key
	}
	return fmt.Sprintf("%s#%d", key, era)
}

// happened reports whether an entry belongs to the history of this state: what was added after the
// revision at which the next era began was lost.
func (s *State) happened(e *Entry) bool {
	if s.rules.Has(RuleHistory) {
		return true
	}
	known := e.Era == 0
	for _, era := range s.Eras {
		if known {
			return e.Rev < era.Revision
		}
		known = era.Era == e.Era
	}
	return known
}

// Records returns the records that an entry is copied to, besides its events: one for each run of
// void numbers, and one of others.
func (e *Entry) Records(counter string) []persist.Document {
	switch e.Kind {
	case EndedEntry:
		return []persist.Document{e.record(persist.EndedKind, EndedKey(counter, e.ID))}
	case AnswerEntry:
		return []persist.Document{e.record(persist.AnswerKind, AnswerKey(counter, e.Once))}
	case IssuedEntry, ExhaustingEntry:
		return nil
	}
	list := make([]persist.Document, 0, len(e.Runs))
	for _, r := range e.Runs {
		one := *e
		one.Runs = []Run{r}
		one.text = string(one.append(nil))
		list = append(list, one.record(persist.VoidKind, VoidKey(counter, r.To)))
	}
	return list
}

func (e *Entry) record(kind, key string) persist.Document {
	return persist.Document{Kind: kind, Key: inEra(key, e.Era), Revision: 1, Body: e.text, Timestamp: e.At, Expires: e.Keep}
}

// DecodeEntry returns what a record says.
func DecodeEntry(d *persist.Document) (*Entry, error) {
	var t partText
	if err := json.Unmarshal([]byte(d.Body), &t); err != nil {
		return nil, damaged(d, err)
	}
	e, err := t.entry()
	if err != nil {
		return nil, damaged(d, err)
	}
	return e, nil
}

// decodeEntries returns what records say.
func decodeEntries(records []persist.Document) ([]*Entry, error) {
	list := make([]*Entry, len(records))
	for i := range records {
		var err error
		if list[i], err = DecodeEntry(&records[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Look is a question to the records of a counter.
type Look struct {
	Kind string
	// Keys are read, if there are any. Otherwise those above After are listed, up to the first one
	// from Until on that belongs to the history of the state.
	Keys         []string
	After, Until string
	state        *State // its eras
}

// Looked is the answer to a [Look].
type Looked struct {
	// Since is what the node knew when it began to look: what is not in the records was not in that
	// state either, except Voids.
	Since Since
	// Voids are void numbers that were in the outbox of that state.
	Voids []Run
	// Answer is what the request was given, if the question was what became of that; else nil.
	Answer *Entry
	// Docs are the records.
	Docs []persist.Document
}

// Do looks. What belongs to another history is left out.
func (l *Look) Do(ctx context.Context, documents persist.Documents) (found []persist.Document, err error) {
	for _, key := range l.Keys {
		d, err := documents.Read(ctx, l.Kind, key)
		switch {
		case errors.Is(err, persist.ErrNotFound):
		case err != nil:
			return nil, err
		case l.happened(&d):
			found = append(found, d)
		}
	}
	if len(l.Keys) > 0 {
		return found, nil
	}
	prefix, _, _ := strings.Cut(l.Until, "#")
	prefix += "#"
	after := l.After
	for limit := 2; ; limit = 500 {
		list, err := documents.List(ctx, l.Kind, after, limit)
		if err != nil {
			return nil, err
		}
		for i := range list {
			d := &list[i]
			if !strings.HasPrefix(d.Key, prefix) {
				return found, nil
			}
			if after = d.Key; l.happened(d) {
				found = append(found, *d)
				if d.Key >= l.Until {
					return found, nil
				}
			}
		}
		if len(list) < limit {
			return found, nil
		}
	}
}

// happened reports whether a record belongs to the history. One that is damaged does: it is refused
// by who decodes it.
func (l *Look) happened(d *persist.Document) bool {
	e, err := DecodeEntry(d)
	return err != nil || l.state.happened(e)
}

// Recall returns what a request with Once was given, nil if nothing is known of it.
func (s *State) Recall(ctx context.Context, documents persist.Documents, counter, once string) (*Entry, error) {
	if e := s.answers[once]; e != nil {
		return e, nil
	}
	found, err := s.lookFor(persist.AnswerKind, AnswerKey(counter, once)).Do(ctx, documents)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return DecodeEntry(&found[0])
}

// Needs returns what must be looked up before Apply can carry an operation out, nil if nothing. It
// is asked after Apply has returned ErrLook, and before Apply only for Void and for requests with
// Once.
func (s *State) Needs(counter string, op *Op, looked *Looked) *Look {
	if op.check() != nil || s.rules.Has(RuleLook) {
		return nil
	}
	if op.Once != "" {
		return s.needsOnce(counter, op, looked)
	}
	switch op.Kind {
	case Find, Confirm, Release:
		return s.lookFor(persist.EndedKind, EndedKey(counter, op.ID))
	case Void:
		if op.Number >= s.First && op.Number <= s.Last && !has(s.outboxVoids(), op.Number) {
			return s.lookVoids(counter, Run{op.Number, op.Number})
		}
	case Return:
		if len(op.Runs) > 0 {
			return s.lookVoids(counter, Run{op.Runs[0].From, op.Runs[len(op.Runs)-1].To})
		}
	}
	return nil
}

// needsOnce is Needs for a request that may be repeated: first the answer, and then what became of that.
func (s *State) needsOnce(counter string, op *Op, looked *Looked) *Look {
	e, err := s.answer(op, looked)
	switch {
	case errors.Is(err, ErrLook):
		return s.lookFor(persist.AnswerKind, AnswerKey(counter, op.Once))
	case err != nil || e == nil || s.rules.Has(RuleStill):
		return nil
	case e.ID == "":
		if _, err := s.anyVoid(e, looked); errors.Is(err, ErrLook) {
			return s.lookVoids(counter, Run{e.Runs[0].From, e.Runs[len(e.Runs)-1].To})
		}
	case s.Reservation(e.ID) == nil:
		if _, err := s.endOf(e, looked); errors.Is(err, ErrLook) {
			return s.lookFor(persist.EndedKind, EndedKey(counter, e.ID))
		}
	}
	return nil
}

// isFate reports whether a look-up was for what became of an answer.
func (l *Looked) isFate() bool { return l != nil && l.Answer != nil }

// sameEra reports whether what a look-up found belongs to the era of the state. In another one it may be
// what a failover lost.
func (s *State) sameEra(looked *Looked) bool {
	return looked.Since.Era == s.Era || s.rules.Has(RuleLookEra)
}

// lookFor looks for a record with a key of any era, the latest first.
func (s *State) lookFor(kind, key string) *Look {
	l := &Look{Kind: kind, state: s.history()}
	for i := len(s.Eras) - 1; i >= 0; i-- {
		l.Keys = append(l.Keys, inEra(key, s.Eras[i].Era))
	}
	l.Keys = append(l.Keys, key)
	return l
}

// lookVoids looks for the void numbers of a run, and maybe some around it.
func (s *State) lookVoids(counter string, r Run) *Look {
	return &Look{
		Kind: persist.VoidKind, After: VoidKey(counter, r.From-1), Until: VoidKey(counter, r.To), state: s.history(),
	}
}

// history returns a state that has nothing but the eras of s, which do not change in it.
func (s *State) history() *State {
	return &State{rules: s.rules, Eras: s.Eras[:len(s.Eras):len(s.Eras)]}
}

// conclusive reports whether what was looked up proves that what it does not contain is not in the
// records either. Otherwise an entry may have been added after the look-up began, and left the
// document since.
func (s *State) conclusive(looked *Looked) bool {
	if looked == nil {
		return s.rules.Has(RuleLook)
	}
	return s.rules.Has(RuleDropped) || looked.Since.Era == s.Era && looked.Since.Revision >= s.Dropped
}

// lookedAt returns the entry that was found in the records, nil if there is none, and ErrLook if
// that is not known.
func (s *State) lookedAt(looked *Looked) (*Entry, error) {
	if looked != nil && len(looked.Docs) > 0 && s.sameEra(looked) {
		return DecodeEntry(&looked.Docs[0])
	}
	if !s.conclusive(looked) {
		return nil, ErrLook
	}
	return nil, nil
}

// lookedVoids returns the void numbers that were found in the records.
func (s *State) lookedVoids(looked *Looked) ([]Run, error) {
	if !s.conclusive(looked) {
		return nil, ErrLook
	}
	if looked == nil {
		return nil, nil
	}
	voids, err := VoidsOf(looked.Docs)
	return append(voids, looked.Voids...), err
}

// outboxVoids returns the void numbers of the outbox.
func (s *State) outboxVoids() (voids []Run) {
	for _, e := range s.Outbox {
		if e.Kind == VoidEntry {
			voids = append(voids, e.Runs...)
		}
	}
	return voids
}

// VoidsOf returns the void numbers of records of [persist.VoidKind].
func VoidsOf(records []persist.Document) (runs []Run, err error) {
	list, err := decodeEntries(records)
	for _, e := range list {
		runs = append(runs, e.Runs...)
	}
	return runs, err
}

// AllVoids returns all void numbers of a counter, ascending: those of all its records, which were
// listed after the state was read, and those of the outbox. It is for [State.Check].
func (s *State) AllVoids(records []persist.Document) (runs []Run, err error) {
	list, err := decodeEntries(records)
	for _, e := range s.voidEntries(list) {
		runs = append(runs, e.Runs...)
	}
	return runs, err
}

// owns reports whether an entry belongs to this state.
func (s *State) owns(e *Entry) bool { return e.Rev <= s.Revision && s.happened(e) }

// voidEntries returns the void numbers of records and of the outbox, ascending, with one run each.
func (s *State) voidEntries(records []*Entry) (list []*Entry) {
	seen := make(map[int64]bool)
	add := func(e *Entry) {
		for _, r := range e.Runs {
			if !seen[r.To] && s.owns(e) {
				seen[r.To] = true
				one := *e
				one.Runs = []Run{r}
				list = append(list, &one)
			}
		}
	}
	for _, e := range s.Outbox {
		if e.Kind == VoidEntry {
			add(e)
		}
	}
	for _, e := range records {
		add(e)
	}
	slices.SortFunc(list, func(a, b *Entry) int { return cmp.Compare(a.Runs[0].From, b.Runs[0].From) })
	return list
}
