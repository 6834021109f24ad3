package ops

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/snapshot"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

const snapshotConfig = `
store: {driver: bolt, bolt: {path: nowhere}}
bizTypes: [{name: order, restoreGap: 2000000}, {name: big}, {name: invoice, strategy: gapless}]
`

// cutOff is a store whose writes fail after some, as those of a process that is killed.
type cutOff struct {
	persist.Store
	left *atomic.Int64
}

var errCut = errors.New("cut off")

func (c cutOff) take() error {
	if c.left.Add(-1) < 0 {
		return errCut
	}
	return nil
}

func (c cutOff) Close() error                 { return nil }
func (c cutOff) Counters() persist.Counters   { return cutCounters{c.Store.Counters(), c} }
func (c cutOff) Documents() persist.Documents { return cutDocuments{c.Store.Documents(), c} }
func (c cutOff) Slots() persist.SlotStore     { return cutSlots{c.Store.Slots(), c} }
func (c cutOff) Refill(ctx context.Context, list []persist.Document) error {
	// each document on its own, so that it can end between any two
	for _, d := range list {
		if err := errors.Join(c.take(), c.Store.Refill(ctx, []persist.Document{d})); err != nil {
			return err
		}
	}
	return nil
}

type (
	cutCounters struct {
		persist.Counters
		c cutOff
	}
	cutDocuments struct {
		persist.Documents
		c cutOff
	}
	cutSlots struct {
		persist.SlotStore
		c cutOff
	}
)

func (c cutCounters) Create(ctx context.Context, m persist.Counter) error {
	if err := c.c.take(); err != nil {
		return err
	}
	return c.Counters.Create(ctx, m)
}

func (c cutDocuments) Create(ctx context.Context, d persist.Document) error {
	if err := c.c.take(); err != nil {
		return err
	}
	return c.Documents.Create(ctx, d)
}

func (c cutDocuments) Update(ctx context.Context, d persist.Document) error {
	if err := c.c.take(); err != nil {
		return err
	}
	return c.Documents.Update(ctx, d)
}

func (c cutSlots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	if err := c.c.take(); err != nil {
		return false, err
	}
	return c.SlotStore.Swap(ctx, registry, swap)
}

// into returns a context in which commands open a store that fails after some writes.
func into(t *testing.T, store persist.Store, writes int) context.Context {
	left := new(atomic.Int64)
	left.Store(int64(writes))
	return seams.With(t.Context(), seams.Seams{OpenStore: func(context.Context, driver.How) (persist.Store, error) {
		return cutOff{store, left}, nil
	}})
}

const endless = 1 << 30

// issued is a store with one of each that a restore must raise.
func issued(t *testing.T) *memory.Store {
	ctx, store := t.Context(), memory.New(time.Now)
	must.Get(persist.ClusterID(ctx, store, time.Now))(t)
	counters, epoch := store.Counters(), persist.NewEpoch()
	for _, c := range []persist.Counter{
		{BizTag: "order", Max: 5000, Step: 10, Epoch: epoch}, {BizTag: "big", Max: 7, Step: 1_000_000, Epoch: persist.StoreEpoch},
		{BizTag: "tenant/a@2026", Max: 3, Step: 1}, {BizTag: "tenant/@2026", Max: 1, Step: 1},
	} {
		must.Do(t, counters.Create(ctx, c))
	}
	state := ledger.Fresh(&ledger.Policy{Start: 1}, persist.NewEpoch(), "")
	state.Last = 12
	doc := must.Get(state.Document("invoice", 1))(t)
	must.Do(t, store.Documents().Create(ctx, doc))
	must.Do(t, store.Refill(ctx, []persist.Document{{Kind: "token", Key: "a", Revision: 7, Body: "{}"}, {Kind: "node", Key: "n", Revision: 1}}))
	set := &persist.SlotSet{Incarnation: persist.NewEpoch(), Layout: "l", Ahead: 60_000}
	slot := &persist.Slot{ID: 3, Key: "k", Until: 9}
	if !must.Get(store.Slots().Swap(ctx, "r", persist.SlotSwap{NewSet: set, NewSlot: slot}))(t) {
		t.Fatal("no registry")
	}
	return store
}

func number(n int64) *int64 { return &n }

