package segment

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

// Periodic issues the numbers of one biz type that are reset each period. Every period has its own
// counter and its own strategy, so numbers of one period never repeat, whatever the clocks of nodes
// say: a wrong clock only decides which period's number a caller gets, and the sequence says which
// one that was. It is safe for concurrent use.
type Periodic struct {
	env      strategy.Env
	bizType  seqd.BizType
	settings *Settings
	calendar seqd.Calendar
	// open makes the strategy for the counter of one period. It does no I/O.
	open func(bizType seqd.BizType) (counting, error)

	running context.Context // what runs in the background; until Close
	end     context.CancelFunc

	view atomic.Pointer[view] // what the last caller who asked the calendar found

	mu    sync.Mutex // guards what follows
	spans map[seqd.Period]*span
	// spans that are being closed; no other span of their period is opened before that
	retired map[seqd.Period]*span
	// what is known of periods that are not open, from retired spans and the previous strategy
	kept   map[seqd.Period]known
	uses   int64                         // grows with every use of a span by turn
	purged seqd.Period                   // the period in which periods were last purged
	failed map[seqd.Period]failedOpening // periods that could not be opened at the last attempt
	again  bool                          // reopen runs
	closed bool
	work   sync.WaitGroup // goroutines; added to under mu and before closed
}

// counting is the strategy of one period.
type counting interface {
	seqd.Strategy
	seqd.HealthReporter
	seqd.DegradedReporter
	takesSome
	// watch sets alive, which is called after every allocation. It is called before anything else.
	watch(alive func(ctx context.Context) error)
	// prepare fetches numbers before the first request.
	prepare()
	// forget removes what is kept outside the store after the end of the period.
	forget(ctx context.Context) error
}

// span is one period that this node issues numbers of, or tries to.
type span struct {
	period seqd.Period
	counting
	used   int64         // when it was used last, by Periodic.uses
	opened chan struct{} // closed when opening ended
	err    *seqd.Error   // why it failed; valid once opened is closed
	// closed is closed when closing ended: it issues nothing any more. It is set once closing began.
	closed chan struct{}
}

// view is the present period, and for how long it is known to be that.
type view struct {
	*span
	from, until int64 // ms since the Unix epoch; until is excluded
	// from when the next period is prepared; the end of time if this one lasts longer
	prepare  int64
	prepared atomic.Bool
}

const (
	// outlook is for how long a view is kept.
	outlook = time.Hour
	// ahead is how long before its beginning a period is prepared at most; the least is a fifth of
	// it.
	ahead = 5 * time.Minute
	// mostSpans is how many periods a node keeps open: the present one, and the previous or next
	// one.
	mostSpans = 2
	// openPause is the least pause between two attempts to open one period.
	openPause = 100 * time.Millisecond
)

var (
	_ seqd.Strategy         = (*Periodic)(nil)
	_ seqd.HealthReporter   = (*Periodic)(nil)
	_ seqd.DegradedReporter = (*Periodic)(nil)
	_ seqd.DetailReporter   = (*Periodic)(nil)
)

func newPeriodic(env strategy.Env, bizType seqd.BizType, open func(seqd.BizType) (counting, error)) (*Periodic, error) {
	settings, err := settingsOf(bizType)
	if err != nil {
		return nil, err
	}
	running, end := context.WithCancel(context.Background())
	return &Periodic{
		env: env, bizType: bizType, settings: settings, calendar: settings.Calendar(), open: open,
		spans: make(map[seqd.Period]*span), retired: make(map[seqd.Period]*span), kept: make(map[seqd.Period]known),
		failed:  make(map[seqd.Period]failedOpening),
		running: running, end: end,
	}, nil
}

// Init opens the present period. A period whose counter was lost does not affect other periods: it
// is refused when it is used.
func (s *Periodic) Init(ctx context.Context, _ bool) error {
	_, err := s.turn(ctx)
	if seqd.CodeOf(err) == seqd.CodeConflict {
		return nil
	}
	return err
}

// Generate adds n numbers of the period that is present when the call begins.
func (s *Periodic) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.ask(ctx, counting.Generate, n, seq)
}

// GenerateSome implements [seqd.PartialGenerator].
func (s *Periodic) GenerateSome(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateSome(ctx, n, seq, s)
}

// GenerateConsecutive implements [seqd.ConsecutiveGenerator].
func (s *Periodic) GenerateConsecutive(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateConsecutive(ctx, n, seq, s)
}

// GenerateRange refuses: a caller would issue the numbers of a period after its end.
func (s *Periodic) GenerateRange(context.Context, int64, *seqd.Sequence) error {
	return seqd.Errorf(seqd.CodeInvalidRequest, "%s hands out no ranges: its numbers reset", s.bizType.Name)
}

// some implements [takesSome].
func (s *Periodic) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.ask(ctx, counting.some, n, seq)
}

// skipped implements [takesSome].
func (s *Periodic) skipped(n int64, why error) {
	if n > 0 {
		s.env.Observer.Event(seqd.Event{BizType: s.bizType.Name, Kind: seqd.EventAbandoned, Numbers: n, Err: why})
	}
}

