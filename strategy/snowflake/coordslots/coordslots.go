// Package coordslots keeps registries of machine IDs in a coordinator. It implements
// [persist.SlotStore]. A registry is one document, which changes by its revision; its clock is that of
// the store.
//
// The Source of a table is the ID of the coordinator. A coordinator that lost everything gets another
// one. One that was put back to an older copy has the same as before, so nobody can tell: members of
// such a registry are doubtful (machineid.Member).
package coordslots

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/persist"
)

// kind is the kind of the documents. Their keys are the names of the registries.
const kind = "slots"

// MostBits is how many bits a machine ID can have, so that all slots fit into one document.
const MostBits = 10

// Options are the options of [Open].
type Options struct {
	Documents coordination.Documents
	// Clock is the clock of the store.
	Clock persist.Clock
	// Patience is how old what a swap rests on may be, by that clock: the time of its slot. 0 is for
	// ever.
	Patience time.Duration
	// Reading lets nothing be written, not even the ID of a coordinator that has none.
	Reading bool
}

// Slots is a [persist.SlotStore] in a coordinator. It is safe for concurrent use.
type Slots struct{ opts Options }

var _ persist.SlotStore = (*Slots)(nil)

// Open returns the registries of a cluster. It does no I/O.
func Open(opts Options) *Slots { return &Slots{opts} }

// Look implements [persist.SlotStore]. What it returns may be a little old; then no swap that rests on
// it is made. The ID is read before the document: if the coordinator is another one by then, a swap
// finds that the ID is not the same.
func (s *Slots) Look(ctx context.Context, registry string, ids ...int64) (t persist.SlotTable, err error) {
	if err = persist.CheckLook(registry, ids...); err != nil {
		return t, err
	}
	identify := coordination.Identify
	if s.opts.Reading {
		identify = coordination.ReadID
	}
	source, err := identify(ctx, s.opts.Documents)
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		return t, err
	}
	_, r, err := s.read(ctx, registry)
	if err != nil {
		return t, err
	}
	now, err := s.opts.Clock.Now(ctx)
	if err != nil {
		return t, err
	}
	t = r.Table(now.UnixMilli(), ids...)
	t.Source = source
	return t, nil
}

// Swap implements [persist.SlotStore]. If another change of the document was faster, this one was not
// made, so Swap compares again.
func (s *Slots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (made bool, err error) {
	if err := persist.CheckSwap(registry, swap); err != nil {
		return false, err
	}
	step := swap
	step.Source = "" // persist.Registry knows none
	for !made {
		source, err := coordination.ReadID(ctx, s.opts.Documents)
		if errors.Is(err, persist.ErrNotFound) || err == nil && source != swap.Source {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		doc, r, err := s.read(ctx, registry)
		if err != nil {
			return false, err
		}
		next, same := r.Swapped(step)
		if !same {
			return false, nil
		}
		if late, err := s.late(ctx, swap); late || err != nil {
			return false, err
		}
		if made, err = s.write(ctx, doc, next); err != nil {
			return false, err
		}
	}
	return true, nil
}

// late reports whether the slot of a swap is of a time that is over. A coordinator that was put back
// meanwhile may have forgotten what others were granted since.
func (s *Slots) late(ctx context.Context, swap persist.SlotSwap) (bool, error) {
	if s.opts.Patience == 0 || swap.NewSlot == nil {
		return false, nil
	}
	now, err := s.opts.Clock.Now(ctx)
	return now.UnixMilli()-swap.NewSlot.RenewedAt > s.opts.Patience.Milliseconds(), err
}

// Drop implements [persist.SlotStore].
func (s *Slots) Drop(ctx context.Context, registry string) error {
	if err := persist.CheckLook(registry); err != nil {
		return err
	}
	for {
		doc, r, err := s.read(ctx, registry)
		if err == nil && r.Set == nil {
			err = fmt.Errorf("registry %q: %w", registry, persist.ErrNotFound)
		}
		if err != nil {
			return err
		}
		r.Set = nil
		if made, err := s.write(ctx, doc, r); made || err != nil {
			return err
		}
	}
}

// read returns the document of a registry and what it holds. The revision of one that does not exist is
// 0.
func (s *Slots) read(ctx context.Context, registry string) (doc persist.Document, r persist.Registry, err error) {
	doc, err = s.opts.Documents.Read(ctx, kind, registry)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return persist.Document{Kind: kind, Key: registry}, persist.Registry{Name: registry}, nil
	case err != nil:
		return doc, r, err
	}
	r, err = persist.Decode[persist.Registry]([]byte(doc.Body))
	if err == nil && r.Name != registry {
		err = fmt.Errorf("%w: it is another one, %q", persist.ErrInvalid, r.Name)
	}
	if err != nil {
		err = fmt.Errorf("registry %q of the coordinator: %w", registry, err)
	}
	return doc, r, err
}

// write replaces a document, and reports whether it did: not if somebody else was faster.
func (s *Slots) write(ctx context.Context, doc persist.Document, r persist.Registry) (made bool, err error) {
	body, err := persist.Encode(r)
	if err != nil {
		return false, err
	}
	doc.Revision++
	doc.Body = string(body)
	err = persist.Put(ctx, s.opts.Documents, doc)
	if persist.Overtaken(err) || errors.Is(err, persist.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