// saved returns the file of a snapshot of the store, and a configuration.
func saved(t *testing.T, store persist.Store) (*config.Config, string) {
	cfg := must.Get(config.LoadYAML([]byte(snapshotConfig), config.Sources{}))(t)
	file := filepath.Join(t.TempDir(), "s")
	must.Do(t, snapshot.WriteFile(file, func(w io.Writer) error { return snapshot.Save(t.Context(), store, w) }))
	return cfg, file
}

func quietly(string, string) {}

// A restore raises everything that may have been issued since, and leaves the rest as it was. If it
// is interrupted at any write, no node can use the store, and the same call goes on.
func TestRestoreRaises(t *testing.T) {
	from := issued(t)
	cfg, file := saved(t, from)
	how := Restoring{Gapless: number(5), Highest: []Mark{{"tenant/a@2026", 40}, {"tenant/b@2026", 50}}}
	cluster := must.Get(persist.ReadCluster(t.Context(), from.Documents()))(t)
	for writes := 0; ; writes++ {
		store := memory.New(time.Now)
		err := Restore(into(t, store, writes), cfg, file, how, quietly)
		if err == nil {
			if writes < 10 {
				t.Fatalf("it took only %d writes", writes)
			}
			checkRestored(t, store, cluster)
			return
		}
		must.Is(t, err, errCut)
		if _, err := persist.ReadCluster(t.Context(), store.Documents()); writes > 0 {
			must.Is(t, err, persist.ErrRestoring)
			other := how
			other.Gapless = number(6)
			must.Is(t, Restore(into(t, store, endless), cfg, file, other, quietly), ErrSnapshot)
		}
		must.Do(t, Restore(into(t, store, endless), cfg, file, how, quietly))
		checkRestored(t, store, cluster)
		must.Is(t, Restore(into(t, store, endless), cfg, file, how, quietly), ErrSnapshot)
	}
}

// checkRestored checks what [issued] became.
func checkRestored(t *testing.T, store persist.Store, cluster persist.Cluster) {
	t.Helper()
	ctx := t.Context()
	for name, want := range map[string]persist.Counter{
		"order": {Max: 2_005_000, Step: 10}, "big": {Max: 10_000_007, Step: 1_000_000, Epoch: persist.StoreEpoch},
		"tenant/a@2026": {Max: 40, Step: 1}, "tenant/b@2026": {Max: 50, Step: 1}, "tenant/@2026": {Max: 1, Step: 1},
	} {
		got := must.Get(store.Counters().Read(ctx, name))(t)
		want.BizTag, got.Timestamp = name, 0
		must.Equal(t, got, want)
	}
	doc := must.Get(store.Documents().Read(ctx, persist.LedgerKind, "invoice"))(t)
	state := must.Get(ledger.Decode(&doc))(t)
	if state.Last != 17 || doc.Revision <= revisions {
		t.Errorf("the ledger is at %d, revision %d", state.Last, doc.Revision)
	}
	must.Equal(t, must.Get(persist.ReadCluster(ctx, store.Documents()))(t), cluster)
	token := must.Get(store.Documents().Read(ctx, "token", "a"))(t)
	must.Equal(t, token.Revision, 7)
	_, err := store.Documents().Read(ctx, "node", "n")
	must.Is(t, err, persist.ErrNotFound)
	table := must.Get(store.Slots().Look(ctx, "r"))(t)
	if table.Set.Floor < time.Now().UnixMilli()+50_000 || len(table.Slots) != 1 {
		t.Errorf("the registry is %+v", table)
	}
}

// What began after the snapshot is not in it: it begins above a gap, and a gapless counter refuses,
// until that is confirmed.
func TestLostCountersBeginAboveAGap(t *testing.T) {
	ctx := t.Context()
	cfg, file := saved(t, issued(t))
	store := memory.New(time.Now)
	must.Do(t, Restore(into(t, store, endless), cfg, file, Restoring{Gapless: number(0)}, quietly))
	node := persist.Guard(store)
	must.Is(t, node.Counters().Create(ctx, persist.Counter{BizTag: "tenant/new", Max: 10, Step: 10}), persist.ErrExists)
	must.Equal(t, must.Get(store.Counters().Read(ctx, "tenant/new"))(t).Max, 10_000_010)
	must.Do(t, node.Counters().Create(ctx, persist.Counter{BizTag: "tenant/x@9999", Max: 10, Step: 10}))
	must.Do(t, node.Counters().Create(ctx, persist.Counter{BizTag: "places/", Step: 10}))
	begun := persist.Document{Kind: persist.LedgerKind, Key: "invoice/new", Revision: 1, Body: "{}"}
	must.Is(t, node.Documents().Create(ctx, begun), persist.ErrFailedOver)
	must.Do(t, store.Counters().Create(ctx, persist.Counter{BizTag: "invoice/new", Max: 10, Step: 10}))
	must.Do(t, node.Documents().Create(ctx, begun))

	for _, want := range []bool{true, false} {
		must.Equal(t, must.Get(confirm(into(t, store, endless), cfg))(t), want)
	}
	must.Do(t, node.Counters().Create(ctx, persist.Counter{BizTag: "tenant/fresh", Max: 10, Step: 10}))
}

