package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// startPair starts MariaDB with a semi-synchronous replica.
func startPair(t testing.TB) (primary, replica *testenv.MariaDB) {
	t.Helper()
	primary = testenv.StartMariaDB(t, testenv.Replicated...)
	replica = testenv.StartMariaDBReplica(t, primary)
	primary.SemiSynchronous(replica)
	return primary, replica
}

// A commit that did not wait for the replica, because an operator ended the statement, is not
// acknowledged. Neither is one that a replica may get after its caller stopped waiting.
func TestMySQLCancelledCommit(t *testing.T) {
	t.Parallel()
	primary, replica := startPair(t)
	o := newMySQL(t, primary)
	o.Lossless, o.Timeout = true, 20*time.Second
	s := openMySQL(t, o)
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 10}))
	fence := must.Get(s.Fence(t.Context()))(t).Current
	for what, write := range map[string]func(context.Context) error{
		"a range": func(ctx context.Context) error { _, err := allocate(ctx, s); return err },
		"a slot": func(ctx context.Context) error {
			made, err := s.Slots().Swap(ctx, registry, persist.SlotSwap{NewSet: &slotSet, Source: fence})
			if made {
				err = errors.New("it was acknowledged")
			}
			return err
		},
	} {
		must.Do(t, func() error { _, err := allocate(t.Context(), s); return err }())
		replica.Pause()
		done := make(chan error, 1)
		go func() { done <- write(t.Context()) }()
		killWait(t, primary)
		if err := <-done; !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(err.Error(), "no replica") {
			t.Errorf("%s whose commit was cancelled: %v", what, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		must.Is(t, must.Err(allocate(ctx, s)), context.DeadlineExceeded, "after %s, a range while the replica is away", what)
		cancel()
		replica.Resume()
	}
	if r, err := allocate(t.Context(), s); err != nil || r.First < 31 {
		t.Errorf("%+v, %v: ranges that may have been taken come again", r, err)
	}
}

// killWait ends the statement of the store that waits for the replica, as an operator may.
func killWait(t *testing.T, primary *testenv.MariaDB) {
	t.Helper()
	await.True(t, "a commit waits for the replica", func() bool {
		id := primary.Query("SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%'")
		if id != "" {
			primary.Query("KILL QUERY " + id)
		}
		return id != ""
	})
}

// A primary that becomes a replica keeps its connections. What it still has is not read any more,
// and as soon as it takes writes again the store does too.
func TestMySQLDemotion(t *testing.T) {
	t.Parallel()
	server := testenv.StartMySQL(t)
	s := openMySQL(t, newMySQL(t, server))
	epoch := persist.NewEpoch()
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 10, Epoch: epoch}))
	for _, first := range []string{"read", "write"} {
		server.Query("SET GLOBAL read_only = 1")
		read := func() error { _, err := s.Counters().Epoch(t.Context(), "order"); return err }
		write := func() error { _, err := allocate(t.Context(), s); return err }
		checks := []func() error{read, write, read, write}
		if first == "write" {
			checks = []func() error{write, read}
		}
		for i, check := range checks {
			if err := check(); !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(err.Error(), "takes no writes") {
				t.Errorf("%d of a replica: %v", i, err)
			}
		}
		server.Query("SET GLOBAL read_only = 0")
		if got, err := s.Counters().Epoch(t.Context(), "order"); first == "read" && (err != nil || got != epoch) {
			t.Errorf("the epoch is %q, %v", got, err)
		}
		must.Do(t, write())
	}
}
