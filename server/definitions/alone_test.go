package definitions

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/feed"
	"github.com/seqd/seqd/strategy"
)

// away is a store that cannot be reached while is is true, and asks admit before it is used.
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

// keeps records the shapes that a strategy is given to remember.
type keeps struct{ shapes []string }

func (k *keeps) OnRecord(shape string) { k.shapes = append(k.shapes, shape) }

// begun is a catalogue that began without its store, with one biz type in a shape that it
// remembers.
func begun(t *testing.T, of func(persist.Store) persist.Store) (c *Catalogue, s *backends.Store, unreached *atomic.Bool, k *keeps) {
	t.Helper()
	store := memory.New(time.Now)
	id := must.Get(persist.ClusterID(t.Context(), store, time.Now))(t)
	unreached = new(atomic.Bool)
	unreached.Store(true)
	log := slog.New(slog.DiscardHandler)
	gate := new(backends.Gate)
	s = backends.Unconfirmed(away{of(store), unreached, gate.Admit}, gate, id, log)
	c = New(Options{
		Config: &config.Config{}, Env: strategy.Env{Store: s.Store, Now: time.Now, Log: log},
		Feed: feed.New(feed.Options{}), Unreached: s.Unreached, Alone: map[string]bool{"user": true},
	})
	k = &keeps{}
	claimOf := func(name, shape string, keeper strategy.ShapeKeeper) claim {
		return claim{shapes: c.builder.shapes, Claim: strategy.Claim{Shapes: c.builder.shapes.onRecord, Now: time.Now, BizType: name, Shape: shape, Keeper: keeper}}
	}
	c.claims = []claim{claimOf("user", "snowflake", k), claimOf("order", "segment", nil)}
	return c, s, unreached, k
}

// itself is the store of the same cluster.
func itself(store persist.Store) persist.Store { return store }

// record returns the store of the same cluster, with a shape on record.
func record(t *testing.T, shape string) func(persist.Store) persist.Store {
	return func(store persist.Store) persist.Store {
		must.Do(t, persist.ShapesIn(store.Documents()).Create(t.Context(), "user", shape, time.Now()))
		return store
	}
}

// confirmed lets the store be reached, and returns what came of confirming it.
func confirmed(t *testing.T, c *Catalogue, s *backends.Store, unreached *atomic.Bool) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.Confirm(t.Context(), c.Confirm) }()
	time.Sleep(5 * time.Second)
	unreached.Store(false)
	time.Sleep(backends.RetryPause + time.Millisecond)
	synctest.Wait()
	select {
	case err := <-ended:
		return err
	default:
		t.Error("it is not confirmed yet")
		return nil
	}
}

func TestStoreOfTheSameCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, unreached, k := begun(t, record(t, "snowflake"))
		user, order := c.claims[0], c.claims[1]
		if fresh, err := user.Check(t.Context()); fresh || err != nil {
			t.Errorf("alone: %v, %v", fresh, err)
		}
		must.Code(t, must.Err(order.Check(t.Context())), seqd.CodeStoreUnavailable, "one that cannot begin alone")
		must.Report(t, confirmed(t, c, s, unreached))
		if len(k.shapes) != 1 || k.shapes[0] != "snowflake" {
			t.Errorf("told to remember %q", k.shapes)
		}
		// From now on a store that fails is no permission.
		unreached.Store(true)
		must.Code(t, must.Err(user.Check(t.Context())), seqd.CodeStoreUnavailable, "after the store had been reached")
	})
}

// A biz type that began alone is held against the shape on record as soon as the store is there.
func TestStoreWithAnotherShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, unreached, k := begun(t, record(t, "snowflake obfuscate(12)"))
		must.Code(t, confirmed(t, c, s, unreached), seqd.CodeConflict, "the run ended with")
		if len(k.shapes) != 1 || k.shapes[0] != "" {
			t.Errorf("told to remember %q", k.shapes)
		}
		if !s.Unreached() {
			t.Error("the store can be used")
		}
	})
}

// An older copy of the store, from before the biz type was new, gets its shape.
func TestStoreWithoutTheShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, unreached, _ := begun(t, itself)
		must.Report(t, confirmed(t, c, s, unreached))
		shapes := persist.ShapesIn(s.Store.Documents())
		if s, err := shapes.Read(t.Context(), "user"); err != nil || s.Shape != "snowflake" {
			t.Errorf("on record: %+v, %v", s, err)
		}
		must.Is(t, must.Err(shapes.Read(t.Context(), "order")), persist.ErrNotFound, "the other biz type")
	})
}

// Another cluster's store ends the run, and one that is new does; neither is used.
func TestStoreOfAnotherCluster(t *testing.T) {
	for name, known := range map[string]bool{"another": true, "new": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := memory.New(time.Now)
				c, s, unreached, k := begun(t, func(persist.Store) persist.Store { return other })
				if known {
					must.Get(persist.ClusterID(t.Context(), other, time.Now))(t)
				}
				must.Code(t, confirmed(t, c, s, unreached), seqd.CodeConflict, "the run ended with")
				if len(k.shapes) > 0 {
					t.Errorf("told to remember %q", k.shapes)
				}
				if !known {
					must.Is(t, must.Err(persist.ReadCluster(t.Context(), other.Documents())), persist.ErrNotFound, "it was written to")
				}
			})
		})
	}
}

// askedAlone are the shapes with which the strategy alone-test was asked, by the biz type.
var askedAlone = map[string]string{}

func init() {
	settings := func() any { return &struct{}{} }
	strategy.Register(strategy.Factory{
		Name: "alone-test", Settings: settings,
		New:   func(strategy.Env, seqd.BizType) (seqd.Strategy, error) { return nil, errors.New("not made") },
		Shape: func(seqd.BizType) string { return "bare" },
		Alone: func(_ strategy.Env, b seqd.BizType, shape string) (string, bool) {
			askedAlone[b.Name] = shape
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
}

// What may begin alone is asked with the whole shape, plugins included.
func TestAloneIsAskedWithTheWholeShape(t *testing.T) {
	clear(askedAlone)
	var bizTypes []seqd.BizType
	for _, name := range []string{"a", "b", "c", "d"} {
		b := seqd.BizType{Name: name, Strategy: "alone-test"}
		if name == "b" {
			b.Plugins = []seqd.PluginBinding{{Name: "alone-test"}}
		}
		bizTypes = append(bizTypes, b)
	}
	alone, cluster := Alone(bizTypes, strategy.Env{Now: time.Now})
	if cluster != "1" || len(alone) != 2 || !alone["a"] || !alone["b"] {
		t.Errorf("%v of the cluster %s", alone, cluster)
	}
	if askedAlone["a"] != "bare" || askedAlone["b"] != "bare alone-test(12)" {
		t.Errorf("asked with %q", askedAlone)
	}
}