// A node that nobody has stopped comes to the store while it is filled. It begins no counter there.
// What one has begun that looked before the mark was there is raised, too.
func TestNodeBesideARestore(t *testing.T) {
	ctx := t.Context()
	cfg, file := saved(t, issued(t))
	how := Restoring{Gapless: number(5), Highest: []Mark{{"tenant/a@2026", 40}, {"tenant/b@2026", 50}}}
	store := memory.New(time.Now)
	must.Is(t, Restore(into(t, store, 1), cfg, file, how, quietly), errCut)
	node := persist.Guard(store)
	must.Is(t, node.Counters().Create(ctx, persist.Counter{BizTag: "order", Max: 10, Step: 10}), persist.ErrRestoring)
	must.Is(t, node.Documents().Create(ctx, persist.Document{Kind: persist.LedgerKind, Key: "invoice", Revision: 1, Body: "{}"}), persist.ErrRestoring)
	must.Do(t, store.Counters().Create(ctx, persist.Counter{BizTag: "order", Max: 10, Step: 10}))
	must.Do(t, Restore(into(t, store, endless), cfg, file, how, quietly))
	checkRestored(t, store, must.Get(persist.ReadCluster(ctx, store.Documents()))(t))

	ledgerOf := func(counter string) func(persist.Store) error {
		return func(store persist.Store) error {
			return store.Documents().Create(ctx, persist.Document{Kind: persist.LedgerKind, Key: counter, Revision: 1, Body: "{}"})
		}
	}
	for says, does := range map[string]func(persist.Store) error{
		"has begun invoice in":     ledgerOf("invoice"),
		"has begun invoice/new in": ledgerOf("invoice/new"),
		"has begun tenant/new in": func(store persist.Store) error {
			return store.Counters().Create(ctx, persist.Counter{BizTag: "tenant/new", Max: 10, Step: 10})
		},
		"has begun order in": func(store persist.Store) error {
			return store.Documents().Create(ctx, persist.Document{Kind: persist.ShapeKind, Key: "order", Revision: 1, Body: "{}"})
		},
	} {
		t.Run(says, func(t *testing.T) {
			store := memory.New(time.Now)
			must.Is(t, Restore(into(t, store, 1), cfg, file, how, quietly), errCut)
			must.Do(t, does(store))
			for range 2 { // also if it is repeated
				if err := Restore(into(t, store, endless), cfg, file, how, quietly); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v", err)
				}
				must.Is(t, must.Err(persist.ReadCluster(ctx, store.Documents())), persist.ErrRestoring)
			}
		})
	}
}

// A restore that was cut off goes on in its store, and may not begin in another one: a node that was not
// stopped can have issued numbers from the first one, where the second one would begin.
func TestRestoreIntoAnotherStore(t *testing.T) {
	cfg, file := saved(t, issued(t))
	first, second, marked := memory.New(time.Now), memory.New(time.Now), int64(0)
	how := Restoring{By: number(7), Gapless: number(5), Marked: func(gap int64) { marked = gap }}
	must.Is(t, Restore(into(t, first, 0), cfg, file, how, quietly), errCut)
	must.Equal(t, marked, 0)
	must.Is(t, Restore(into(t, first, 1), cfg, file, how, quietly), errCut)
	must.Equal(t, marked, 7)
	refused := errors.New("refused")
	how.Fresh = func() error { return refused }
	must.Is(t, Restore(into(t, second, endless), cfg, file, how, quietly), refused)
	must.Is(t, must.Err(persist.ReadCluster(t.Context(), second.Documents())), persist.ErrNotFound)
	marked = 0
	must.Do(t, Restore(into(t, first, endless), cfg, file, how, quietly))
	must.Equal(t, marked, 7)
}

