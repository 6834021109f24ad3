package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/postgres"
)

// The statement that allocates does exactly what Counter.Allocated does, also with counters that
// were written before a failover.
func TestPostgresAllocatesAsTheRule(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	for _, lossless := range []bool{false, true} {
		t.Run(fmt.Sprintf("lossless %t", lossless), func(t *testing.T) {
			dropTables(server)
			seed := time.Now().UnixNano()
			t.Logf("seed %d", seed)
			d := differential{T: t, random: rand.New(rand.NewPCG(uint64(seed), 0))}
			admin := server.Connect()
			d.foreign = func(name []byte) error {
				_, err := admin.Exec(t.Context(), "UPDATE seqd_counters SET fence = 'another' WHERE name = $1", name)
				return err
			}
			if lossless {
				synchronous(t, server)
			}
			d.store = openPostgres(t, server.URL(), func(o *postgres.Options) {
				o.Now, o.Lossless = func() time.Time { return time.UnixMilli(d.now) }, lossless
			})
			for range longtest.Or(100, 1000) {
				d.step()
			}
		})
	}
}

// differential does random things with a store and with the rule.
type differential struct {
	*testing.T
	random  *rand.Rand
	store   persist.Store
	foreign func(name []byte) error // makes a row one that another server wrote
	known   persist.Counter         // the rule's; no BizTag if there is none
	now     int64
	created int
}

// epochs are few, so that requests often meet.
var epochs = []string{"", persist.StoreEpoch, persist.NewEpoch(), persist.NewEpoch()}

func (d *differential) pick(of ...int64) int64 { return of[d.random.IntN(len(of))] }

// number is near an edge more often than not.
func (d *differential) number() int64 {
	near := d.random.Int64N(20)
	return d.pick(0, near, d.known.Max-min(near, d.known.Max), min(d.known.Max+near, persist.MaxNumber), persist.MaxNumber-near, persist.MaxNumber,
		d.random.Int64N(persist.MaxNumber))
}

func (d *differential) step() {
	d.now++
	switch d.random.IntN(12) {
	case 0:
		d.create()
	case 1, 2:
		d.failOver()
	case 3:
		d.giveBack()
	default:
		d.allocate()
	}
}

// create begins with another counter. Its name is awkward.
func (d *differential) create() {
	d.created++
	d.known = persist.Counter{
		BizTag: fmt.Sprintf("o\x00rder'%d\\ü", d.created), Max: d.number(), Step: 1 + d.random.Int64N(100), Timestamp: d.now,
		Epoch: epochs[d.random.IntN(len(epochs))],
	}
	must.Do(d, d.store.Counters().Create(d.Context(), d.known))
}

// failOver makes the row one that another server wrote.
func (d *differential) failOver() {
	must.Do(d, d.foreign([]byte(d.known.BizTag)))
	if d.known.BizTag != "" {
		d.known.FailedOver, d.known.Failovers, d.known.Epoch = true, 1, ""
	}
	d.same()
}

func (d *differential) request() persist.Request {
	req := persist.Request{BizTag: d.known.BizTag, Size: d.number(), Floor: d.number(), Gap: d.number(), FailoverGap: d.number(), FailoverSteps: d.pick(0, 1, 10, d.number()), Step: d.pick(0, 1, 500)}
	if d.random.IntN(3) > 0 {
		req.Size = d.random.Int64N(10)
	}
	if d.random.IntN(2) > 0 {
		req.Floor = 0
	}
	epoch, next := epochs[d.random.IntN(len(epochs))], epochs[1+d.random.IntN(len(epochs)-1)]
	if d.random.IntN(2) > 0 {
		epoch = d.known.Epoch
	}
	req.To = []persist.Target{{}, persist.Beside, persist.ToCursor(epoch), persist.NewCursor(epoch, next), persist.Retire(epoch)}[d.random.IntN(5)]
	return req
}

func (d *differential) allocate() {
	req := d.request()
	if d.known.BizTag == "" {
		return
	}
	after, want, wantErr := d.known.Allocated(req, d.now)
	got, err := d.store.Counters().Allocate(d.Context(), req)
	for _, kind := range []error{persist.ErrInvalid, persist.ErrEpoch, persist.ErrExhausted} {
		if errors.Is(wantErr, kind) != errors.Is(err, kind) {
			d.Fatalf("%+v of %+v: %v, want %v", req, d.known, err, wantErr)
		}
	}
	if (err == nil) != (wantErr == nil) || got != want {
		d.Fatalf("%+v of %+v gave %+v, %v, want %+v, %v", req, d.known, got, err, want, wantErr)
	}
	if wantErr == nil {
		d.known = after
	}
	d.same()
}

func (d *differential) giveBack() {
	r := persist.Range{First: d.known.Max - d.random.Int64N(5), Last: d.known.Max - d.pick(0, 0, 0, 1)}
	if d.known.BizTag == "" || r.Validate() != nil {
		return
	}
	want := r.Last == d.known.Max && !d.known.FailedOver
	if given, err := d.store.Counters().GiveBack(d.Context(), d.known.BizTag, r); err != nil || given != want {
		d.Fatalf("%+v of %+v was given back: %t, %v", r, d.known, given, err)
	}
	if want {
		d.known.Max = r.First - 1
	}
	d.same()
}

// same checks that the store has the counter that the rule has.
func (d *differential) same() {
	d.Helper()
	if d.known.BizTag == "" {
		return
	}
	if got, err := d.store.Counters().Read(d.Context(), d.known.BizTag); err != nil || got != d.known {
		d.Fatalf("the store has %+v, %v, want %+v", got, err, d.known)
	}
	if epoch, err := d.store.Counters().Epoch(d.Context(), d.known.BizTag); err != nil || epoch != d.known.Epoch {
		d.Fatalf("the epoch is %q, %v, want %q", epoch, err, d.known.Epoch)
	}
}
