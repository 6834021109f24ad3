package strategy

import (
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd"
)

func factory(name string) Factory {
	return Factory{
		Name:     name,
		Settings: func() any { return &struct{}{} },
		New:      func(Env, seqd.BizType) (seqd.Strategy, error) { return nil, nil },
		Shape:    func(seqd.BizType) string { return name },
	}
}

func TestRegistry(t *testing.T) {
	Register(factory("zeta"))
	Register(factory("alpha"))
	if names := Names(); !slices.Equal(names, []string{"alpha", "zeta"}) {
		t.Errorf("names %v", names)
	}
	if f, err := Lookup("zeta"); err != nil || f.Name != "zeta" {
		t.Errorf("found %v, %v", f.Name, err)
	}
	if _, err := Lookup("beta"); err == nil || !strings.Contains(err.Error(), "alpha") {
		t.Errorf("the error %v does not list the names there are", err)
	}
	for name, bad := range map[string]Factory{"taken": factory("alpha"), "empty": factory(""), "incomplete": {Name: "x"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			Register(bad)
		}()
	}
}