// sharedStore is a store that several processes can open.
type sharedStore struct{ persist.Store }

func (sharedStore) Shared() bool { return true }

// A node that has looked at the store just before the mark begins a counter a second later, and that takes another
// one. The restore waits for it.
func TestRestoreWaitsForForgottenNodes(t *testing.T) {
	cfg, file := saved(t, issued(t))
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		node, begun := persist.Guard(slowStore{store, persist.LookPause - 10*time.Millisecond}).Counters(), persist.Counter{BizTag: "tenant/new", Max: 10, Step: 10}
		go func() { must.Is(t, node.Create(t.Context(), persist.Counter{}), persist.ErrInvalid) }()
		synctest.Wait() // it has looked
		go func() {
			time.Sleep(persist.LookPause - time.Millisecond)
			must.Do(t, node.Create(t.Context(), begun)) // which takes a while
			begun.BizTag = "tenant/newer"
			must.Is(t, node.Create(t.Context(), begun), persist.ErrRestoring)
		}()
		err := Restore(into(t, store, endless), cfg, file, Restoring{Gapless: number(0)}, quietly)
		if err == nil || !strings.Contains(err.Error(), "has begun tenant/new in") {
			t.Errorf("%v", err)
		}
		synctest.Wait()
	})
}

// slowStore is a store that creates only after a while.
type slowStore struct {
	persist.Store
	after time.Duration
}

type (
	slowCounters struct {
		persist.Counters
		after time.Duration
	}
	slowDocuments struct {
		persist.Documents
		after time.Duration
	}
)

func (s slowStore) Counters() persist.Counters   { return slowCounters{s.Store.Counters(), s.after} }
func (s slowStore) Documents() persist.Documents { return slowDocuments{s.Store.Documents(), s.after} }

func (s slowCounters) Create(ctx context.Context, c persist.Counter) error {
	time.Sleep(s.after)
	return s.Counters.Create(ctx, c)
}

func (s slowDocuments) Create(ctx context.Context, d persist.Document) error {
	time.Sleep(s.after)
	return s.Documents.Create(ctx, d)
}

// A node that was suspended between its look and its write wakes after the restore. It begins no counter at its
// start that the snapshot lacks, and no gapless one.
func TestNodeSuspendedDuringARestore(t *testing.T) {
	cfg, file := saved(t, issued(t))
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		node := persist.Guard(slowStore{store, time.Hour})
		ended := make(chan error)
		go func() {
			ended <- node.Counters().Create(t.Context(), persist.Counter{BizTag: "tenant/new", Max: 10, Step: 10})
		}()
		go func() {
			ended <- node.Documents().Create(t.Context(), persist.Document{Kind: persist.LedgerKind, Key: "invoice/new", Revision: 1, Body: "{}"})
		}()
		time.Sleep(time.Minute)
		must.Do(t, Restore(into(t, store, endless), cfg, file, Restoring{Gapless: number(0)}, quietly))
		if a, b := <-ended, <-ended; !errors.Is(errors.Join(a, b), persist.ErrExists) || !errors.Is(errors.Join(a, b), persist.ErrFailedOver) {
			t.Errorf("%v, %v", a, b)
		}
		must.Equal(t, must.Get(store.Counters().Read(t.Context(), "tenant/new"))(t).Max, 10_000_010)
		must.Is(t, must.Err(store.Documents().Read(t.Context(), persist.LedgerKind, "invoice/new")), persist.ErrNotFound)
	})
}

// A server that fails over during a restore may lose what was written. Once that is confirmed, the same restore
// goes on.
func TestFailoverDuringARestore(t *testing.T) {
	cfg, file := saved(t, issued(t))
	store := &failingOver{Store: memory.New(time.Now), fence: persist.Fence{Current: "7/2", Confirmed: "7/2"}}
	ctx := seams.With(t.Context(), seams.Seams{OpenStore: func(context.Context, driver.How) (persist.Store, error) { return stillOpen{store}, nil }})
	how := Restoring{Gapless: number(0), Highest: []Mark{{"tenant/b@2026", 50}}}
	err := Restore(ctx, cfg, file, how, func(string, string) { store.fence.Current = "7/3" })
	if err == nil || !strings.Contains(err.Error(), "has failed over meanwhile") {
		t.Errorf("%v", err)
	}
	must.Is(t, Restore(ctx, cfg, file, how, quietly), ErrSnapshot)
	must.Do(t, store.ConfirmFence(ctx, "7/3"))
	must.Do(t, Restore(ctx, cfg, file, how, quietly))
}

