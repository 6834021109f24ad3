package issuer

import (
	"bytes"
	"context"
	"errors"

	"github.com/seqd/seqd"
)

// prepare makes an empty sequence ready for the strategy.
func (i *instance) prepare(s *seqd.Sequence, key string, by *seqd.Caller) {
	if s.For(key); key != "" || i.can.ledger != nil {
		s.AskedBy(by.OwnerID())
	}
}

// sumOf returns a hash of numbers and their period.
func sumOf(s *seqd.Sequence) uint64 {
	const prime = 0x100000001b3 // of FNV-1a
	sum := uint64(s.Period()) ^ 0xcbf29ce484222325
	for _, r := range s.Runs() {
		for _, part := range [3]uint64{uint64(r.First), uint64(r.Stride), uint64(r.Count)} {
			sum = (sum ^ part) * prime
		}
	}
	return sum
}

// checkShown returns an error unless a sequence has this sum, and each number is shown as one line
// that is not empty.
func checkShown(s *seqd.Sequence, sum uint64) error {
	if sumOf(s) != sum {
		return errors.New("other numbers than were issued")
	}
	if !s.Shown() {
		return nil
	}
	for shown := range s.Displays() {
		if len(shown) == 0 {
			return errors.New("a number is shown as nothing")
		}
		if bytes.ContainsAny(shown, "\r\n") {
			return errors.New("a number is shown with a line break")
		}
	}
	return nil
}

// undelivered is the numbers of a call that may still fail.
type undelivered struct {
	count       int
	ledger      seqd.Ledger    // nil if the strategy is none
	numbers     *seqd.Sequence // a copy for the ledger
	reservation string         // what they are reserved by
	kept        bool           // a repeated request gets the same numbers
}

// undelivered returns the numbers that a strategy has made for a call.
func (i *instance) undelivered(call *seqd.Call) undelivered {
	m := i.undeliveredOf(&call.Sequence)
	m.reservation, m.kept = call.Reservation.ID, call.Replayed || call.Once != ""
	return m
}

func (i *instance) undeliveredOf(numbers *seqd.Sequence) undelivered {
	m := undelivered{count: numbers.Len(), ledger: i.can.ledger}
	if m.ledger != nil {
		m.numbers = new(seqd.Sequence)
		m.numbers.CopyFrom(numbers)
	}
	return m
}

// giveBack gives numbers back whose call failed after the strategy made them, or, if the strategy
// accounts for no numbers, reports that they are skipped.
func (is *Issuer) giveBack(i *instance, m undelivered, why error) {
	var err error
	defer func() {
		if err != nil {
			is.failures.Error("numbers of a failed request could not be given back", "bizType", i.name, "error", err)
		}
	}()
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	switch {
	case m.ledger == nil:
		is.observer.Event(seqd.Event{BizType: i.name, Kind: seqd.EventAbandoned, Numbers: int64(m.count), Err: why})
	case m.kept: // a repeated request gets them
	case m.reservation != "":
		// not the caller's context: it may have ended
		ctx, cancel := context.WithTimeout(context.Background(), is.pluginTimeout)
		defer cancel()
		err = m.ledger.Release(ctx, seqd.Settlement{ID: m.reservation, Admin: true})
	default:
		m.ledger.Return(m.numbers, why)
	}
}
