package connections

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

type count struct{ atomic.Int64 }

func (c *count) Count() { c.Add(1) }

// crowd is a table, and who is in it by name.
type crowd struct {
	*Table
	refused, silent, displaced count
	in                         map[string]*Place
	mu                         sync.Mutex // guards closed
	closed                     []string
}

func (c *crowd) note(closed string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = append(c.closed, closed)
}

// all returns who was closed.
func (c *crowd) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.closed, " ")
}

type closer func()

func (c closer) Close() error { c(); return nil }

func newCrowd(most int, patience time.Duration) *crowd {
	c := &crowd{in: make(map[string]*Place)}
	c.Table = New(Options{Most: most, Patience: patience, Refused: &c.refused, Silent: &c.silent, Displaced: &c.displaced})
	return c
}

// do does what a script says: +a enters, a! is answered a request as somebody known, a? as a
// stranger, a- is refused one, a( begins one, a) ends it, a* shows who it is, a. leaves. A blank
// lets a second pass.
func (c *crowd) do(t *testing.T, script string) {
	t.Helper()
	for _, word := range strings.SplitAfter(script, " ") {
		act := strings.TrimSuffix(word, " ")
		if name, enters := strings.CutPrefix(act, "+"); enters {
			if c.in[name] = c.Enter(closer(func() { c.note(name) })); c.in[name] == nil {
				c.note("no " + name)
			}
		} else if act != "" {
			p, ok := c.in[act[:len(act)-1]], true
			switch act[len(act)-1] {
			case '!':
				ok = p.Begin() && p.Show()
				p.End(true)
			case '?', '-':
				ok = p.Begin()
				p.End(act[len(act)-1] == '?')
			case '(':
				ok = p.Begin()
			case ')':
				p.End(true)
			case '*':
				ok = p.Show()
			case '.':
				p.Leave()
			}
			if !ok {
				c.note(act + " too late")
			}
		}
		if act != word {
			time.Sleep(time.Second)
			synctest.Wait()
		}
	}
}

// patience is no whole number of seconds, so that nothing happens at the same time as a timer.
const patience = 5500 * time.Millisecond

func TestWhoMakesRoom(t *testing.T) {
	for _, test := range []struct {
		most                 int
		wait                 time.Duration
		name, script, closed string
	}{
		{2, 0, "the oldest stranger", "+a +b +c +d ", "a b"},
		{2, 0, "none that has left", "+a +b a. +c a. +d ", "b"},
		{2, 0, "one that was answered is later", "+a +b a? +c +d ", "b a"},
		{2, 0, "one that was refused is not", "+a +b a- +c ", "a"},
		{3, 0, "strangers before those that are known", "+a a! +b +c +d +e ", "b c"},
		{2, 0, "a known one, if there is no stranger", "+a a! +b b! a! +c ", "b"},
		{16, 0, "a known one, if strangers have few places", "+a a! +b b! +c c! +d d! +e e! +f f! +g g! +h h! +i i! +j j! +k k! +l l! +m m! +n n! +o o! +p p! +q +r +s +t ", "a b q r"},
		{2, 0, "no known one whose request is answered", "+a a! +b b! a( +c +d a) +e ", "b c d"},
		{1, 0, "a stranger, although it has begun a request", "+a a( +b a* b! ", "a a* too late"},
		{1, 0, "none that has shown who it is", "+a a( a* +b a) b! +c ", "a"},
		{2, patience, "a silent one ends", "+a +b b! +c       ", "a c"},
		{2, patience, "one that is refused all the time ends", "+a a- a- a- a- a- a- a- ", "a a- too late a- too late"},
		{2, patience, "one that is answered stays", "+a a? a? a? a? a? a? a? +b b!             ", "a"},
		{2, patience, "one whose first request takes long stays", "+a a(         a* a)       ", ""},
		{0, 0, "without bounds all stay", "+a +b +c           ", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(test.most, test.wait)
				c.do(t, test.script)
				must.Equal(t, c.all(), test.closed, "closed")
				for _, p := range c.in {
					p.Leave()
				}
				if open, known := c.Open(), c.known.Load(); open != 0 || known != 0 {
					t.Errorf("%d connections are open, %d known", open, known)
				}
			})
		})
	}
}

// If all places are taken by callers who are being served, a few more connections are open for
// probes.
func TestSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(2, patience)
		c.do(t, "+a a( a* +b b( b* ")
		for i := range spare {
			c.do(t, fmt.Sprintf("+s%d", i))
			time.Sleep(time.Millisecond)
		}
		if p := c.in["s0"]; !p.Spare() || !p.Begin() || !p.Show() || !p.Spare() {
			t.Error("it is not spare, or is known")
		}
		c.in["s0"].End(true)
		if c.in["a"].Spare() {
			t.Error("it is spare")
		}
		c.do(t, "+t ")
		synctest.Wait()
		if got := c.all(); got != "s1" || c.displaced.Load() != 1 || c.Open() != 2+spare {
			t.Errorf("%s was closed, %d displaced, %d are open", got, c.displaced.Load(), c.Open())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if c.Open() != 2 || c.silent.Load() != spare || c.refused.Load() != 0 {
			t.Errorf("%d are open, %d were silent", c.Open(), c.silent.Load())
		}
		c.do(t, "a) b) +c ")
		if c.in["c"].Spare() {
			t.Error("there is room")
		}
	})
}

// However many strangers come, those who are known and served stay, and newcomers find time to say
// who they are.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(80, patience)
		for i := range 70 {
			c.do(t, fmt.Sprintf("+k%d k%d!", i, i))
		}
		for i := range 10_000 {
			c.do(t, fmt.Sprintf("+s%d", i))
			time.Sleep(time.Millisecond)
			if i%100 == 0 {
				c.do(t, fmt.Sprintf("+n%d", i))
			}
			if i%100 == 9 {
				c.do(t, fmt.Sprintf("n%d! n%d.", i-9, i-9))
			}
		}
		for _, name := range strings.Fields(c.all()) {
			if name[0] != 's' {
				t.Fatalf("%s was closed", name)
			}
		}
		if c.Crowded() {
			t.Error("it is crowded by those who are known")
		}
	})
}

// Everything at once. At the end nothing is counted.
func TestAtOnce(t *testing.T) {
	c := newCrowd(8, time.Millisecond)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				p := c.Enter(closer(func() {}))
				if p == nil {
					continue
				}
				if p.Begin() && i%2 == 0 {
					p.Show()
				}
				p.End(i%3 == 0)
				go p.Leave()
				p.Leave()
			}
		})
	}
	wg.Wait()
	if c.Open() != 0 || c.known.Load() != 0 || c.Table.places() != 0 {
		t.Errorf("%d are open, %d known, %d have places", c.Open(), c.known.Load(), c.Table.places())
	}
}