// Answers to Idempotency-Keys that are documents in a snapshot are restored to where the store keeps them.
func TestRestoredAnswers(t *testing.T) {
	from := issued(t)
	must.Do(t, from.Refill(t.Context(), []persist.Document{{Kind: persist.KeptAnswerKind, Key: "id", Revision: 2, Body: "5001", Expires: time.Now().Add(time.Hour).UnixMilli()}}))
	_, file := saved(t, from)
	cfg := boltConfig(t, func(persist.Store) {})
	must.Do(t, os.Remove(cfg.Store.Place()))
	must.Do(t, Restore(t.Context(), cfg, file, Restoring{Gapless: number(0)}, quietly))
	inStore(t, cfg, func(store persist.Store) {
		must.Equal(t, must.Get(store.(persist.Answerer).Answers().Claim(t.Context(), "id", "another", time.Minute))(t), "5001")
	})
}

// A gap of 0 says that nothing was issued since the snapshot. It says nothing about counters that a
// former restore or a failover may have lost.
func TestGapOfZeroKeepsTheGapsBefore(t *testing.T) {
	ctx := t.Context()
	from := issued(t)
	must.Do(t, from.Documents().Create(ctx, persist.Restored{At: 5, Gap: 3_000_000}.Document(1)))
	cfg, file := saved(t, from)
	store := memory.New(time.Now)
	must.Do(t, Restore(into(t, store, endless), cfg, file, Restoring{By: number(0), Gapless: number(0)}, quietly))
	again, _, err := persist.ReadRestored(ctx, store.Documents())
	must.Do(t, err)
	must.Equal(t, again.Gap, 3_000_000)

	p := must.Get(newRestorePolicy(Restoring{By: number(0)}))(t)
	lost := snapshot.Counter{Counter: persist.Counter{BizTag: "order", Max: 5, Step: 1}, Failovers: 2}
	must.Equal(t, p.counter(&facts{}, lost).Max, 5+2*LeastGap)
}

