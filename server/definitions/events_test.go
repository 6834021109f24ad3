package definitions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
)

// noKeep is documents that keep nothing, as if a node was killed before it did.
type noKeep struct{ persist.Documents }

var errKilled = errors.New("killed")

func (noKeep) Keep(context.Context, []persist.Document) error { return errKilled }

// eventsIn returns the events of definitions in a store.
func eventsIn(t *testing.T, docs persist.Documents) (list []string) {
	for _, doc := range must.Get(docs.List(t.Context(), persist.EventKind, "", 100))(t) {
		b := must.Get(persist.DecodeEventBatch(&doc))(t)
		list = append(list, fmt.Sprintf("%s/%d %s %s", b.Source, b.First, b.Events[0].Type, b.Events[0].Data))
	}
	return list
}

// Each change of a biz type with events is told, with the write that makes it. If the node that wrote
// it does not copy the event, the leader does, or whoever makes the next change.
func TestChangesAreTold(t *testing.T) {
	store := memory.New(time.Now)
	n := newNode(t, store)
	check := admin.Change{Check: func(int64) error { return nil }, By: "ops"}
	docs := store.Documents()
	say := func(want ...string) {
		t.Helper()
		must.Equal(t, strings.Join(eventsIn(t, docs), "\n"), strings.Join(want, "\n"))
	}
	must.Do(t, putOf(n.Put(t.Context(), "order", []byte(`{"strategy":"segment"}`), check)))
	say()
	must.Code(t, n.HasEvents(t.Context(), "order"), seqd.CodeConflict)
	must.Code(t, n.HasEvents(t.Context(), "nothing"), seqd.CodeUnknownBizType)
	must.Get(n.Patch(t.Context(), "order", []byte(`{"events":true}`), check))(t)
	must.Do(t, n.HasEvents(t.Context(), "order"))
	one := `order@definition.2/1 definition.changed {"version":2,"change":"patch","caller":"ops"}`
	say(one)
	n.records.documents = noKeep{docs}
	must.Get(n.Enable(t.Context(), "order", true, check))(t) // nothing changes
	if _, err := n.Enable(t.Context(), "order", false, check); err == nil {
		t.Error("a change replaces an event that is not copied")
	}
	n.records.documents = docs
	must.Get(n.Enable(t.Context(), "order", false, check))(t)
	two := `order@definition.2/2 definition.changed {"version":3,"change":"disabled","caller":"ops"}`
	say(one, two)
	must.Get(n.Delete(t.Context(), "order", admin.Change{Check: check.Check}))(t)
	three := `order@definition.2/3 definition.changed {"version":4,"change":"deleted"}`
	say(one, two, three)
	for _, doc := range must.Get(docs.List(t.Context(), persist.EventKind, "", 100))(t) {
		must.Do(t, docs.Delete(t.Context(), doc.Kind, doc.Key, 1))
	}
	must.Do(t, n.CopyEvents(t.Context()))
	say(three)
	must.Do(t, putOf(n.Put(t.Context(), "order", []byte(`{"strategy":"segment"}`), check)))
	must.Get(n.Patch(t.Context(), "order", []byte(`{"step":50}`), check))(t) // it has none any more
	say(three, `order@definition.2/4 definition.changed {"version":5,"change":"put","caller":"ops"}`)
}

func putOf(_ admin.BizType, _ bool, err error) error { return err }
