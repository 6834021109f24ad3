package idempotency

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

// The answers of a node with its own file survive kill -9.
func TestBoltKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := node.StartReady(t, dir)
	// post returns the numbers that a key got, and whether they were issued before.
	post := func(key string) (ids string, replayed bool) {
		t.Helper()
		a, err := n.Do(http.MethodPost, "/seq/order?count=3", "", "Idempotency-Key", key)
		var body struct{ IDs []string }
		if err == nil {
			err = json.Unmarshal([]byte(a.Body), &body)
		}
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("%+v, %v\n%s", a, err, n.Log())
		}
		return strings.Join(body.IDs, " "), a.Header.Get("Idempotent-Replayed") == "true"
	}
	got := make(map[string]string)
	for i := range 20 {
		key := fmt.Sprint(i)
		got[key], _ = post(key)
	}
	n.Kill()
	n = node.StartReady(t, dir)
	for key, first := range got {
		if again, replayed := post(key); again != first || !replayed {
			t.Errorf("%s got %s, after a restart %s; replayed: %t", key, first, again, replayed)
		}
	}
}
