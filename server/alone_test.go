package server

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy"
)

// away is a store that cannot be reached while it is, and asks before it is used.
type away struct {
	persist.Store
	is    *atomic.Bool
	admit func(context.Context) error
}

type awayDocuments struct {
	persist.Documents
	away away
}

func (s away) Documents() persist.Documents { return awayDocuments{s.Store.Documents(), s} }

func (d awayDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if err := d.away.admit(ctx); err != nil {
		return persist.Document{}, err
	}
	if d.away.is.Load() {
		return persist.Document{}, persist.ErrUnavailable
	}
	return d.Documents.Read(ctx, kind, key)
}

func (d awayDocuments) Create(ctx context.Context, doc persist.Document) error {
	if err := d.away.admit(ctx); err != nil {
		return err
	}
	return d.Documents.Create(ctx, doc)
}

// keeps notes what a strategy is told to remember.
type keeps struct{ shapes []string }

func (k *keeps) OnRecord(shape string) { k.shapes = append(k.shapes, shape) }

// begun is a run that began without its store, with one biz type in a shape that it remembers.
func begun(t *testing.T) (r *runtime, c claim, unreached *atomic.Bool, k *keeps) {
	t.Helper()
	store := memory.New(time.Now)
	id, err := persist.ClusterID(t.Context(), store, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	unreached = new(atomic.Bool)
	unreached.Store(true)
	r = &runtime{options: options{now: time.Now, log: slog.New(slog.DiscardHandler)}, failed: make(chan error, 1)}
	r.store = away{store, unreached, r.admit}
	r.begin(map[string]bool{"user": true}, id)
	k = &keeps{}
	c = claim{runtime: r, name: "user", shape: "snowflake", keeper: k}
	r.claims = []claim{c, {runtime: r, name: "order", shape: "segment"}}
	return r, c, unreached, k
}

// record puts a shape on record behind the gate.
func record(t *testing.T, r *runtime, shape string) {
	t.Helper()
	shapes := persist.ShapesIn(r.store.(away).Store.Documents())
	if err := shapes.Create(t.Context(), "user", shape, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// confirmed lets the store be reached, and returns what ended the run.
func confirmed(t *testing.T, r *runtime, unreached *atomic.Bool) error {
	t.Helper()
	go r.confirmAlone(t.Context())
	time.Sleep(5 * time.Second)
	unreached.Store(false)
	time.Sleep(openRetry + time.Millisecond)
	synctest.Wait()
	select {
	case err := <-r.failed:
		return err
	default:
		return nil
	}
}

func TestStoreOfTheSameCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c, unreached, k := begun(t)
		record(t, r, "snowflake")
		if fresh, err := c.Check(t.Context()); fresh || err != nil {
			t.Errorf("alone: %v, %v", fresh, err)
		}
		if _, err := r.claims[1].Check(t.Context()); seqd.CodeOf(err) != seqd.CodeStoreUnavailable {
			t.Errorf("one that cannot begin alone: %v", err)
		}
		if err := confirmed(t, r, unreached); err != nil {
			t.Error(err)
		}
		if len(k.shapes) != 1 || k.shapes[0] != "snowflake" {
			t.Errorf("told to remember %q", k.shapes)
		}
		// From now on a store that fails is no permission.
		unreached.Store(true)
		if _, err := c.Check(t.Context()); seqd.CodeOf(err) != seqd.CodeStoreUnavailable {
			t.Errorf("got %v after the store had been reached", err)
		}
	})
}

// A biz type that began alone is held against the shape on record as soon as the store is there.
func TestStoreWithAnotherShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, unreached, k := begun(t)
		record(t, r, "snowflake obfuscate(12)")
		if err := confirmed(t, r, unreached); seqd.CodeOf(err) != seqd.CodeConflict {
			t.Errorf("the run ended with %v", err)
		}
		if len(k.shapes) != 1 || k.shapes[0] != "" {
			t.Errorf("told to remember %q", k.shapes)
		}
		if r.gate.open.Load() {
			t.Error("the gate is open")
		}
	})
}

// An older copy of the store, from before the biz type was new, gets its shape.
func TestStoreWithoutTheShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, unreached, _ := begun(t)
		if err := confirmed(t, r, unreached); err != nil {
			t.Error(err)
		}
		if s, err := persist.ShapesIn(r.store.Documents()).Read(t.Context(), "user"); err != nil || s.Shape != "snowflake" {
			t.Errorf("on record: %+v, %v", s, err)
		}
		if _, err := persist.ShapesIn(r.store.Documents()).Read(t.Context(), "order"); !errors.Is(err, persist.ErrNotFound) {
			t.Errorf("the other biz type: %v", err)
		}
	})
}

// Another cluster's store ends the run, and one that is new does; neither is used.
func TestStoreOfAnotherCluster(t *testing.T) {
	for name, known := range map[string]bool{"another": true, "new": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _, unreached, k := begun(t)
				other := memory.New(time.Now)
				if known {
					if _, err := persist.ClusterID(t.Context(), other, time.Now); err != nil {
						t.Fatal(err)
					}
				}
				r.store = away{other, unreached, r.admit}
				if err := confirmed(t, r, unreached); seqd.CodeOf(err) != seqd.CodeConflict {
					t.Errorf("the run ended with %v", err)
				}
				if len(k.shapes) > 0 {
					t.Errorf("told to remember %q", k.shapes)
				}
				if !known {
					if _, err := persist.ReadCluster(t.Context(), other.Documents()); !errors.Is(err, persist.ErrNotFound) {
						t.Errorf("it was written to: %v", err)
					}
				}
			})
		})
	}
}

// What may begin alone is asked with the whole shape, plugins included.
func TestAloneIsAskedWithTheWholeShape(t *testing.T) {
	asked := map[string]string{}
	settings := func() any { return &struct{}{} }
	strategy.Register(strategy.Factory{
		Name: "alone-test", Settings: settings,
		New:   func(strategy.Env, seqd.BizType) (seqd.Strategy, error) { return nil, errors.New("not made") },
		Shape: func(seqd.BizType) string { return "bare" },
		Alone: func(_ strategy.Env, b seqd.BizType, shape string) (string, bool) {
			asked[b.Name] = shape
			return map[string]string{"a": "1", "b": "1", "c": "2"}[b.Name], b.Name != "d"
		},
	})
	plugin.Register(plugin.Factory{
		Name: "alone-test", Settings: settings,
		New: func(plugin.Env, seqd.BizType, seqd.PluginBinding) (seqd.Plugin, error) {
			return nil, errors.New("not made")
		},
		Shape: func(seqd.BizType, seqd.PluginBinding) (string, error) { return "12", nil },
	})
	r := &runtime{cfg: &config.Config{}, options: options{now: time.Now}}
	for _, name := range []string{"a", "b", "c", "d"} {
		b := seqd.BizType{Name: name, Strategy: "alone-test"}
		if name == "b" {
			b.Plugins = []seqd.PluginBinding{{Name: "alone-test"}}
		}
		r.cfg.BizTypes = append(r.cfg.BizTypes, b)
	}
	alone, cluster := r.canAlone()
	if cluster != "1" || len(alone) != 2 || !alone["a"] || !alone["b"] {
		t.Errorf("%v of the cluster %s", alone, cluster)
	}
	if asked["a"] != "bare" || asked["b"] != "bare alone-test(12)" {
		t.Errorf("asked with %q", asked)
	}
}
