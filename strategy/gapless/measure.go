package gapless

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// totals are sums over the counters that are open on this node.
type totals struct{ reserved, released, voids atomic.Int64 }

// tally replaces what the totals contain of a counter. mu is held.
func (c *counter) tally(now ledger.Stats) {
	was := c.told
	c.told, c.looked = now, time.Now()
	c.totals.reserved.Add(now.Reserved - was.Reserved)
	c.totals.released.Add(now.Released - was.Released)
	c.totals.voids.Add(now.Voids - was.Voids)
}

// IsAway implements [counters.Kind].
func (s *Strategy) IsAway(err error) bool {
	if _, refused := errors.AsType[*seqd.Error](err); refused {
		return false
	}
	for _, answer := range []error{
		persist.ErrNotFound, persist.ErrExists, persist.ErrConflict, persist.ErrFailedOver, persist.ErrExhausted,
		persist.ErrInvalid, persist.ErrNewer, context.Canceled,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return err != nil
}

// noted notes an error of the store, and returns what a caller gets.
func (s *Strategy) noted(err error) error {
	s.Note(err)
	return unavailable(err)
}

// Health returns why the next request would be refused. If the biz type has keys, a new one gets
// numbers while the store can be used.
func (s *Strategy) Health() error {
	if away := s.Away(); away != nil {
		return unavailable(away)
	}
	if c := s.present(); c != nil {
		if refusal := c.refusal(); refusal != nil {
			return refusal
		}
	}
	return nil
}

// looks is how many open keys stand for all of them.
const looks = 16

// Degraded returns why some keys get no numbers, as far as some of the open ones show.
func (s *Strategy) Degraded() *seqd.Error {
	if !s.settings.Keyed {
		return nil
	}
	for _, c := range s.Some(looks) {
		if refusal := c.refusal(); refusal != nil {
			return refusal
		}
	}
	return nil
}

// refusal returns why requests get no numbers, nil if they do or there is none left.
func (c *counter) refusal() *seqd.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refusal := c.machine.Refusal(); refusal != nil && refusal.Code != seqd.CodeExhausted {
		return refusal
	}
	return nil
}

// Details implements [seqd.Reporter]: sums over the counters that are open here.
func (s *Strategy) Details() map[string]any {
	details := map[string]any{"maxReserved": s.settings.MaxReserved}
	if s.Len() > 0 { // before a node has opened a counter it knows nothing, and zeros would lie
		details["reserved"], details["released"] = s.totals.reserved.Load(), s.totals.released.Load()
		details["voids"] = s.totals.voids.Load()
	}
	if s.settings.Keyed {
		details["openKeys"], details["maxKeys"] = s.Len(), s.settings.MaxKeys
	}
	if c := s.present(); c != nil {
		if st := c.lately(); st.Known {
			details["last"] = strconv.FormatInt(st.Last, 10)
		}
	}
	if s.settings.Reset != seqd.ResetNever {
		if p, err := s.period(0); err == nil {
			details["period"] = p.String()
		}
	}
	return details
}

// present returns the counter of the present period, if it is open and the only one.
func (s *Strategy) present() *counter {
	if s.settings.Keyed {
		return nil
	}
	p, err := s.period(0)
	if err != nil {
		return nil
	}
	c, _ := s.Peek(counters.Name{Period: p})
	return c
}

// Measure implements [seqd.Measurer]: sums over the counters that are open here, and the highest
// share and age of any.
func (s *Strategy) Measure(tell func(seqd.Measurement)) {
	put := func(g seqd.Gauge, v float64) { tell(seqd.Measurement{Gauge: g, Value: v}) }
	reserved, released := s.totals.reserved.Load(), s.totals.released.Load()
	put(seqd.GaugeReserved, float64(reserved))
	put(seqd.GaugeReleased, float64(released))
	put(seqd.GaugeVoids, float64(s.totals.voids.Load()))
	var most, oldest int64
	if reserved+released > 0 {
		now := s.now()
		s.Each(func(_ counters.Name, c *counter) {
			st := c.lately()
			most = max(most, st.Reserved+st.Released)
			if st.OldestReleased > 0 {
				oldest = max(oldest, now-st.OldestReleased)
			}
		})
	}
	put(seqd.GaugeReservedShare, float64(most)/float64(s.settings.MaxReserved))
	put(seqd.GaugeReleasedAge, float64(oldest)/1000)
	if s.settings.Reset != seqd.ResetNever {
		now := time.UnixMilli(s.now())
		if span := s.Calendar.Present(now); span.Period.Check() == nil {
			put(seqd.GaugePeriodLeft, span.Left(now).Seconds())
		}
	}
	put(seqd.GaugeLimit, float64(seqd.MaxNumber))
	if c := s.present(); c != nil {
		if st := c.lately(); st.Known {
			put(seqd.GaugeHighest, float64(st.Last))
		}
	}
}

// staleAfter is how old what is known of a counter may be: other nodes may have changed it.
const staleAfter = 30 * time.Second

// mostLooks is how many counters of a biz type are read at once to be measured. With very many keys
// the others wait, so that issuing does not have to.
const mostLooks = 2

// lately returns the numbers of a counter. If they are old, it has them read again in the
// background, for the next time.
func (c *counter) lately() ledger.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) > staleAfter && c.told.Reserved+c.told.Released > 0 && !c.closing && !c.looking {
		c.looked, c.looking = time.Now(), true
		go c.refresh()
	}
	return c.told
}

// refresh reads the numbers of a counter, when it is its turn.
func (c *counter) refresh() {
	c.looks <- struct{}{}
	defer func() {
		<-c.looks
		c.mu.Lock()
		defer c.mu.Unlock()
		c.looking = false
	}()
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if closing {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	doc, _ := c.Documents.Read(ctx, persist.LedgerKind, c.key) // an empty one cannot be decoded
	state, err := ledger.Decode(&doc)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := c.machine.Seen(); !c.closing && seen.Revision < doc.Revision {
		c.tally(ledger.Stats{
			Last: state.Last, Reserved: state.NumReserved(), Released: state.NumReleased(), Voids: state.Voids,
			OldestReleased: state.OldestReleased(), Known: true,
		})
	}
}
