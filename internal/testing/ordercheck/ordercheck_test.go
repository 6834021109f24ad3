package ordercheck

import "testing"

func TestViolationsAreFound(t *testing.T) {
	tests := []struct {
		name              string
		calls             []Call
		duplicate, broken bool
	}{
		{"nothing", nil, false, false},
		{"in order", []Call{{0, 1, "a", []int64{1, 2}}, {2, 3, "b", []int64{3}}}, false, false},
		{"overlapping calls may swap", []Call{{0, 5, "a", []int64{9}}, {1, 6, "b", []int64{3}}}, false, false},
		{"touching calls may swap", []Call{{0, 5, "a", []int64{9}}, {5, 6, "b", []int64{3}}}, false, false},
		{"twice in two calls", []Call{{0, 5, "a", []int64{1, 2}}, {1, 6, "b", []int64{2, 3}}}, true, false},
		{"twice in one call", []Call{{0, 5, "a", []int64{2, 2}}}, true, false},
		{"smaller after larger", []Call{{0, 1, "a", []int64{9}}, {2, 3, "b", []int64{3}}}, false, true},
		{"recorded the other way round", []Call{{2, 3, "b", []int64{3}}, {0, 1, "a", []int64{9}}}, false, true},
		{"falling within a call", []Call{{0, 1, "a", []int64{5, 4}}}, false, true},
		{"an early high one, a long call, a late low one", []Call{{0, 1, "a", []int64{50}}, {0, 90, "b", []int64{1}}, {80, 81, "c", []int64{49}}}, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := New()
			for _, c := range test.calls {
				h.AddCall(c)
			}
			if err := h.Duplicates(); (err != nil) != test.duplicate {
				t.Errorf("duplicates: %v, want one: %v", err, test.duplicate)
			}
			if err := h.Order(); (err != nil) != test.broken {
				t.Errorf("order: %v, want an error: %v", err, test.broken)
			}
		})
	}
}

func TestOrderIsSuspended(t *testing.T) {
	window := Window{10, 20}
	tests := []struct {
		name   string
		calls  []Call
		broken bool
	}{
		{"smaller within", []Call{{0, 1, "a", []int64{9}}, {12, 13, "b", []int64{3}}}, false},
		{"smaller, begun before the window", []Call{{0, 1, "a", []int64{9}}, {8, 13, "b", []int64{3}}}, false},
		{"smaller, ended after the window", []Call{{0, 1, "a", []int64{9}}, {19, 30, "b", []int64{3}}}, false},
		{"smaller, all through the window", []Call{{0, 1, "a", []int64{9}}, {5, 30, "b", []int64{3}}}, false},
		{"smaller, at the edge", []Call{{0, 1, "a", []int64{9}}, {20, 30, "b", []int64{3}}}, false},
		{"smaller before", []Call{{0, 1, "a", []int64{9}}, {2, 3, "b", []int64{3}}}, true},
		{"smaller after", []Call{{21, 22, "a", []int64{9}}, {23, 24, "b", []int64{3}}}, true},
		{"after, smaller than before", []Call{{0, 1, "a", []int64{9}}, {21, 22, "b", []int64{3}}}, true},
		{"after, smaller than within", []Call{{12, 13, "a", []int64{9}}, {21, 22, "b", []int64{3}}}, true},
		{"after, larger than all", []Call{{0, 1, "a", []int64{9}}, {12, 13, "b", []int64{3}}, {21, 22, "c", []int64{10}}}, false},
		{"falling within a call", []Call{{12, 13, "a", []int64{5, 4}}}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := New()
			for _, c := range test.calls {
				h.AddCall(c)
			}
			if err := h.OrderOutside(Window{-9, -1}, window); (err != nil) != test.broken {
				t.Errorf("%v, want an error: %v", err, test.broken)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	h := New()
	for _, c := range []Call{{0, 1, "a", []int64{9}}, {2, 3, "b", []int64{3}}, {4, 5, "a", []int64{10}}} {
		h.AddCall(c)
	}
	parts := h.Split(func(c Call) string { return c.Who })
	if len(parts) != 2 || parts["a"].Numbers() != 2 || parts["b"].Highest() != 3 {
		t.Errorf("%v", parts)
	}
	if parts["a"].Order() != nil || parts["b"].Order() != nil || h.Order() == nil {
		t.Error("each part is in order, and the whole is not")
	}
}
