// Package gapless is the strategy that accounts for every number. Each number up to the highest one
// handed out is issued, reserved, released or void; none is skipped.
//
// The state of a counter is one document in the store, changed only by compare-and-set. The machine
// in package ledger decides what is written and what an answer of the store means. This package is
// the shell around it:
//
//   - gapless.go: the strategy of one biz type, and what callers ask of it
//   - handout.go: handing numbers out, and taking back those of a failed request
//   - counter.go: one counter on one node; callers share its writes
//   - store.go: documents and the fence; it executes the commands of the machine
//   - account.go: what became of the numbers
//   - keys.go: which keys there are, and the place that a new one takes
//   - period.go: the period that a request is for
//   - id.go: what is in the ID of a reservation
//   - takeover.go, handover.go: the strategy of a biz type becomes gapless, or stops being it
//   - recall.go: what a request was given before, in whatever period and by whatever settings
//   - measure.go: health and metrics
//   - sweep.go: what runs once per process: the timer of reservations
//
// DESIGN §5 follows a reservation from HTTP to the store, and says what another way to end one
// needs.
package gapless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// Name is the name of the strategy in a biz type's definition.
const Name = "gapless"

func init() {
	strategy.Register(strategy.Factory{
		Name: Name,
		Help: "Accounts for every number: each is issued, reserved, released or void, " +
			"and none is skipped. Slower than segment; for invoices and the like.",
		Ledger:     true,
		Settings:   func() any { s := DefaultSettings(); return &s },
		New:        func(env strategy.Env, bizType seqd.BizType) (seqd.Strategy, error) { return New(env, bizType) },
		Shape:      shape,
		Handover:   handOver,
		Recall:     recall,
		Background: sweep,
	})
}

// shape returns what the numbers look like: what each key and each period have of their own.
func shape(bizType seqd.BizType) string {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return Name
	}
	text := Name
	if settings.Keyed {
		text += " keyed"
	}
	if settings.Reset != seqd.ResetNever {
		text += fmt.Sprintf(" %s in %s", settings.Reset, settings.TimeZone)
	}
	return text
}

// Strategy issues and reserves the numbers of one biz type. It is safe for concurrent use.
type Strategy struct {
	*counters.Family[*counter, ledger.Seen]
	settings *Settings
	clock    *storeclock.Clock
	documents
	totals  totals
	looks   chan struct{}     // has an element for each counter that is being read to be measured
	expired func(seqd.Expiry) // nil if nobody wants to know
	reopen  atomic.Bool       // the biz type had another calendar before

	mu lockorder.Inner // guards bare
	// bare are ledgers of ended periods without answers; see isBare.
	bare map[counters.Name]struct{}
}

var (
	_ seqd.Ledger       = (*Strategy)(nil)
	_ seqd.KeyLister    = (*Strategy)(nil)
	_ seqd.Reporter     = (*Strategy)(nil)
	_ seqd.Measurer     = (*Strategy)(nil)
	_ seqd.Learner      = (*Strategy)(nil)
	_ strategy.Reopener = (*Strategy)(nil)
)

const (
	// openTimeout bounds what opening and closing a counter takes.
	openTimeout = 10 * time.Second
	// livePeriods is how many counters of a biz type without keys stay open: the present period,
	// its neighbours, and older ones in which reservations end.
	livePeriods = 8
	// answerTTL is how long answers are kept if the environment does not say.
	answerTTL = 24 * time.Hour
)

// New returns the strategy of one biz type, whose Settings must be of type *Settings. It does no
// I/O.
func New(env strategy.Env, bizType seqd.BizType) (*Strategy, error) {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return nil, fmt.Errorf("biz type %s: settings of type %T are not *gapless.Settings", bizType.Name, bizType.Settings)
	}
	env.AnswerTTL = cmp.Or(env.AnswerTTL, answerTTL)
	s := &Strategy{
		settings: settings, clock: clockOf(env),
		documents: documentsOf(env.Store), looks: make(chan struct{}, mostLooks),
		bare: make(map[counters.Name]struct{}),
	}
	s.documents.follows = env.Follows
	s.Family = counters.NewFamily(counters.Base{Env: &env, BizType: &bizType, Settings: &settings.Settings}, s, livePeriods, counters.Remembered, openTimeout)
	env.Attendance.Need()
	return s, nil
}

// Init makes sure that the ledger of a biz type with one counter exists. The ledgers of keys and of
// periods are made when their first number is handed out.
func (s *Strategy) Init(ctx context.Context, fresh bool) error {
	err := s.begin(ctx, fresh)
	if err == nil && !s.settings.Keyed {
		s.look(ctx)
	}
	return err
}

// look opens the present counter, so that metrics and alerts know what is reserved and released
// also if nobody asks for a number.
func (s *Strategy) look(ctx context.Context) {
	p, err := s.period(0)
	if err != nil {
		return // requests say why
	}
	e, err := s.Acquire(ctx, counters.Name{Period: p}, "")
	if err != nil {
		return // requests say why
	}
	defer e.Release()
	e.Counter().refresh()
}

// LookAtStore implements [counters.Kind].
func (s *Strategy) LookAtStore(ctx context.Context) error {
	_, err := s.Documents.Read(ctx, persist.LedgerKind, s.BizType.Name)
	return err
}

// begin is Init without looking at what there is.
func (s *Strategy) begin(ctx context.Context, fresh bool) error {
	if _, err := s.clock.Now(ctx); err != nil {
		return s.noted(err)
	}
	if fresh {
		if err := s.takeOver(ctx); err != nil {
			return err
		}
	}
	if s.settings.Keyed || s.settings.Reset != seqd.ResetNever {
		return nil
	}
	_, err := s.Documents.Read(ctx, persist.LedgerKind, s.BizType.Name)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, persist.ErrNotFound):
		return s.noted(err)
	case !fresh:
		return seqd.Errorf(seqd.CodeConflict,
			"the store has lost the ledger of %s, and which numbers were issued: restore it, or name the highest number with seqd raise", s.BizType.Name)
	}
	return s.create(ctx)
}

