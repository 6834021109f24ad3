package httpapi_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/httpapi"
)

// ledgerNow is the time of every book.
var ledgerNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// book is a ledger in memory. It expires nothing by itself: tests call expire.
type book struct {
	keyed       bool
	maxReserved int
	mu          sync.Mutex
	counters    map[string]*counterBook // by key
	periods     []seqd.Period           // those that accounts and voids asked for
	failPage    int                     // the page of an account that fails, 0 for none
	pages       int
	pageTime    time.Duration // how long a page of an account takes
	next        int64         // what each page says is next, 0 for what is
}

type counterBook struct {
	last         int64
	reservations map[string]*reserved
	once         map[string]kept
	gaps         map[int64]seqd.NumberGap // released and void numbers
}

type reserved struct {
	seqd.Reservation
	numbers []int64
}

type kept struct {
	order       seqd.Order
	numbers     []int64
	reservation string
}

var (
	_ seqd.Ledger    = (*book)(nil)
	_ seqd.KeyLister = (*book)(nil)
)

func newBook(keyed bool) *book {
	return &book{keyed: keyed, maxReserved: 100, counters: make(map[string]*counterBook)}
}

// Traits implements [seqd.HasTraits], because a book is the settings of its biz type too.
func (b *book) Traits() seqd.Traits { return seqd.Traits{Keyed: b.keyed} }

func (b *book) Init(context.Context, bool) error                   { return nil }
func (b *book) OnExpired(func(seqd.Expiry))                        {}
func (b *book) Reclaim(context.Context, string, seqd.Period) error { return nil }
func (b *book) Close(context.Context) error                        { return nil }

func (b *book) of(key string) *counterBook {
	if b.counters[key] == nil {
		b.counters[key] = &counterBook{reservations: make(map[string]*reserved), once: make(map[string]kept), gaps: make(map[int64]seqd.NumberGap)}
	}
	return b.counters[key]
}

func (b *book) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	_, _, err := b.HandOut(ctx, seqd.Order{Count: n}, seq)
	return err
}

func (b *book) HandOut(_ context.Context, o seqd.Order, seq *seqd.Sequence) (r seqd.Reservation, replayed bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.of(seq.Key())
	if before, known := c.once[o.Once]; known {
		if o.Caller = before.order.Caller; o != before.order {
			return r, false, seqd.Errorf(seqd.CodeIdempotencyKeyReused, "another request")
		}
		add(seq, before.numbers)
		if o.Reserve {
			r = c.reservations[before.reservation].Reservation
		}
		return r, true, nil
	}
	if o.Reserve && o.Count > b.maxReserved {
		return r, false, seqd.Errorf(seqd.CodeInvalidCount, "count is %d and at most %d can be reserved", o.Count, b.maxReserved)
	}
	if open := c.open(); o.Reserve && open+o.Count > b.maxReserved {
		return r, false, &seqd.Error{Code: seqd.CodeTooManyReserved, Detail: fmt.Sprintf("%d numbers are reserved", open), RetryAfter: time.Second}
	}
	numbers := c.take(o.Count)
	add(seq, numbers)
	if o.Reserve {
		r = seqd.Reservation{
			ID: fmt.Sprintf("%020x", c.last), Key: seq.Key(), State: seqd.Reserved, Owner: o.Caller.OwnerID(),
			ExpiresAt: ledgerNow.Add(cmp.Or(o.TTL, 10*time.Minute)),
		}
		if r.Key != "" {
			r.ID += ".." + r.Key
		}
		c.reservations[r.ID] = &reserved{r, numbers}
	}
	if o.Once != "" {
		c.once[o.Once] = kept{o, numbers, r.ID}
	}
	return r, false, nil
}

func add(seq *seqd.Sequence, numbers []int64) {
	for _, n := range numbers {
		seq.Add(n, 1, 1)
	}
}

// open returns how many numbers are reserved.
func (c *counterBook) open() (open int) {
	for _, r := range c.reservations {
		if r.State == seqd.Reserved {
			open += len(r.numbers)
		}
	}
	return open
}

// take takes the lowest released numbers and then new ones.
func (c *counterBook) take(n int) (numbers []int64) {
	for _, number := range slices.Sorted(maps.Keys(c.gaps)) {
		if len(numbers) < n && c.gaps[number].State == seqd.GapReleased {
			numbers = append(numbers, number)
			delete(c.gaps, number)
		}
	}
	for len(numbers) < n {
		c.last++
		numbers = append(numbers, c.last)
	}
	return numbers
}

func (b *book) Return(*seqd.Sequence, error) {}

func (b *book) find(id string) (*counterBook, *reserved, error) {
	c := b.of(seqd.ReservationKey(id))
	if r := c.reservations[id]; r != nil {
		return c, r, nil
	}
	return nil, nil, seqd.Errorf(seqd.CodeUnknownReservation, "there is no reservation %.40q", id)
}

