package ledger

import (
	"context"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// away is a store that answers once, and then never again.
type away struct {
	persist.Documents
	list []persist.Document
	left int
}

func (a *away) Read(context.Context, string, string) (persist.Document, error) {
	if a.left--; a.left < 0 {
		return persist.Document{}, errLost
	}
	return a.list[0], nil
}

func (a *away) List(context.Context, string, string, int) ([]persist.Document, error) {
	if a.left--; a.left < 0 {
		return nil, errLost
	}
	return a.list, nil
}

// noFence is a store that does not tell its fence.
type noFence struct{ persist.Fenced }

func (noFence) Fence(context.Context) (persist.Fence, error) { return persist.Fence{}, errLost }

// What the store does not say is not taken for what there is not.
func TestRecordsAway(t *testing.T) {
	s := must.Get(Decode(&persist.Document{Revision: 9, Body: `{"v":1,"f":1,"l":20,"n":2}`}))(t)
	record := func(n int64, body string) persist.Document {
		return persist.Document{Kind: persist.VoidKind, Key: VoidKey(counter, n), Body: body}
	}
	voids := []persist.Document{record(3, `{"k":"v","x":1,"n":[3,3]}`), record(5, `{"k":"v","x":1,"n":[5,5]}`)}
	damaged := []persist.Document{voids[0], record(5, "{")}
	for name, fails := range map[string]func(*away) error{
		"recall":   func(a *away) error { _, err := s.Recall(t.Context(), a, counter, "k"); return err },
		"look":     func(a *away) error { _, err := s.lookFor(persist.AnswerKind, "k").Do(t.Context(), a); return err },
		"look for": func(a *away) error { _, err := s.lookVoids(counter, Run{1, 9}).Do(t.Context(), a); return err },
		"list":     func(a *away) error { _, _, err := s.ListVoids(t.Context(), a, counter, 0, 5); return err },
	} {
		must.Is(t, fails(&away{}), errLost, "%s", name)
	}
	must.Is(t, (&Command{}).Execute(t.Context(), &away{}, noFence{}).Err, errLost, "a read without the fence")
	for err, code := range map[error]seqd.Code{
		persist.ErrNewer: seqd.CodeConflict, persist.ErrInvalid: seqd.CodeInternal, persist.ErrFailedOver: seqd.CodeStoreFailedOver, errLost: seqd.CodeStoreUnavailable,
	} {
		must.Code(t, (&Machine{failure: err}).Late(), code)
	}
	must.Code(t, (&Machine{failure: errLost, refusal: errShut}).Late(), errShut.Code)
	must.Code(t, (&Machine{}).Late(), seqd.CodeTimeout)
	must.Equal(t, s.Needs(counter, &Op{Kind: Return}, nil), nil, "what is needed when nothing comes back")
	found, err := s.lookVoids(counter, Run{1, 9}).Do(t.Context(), &away{list: voids, left: 1})
	if err == nil { // the page was full, so there may be more
		t.Errorf("found %v without the second page", found)
	}
	// Nothing is known of what follows a page that is not the last.
	entries := must.Get(decodeEntries(voids))(t)
	if gaps, next := s.Account(&plain, 0, 10, entries, true); len(gaps) != 2 || next != 5 {
		t.Errorf("%v, %d", gaps, next)
	}
	if gaps, next := s.Account(&plain, 0, 10, nil, true); len(gaps) > 0 || next != 0 {
		t.Errorf("%v, %d", gaps, next)
	}
	e := &Entry{Runs: []Run{{5, 5}}}
	if void, err := s.anyVoid(e, &Looked{Docs: damaged}); err == nil {
		t.Errorf("a damaged record says %t", void)
	}
}

// Begin writes a document that is new, or that the policy changes.
func TestBegin(t *testing.T) {
	s, ending := Fresh(&plain, "b", ""), plain
	ending.Ends = 9
	for i, test := range []struct {
		policy   *Policy
		revision int64
		changes  bool
	}{{&plain, 0, true}, {&plain, 1, false}, {&ending, 1, true}, {&ending, 2, false}} {
		s.Revision = test.revision
		if res, err := s.Apply(1, test.policy, &Op{Kind: Begin}, nil); err != nil || res.Changed != test.changes {
			t.Errorf("%d: %+v, %v", i, res, err)
		}
	}
}
