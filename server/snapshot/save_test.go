package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// moving is a store in which something happens just after documents of a kind were read.
type moving struct {
	*memory.Store
	after map[string]func()
}

type movingDocuments struct {
	persist.Documents
	after map[string]func()
}

func (m moving) Documents() persist.Documents { return movingDocuments{m.Store.Documents(), m.after} }

func (d movingDocuments) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	list, err := d.Documents.List(ctx, kind, after, limit)
	if happens := d.after[kind]; happens != nil {
		happens()
	}
	return list, err
}

// What moves while a snapshot is read is in it: an entry that is copied out of a ledger, although it is
// the first of its kind, and a delivery whose subscription goes on.
func TestSaveWhileRecordsMove(t *testing.T) {
	ctx, store := t.Context(), memory.New(time.Now)
	must.Get(persist.ClusterID(ctx, store, time.Now))(t)
	put := func(kind, key string) {
		must.Do(t, store.Documents().Create(ctx, persist.Document{Kind: kind, Key: key, Revision: 1, Body: "{}"}))
	}
	put(persist.LedgerKind, "invoice")
	put("subscription", "hook")
	move := moving{store, map[string]func(){
		persist.LedgerKind: func() {
			put(persist.VoidKind, "invoice/1")
			must.Do(t, store.Documents().Delete(ctx, persist.LedgerKind, "invoice", 1))
		},
		"subscription": func() { put(persist.DeliveryKind, "hook/1") },
	}}
	var file bytes.Buffer
	must.Do(t, Save(ctx, move, &file))
	var kinds []string
	must.Get(Read(&file, func(Header) error { return nil }, func(r Record) error {
		if r.Document != nil {
			kinds = append(kinds, r.Document.Kind)
		}
		return nil
	}))(t)
	if want := []string{persist.LedgerKind, "subscription", persist.VoidKind, persist.DeliveryKind}; !slices.Equal(kinds, want) {
		t.Errorf("it has %q, want %q", kinds, want)
	}
}

// A save that has a pace may rest at each record.
func TestSavePaced(t *testing.T) {
	store, rests := memory.New(time.Now), 0
	must.Get(persist.ClusterID(t.Context(), store, time.Now))(t)
	for i := range 30 {
		name := fmt.Sprintf("b%d", i)
		must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: name, Max: 1, Step: 1}))
		must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: "k", Key: name, Revision: 1, Body: "{}"}))
	}
	ctx := persist.Paced(t.Context(), func() { rests++ })
	must.Do(t, Save(ctx, store, io.Discard))
	must.Equal(t, rests, 2*30)
}
