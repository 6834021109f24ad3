package gapless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seqd/seqd/persist"
)

// durability is what a store promises about what it has acknowledged.
type durability int

const (
	lone     durability = iota // one server, which can only be restored from an older copy
	lossy                      // a failover can lose writes; changes name the server's fence
	lossless                   // a failover loses nothing
)

// errAway is what a call to a store gets that does not answer.
var errAway = errors.New("the store is away")

// set is the documents of a store, by kind and key.
type set map[string]map[string]persist.Document

func (s set) clone() set {
	c := make(set, len(s))
	for kind, docs := range s {
		c[kind] = maps.Clone(docs)
	}
	return c
}

func (s set) put(d persist.Document) {
	if s[d.Kind] == nil {
		s[d.Kind] = make(map[string]persist.Document)
	}
	s[d.Kind][d.Key] = d
}

// change is a write that the standby lacks.
type change struct {
	doc     persist.Document
	removed bool
}

// store is a store with the promises of [persist.Documents]. A standby receives its changes later,
// in their order.
type store struct {
	out     without
	kind    durability
	docs    set
	standby set
	unsent  []change
	backup  set
	// fence is that of the server that takes the writes, and confirmed the one that an operator has
	// confirmed.
	fence, confirmed int
	down             bool
	// forgetful makes Keep say that records are stored that are not: see keepDurable.
	forgetful bool
}

var _ persist.Documents = (*store)(nil)

func newStore(out without, kind durability) *store {
	return &store{out: out, kind: kind, docs: set{}, standby: set{}, backup: set{}}
}

func fenceName(n int) string { return fmt.Sprintf("f%d", n) }

// Fence returns the fences as persist.Fenced does.
func (s *store) Fence() persist.Fence {
	return persist.Fence{Current: fenceName(s.fence), Confirmed: fenceName(s.confirmed)}
}

func (s *store) write(c change) {
	if c.removed {
		delete(s.docs[c.doc.Kind], c.doc.Key)
	} else {
		s.docs.put(c.doc)
	}
	s.unsent = append(s.unsent, c)
	if s.kind != lossy || len(s.unsent) > mostUnsent {
		s.replicate(1)
	}
}

// mostUnsent is how many writes the standby lacks at most.
const mostUnsent = 12

// replicate sends the oldest n changes to the standby.
func (s *store) replicate(n int) {
	for _, c := range s.unsent[:n] {
		if c.removed {
			delete(s.standby[c.doc.Kind], c.doc.Key)
		} else {
			s.standby.put(c.doc)
		}
	}
	s.unsent = append(s.unsent[:0], s.unsent[n:]...)
}

// copied gives the standby what the present server has.
func (s *store) copied() { s.standby, s.unsent = s.docs.clone(), nil }

func (s *store) Create(_ context.Context, d persist.Document) error {
	if err := d.CheckNew(); err != nil {
		return err
	}
	if _, there := s.docs[d.Kind][d.Key]; there {
		return fmt.Errorf("%w: %s", persist.ErrExists, d.PersistID())
	}
	s.write(change{doc: d})
	return nil
}

func (s *store) Read(_ context.Context, kind, key string) (persist.Document, error) {
	d, there := s.docs[kind][key]
	if !there {
		return d, fmt.Errorf("%w: %s/%s", persist.ErrNotFound, kind, key)
	}
	return d, nil
}

func (s *store) Update(_ context.Context, d persist.Document) error {
	if err := d.Validate(); err != nil {
		return err
	}
	before, there := s.docs[d.Kind][d.Key]
	if !there {
		return fmt.Errorf("%w: %s", persist.ErrNotFound, d.PersistID())
	}
	if err := before.CheckUpdate(d); err != nil {
		return err
	}
	s.write(change{doc: d})
	return nil
}

// fenced returns ErrFailedOver unless the fence is that of the present server.
func (s *store) fenced(fence string) error {
	if s.kind == lossy && fence != fenceName(s.fence) && !s.out[fencedWrites] {
		return fmt.Errorf("%w: the fence is %s", persist.ErrFailedOver, fenceName(s.fence))
	}
	return nil
}

func (s *store) Delete(_ context.Context, kind, key string, revision int64) error {
	d, there := s.docs[kind][key]
	if !there {
		return persist.ErrNotFound
	}
	if err := d.CheckRevision(revision); err != nil {
		return err
	}
	s.write(change{doc: d, removed: true})
	return nil
}

func (s *store) List(_ context.Context, kind, after string, limit int) (list []persist.Document, err error) {
	for key, d := range s.docs[kind] {
		if key > after {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b persist.Document) int { return strings.Compare(a.Key, b.Key) })
	return list[:min(limit, len(list))], nil
}

func (s *store) Purge(_ context.Context, kind string, before int64, limit int) (purged int, err error) {
	if kind == persist.LedgerKind {
		return 0, persist.ErrInvalid
	}
	list, _ := s.List(context.Background(), kind, "", len(s.docs[kind]))
	for _, d := range list {
		if d.Expires > 0 && d.Expires < before && purged < limit {
			s.write(change{doc: d, removed: true})
			purged++
		}
	}
	return purged, nil
}

func (s *store) Due(_ context.Context, kind string, before int64, limit int) (list []persist.Document, err error) {
	for _, d := range s.docs[kind] {
		if d.Expires > 0 && d.Expires < before {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b persist.Document) int {
		return cmp.Or(cmp.Compare(a.Expires, b.Expires), strings.Compare(a.Key, b.Key))
	})
	return list[:min(limit, len(list))], nil
}

func (s *store) Keep(_ context.Context, list []persist.Document) error {
	for _, d := range list {
		if err := d.CheckNew(); err != nil {
			return err
		}
	}
	for _, d := range list {
		if _, there := s.docs[d.Kind][d.Key]; !there && !s.forgetful {
			s.write(change{doc: d})
		}
	}
	return nil
}

// ledgerDoc returns the document of the counter.
func (s *store) ledgerDoc() (d persist.Document, there bool) {
	d, there = s.docs[persist.LedgerKind][counter]
	return d, there
}

// voidRecords returns all records of void numbers.
func (s *store) voidRecords() []persist.Document {
	list, _ := s.List(context.Background(), persist.VoidKind, "", len(s.docs[persist.VoidKind]))
	return list
}
