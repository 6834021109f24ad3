package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// What the JSON of a document and of a record looks like.
type (
	stateText struct {
		Version  int          `json:"v"`
		Born     string       `json:"b"`
		Era      int64        `json:"g"`
		Eras     []int64      `json:"h"`
		First    int64        `json:"f"`
		Last     int64        `json:"l"`
		Voids    int64        `json:"n"`
		Dropped  int64        `json:"d"`
		Ends     int64        `json:"e"`
		Fence    string       `json:"c"`
		Void     bool         `json:"p"`
		Closed   bool         `json:"k"`
		Told     bool         `json:"t"`
		Events   int64        `json:"s"`
		Reserved []partText   `json:"r"`
		Released []int64      `json:"q"`
		Outbox   []partText   `json:"o"`
		Writers  []writerText `json:"w"`
	}
	partText struct {
		Kind    string  `json:"k"`
		Rev     int64   `json:"x"`
		Era     int64   `json:"g"`
		Seq     int64   `json:"q"`
		ID      string  `json:"i"`
		Once    string  `json:"o"`
		End     string  `json:"z"`
		Made    int64   `json:"m"`
		TTL     int64   `json:"t"`
		Asked   int64   `json:"u"`
		At      int64   `json:"a"`
		Keep    int64   `json:"y"`
		Caller  string  `json:"c"`
		Reason  string  `json:"w"`
		Suspect bool    `json:"s"`
		Runs    []int64 `json:"n"`
	}
	writerText struct {
		ID  string `json:"i"`
		N   int64  `json:"n"`
		Rev int64  `json:"x"`
	}
)

var errDamaged = errors.New("damaged")

func damaged(d *persist.Document, err error) error {
	return fmt.Errorf("%w: %s: %w", persist.ErrInvalid, d.PersistID(), err)
}

// Decode returns the state that a document of [persist.LedgerKind] holds. The error wraps
// [persist.ErrNewer] if a newer seqd wrote it, and [persist.ErrInvalid] if it is damaged.
func Decode(d *persist.Document) (*State, error) {
	var t stateText
	if err := json.Unmarshal([]byte(d.Body), &t); err != nil {
		return nil, damaged(d, err)
	}
	if t.Version > version {
		return nil, fmt.Errorf("%w: %s has format %d, and this seqd knows %d", persist.ErrNewer, d.PersistID(), t.Version, version)
	}
	s := &State{
		Revision: d.Revision, Born: t.Born, Era: t.Era, First: t.First, Last: t.Last, Voids: t.Voids,
		Dropped: t.Dropped, Ends: t.Ends, Fence: t.Fence, Void: t.Void, Closed: t.Closed,
		Told: t.Told, Events: t.Events,
	}
	for _, w := range t.Writers {
		s.Writers = append(s.Writers, Writer(w))
	}
	if err := s.fill(&t); err != nil {
		return nil, damaged(d, err)
	}
	if t.Version < plainVersion || d.Revision < 1 || !s.sane() {
		return nil, damaged(d, errDamaged)
	}
	return s, nil
}

// fill adds the parts of a state.
func (s *State) fill(t *stateText) error {
	s.Reserved = make([]*Reservation, 0, len(t.Reserved))
	for i := range t.Reserved {
		p := &t.Reserved[i]
		runs, err := runsOf(p.Runs)
		if err != nil {
			return err
		}
		r := &Reservation{ID: p.ID, Runs: runs, Made: p.Made, TTL: p.TTL, Caller: p.Caller, Suspect: p.Suspect}
		r.text = string(r.append(nil))
		s.size += len(r.text) + 1
		s.reserved += Count(runs)
		s.Reserved = append(s.Reserved, r)
	}
	if len(t.Eras)%2 != 0 {
		return errDamaged
	}
	for q := t.Eras; len(q) > 0; q = q[2:] {
		s.Eras = append(s.Eras, Since{q[0], q[1]})
	}
	if len(t.Released)%3 != 0 {
		return errDamaged
	}
	for q := t.Released; len(q) > 0; q = q[3:] {
		s.Released = append(s.Released, Released{Run{q[0], q[1]}, q[2]})
		s.released += q[1] - q[0] + 1
	}
	for i := range t.Outbox {
		e, err := t.Outbox[i].entry()
		if err != nil {
			return err
		}
		s.Outbox = append(s.Outbox, e)
		s.index(e)
	}
	return nil
}