// ask gets numbers of the present period.
func (s *Periodic) ask(ctx context.Context, get func(counting, context.Context, int, *seqd.Sequence) error, n int, seq *seqd.Sequence) error {
	before := seq.Len()
	for attempt := 0; ; attempt++ {
		v, err := s.now(ctx)
		if err != nil {
			return err
		}
		err = get(v.counting, ctx, n, seq)
		if seqd.CodeOf(err) == seqd.CodeStopping && seq.Len() == before && attempt < mostSpans && !s.isClosed() {
			// the clock has jumped back to a period that was just closed
			s.view.CompareAndSwap(v, nil)
			continue
		}
		if sabotage.Off(sabotage.Period) {
			v = &view{span: &span{period: s.calendar.Now(s.env.Now().Add(500 * time.Millisecond))}}
		}
		seq.In(v.period)
		return err
	}
}

// now returns the present period, opened.
func (s *Periodic) now(ctx context.Context) (*view, error) {
	v, now := s.view.Load(), s.env.Now().UnixMilli()
	if v == nil || now < v.from || now >= v.until {
		return s.turn(ctx)
	}
	if now >= v.prepare && v.prepared.CompareAndSwap(false, true) {
		s.prepareNext(v)
	}
	return v, nil
}

// turn asks the calendar for the present period and opens it.
func (s *Periodic) turn(ctx context.Context) (*view, error) {
	now := s.env.Now()
	sp, err := s.begin(s.calendar.Now(now))
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(s.settings.AcquireTimeout)
	defer late.Stop()
	select {
	case <-sp.opened:
	default:
		select {
		case <-sp.opened:
		case <-late.C:
			return nil, &seqd.Error{Code: seqd.CodeTimeout, Detail: "the period " + sp.period.String() + " did not begin in time", RetryAfter: time.Second}
		case <-ctx.Done():
			return nil, seqd.AsError(ctx.Err())
		}
	}
	if sp.err != nil {
		return nil, sp.err
	}
	v := s.look(sp, now)
	s.view.Store(v)
	return v, nil
}

// look returns for how long the period of a span is present from now on.
func (s *Periodic) look(sp *span, now time.Time) *view {
	v := &view{span: sp, from: now.UnixMilli(), until: now.Add(outlook).UnixMilli(), prepare: math.MaxInt64}
	if s.calendar.Now(time.UnixMilli(v.until)) == sp.period {
		return v
	}
	// The first millisecond of the next period, by bisection: only the calendar knows what a time
	// zone does at midnight.
	low := v.from
	for low+1 < v.until {
		if middle := low + (v.until-low)/2; s.calendar.Now(time.UnixMilli(middle)) == sp.period {
			low = middle
		} else {
			v.until = middle
		}
	}
	v.prepare = v.until - s.lead().Milliseconds()
	return v
}

// lead is how long before its beginning this node prepares a period of this biz type. It differs
// from node to node, so that not all do so at once.
func (s *Periodic) lead() time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.bizType.Name + " " + s.env.Addr))
	return ahead/5 + time.Duration(h.Sum32()%1000)*(ahead-ahead/5)/1000
}

// prepareNext opens the period after a view and fetches numbers for it, in the background.
func (s *Periodic) prepareNext(v *view) {
	sp, err := s.begin(s.calendar.Now(time.UnixMilli(v.until)))
	if err != nil {
		return
	}
	s.start(func() {
		<-sp.opened
		if sp.err == nil {
			sp.prepare()
		}
	})
}

// begin returns the span of a period, and starts to open it if nobody has.
func (s *Periodic) begin(p seqd.Period) (*span, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errStopping
	}
	s.uses++
	if sp := s.spans[p]; sp != nil {
		sp.used = s.uses
		return sp, nil
	}
	if f, failed := s.failed[p]; failed && time.Since(f.tried) < openPause {
		return nil, f.err
	}
	named := s.bizType
	named.Name = p.Counter(s.bizType.Name)
	counting, err := s.open(named)
	if err != nil {
		return nil, err
	}
	counting.watch(func(ctx context.Context) error { return s.checkPurged(ctx, p) })
	sp := &span{period: p, counting: counting, used: s.uses, opened: make(chan struct{})}
	before := s.retired[p]
	if !s.startLocked(func() { s.openSpan(sp, before) }) {
		return nil, errStopping
	}
	s.spans[p] = sp
	return sp, nil
}

// openSpan opens a period, or leaves it to the next attempt. before is a span of the same period
// that is being closed, nil for none: only after that it is known what this process has issued of
// the period.
func (s *Periodic) openSpan(sp, before *span) {
	if before != nil {
		<-before.closed // bounded by its context
	}
	ctx, cancel := s.context()
	defer cancel()
	s.bequeath(sp)
	err := s.initSpan(ctx, sp)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(sp.opened)
	if s.closed {
		sp.err = errStopping // it has issued nothing
		return
	}
	if err != nil {
		s.openFailed(sp, seqd.AsError(err))
		return
	}
	delete(s.failed, sp.period)
	s.env.Log.Debug("period", "bizType", s.bizType.Name, "period", sp.period)
	s.retire(sp)
	if s.settings.PeriodRetention > 0 && sp.period > s.purged {
		s.purged = sp.period
		s.startLocked(s.purge)
	}
}

