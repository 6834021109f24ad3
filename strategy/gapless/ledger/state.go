package ledger

import (
	"cmp"
	"slices"
)

// State is the state of one counter: what the body of its document holds. Of First to Last, a
// number is reserved, released, void, or else issued. It is not safe for concurrent use.
//
// Its fields are changed by [State.Apply] only.
type State struct {
	// Revision is that of the document, 0 if there is none yet. Changes belong to Revision + 1.
	Revision int64
	// Born identifies the ledger: a document that was lost and created again has another one.
	Born string
	// Era increases with each Raise: what was seen of the document before counts no more.
	Era int64
	// Eras are the eras after the first one, which is 0, and the revision with which each began.
	Eras []Since
	// First is the first number, and Last the highest that was handed out: First − 1 if none was.
	First, Last int64
	// Voids is how many of First to Last are void.
	Voids int64
	// Reserved are the open reservations, sorted by ID.
	Reserved []*Reservation
	// Released are the released numbers, ascending, without overlap.
	Released []Released
	// Outbox is what becomes records, in the order in which it was added.
	Outbox []*Entry
	// Dropped is the highest Rev of an entry that has left the outbox.
	Dropped int64
	// Writers are the last writes of those who wrote last, in the order of their writes.
	Writers []Writer
	// Ends is when the period ends, in ms since the Unix epoch, 0 for never.
	Ends int64
	// Fence is that of the server which accepted the last write, "" if the store has none.
	Fence string
	// Void is whether numbers that come back become void instead of released.
	Void bool
	// Closed is whether no request with Once is carried out any more: see [Op.Close]. Raise opens
	// a period that has not ended.
	Closed bool
	// Told is whether events are made of what happens, and Events the number of the last one in this
	// era.
	Told   bool
	Events int64

	rules              RuleSet           // those that are taken out
	reserved, released int64             // how many numbers
	size               int               // bytes of reservations and entries, encoded
	ended, answers     map[string]*Entry // those of the outbox by ID, and by Once
}

// Reservation is numbers that are reserved. It does not change, except that it is replaced.
type Reservation struct {
	// ID is 20 hexadecimal digits: without key and period.
	ID string
	// Runs are its numbers, ascending.
	Runs []Run
	// Made is when, in ms since the Unix epoch, and TTL for how long, in ms.
	Made, TTL int64
	// Caller is the name of who reserved.
	Caller string
	// Suspect is whether it was open at a Raise: its numbers are never released, only void.
	Suspect bool

	text string // encoded
}

// Released is numbers that are released since At, in ms since the Unix epoch.
type Released struct {
	Run
	At int64
}

// Writer is the last write of one [Machine] that the state contains.
type Writer struct {
	// ID is that of the machine, and N the number of its write.
	ID string
	N  int64
	// Rev is the revision that it wrote.
	Rev int64
}

// EntryKind is what an entry of the outbox says.
type EntryKind byte

// The kinds of entries.
const (
	// EndedEntry is a reservation that ended.
	EndedEntry EntryKind = 'e'
	// AnswerEntry is what a request with Once was given.
	AnswerEntry EntryKind = 'a'
	// VoidEntry is numbers that became void.
	VoidEntry EntryKind = 'v'
	// IssuedEntry is numbers that were issued, and ExhaustingEntry that few are left. Both are events
	// and nothing else.
	IssuedEntry     EntryKind = 'i'
	ExhaustingEntry EntryKind = 'l'
)

// Entry is what leaves the document as a record. It does not change.
type Entry struct {
	Kind EntryKind
	// Era and Rev are the era and the revision at which it was added.
	Era, Rev int64
	// Seq is the number of the first event that the entry is, 0 if it is none.
	Seq int64
	// ID is the reservation, if there is one, and Once the request of an answer.
	ID, Once string
	// Runs are the numbers.
	Runs []Run
	// End is how the reservation ended: Confirmed, Released or Expired.
	End End
	// Made is when numbers were reserved or issued, and TTL for how long they were reserved. Asked
	// is the TTL that an answer's request named, 0 for none.
	Made, TTL, Asked int64
	// At is when the reservation ended or the numbers became void.
	At int64
	// Keep is until when the record is needed, 0 for ever. All times are in ms.
	Keep int64
	// Caller is who reserved, or who made the numbers void: "" for the service.
	Caller string
	// Reason says why the numbers are void.
	Reason string

	text string // encoded
}

// End is how a reservation ended.
type End byte

// The ends.
const (
	Open      End = 0
	Confirmed End = 'c'
	Ungiven   End = 'r' // released, or its last number was made void
	Expired   End = 'x'
)

// HasAnswers reports whether the outbox has an answer.
func (s *State) HasAnswers() bool { return len(s.answers) > 0 }

// NumReserved returns how many numbers are reserved, and NumReleased how many are released.
func (s *State) NumReserved() int64 { return s.reserved }

// NumReleased is described at [State.NumReserved].
func (s *State) NumReleased() int64 { return s.released }

// NumIssued returns how many numbers are issued.
func (s *State) NumIssued() int64 { return s.Last - s.First + 1 - s.reserved - s.released - s.Voids }

// OldestReleased returns since when a number is released, in ms since the Unix epoch, 0 if none is.
func (s *State) OldestReleased() (at int64) {
	for _, r := range s.Released {
		if at == 0 || r.At < at {
			at = r.At
		}
	}
	return at
}

// Reservation returns an open reservation, nil if there is none with this ID.
func (s *State) Reservation(id string) *Reservation {
	if i, ok := s.find(id); ok {
		return s.Reserved[i]
	}
	return nil
}

func (s *State) find(id string) (int, bool) {
	return slices.BinarySearchFunc(s.Reserved, id, func(r *Reservation, id string) int { return cmp.Compare(r.ID, id) })
}

// mostWriters is how many writers a state remembers. Tests of what happens beyond make it smaller.
var mostWriters = 64

// wrote notes the write n of a machine, which makes the next revision.
func (s *State) wrote(id string, n int64) {
	s.Writers = slices.DeleteFunc(s.Writers, func(w Writer) bool { return w.ID == id })
	if len(s.Writers) >= mostWriters {
		s.Writers = slices.Delete(s.Writers, 0, len(s.Writers)-mostWriters+1)
	}
	s.Writers = append(s.Writers, Writer{id, n, s.Revision + 1})
}

// lastWrite returns the number of a machine's last write that is in the state. known is false if
// the state has forgotten the writers of the revision rev and those before.
func (s *State) lastWrite(id string, rev int64) (n int64, known bool) {
	for _, w := range s.Writers {
		if w.ID == id {
			return w.N, true
		}
	}
	return 0, len(s.Writers) < mostWriters || s.Writers[0].Rev <= rev
}

// hasEntries reports whether the outbox has entries of a revision.
func (s *State) hasEntries(rev int64) bool {
	_, found := slices.BinarySearchFunc(s.Outbox, rev, func(e *Entry, rev int64) int { return cmp.Compare(e.Rev, rev) })
	return found
}