func (p *partText) entry() (*Entry, error) {
	runs, err := runsOf(p.Runs)
	if err != nil || len(p.Kind) != 1 || len(p.End) > 1 {
		return nil, errDamaged
	}
	e := &Entry{
		Kind: EntryKind(p.Kind[0]), Era: p.Era, Rev: p.Rev, Seq: p.Seq, ID: p.ID, Once: p.Once, Runs: runs, Made: p.Made, TTL: p.TTL,
		Asked: p.Asked, At: p.At, Keep: p.Keep, Caller: p.Caller, Reason: p.Reason,
	}
	if p.End != "" {
		e.End = End(p.End[0])
	}
	e.text = string(e.append(nil))
	return e, nil
}

func runsOf(pairs []int64) ([]Run, error) {
	if len(pairs)%2 != 0 || len(pairs) == 0 {
		return nil, errDamaged
	}
	runs := make([]Run, 0, len(pairs)/2)
	for last := int64(0); len(pairs) > 0; pairs = pairs[2:] {
		if pairs[0] <= last || pairs[1] < pairs[0] {
			return nil, errDamaged
		}
		last = pairs[1]
		runs = append(runs, Run{pairs[0], pairs[1]})
	}
	return runs, nil
}

// sane reports whether a state that was read can be used: no two numbers of it overlap, and what
// is sorted is sorted.
func (s *State) sane() bool {
	sorted := slices.IsSortedFunc(s.Reserved, func(r, before *Reservation) int {
		return cmp.Or(cmp.Compare(r.ID, before.ID), -1) // equal ones are not sorted
	})
	return sorted && s.First >= 1 && s.Last >= s.First-1 && s.Last <= seqd.MaxNumber && s.Voids >= 0 &&
		s.NumIssued() >= 0 && s.Events >= 0 && s.disjoint(nil) == nil
}

// Check returns an error unless each of First to Last is in exactly one state. voids are all void
// numbers, in any order: see [State.AllVoids].
func (s *State) Check(voids []Run) error {
	if n := Count(voids); n != s.Voids {
		return fmt.Errorf("%d numbers are void, and the state counts %d", n, s.Voids)
	}
	var reserved, released int64
	for _, r := range s.Reserved {
		reserved += Count(r.Runs)
	}
	for _, r := range s.Released {
		released += r.Len()
	}
	if reserved != s.reserved || released != s.released {
		return fmt.Errorf("%d reserved and %d released are counted as %d and %d", reserved, released, s.reserved, s.released)
	}
	return s.disjoint(voids)
}

// disjoint returns an error unless what is not issued is disjoint and from First to Last.
func (s *State) disjoint(voids []Run) error {
	all := slices.Clone(voids)
	for i, r := range s.Released {
		if i > 0 && s.Released[i-1].To >= r.From {
			return fmt.Errorf("%v is released after %v", r.Run, s.Released[i-1].Run)
		}
		all = append(all, r.Run)
	}
	for _, r := range s.Reserved {
		all = append(all, r.Runs...)
	}
	slices.SortFunc(all, func(a, b Run) int { return cmp.Compare(a.From, b.From) })
	for i, r := range all {
		switch {
		case r.From > r.To || r.From < s.First || r.To > s.Last:
			return fmt.Errorf("%v is not within %d to %d", r, s.First, s.Last)
		case i > 0 && all[i-1].To >= r.From:
			return fmt.Errorf("%v and %v overlap", all[i-1], r)
		}
	}
	return nil
}