// create creates the ledger of a biz type with one counter: if it is missing later, it was lost.
func (s *Strategy) create(ctx context.Context) (err error) {
	policy := s.policyOf(0)
	if policy.Floor, err = s.floor(ctx, s.BizType.Name); errors.Is(err, persist.ErrFailedOver) {
		return unraised(s.BizType.Name)
	}
	if err != nil {
		return s.noted(err)
	}
	write := ledger.Command{Action: ledger.Write}
	if write.Fenced = s.fenced != nil; write.Fenced {
		fence, err := s.fenced.Fence(ctx)
		if err != nil {
			return s.noted(err)
		}
		if write.Fence = fence.Current; fence.FailedOver() {
			return failedOver(s.BizType.Name)
		}
	}
	state := ledger.Fresh(&policy, newID(), write.Fence)
	write.Doc, _ = state.Document(s.BizType.Name, s.now()) // one without numbers is small
	err = s.documents.execute(ctx, &write).Err
	switch {
	case errors.Is(err, persist.ErrExists): // another node was first
		return nil
	case errors.Is(err, persist.ErrFailedOver):
		return failedOver(s.BizType.Name)
	}
	return s.noted(err)
}

// failedOver is why a ledger that is missing is not created.
func failedOver(counter string) *seqd.Error {
	return seqd.Errorf(seqd.CodeStoreFailedOver,
		"the store failed over and may have lost the ledger of %s: an operator has to confirm the failover with seqd failover", counter)
}

// now returns the time of the store in ms since the Unix epoch.
func (s *Strategy) now() int64 { return s.times().Store }

// times returns the present time on the clocks of the store and of this node.
func (s *Strategy) times() storeclock.Times {
	t, err := s.clock.Times(context.Background()) // no I/O since Init has asked it
	if err != nil {
		own := s.Env.Now().UnixMilli()
		return storeclock.Times{Earliest: own, Store: own, Bound: own, Latest: own}
	}
	return t
}

// timed sets what a policy says of the clocks.
func timed(p *ledger.Policy, t storeclock.Times, a *storeclock.Attendance) {
	p.Awake, p.Ahead, p.Doubt, p.Forward = a.Since(t.Store), t.Latest-t.Store, t.Bound-t.Store, t.Forward
	if sabotage.Off(sabotage.Doubt) {
		p.Doubt = 0
	}
	if sabotage.Off(sabotage.Forward) {
		p.Forward = 0
	}
}

// do carries out an operation on a counter.
func (s *Strategy) do(ctx context.Context, name counters.Name, op ledger.Op) (ledger.Result, error) {
	e, err := s.Acquire(ctx, name, op.Caller)
	if err != nil {
		return ledger.Result{}, err
	}
	defer e.Release()
	return e.Counter().do(ctx, op)
}

// doAlone carries out an operation after Close.
func (s *Strategy) doAlone(ctx context.Context, name counters.Name, op ledger.Op) error {
	c := s.counter(name)
	_, err := c.do(ctx, op)
	return errors.Join(err, c.close(ctx))
}

// Find implements [seqd.Ledger].
func (s *Strategy) Find(ctx context.Context, id string, seq *seqd.Sequence) (seqd.Reservation, error) {
	return s.settle(ctx, id, ledger.Op{Kind: ledger.Find}, seq)
}

// Confirm implements [seqd.Ledger].
func (s *Strategy) Confirm(ctx context.Context, p seqd.Settlement, seq *seqd.Sequence) (seqd.Reservation, error) {
	return s.settle(ctx, p.ID, ledger.Op{Kind: ledger.Confirm, Caller: p.Caller.OwnerID(), Admin: p.Admin}, seq)
}

// Release implements [seqd.Ledger].
func (s *Strategy) Release(ctx context.Context, p seqd.Settlement) error {
	var none seqd.Sequence
	_, err := s.settle(ctx, p.ID, ledger.Op{Kind: ledger.Release, Caller: p.Caller.OwnerID(), Admin: p.Admin}, &none)
	return err
}

// settle carries out an operation on a reservation.
func (s *Strategy) settle(ctx context.Context, id string, op ledger.Op, seq *seqd.Sequence) (r seqd.Reservation, err error) {
	name, own, err := s.settings.counterOf(id)
	if err != nil {
		return r, err
	}
	op.ID = own
	res, err := s.do(ctx, name, op)
	if err != nil {
		return r, err
	}
	seq.For(name.Key)
	add(seq, name, res)
	return reservation(name, res), nil
}

// Void implements [seqd.Ledger].
func (s *Strategy) Void(ctx context.Context, v seqd.Voiding) error {
	name := counters.Name{Key: v.Key}
	var err error
	if name.Period, err = s.period(v.Period); err != nil {
		return err
	}
	_, err = s.do(ctx, name, ledger.Op{Kind: ledger.Void, Number: v.Number, Reason: v.Reason, Caller: v.Caller.Name})
	return err
}

// Reclaim implements [seqd.Ledger].
func (s *Strategy) Reclaim(ctx context.Context, key string, period seqd.Period) error {
	_, err := s.do(ctx, counters.Name{Key: key, Period: period}, ledger.Op{Kind: ledger.Reclaim})
	return err
}

// OnExpired implements [seqd.Ledger].
func (s *Strategy) OnExpired(tell func(seqd.Expiry)) { s.expired = tell }

// Idle implements [seqd.Idler]: all that counts is in the store.
func (s *Strategy) Idle() bool { return true }
