package main

import (
	"context"
	"slices"
	"testing"
)

func TestContestAlternates(t *testing.T) {
	c := contest{rounds: 2}
	var order []string
	for i, name := range []string{"route", newBinary, oldBinary} {
		c.add(name, func() (sample, error) {
			order = append(order, name)
			return sample{rate: float64(len(order)), p99: float64(i + 1)}, nil
		})
	}
	s, err := c.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"route", newBinary, oldBinary, newBinary, oldBinary, "route", oldBinary, "route", newBinary}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %v", order)
	}
	if got := s.column("route", rateOf); !slices.Equal(got, []float64{6, 8}) {
		t.Errorf("the route has %v; the first round must not count", got)
	}
	r := s.against("route", "what", p99Of, milliseconds)
	if !slices.Equal(r.judged(), []float64{2, 2}) {
		t.Errorf("the ratios are %v", r.judged())
	}
	if old := s.withOld(nil, "what"); len(old) != 2 {
		t.Errorf("%d lines compare with the old binary, want those that were measured: the rate and p99", len(old))
	}
	delete(s, oldBinary)
	if old := s.withOld([]result{r}, "what"); len(old) != 1 {
		t.Errorf("%d lines without an old binary", len(old))
	}
}
