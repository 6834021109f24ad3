package definitions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
)

// sour is a plugin that panics when it is closed.
type sour struct{ seqd.NopPlugin }

func (sour) Close(context.Context) error { panic("never") }

func init() {
	plugin.Register(plugin.Factory{
		Name: "sour", Order: -1, Settings: func() any { return &struct{}{} },
		New: func(plugin.Env, seqd.BizType, seqd.PluginBinding) (seqd.Plugin, error) { return sour{}, nil },
	})
}

// What this node could not build, because a file was in the way, it builds when that is gone:
// whether the store or the configuration has the definition. What it could build is closed each
// time, and may panic.
func TestMend(t *testing.T) {
	for _, from := range []string{"store", "config"} {
		t.Run(from, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T) {
				folder := filepath.Join(t.TempDir(), "later")
				must.Do(t, os.WriteFile(folder, nil, 0o600))
				c := newNodeOf(t, newFaulty(false), configuredWith(t, fmt.Sprintf(
					"bizTypesFrom: %s\nbizTypeFolder: %[2]s/..\nbizTypes: [{name: order, plugins: [{name: sour}, {name: obfuscate, digits: 8, keyFile: %[2]s/key}]}]", from, folder)))
				go c.catalogue.Mend(t.Context())
				for _, ready := range []bool{false, true} {
					time.Sleep(3 * mendPause)
					if _, err := c.issuer.Next(t.Context(), "order", 1); (err == nil) != ready || !ready && seqd.CodeOf(err) != seqd.CodeConflict {
						t.Errorf("ready %v: %v", ready, err)
					}
					_ = os.Remove(folder) // then it can be made
				}
			})
		})
	}
}

// A key file that is missing at a node, or is another one, where numbers were issued: the node
// makes no key, refuses, and issues when the right file is there.
func TestMendKey(t *testing.T) {
	for _, from := range []string{"store", "config"} {
		for _, what := range []string{"missing", "another"} {
			t.Run(from+" "+what, func(t *testing.T) {
				onFakeClock(t, func(t *testing.T) {
					folder, store := t.TempDir(), newFaulty(false)
					path := filepath.Join(folder, "key")
					text := fmt.Sprintf("bizTypesFrom: %s\nbizTypeFolder: %[2]s\nbizTypes: [{name: order, plugins: [{name: obfuscate, digits: 8, keyFile: %[2]s/key}]}]", from, folder)
					first := newNodeOf(t, store, configuredWith(t, text))
					wantNext(t, first, "")
					right, err := os.ReadFile(path)
					if err != nil || os.Remove(path) != nil {
						t.Fatal(err)
					}
					if what == "another" {
						wantNext(t, newNodeOf(t, newFaulty(false), configuredWith(t, text)), "")
					}
					c := newNodeOf(t, store, configuredWith(t, text))
					go c.catalogue.Mend(t.Context())
					for range 2 {
						wantNext(t, c, seqd.CodeConflict)
						time.Sleep(3 * mendPause)
					}
					if _, err := os.Stat(path); (err == nil) != (what == "another") {
						t.Errorf("the file of the key: %v", err)
					}
					must.Do(t, os.WriteFile(path, right, 0o600))
					time.Sleep(2 * mendPause)
					wantNext(t, c, "")
				})
			})
		}
	}
}

// What was there before a biz type was built again, and did not close, gives nothing any more.
func TestMendClosesLate(t *testing.T) {
	onFakeClock(t, func(t *testing.T) {
		c := newNode(t, newFaulty(true))
		c.mustPut(t, "order", `{"strategy":"gapless"}`, always)
		c.mustIssue(t, "order")
		before, _ := c.catalogue.states.get("order")
		late := c.catalogue.builder.follows("order", before)
		must.Do(t, late(t.Context()))
		c.catalogue.issuer = stuck{c.issuer}
		_, _, build, ok := c.catalogue.known(t.Context(), "order", before)
		if !ok {
			t.Fatal("it is not known")
		}
		c.catalogue.replace(t.Context(), "order", before, build)
		must.Code(t, late(t.Context()), seqd.CodeStarting)
	})
}

func wantNext(t *testing.T, n *node, code seqd.Code) {
	t.Helper()
	must.Code(t, must.Err(n.issuer.Next(t.Context(), "order", 1)), code)
}