// pause waits, and reports false when the strategy is closing.
func (s *Periodic) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.running.Done():
		return false
	}
}

// initSpan creates the counter of a period unless it existed before: then it must still exist. The
// claim of a period is recorded after its counter, as that of a biz type is.
func (s *Periodic) initSpan(ctx context.Context, sp *span) error {
	if err := s.checkPurged(ctx, sp.period); err != nil {
		return err
	}
	documents := s.env.Store.Documents()
	claim := persist.Document{
		Kind: persist.PeriodKind, Key: sp.period.Counter(s.bizType.Name), Revision: 1, Body: Name, Timestamp: s.env.Now().UnixMilli(),
	}
	_, err := documents.Read(ctx, claim.Kind, claim.Key)
	fresh := isNotFound(err)
	if err != nil && !fresh {
		return storeError(err)
	}
	if err := sp.Init(ctx, fresh); err != nil || !fresh {
		return err
	}
	// If the period was purged since the first look, it has left a tombstone, and the counter that
	// was just created begins a second time.
	if err := s.checkPurged(ctx, sp.period); err != nil {
		return err
	}
	err = documents.Create(ctx, claim)
	if isExists(err) {
		return nil
	}
	return storeError(err)
}

// retire closes the spans that were used longest ago, except keep. mu is held.
func (s *Periodic) retire(keep *span) {
	for len(s.spans) > mostSpans {
		oldest := keep
		for _, sp := range s.spans {
			if sp != keep && sp.isOpen() && (oldest == keep || sp.used < oldest.used) {
				oldest = sp
			}
		}
		if oldest == keep || !s.startLocked(func() { s.closeSpan(oldest) }) {
			return
		}
		oldest.closed = make(chan struct{}) // mu is held, so before closeSpan closes it
		delete(s.spans, oldest.period)
		s.retired[oldest.period] = oldest
	}
}

func (sp *span) isOpen() bool {
	select {
	case <-sp.opened:
		return sp.err == nil
	default:
		return false
	}
}

// closeSpan ends the use of a period. What is known of it is kept.
func (s *Periodic) closeSpan(sp *span) {
	defer s.closedSpan(sp)
	ctx, cancel := s.context()
	defer cancel()
	err := sp.Close(ctx)
	if err == nil && sp.period < s.calendar.Now(s.env.Now()) {
		err = sp.forget(ctx)
	}
	if err != nil {
		s.env.Log.Info("a past period could not be closed cleanly", "bizType", s.bizType.Name, "period", sp.period, "error", err)
	}
}

// context returns a context for work in the background.
func (s *Periodic) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.running, fetchDeadline)
}

// start runs f in the background unless the strategy is closing.
func (s *Periodic) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startLocked(f)
}

// startLocked is start; mu is held.
func (s *Periodic) startLocked(f func()) bool {
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

func (s *Periodic) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// present returns the open span of the present period, or why it cannot be opened. It returns
// neither before the first request.
func (s *Periodic) present() (*span, *seqd.Error) {
	p := s.calendar.Now(s.env.Now())
	if err := p.Check(); err != nil {
		return nil, seqd.AsError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp := s.spans[p]; sp != nil && sp.isOpen() {
		return sp, nil
	}
	return nil, s.failed[p].err
}

// Health implements [seqd.HealthReporter].
func (s *Periodic) Health() error {
	sp, err := s.present()
	switch {
	case err != nil:
		return err
	case sp == nil:
		return nil
	}
	return sp.Health()
}

// Degraded implements [seqd.DegradedReporter].
func (s *Periodic) Degraded() *seqd.Error {
	if sp, _ := s.present(); sp != nil {
		return sp.Degraded()
	}
	return nil
}

// Details implements [seqd.DetailReporter].
func (s *Periodic) Details() map[string]any {
	details := map[string]any{"period": s.calendar.Now(s.env.Now()).String()}
	if sp, _ := s.present(); sp != nil {
		if d, ok := sp.counting.(seqd.DetailReporter); ok {
			maps.Copy(details, d.Details())
		}
	}
	return details
}

// Close ends issuing and gives back the numbers that only this node had, of every period.
func (s *Periodic) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.end()
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return errors.Join(err, s.closeAll(ctx))
}

// closeAll closes the spans that are open, at the same time.
func (s *Periodic) closeAll(ctx context.Context) error {
	s.mu.Lock()
	spans := slices.Collect(maps.Values(s.spans))
	s.mu.Unlock()
	failed := make([]error, len(spans))
	var wg sync.WaitGroup
	for i, sp := range spans {
		if sp.isOpen() {
			wg.Go(func() { failed[i] = sp.Close(ctx) })
		}
	}
	wg.Wait()
	return errors.Join(failed...)
}
