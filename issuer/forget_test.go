package issuer_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// willing is a strategy of which little is left.
type willing struct {
	lasting
	left *lasting // nil for nothing
}

// wilful is one that fails to say what it knows when it is first asked.
type wilful struct {
	willing
	asked bool
}

func (w *wilful) Knowledge() any {
	if !w.asked {
		w.asked = true
		panic("no")
	}
	return w
}

func (w *willing) Knowledge() any {
	if w.left == nil {
		return nil
	}
	return w.left
}

// Knowledge outlives several removals, strategies that learn nothing, such as that of a definition
// that this node could not build, and a definition that is disabled and has no strategy.
func TestKnowledge(t *testing.T) {
	is := newIssuer(t, issuer.Options{})
	left, heir := &lasting{shelf: &shelf{}}, &lasting{shelf: &shelf{}}
	remove := func(why *seqd.Error) {
		must.Report(t, is.Remove(t.Context(), "order", why))
	}
	put(t, is, &willing{lasting: lasting{shelf: &shelf{}}, left: left})
	put(t, is, struct{ seqd.Strategy }{&lasting{shelf: &shelf{}}}) // not a learner
	must.Do(t, is.Put(t.Context(), "order", func() (issuer.Definition, error) {
		return issuer.Definition{BizType: seqd.BizType{Name: "order"}, Disabled: errOff}, nil
	}))
	remove(errOff)
	remove(nil)
	put(t, is, struct{ seqd.Strategy }{&lasting{shelf: &shelf{}}}) // not a learner
	remove(nil)
	removeOthers(t, is)
	put(t, is, heir)
	must.Equal[any](t, heir.learned, left, "learned")
	put(t, is, &willing{lasting: lasting{shelf: &shelf{}}})
	remove(nil)
	heir = &lasting{shelf: &shelf{}}
	put(t, is, heir)
	must.Equal[any](t, heir.learned, nil, "learned")
	last := &wilful{willing: willing{lasting: lasting{shelf: &shelf{}}}}
	put(t, is, last)
	remove(nil)
	put(t, is, heir)
	must.Equal[any](t, heir.learned, last, "learned, which is what the strategy knows,")
	shut(t, is)
}

// removeOthers puts and removes so many biz types that what was removed before is forgotten, and
// returns their strategies.
func removeOthers(t *testing.T, is *issuer.Issuer) (others []weak.Pointer[willing]) {
	t.Helper()
	for i := range 1000 {
		name, s := fmt.Sprint("other", i), &willing{lasting: lasting{shelf: &shelf{}}, left: &lasting{}}
		others = append(others, weak.Make(s))
		err := is.Put(t.Context(), name, func() (issuer.Definition, error) {
			return issuer.Definition{BizType: seqd.BizType{Name: name}, Strategy: s}, nil
		})
		if err == nil {
			_, err = is.Next(t.Context(), name, 1)
		}
		if err = errors.Join(err, is.Remove(t.Context(), name, nil)); err != nil {
			t.Fatal(err)
		}
		must.Code(t, must.Err(is.Next(t.Context(), name, 1)), seqd.CodeUnknownBizType)
	}
	return others
}

// The memory of biz types that were removed is given back, except for that of the last few.
func TestRemovedAreForgotten(t *testing.T) {
	is := newIssuer(t, issuer.Options{})
	put(t, is, &lasting{shelf: &shelf{}})
	wantForgotten(t, removeOthers(t, is))
	must.Report(t, must.Err(is.Next(t.Context(), "order", 1)))
	shut(t, is)
}

// The same of those that the issuer began with.
func TestFirstDefinitionsAreForgotten(t *testing.T) {
	var (
		definitions []issuer.Definition
		removed     []weak.Pointer[willing]
	)
	for i := range 1000 {
		s := &willing{lasting: lasting{shelf: &shelf{}}}
		removed = append(removed, weak.Make(s))
		definitions = append(definitions, issuer.Definition{BizType: seqd.BizType{Name: fmt.Sprint("other", i)}, Strategy: s})
	}
	is := must.Get(issuer.New(definitions, issuer.Options{}))(t)
	definitions = nil
	for i := range removed {
		must.Report(t, is.Remove(t.Context(), fmt.Sprint("other", i), nil))
	}
	wantForgotten(t, removed)
	shut(t, is)
}

// wantForgotten waits until the memory of all but a few strategies is free.
func wantForgotten(t *testing.T, removed []weak.Pointer[willing]) {
	t.Helper()
	const few = 100
	await.Eventually(t, "strategies of removed biz types are forgotten", func() error {
		runtime.GC()
		kept := 0
		for _, s := range removed {
			if s.Value() != nil {
				kept++
			}
		}
		if kept > few {
			return fmt.Errorf("%d of %d are kept", kept, len(removed))
		}
		return nil
	})
}