func (b *book) Find(_ context.Context, id string, seq *seqd.Sequence) (seqd.Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, r, err := b.find(id)
	if err != nil {
		return seqd.Reservation{}, err
	}
	add(seq, r.numbers)
	return r.Reservation, nil
}

// settle returns the reservation that a caller may settle.
func (b *book) settle(s seqd.Settlement) (*counterBook, *reserved, error) {
	c, r, err := b.find(s.ID)
	if err == nil && r.Owner != s.Caller.OwnerID() && !s.Admin {
		err = seqd.Errorf(seqd.CodeForbidden, "another caller made this reservation")
	}
	return c, r, err
}

func (b *book) Confirm(_ context.Context, s seqd.Settlement, seq *seqd.Sequence) (seqd.Reservation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, r, err := b.settle(s)
	switch {
	case err != nil:
		return seqd.Reservation{}, err
	case r.State == seqd.Expired:
		return seqd.Reservation{}, seqd.Errorf(seqd.CodeReservationExpired, "the reservation expired")
	case r.State == seqd.Released:
		return seqd.Reservation{}, seqd.Errorf(seqd.CodeReservationReleased, "the reservation was released")
	}
	r.State = seqd.Confirmed
	add(seq, r.numbers)
	return r.Reservation, nil
}

func (b *book) Release(_ context.Context, s seqd.Settlement) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, r, err := b.settle(s)
	switch {
	case err != nil:
		return err
	case r.State == seqd.Confirmed:
		return seqd.Errorf(seqd.CodeReservationConfirmed, "the reservation was confirmed")
	case r.State == seqd.Reserved:
		c.end(r, seqd.Released)
	}
	return nil
}

func (c *counterBook) end(r *reserved, as seqd.ReservationState) {
	r.State = as
	for _, n := range r.numbers {
		c.gaps[n] = seqd.NumberGap{From: n, To: n, State: seqd.GapReleased, At: ledgerNow}
	}
}

// expire ends every reservation.
func (b *book) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.counters {
		for _, r := range c.reservations {
			if r.State == seqd.Reserved {
				c.end(r, seqd.Expired)
			}
		}
	}
}

func (b *book) Void(_ context.Context, v seqd.Voiding) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.periods = append(b.periods, v.Period)
	c := b.of(v.Key)
	if v.Number > c.last {
		return seqd.Errorf(seqd.CodeInvalidID, "%d was never issued", v.Number)
	}
	if c.gaps[v.Number].State != seqd.GapVoid {
		c.gaps[v.Number] = seqd.NumberGap{From: v.Number, To: v.Number, State: seqd.GapVoid, At: ledgerNow, Reason: v.Reason, By: v.Caller.Name}
	}
	return nil
}

func (b *book) Account(_ context.Context, q seqd.AccountQuery) (a seqd.Account, err error) {
	time.Sleep(b.pageTime)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.periods, b.pages = append(b.periods, q.Period), b.pages+1
	if b.pages == b.failPage {
		return a, &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store is away", RetryAfter: time.Second}
	}
	c := b.of(q.Key)
	a = seqd.Account{Period: cmp.Or(q.Period, 20260000), First: 1, Last: c.last}
	var gaps []seqd.NumberGap
	for _, r := range c.reservations {
		if r.State == seqd.Reserved {
			gaps = append(gaps, seqd.NumberGap{
				From: r.numbers[0], To: r.numbers[len(r.numbers)-1], State: seqd.GapReserved, Reservation: r.ID, ExpiresAt: r.ExpiresAt,
			})
		}
	}
	gaps = append(gaps, slices.Collect(maps.Values(c.gaps))...)
	slices.SortFunc(gaps, func(x, y seqd.NumberGap) int { return cmp.Compare(x.From, y.From) })
	a.Issued = a.Last
	for _, g := range gaps {
		a.Issued -= g.To - g.From + 1
	}
	gaps = slices.DeleteFunc(gaps, func(g seqd.NumberGap) bool { return g.From <= q.After })
	if len(gaps) > q.Limit {
		gaps = gaps[:q.Limit]
		a.Next = gaps[len(gaps)-1].To
	}
	a.Gaps, a.Next = gaps, cmp.Or(b.next, a.Next)
	return a, nil
}

func (b *book) Keys(_ context.Context, after string, limit int) (keys []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(b.counters)) {
		if key > after && len(keys) < limit {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// defineBook returns a definition whose strategy is a book.
func defineBook(name string, b *book, plugins ...plugin) issuer.Definition {
	d := define(name, b, plugins...)
	d.BizType.Strategy, d.BizType.Settings = "gapless", b
	return d
}

// newLedgers returns an API with the gapless biz types invoice and, keyed, tenant, and with order,
// which counts.
func newLedgers(tb testing.TB) (api *httpapi.API, invoice, tenant *book) {
	invoice, tenant = newBook(false), newBook(true)
	return newRemembering(tb, defineBook("invoice", invoice), defineBook("tenant", tenant), define("order", newCounter(100))), invoice, tenant
}
