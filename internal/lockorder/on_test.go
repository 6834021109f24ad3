//go:build seqd_lockorder

package lockorder

import "testing"

// TestOrder breaks the order in every way, and keeps it.
func TestOrder(t *testing.T) {
	end := fail
	defer func() { fail = end }()
	var o, p Outer
	var i, j Inner
	for name, test := range map[string]struct {
		do    func()
		wrong bool
	}{
		"outer":                {func() { o.Lock(); o.Unlock() }, false},
		"inner":                {func() { i.Lock(); i.Unlock(); j.Lock(); j.Unlock() }, false},
		"inner under outer":    {func() { o.Lock(); i.Lock(); i.Unlock(); o.Unlock() }, false},
		"nothing":              {func() { Free("a call") }, false},
		"outer under outer":    {func() { o.Lock(); p.Lock() }, true},
		"outer under inner":    {func() { i.Lock(); o.Lock() }, true},
		"inner under inner":    {func() { i.Lock(); j.Lock() }, true},
		"a call under inner":   {func() { i.Lock(); Free("a call") }, true},
		"a call under outer":   {func() { o.Lock(); Free("a call") }, true},
		"another's lock":       {func() { o.mu.Lock(); o.Unlock() }, true},
		"another's inner lock": {func() { i.mu.Lock(); i.Unlock() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o, p, i, j = Outer{}, Outer{}, Inner{}, Inner{}
			fail = func(why string) { panic(why) }
			defer func() {
				clear(all)
				if why := recover(); (why != nil) != test.wrong {
					t.Errorf("wrong: %v, want %v", why, test.wrong)
				}
			}()
			test.do()
		})
	}
}
