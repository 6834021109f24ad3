package check

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestAvailability(t *testing.T) {
	s := newStory()
	one := int64(0)
	answer := func(at int64, node string, well bool) {
		one++
		c := s.call(at, at+1, node, order, numbers(one, 1))
		if !well {
			fails(c, 1)
			c.Status, c.Code = 503, "redis_unavailable"
		}
	}
	for at := int64(0); at < 3000; at += 10 {
		answer(at, "a", at < 1000 || at >= 2500)
		answer(at+5, "b", true)
	}
	s.fault(1000, 2000, "cut", "a", nil)
	s.fault(1500, 2000, "slow", "m", nil)
	r := s.check(t)
	want(t, r, map[string]int64{})
	by := make(map[string]Availability)
	for _, a := range r.ByClass {
		by[a.Class] = a
	}
	cut := by["cut"]
	if cut.Faults != 1 || cut.Asked != 200 || cut.Answered != 100 || cut.Refused != 100 {
		t.Errorf("%+v", cut)
	}
	if cut.NodeGap != time.Second || cut.GapNode != "a" || cut.Gap != 10*time.Millisecond || cut.Recovery != 501*time.Millisecond || cut.Never != 0 {
		t.Errorf("%+v", cut)
	}
	if both := by["cut + slow"]; both.Asked != 100 || by["slow"].Asked != both.Asked || by["slow"].Recovery != cut.Recovery {
		t.Errorf("%+v, %+v", both, by["slow"])
	}
	if none := by[NoFault]; none.Asked != 600-cut.Asked || none.Answered != none.Asked-50 {
		t.Errorf("%+v", none)
	}
	if !maps.Equal(r.Refusals, map[string]int{"redis_unavailable": 150}) {
		t.Errorf("%v", r.Refusals)
	}
	for _, want := range []string{"cut + slow", "50.00%", "no numbers: redis_unavailable: 150 calls", "1s a"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("no %q in\n%s", want, r)
		}
	}
}