// Every bad file, store and argument is refused before anything is written.
func TestBadRestores(t *testing.T) {
	from := issued(t)
	cfg, file := saved(t, from)
	text := must.Get(os.ReadFile(file))(t)
	lines := bytes.SplitAfter(text, []byte("\n"))
	turned := bytes.Clone(text)
	turned[bytes.Index(turned, []byte(`"max":5000`))+6] ^= 1
	for name, bad := range map[string]struct {
		text []byte
		says string
	}{
		"cut short":      {text[:len(text)-200], "cut short"},
		"without end":    {bytes.Join(lines[:len(lines)-2], nil), "cut short"},
		"one bit turned": {turned, "damaged"},
		"newer":          {bytes.Replace(text, []byte(`{"seqdSnapshot":1`), []byte(`{"seqdSnapshot":3`), 1), "format 3"},
		"another file":   {[]byte("order,5000\n"), "does not begin as one"},
		"empty":          {nil, "cut short"},
		"two":            {append(bytes.Clone(text), text...), "behind its last line"},
		"a line less":    {bytes.Join(append([][]byte{lines[0]}, lines[2:]...), nil), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := filepath.Join(t.TempDir(), "s")
			must.Do(t, os.WriteFile(broken, bad.text, 0o600))
			store := memory.New(time.Now)
			err := Restore(into(t, store, 0), cfg, broken, Restoring{Gapless: number(0)}, quietly)
			if !errors.Is(err, snapshot.ErrSnapshot) || !strings.Contains(err.Error(), bad.says) {
				t.Errorf("%v", err)
			}
		})
	}
	for name, test := range map[string]struct {
		how   Restoring
		store persist.Store
		says  string
	}{
		"nobody says how far gapless counters came": {Restoring{}, memory.New(time.Now), "--gapless"},
		"a ledger further than that":                {Restoring{Highest: []Mark{{"invoice", 5}}}, memory.New(time.Now), "it was at 12"},
		"a slip in --highest":                       {Restoring{Gapless: number(0), Highest: []Mark{{"big", 1_000_008}}}, memory.New(time.Now), "big stands at 7, and 1000001 numbers would be skipped"},
		"one of a new key":                          {Restoring{Gapless: number(0), Highest: []Mark{{"tenant/b@2026", 9e15}}}, memory.New(time.Now), "tenant/b@2026 stands at 0"},
		"one of a gapless counter":                  {Restoring{Highest: []Mark{{"invoice", 1013}}}, memory.New(time.Now), "invoice stands at 12, and 1001 numbers"},
		"a slip in --by":                            {Restoring{Gapless: number(0), By: number(9e15)}, memory.New(time.Now), "--by: the highest counter stands at 5000, and 9000000000000000 numbers"},
		"a slip in --gapless":                       {Restoring{Gapless: number(1001)}, memory.New(time.Now), "--gapless: the highest counter stands at 12, and 1001 numbers would be skipped"},
		"a gap below 0":                             {Restoring{By: number(-1)}, memory.New(time.Now), "outside 0"},
		"a store that is not empty":                 {Restoring{Gapless: number(0)}, from, "not empty"},
		"a store of another cluster":                {Restoring{Gapless: number(0)}, issued(t), "the snapshot is of"},
		"a store with a document only":              {Restoring{Gapless: number(0)}, withDocument(t), "Stop every seqd"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Restore(into(t, test.store, 0), cfg, file, test.how, quietly); !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

// What looks like a slip is restored if somebody says that it is meant.
func TestSlipsThatAreMeant(t *testing.T) {
	cfg, file := saved(t, issued(t))
	store := memory.New(time.Now)
	how := Restoring{Sure: true, Gapless: number(5000), Highest: []Mark{{"big", 2_000_000}, {"tenant/b@2026", 3_000_000}}}
	must.Do(t, Restore(into(t, store, endless), cfg, file, how, quietly))
	for name, want := range map[string]int64{"big": 2_000_000, "tenant/b@2026": 3_000_000} {
		must.Equal(t, must.Get(store.Counters().Read(t.Context(), name))(t).Max, want)
	}
}

// The store failed over, and a gapless counter stood still: the snapshot does not know how far it
// came.
func TestRestoreOfALedgerThatStoodStill(t *testing.T) {
	cfg, file := saved(t, issued(t))
	text := must.Get(os.ReadFile(file))(t)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines[0] = bytes.Replace(lines[0], []byte(`"began"`), []byte(`"fence":"other","began"`), 1)
	var end snapshot.End
	must.Do(t, json.Unmarshal(lines[len(lines)-2], &end))
	end.SHA256 = ""
	whole := append(bytes.Join(lines[:len(lines)-2], nil), append(must.Get(json.Marshal(end))(t), '\n')...)
	sum := sha256.Sum256(whole)
	end.SHA256 = hex.EncodeToString(sum[:])
	last := append(must.Get(json.Marshal(end))(t), '\n')
	must.Do(t, os.WriteFile(file, append(bytes.Join(lines[:len(lines)-2], nil), last...), 0o600))
	store := memory.New(time.Now)
	if err := Restore(into(t, store, endless), cfg, file, Restoring{Gapless: number(0)}, quietly); !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), "invoice stood still") {
		t.Errorf("%v", err)
	}
	must.Do(t, Restore(into(t, store, endless), cfg, file, Restoring{Gapless: number(0), Highest: []Mark{{"invoice", 20}}}, quietly))
	doc := must.Get(store.Documents().Read(t.Context(), persist.LedgerKind, "invoice"))(t)
	must.Equal(t, must.Get(ledger.Decode(&doc))(t).Last, 20)
}

func withDocument(t *testing.T) persist.Store {
	store := memory.New(time.Now)
	must.Do(t, store.Refill(t.Context(), []persist.Document{{Kind: "token", Key: "a", Revision: 1}}))
	return store
}

// A disk that fills leaves the file that was there, and nothing else.
func TestSaveLeavesTheFormerFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s")
	must.Do(t, os.WriteFile(file, []byte("former"), 0o600))
	full := errors.New("no space left on device")
	must.Is(t, snapshot.WriteFile(file, func(w io.Writer) error { _, _ = w.Write([]byte("half")); return full }), full)
	must.Is(t, snapshot.WriteFile(file, func(w io.Writer) error { _, err := w.Write([]byte("half")); return err }), snapshot.ErrSnapshot)
	must.Equal(t, string(must.Get(os.ReadFile(file))(t)), "former")
	must.Equal(t, len(must.Get(os.ReadDir(filepath.Dir(file)))(t)), 1)
}
