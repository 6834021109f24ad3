package registry

import (
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestRegistry(t *testing.T) {
	r := New[int]("things")
	r.Register("zeta", 26, true)
	r.Register("alpha", 1, true)
	if names := r.Names(); !slices.Equal(names, []string{"alpha", "zeta"}) {
		t.Errorf("names %v", names)
	}
	must.Equal(t, must.Get(r.Lookup("zeta"))(t), 26, "found")
	if _, err := r.Lookup("beta"); err == nil || !strings.Contains(err.Error(), "alpha") || !strings.Contains(err.Error(), "things") {
		t.Errorf("the error %v does not list the registered names", err)
	}
	for name, register := range map[string]func(){
		"taken":      func() { r.Register("alpha", 2, true) },
		"empty":      func() { r.Register("", 2, true) },
		"incomplete": func() { r.Register("new", 2, false) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			register()
		}()
	}
}
