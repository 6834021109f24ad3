package definitions

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seqd/seqd"
)

// What this node could not build, because a file was in the way, it builds when that is gone:
// whether the store or the configuration has the definition.
func TestMend(t *testing.T) {
	for _, from := range []string{"store", "config"} {
		t.Run(from, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T) {
				folder := filepath.Join(t.TempDir(), "later")
				if err := os.WriteFile(folder, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				c := newNodeOf(t, newFaulty(false), configuredWith(t, fmt.Sprintf(
					"bizTypesFrom: %s\nbizTypeFolder: %[2]s/..\nbizTypes: [{name: order, plugins: [{name: obfuscate, digits: 8, keyFile: %[2]s/key}]}]", from, folder)))
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
