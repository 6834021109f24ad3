package history

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/plugin"
)

// slow stands before history and holds an issued number up until it is told to go on.
type slow struct {
	seqd.NopPlugin
	reached, goOn chan struct{}
}

func (s *slow) After(context.Context, *seqd.Call) error {
	close(s.reached)
	<-s.goOn
	return nil
}

type one struct{ n int64 }

func (o *one) Init(context.Context, bool) error { return nil }
func (o *one) Close(context.Context) error      { return nil }
func (o *one) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	o.n++
	seq.Add(o.n, n, 1)
	return nil
}

// Issuer.Close while a call is between strategy and history: the call is answered, Close says that all is well, and the record is nowhere.
func TestAnsweredAfterClose(t *testing.T) {
	store := memory.New(time.Now)
	h := start(t, store, nil, func(s *Settings) { s.OnOverflow = Block })
	s := &slow{reached: make(chan struct{}), goOn: make(chan struct{})}
	is, err := seqd.NewIssuer([]seqd.Definition{{
		BizType: seqd.BizType{Name: "order"}, Strategy: &one{},
		Plugins: []seqd.BoundPlugin{{Name: "slow", Order: 500, Quick: true, Plugin: s}, {Name: "history", Order: 900, Quick: true, Plugin: h}},
	}}, seqd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var answered error
	wg.Go(func() { _, answered = is.Next(context.Background(), "order", 1) })
	<-s.reached
	if err := is.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	close(s.goOn)
	wg.Wait()
	time.Sleep(50 * time.Millisecond)
	if list := kept(t, store.History(), "order"); answered == nil && !slices.Contains(list, int64(1)) {
		t.Errorf("1 was answered, Close was clean, and the history holds %v", list)
	}
}

// One node whose clock is ahead removes what all others have written and must keep.
func TestClockAheadRemovesHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		month := func(s *Settings) { s.OnOverflow, s.Retention = Block, 720*time.Hour }
		good := start(t, store, nil, month)
		if err := issue(t.Context(), good, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		settings := DefaultSettings()
		month(&settings)
		settings.Batch-- // another process would have a queue of its own; so does another batch
		env := plugin.Env{Store: store, Now: func() time.Time { return time.Now().AddDate(1, 0, 0) }, Log: slog.New(slog.DiscardHandler)}
		ahead, err := New(env, seqd.BizType{Name: "order"}, seqd.PluginBinding{Name: name, Settings: &settings})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if list := kept(t, store.History(), "order"); !slices.Contains(list, int64(1)) {
			t.Errorf("two hours later the history holds %v", list)
		}
		stop(t, good)
		stop(t, ahead)
	})
}
