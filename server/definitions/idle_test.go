package definitions

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// While a biz type is disabled no key is made for it: its IDs would be read with another one than
// they were made with.
func TestNoNewKeyWhileDisabled(t *testing.T) {
	store, key := newFaulty(false), filepath.Join(t.TempDir(), "key")
	c := newNode(t, store)
	c.mustPut(t, "order", fmt.Sprintf(`{"plugins":[{"name":"obfuscate","digits":8,"keyFile":%q}]}`, key), always)
	id := c.mustIssue(t, "order")
	must.Get(c.Enable(t.Context(), "order", false, always))(t)
	must.Do(t, os.Rename(key, key+".away"))
	other := newNode(t, store)
	must.Code(t, must.Err(other.issuer.Parse("order", id)), seqd.CodeDisabled, "without the key")
	must.Is(t, must.Err(os.Stat(key)), fs.ErrNotExist, "a new key")
	must.Do(t, os.Rename(key+".away", key))
	if p, err := newNode(t, store).issuer.Parse("order", id); err != nil || p.Number != 1 {
		t.Errorf("with the key: %+v, %v", p, err)
	}
}
