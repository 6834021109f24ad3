package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/postgres"
)

// ledgerDocument returns the state of a gapless counter.
func ledgerDocument(key string, revision int64) persist.Document {
	return persist.Document{Kind: persist.LedgerKind, Key: key, Revision: revision, Body: `{"last":7}`, Timestamp: 1}
}

// A ledger of before a failover is not changed under the fence of before, and none is created: the
// new server may lack what the old one acknowledged. Whoever knows the new fence can change it.
func TestLedgersStandStillAfterAFailover(t *testing.T) {
	for kind, start := range failovers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, failOver := start(t)
			ctx := t.Context()
			before, err := s.Fence(ctx)
			must.Do(t, err)
			must.Do(t, s.CreateFenced(ctx, ledgerDocument("invoice", 1), before.Current))
			must.Do(t, s.UpdateFenced(ctx, ledgerDocument("invoice", 2), before.Current))
			failOver()
			awaitStore(t, s)
			for range 2 {
				wants(t, s.UpdateFenced(ctx, ledgerDocument("invoice", 3), before.Current), persist.ErrFailedOver)
				wants(t, s.CreateFenced(ctx, ledgerDocument("order", 1), before.Current), persist.ErrFailedOver)
			}
			if d, err := s.Documents().Read(ctx, persist.LedgerKind, "invoice"); err != nil || d != ledgerDocument("invoice", 2) {
				t.Errorf("the ledger is %+v, %v", d, err)
			}
			_, err = s.Documents().Read(ctx, persist.LedgerKind, "order")
			wants(t, err, persist.ErrNotFound)

			after, err := s.Fence(ctx)
			if err != nil || after.Confirmed != before.Current || after.Current == before.Current {
				t.Fatalf("%+v, %v, before %+v", after, err, before)
			}
			must.Do(t, s.UpdateFenced(ctx, ledgerDocument("invoice", 3), after.Current))
			must.Do(t, s.ConfirmFence(ctx, after.Current))
			wants(t, s.UpdateFenced(ctx, ledgerDocument("invoice", 4), before.Current), persist.ErrFailedOver)
			must.Do(t, s.CreateFenced(ctx, ledgerDocument("order", 1), after.Current))
		})
	}
}

// Documents whose commit did not wait for the standby are not kept until a later one has.
func TestPostgresKeepsDurably(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	standby := synchronous(t, server)
	s := openPostgres(t, server.URL(), func(o *postgres.Options) { o.Lossless, o.Timeout = true, 30*time.Second })
	list := []persist.Document{{Kind: persist.VoidKind, Key: "a", Revision: 1}, {Kind: persist.VoidKind, Key: "b", Revision: 1}}
	standby.Pause()
	for round := range 3 { // the first one stores them, the others find them
		done := make(chan error, 1)
		go func() { done <- s.Documents().Keep(context.WithoutCancel(t.Context()), list) }()
		cancelWait(t, server)
		if err := <-done; !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(err.Error(), "standby") {
			t.Errorf("round %d: %v", round, err)
		}
	}
	standby.Resume()
	must.Do(t, s.Documents().Keep(t.Context(), list))
}
