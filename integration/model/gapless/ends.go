package gapless

import (
	"context"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// unfinished notes what a process that died may have made without telling anybody.
func (c *checker) unfinished(r *request) {
	switch r.Op.Kind {
	case ledger.Issue:
		if r.key == nil {
			c.lost += r.Op.Count
		}
	case ledger.Return:
		c.lost += ledger.Count(r.Op.Runs)
	case ledger.Confirm:
		if b := c.w.bookings[r.Op.ID]; b != nil && !b.lost {
			b.lost = true
			c.lost += max(ledger.Count(b.runs), ledger.Count(c.booked[b.id]))
		}
	}
}

// wentBack notes that the store lost writes.
func (c *checker) wentBack() {
	c.lineage++
	c.isRaised = false
	c.history = map[int64][]cell{}
	c.state, c.cells = c.load()
	c.lost = 1 << 40
	c.booked = map[string][]ledger.Run{}
	if c.state != nil {
		c.history[c.state.Revision] = c.cells
		for _, r := range c.state.Reserved {
			c.booked[r.ID] = r.Runs
		}
	}
}

// raised checks what an operator wrote.
func (c *checker) raised(d *persist.Document) {
	c.lost = 1 << 40 // what cannot be given back any more stays issued
	c.isRaised = true
	c.written(d)
	if c.broken == "" && c.state.NumReleased() > 0 {
		c.fail("raise: %d numbers are released", c.state.NumReleased())
	}
}

// account checks a page of an account: it must say what was so at its revision.
func (c *checker) account(state *ledger.State, after int64, limit int, voids []*ledger.Entry, more bool) {
	truth := c.history[state.Revision]
	if truth == nil {
		return
	}
	gaps, next := state.Account(&c.w.policy, after, limit, voids, more)
	c.w.count("accounts")
	to := state.Last
	if next > 0 {
		to = next
		c.w.count("pages")
	}
	said := make([]cell, state.Last+1)
	before := after
	for _, g := range gaps {
		if g.From <= before || g.To > state.Last {
			c.fail("account: the gap %v comes after %d", g.Run, before)
			return
		}
		before = g.To
		for number := g.From; number <= g.To; number++ {
			said[number] = cell{map[string]byte{seqd.GapReleased: released, seqd.GapReserved: reserved, seqd.GapVoid: void}[g.State], g.ID}
		}
	}
	if len(gaps) > limit {
		c.fail("account: %d gaps on a page of %d", len(gaps), limit)
	}
	for number := max(after+1, state.First); number <= to; number++ {
		want := truth[number]
		if want.state == issued {
			want = cell{}
		}
		if got := said[number]; got.state != want.state || want.state == reserved && got.res != want.res {
			c.fail("account: %d is said to be %q and is %q at revision %d, on the page of %d after %d with %d records", number, got.state, want.state, state.Revision, limit, after, len(voids))
			return
		}
	}
}

// ends checks what must hold when nothing goes wrong any more and much time has passed.
func (c *checker) ends() {
	d, there := c.w.store.ledgerDoc()
	if !there || c.broken != "" {
		return
	}
	state, _ := c.load()
	if c.broken != "" {
		return
	}
	if len(state.Reserved) > 0 {
		c.fail("due: %d reservations are left", len(state.Reserved))
	}
	if state.Ends > 0 && state.Ends < c.w.now && len(state.Released) > 0 {
		c.fail("due: %d numbers are released after the period's end", state.NumReleased())
	}
	if d.Expires > 0 && d.Expires < c.w.now-longPause {
		c.fail("due: the document was due %d ms ago", c.w.now-d.Expires)
	}
	if c.lineage == 0 && !c.w.out[abandons] || c.w.out[abandons] {
		c.untold(state)
	}
}

// untold checks that numbers which are issued although nobody was told have a reason.
func (c *checker) untold(state *ledger.State) {
	told := int64(0)
	for number := state.First; number <= state.Last; number++ {
		if c.claimOf(number) != 0 && c.cells[number].state == issued {
			told++
		}
	}
	may := c.lost
	for _, k := range c.w.keys {
		if !k.told && !k.reserve {
			may += k.count
		}
	}
	for _, b := range c.w.bookings {
		if b.confirming && !b.confirmed && !b.lost {
			may += max(ledger.Count(b.runs), ledger.Count(c.booked[b.id]))
		}
	}
	if untold := state.NumIssued() - told; untold > may {
		var list []int64
		for number := state.First; number <= state.Last; number++ {
			if c.claimOf(number) == 0 && c.cells[number].state == issued {
				list = append(list, number)
			}
		}
		c.fail("gap: %d numbers are issued and nobody was told, and %d may be: %v", untold, may, list)
	}
}

// readAccount reads a page of the account as the service does: first the document, later the
// records.
func (w *world) readAccount(state *ledger.State, after int64, limit int) {
	voids, more, err := state.ListVoids(context.Background(), w.store, counter, after, limit)
	if err != nil {
		panic(err)
	}
	w.check.account(state, after, limit, voids, more)
}
