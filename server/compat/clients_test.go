package compat_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// tinyidSegment is a segment as Tinyid's client uses it: it has issued current, and issues what
// follows up to max.
type tinyidSegment struct {
	current, loading, max int64
	delta, remainder      int64
	aligned               bool
}

func parseTinyid(text string) (*tinyidSegment, error) {
	fields := strings.Split(text, ",")
	if len(fields) != 5 {
		return nil, fmt.Errorf("the segment is %q", text)
	}
	var n [5]int64
	for i, field := range fields {
		var err error
		if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return nil, err
		}
	}
	return &tinyidSegment{current: n[0], loading: n[1], max: n[2], delta: n[3], remainder: n[4]}, nil
}

// next returns the next number. ok is false if there is none, load is true if it is time to get the
// next segment.
func (s *tinyidSegment) next() (number int64, load, ok bool) {
	if !s.aligned {
		// the first number is the next one that is remainder modulo delta
		for s.current%s.delta != s.remainder {
			s.current++
			if s.current%s.delta == s.remainder {
				s.current -= s.delta
				break
			}
		}
		s.aligned = true
	}
	s.current += s.delta
	return s.current, s.current >= s.loading, s.current <= s.max
}

// tinyidClient has a segment in use and one in hand, as Tinyid's client does. It gets each segment
// from the next node.
type tinyidClient struct {
	nodes         []*node
	turn          int
	bizType       string
	current, next *tinyidSegment
}

func (c *tinyidClient) fetch() (*tinyidSegment, error) {
	c.turn++
	a, err := c.nodes[c.turn%len(c.nodes)].try(http.MethodPost, "/tinyid/id/nextSegmentIdSimple?token=any&bizType="+c.bizType, "")
	if err != nil {
		return nil, err
	}
	if a.status != 200 {
		return nil, fmt.Errorf("%d %s", a.status, a.body)
	}
	return parseTinyid(a.body)
}

func (c *tinyidClient) nextID() (int64, error) {
	for {
		if c.current != nil {
			number, load, ok := c.current.next()
			if ok {
				var err error
				if load && c.next == nil {
					c.next, err = c.fetch()
				}
				return number, err
			}
		}
		if c.current, c.next = c.next, nil; c.current == nil {
			var err error
			if c.current, err = c.fetch(); err != nil {
				return 0, err
			}
		}
	}
}

// cosidClient issues from one segment after another, as CosId's client does. It asks for several
// segments at once now and then, because it is hungry.
type cosidClient struct {
	nodes     []*node
	turn      int
	name      string
	step      int64
	now, last int64
}

func (c *cosidClient) nextID() (int64, error) {
	if c.now >= c.last {
		c.turn++
		step := c.step
		if c.turn%5 == 0 {
			step *= int64(c.turn)
		}
		a, err := c.nodes[c.turn%len(c.nodes)].try(http.MethodPatch, fmt.Sprintf("/segments/shop/%s?step=%d", c.name, step), "")
		if err != nil {
			return 0, err
		}
		last, err := strconv.ParseInt(a.body, 10, 64)
		if err != nil || a.status != 200 {
			return 0, fmt.Errorf("%d %s: %v", a.status, a.body, err)
		}
		c.now, c.last = last-step, last
	}
	c.now++
	return c.now, nil
}

// TestClientsTogether lets clients of all kinds take numbers of one biz type from three nodes at
// once. No number appears twice, and those of one client of Tinyid or CosId increase within each
// segment.
func TestClientsTogether(t *testing.T) {
	for _, ordering := range []string{"strict", "per-node"} {
		t.Run(ordering, func(t *testing.T) {
			store := newSharedStore()
			var nodes []*node
			for range 3 {
				nodes = append(nodes, newNode(t, setup{store: store, yaml: "compat: {leaf: true, tinyid: true, cosid: use}\n" +
					"bizTypes: [{name: shop.order, step: 20, maxStep: 200, ordering: " + ordering + "}]\n"}))
			}
			text := func(path string) func(turn int) (int64, error) {
				return func(turn int) (int64, error) {
					a, err := nodes[turn%3].try(http.MethodGet, path, "", "Accept", "text/plain")
					if err != nil {
						return 0, err
					}
					return strconv.ParseInt(strings.TrimSpace(a.body), 10, 64)
				}
			}
			var callers []func(turn int) (int64, error)
			for i := range 4 {
				tinyid := &tinyidClient{nodes: nodes, bizType: "shop.order", turn: i}
				cosid := &cosidClient{nodes: nodes, name: "order", step: 7, turn: i}
				callers = append(callers,
					func(int) (int64, error) { return tinyid.nextID() }, func(int) (int64, error) { return cosid.nextID() },
					text("/seq/shop.order"), text("/api/segment/get/shop.order"), text("/tinyid/id/nextIdSimple?bizType=shop.order"))
			}
			each := longtest.Or(60, 400)
			issued := make([][]int64, len(callers))
			var wg sync.WaitGroup
			for i, next := range callers {
				wg.Go(func() {
					for turn := range each {
						number, err := next(turn + i)
						if err != nil {
							t.Error(err)
							return
						}
						issued[i] = append(issued[i], number)
					}
				})
			}
			wg.Wait()
			seen := make(map[int64]int)
			for i, numbers := range issued {
				if len(numbers) != each {
					t.Errorf("caller %d got %d numbers", i, len(numbers))
				}
				for _, number := range numbers {
					if other, twice := seen[number]; twice || number < 1 {
						t.Fatalf("%d was issued to callers %d and %d", number, other, i)
					}
					seen[number] = i
				}
			}
		})
	}
}

// TestTinyidArithmetic checks the client of these tests with other deltas than seqd has.
func TestTinyidArithmetic(t *testing.T) {
	for text, want := range map[string][]int64{
		"0,1,5,1,0":          {1, 2, 3, 4, 5},
		"1000,1200,1010,3,0": {1002, 1005, 1008},
		"1000,1200,1010,3,1": {1003, 1006, 1009}, // 1000 is the last number of the segment before
		"1000,1200,1010,5,0": {1005, 1010},
		"5,5,6,1,0":          {6},
	} {
		s := must.Get(parseTinyid(text))(t)
		var got []int64
		for {
			number, _, ok := s.next()
			if !ok {
				break
			}
			got = append(got, number)
		}
		must.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%s", text)
	}
}
