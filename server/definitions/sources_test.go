package definitions

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
)

// While other nodes have definitions of their own, or do not say, nothing is changed that could
// repeat numbers there, and everything else has a warning.
func TestChangesThatOthersDoNotFollow(t *testing.T) {
	from := func(source string) admin.Node {
		return admin.Node{Host: "seq-2", Addr: ":8080", BizTypesFrom: source}
	}
	const refused, warned, fine = "refused", "warned", "fine"
	steps := []struct {
		name string
		do   func(n *node) (admin.BizType, error)
		want map[string]string // by the source of the other node; "" for one that does not say
	}{
		{"disable", func(n *node) (admin.BizType, error) { return n.Enable(t.Context(), "order", false, always) },
			map[string]string{"config": refused, "": warned, "store": fine}},
		{"delete", func(n *node) (admin.BizType, error) { return n.Delete(t.Context(), "order", always) },
			map[string]string{"config": refused, "": warned, "store": fine}},
		{"force", func(n *node) (admin.BizType, error) {
			return n.Patch(t.Context(), "order", []byte(`{"increment":3}`), forced())
		}, map[string]string{"config": refused, "": refused, "store": fine}},
		{"force another strategy", func(n *node) (admin.BizType, error) {
			// as the answers say: to the first try, to disable it, and to the second try
			force := func() (b admin.BizType, err error) {
				b, _, err = n.Put(t.Context(), "order", []byte(`{"strategy":"gapless"}`), forced())
				return b, err
			}
			if b, err := force(); !strings.Contains(err.Error(), "disable it") {
				return b, err
			}
			if _, err := n.Enable(t.Context(), "order", false, always); err != nil {
				t.Errorf("the answer says to disable it: %v", err)
			}
			time.Sleep(settleTime)
			return force()
		}, map[string]string{"config": refused, "": refused, "store": fine}},
		{"change", func(n *node) (admin.BizType, error) {
			return n.Patch(t.Context(), "order", []byte(`{"step":7}`), always)
		}, map[string]string{"config": warned, "": fine, "store": fine}},
		{"change what has issued in a forced shape", func(n *node) (admin.BizType, error) {
			return n.Patch(t.Context(), "forced", []byte(`{"step":7}`), always)
		}, map[string]string{"config": warned, "": fine, "store": fine}},
		{"enable what was forced before it issued", func(n *node) (admin.BizType, error) {
			return n.Enable(t.Context(), "idle", true, always)
		}, map[string]string{"config": refused, "": refused, "store": fine}},
		{"force without a need", func(n *node) (admin.BizType, error) {
			return n.Patch(t.Context(), "order", []byte(`{"step":8}`), forced())
		}, map[string]string{"config": warned, "": fine, "store": fine}},
		{"enable what is enabled", func(n *node) (admin.BizType, error) { return n.Enable(t.Context(), "order", true, always) },
			map[string]string{"config": fine, "": fine, "store": fine}},
	}
	for _, step := range steps {
		for source, want := range step.want {
			t.Run(step.name+" "+source, func(t *testing.T) {
				onFakeClock(t, func(t *testing.T) {
					n := newNode(t, newFaulty(true))
					prepare(t, n)
					n.others.Store(&[]admin.Node{from(source)})
					b, err := step.do(n)
					got := fine
					if len(b.Warnings) > 0 {
						got = warned
					}
					if err != nil {
						got = refused
						if seqd.CodeOf(err) != seqd.CodeConflict || !strings.Contains(err.Error(), "seq-2 (:8080)") {
							t.Errorf("the error does not say what to do: %v", err)
						}
					}
					if got != want {
						t.Errorf("%s: %v, %v", got, b.Warnings, err)
					}
				})
			})
		}
	}
}

// prepare makes three biz types that have issued: order, forced, and idle, which is disabled and
// was given another shape since.
func prepare(t *testing.T, n *node) {
	t.Helper()
	for _, name := range []string{"order", "forced", "idle"} {
		n.mustPut(t, name, `{"step":5}`, always)
		n.mustIssue(t, name)
	}
	must.Get(n.Enable(t.Context(), "idle", false, always))(t)
	for _, name := range []string{"forced", "idle"} {
		must.Get(n.Patch(t.Context(), name, []byte(`{"increment":3}`), forced()))(t)
	}
	n.mustIssue(t, "forced")
}

// If a node with definitions of its own, or one that does not say, begins just when a change is
// forced, the former shape stays on record until it is gone, and nodes that follow the store do not
// issue.
func TestForceWhileANodeBegins(t *testing.T) {
	for _, source := range []string{"config", ""} {
		t.Run(source, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T) { forceWhileANodeBegins(t, source) })
		})
	}
}

func forceWhileANodeBegins(t *testing.T, source string) {
	store := newFaulty(true)
	n := newNode(t, store)
	n.mustPut(t, "order", `{"step":5}`, always)
	n.mustIssue(t, "order")
	store.docs.before = func(context.Context, persist.Document) { n.others.Store(&[]admin.Node{{BizTypesFrom: source}}) }
	must.Get(n.Patch(t.Context(), "order", []byte(`{"increment":3}`), forced()))(t)
	must.Code(t, must.Err(n.issuer.Next(t.Context(), "order", 1)), seqd.CodeConflict, "the node issues, or says")
	if _, total := n.issuer.Health(1); total > 0 {
		t.Error("the node is unready")
	}
	newNodeOf(t, store, configuredWith(t, "{bizTypesFrom: config, bizTypes: [{name: order, step: 5}]}")).mustIssue(t, "order")
	n.others.Store(nil)
	for _, enabled := range []bool{false, true} {
		must.Get(n.Enable(t.Context(), "order", enabled, always))(t)
	}
	n.mustIssue(t, "order")
}
