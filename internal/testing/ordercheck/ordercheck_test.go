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
