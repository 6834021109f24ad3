package seqd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Definition is one biz type with everything that stands around it.
type Definition struct {
	Strategy Strategy
	// Plugins in any order; the issuer sorts them.
	Plugins []BoundPlugin
	BizType BizType
	// Rejected overrides the issuer's rejection handler; nil leaves it.
	Rejected RejectedHandler
	// Aside says that the biz type was defined while nodes served: where its definition cannot be
	// used here ([CodeConflict]), the node counts as degraded and not as unready. Else one mistake
	// of an administrator would take every node out of service.
	Aside bool
	// Claim ties the biz type to what the store knows of it; nil means that nothing is kept beyond
	// this process.
	Claim Claim
	// Disabled is why the biz type must not issue, and what callers get; nil if it may. Then it
	// needs no Strategy, and Plugins are only there for what they show: see [Issuer.Resource].
	Disabled *Error
}

// Claim guards that numbers of a biz type are only ever made in one shape (strategy, layout,
// display), so that a changed configuration cannot repeat an ID (invariant U6).
type Claim interface {
	// Check returns fresh = true when the store knows nothing of the biz type, and [CodeConflict]
	// when it knows another shape.
	Check(ctx context.Context) (fresh bool, err error)
	// Record stores the shape, after Strategy.Init and before the first number.
	Record(ctx context.Context) error
}

// Options are the parts of an [Issuer] that all its biz types share. Zero values are replaced by
// defaults.
type Options struct {
	// Rejected is told of refusals; default: [LogRejected] on Log.
	Rejected RejectedHandler
	// Observer counts; default: nothing.
	Observer Observer
	// PluginTimeout is how long a request waits in all for plugins that are not
	// [BoundPlugin].Quick; default: 5 s.
	PluginTimeout time.Duration
	// Log gets what an operator should see; default: [slog.Default].
	Log *slog.Logger
}

// pluginTimeout is the default of [Options].PluginTimeout.
const pluginTimeout = 5 * time.Second

// Issuer hands out numbers: definition → Before of each plugin → strategy → After of each plugin →
// rejection. It is safe for concurrent use.
type Issuer struct {
	names    table
	changes  changes
	opener   opener
	rejected RejectedHandler
	observer Observer
	latency  LatencyObserver // the observer, nil where it does not want to know
	log      *slog.Logger
	patience time.Duration // with plugins
}

// NewIssuer returns an issuer for the given biz types, or an error that names the one that is
// wrong.
func NewIssuer(definitions []Definition, opts Options) (*Issuer, error) {
	is := &Issuer{
		rejected: opts.Rejected, observer: opts.Observer, log: opts.Log, patience: cmp.Or(opts.PluginTimeout, pluginTimeout),
		changes: changes{ended: make(chan struct{})},
	}
	if is.log == nil {
		is.log = slog.Default()
	}
	if is.observer == nil {
		is.observer = NopObserver{}
	}
	is.latency, _ = is.observer.(LatencyObserver)
	if is.rejected == nil {
		is.rejected = LogRejected(is.log)
	}
	base := make(map[string]*entry, len(definitions))
	for _, d := range definitions {
		if _, twice := base[d.BizType.Name]; twice {
			return nil, fmt.Errorf("biz type %s is defined twice", d.BizType.Name)
		}
		if err := d.check(); err != nil {
			return nil, err
		}
		base[d.BizType.Name] = is.newEntry(d)
	}
	is.names.base.Store(&base)
	return is, nil
}

// check returns what makes no sense.
func (d *Definition) check() error {
	if err := CheckName(d.BizType.Name); err != nil {
		return err
	}
	if d.Strategy == nil && d.Disabled == nil {
		return fmt.Errorf("biz type %s has no strategy", d.BizType.Name)
	}
	return nil
}

// newEntry returns the entry of a definition.
func (is *Issuer) newEntry(d Definition) *entry {
	if d.Rejected == nil {
		d.Rejected = is.rejected
	}
	e := &entry{Definition: d, chain: newChain(d.Plugins), gone: d.Disabled}
	for _, l := range e.chain {
		if _, ok := l.Plugin.(Closer); ok {
			e.closes = true
		}
	}
	return e
}

// Next issues n numbers of a biz type. It is [Issuer.Issue] for callers inside the process that do
// not mind an allocation.
func (is *Issuer) Next(ctx context.Context, bizType string, n int) (*Sequence, error) {
	call := &Call{BizType: bizType, Count: n}
	if err := is.Issue(ctx, call); err != nil {
		return nil, err
	}
	return &call.Sequence, nil
}

// Issue fills call.Sequence with call.Count (1 to MaxCount) numbers of call.BizType, or returns an
// [*Error] and leaves it empty. Whatever numbers a failed call had taken are skipped.
func (is *Issuer) Issue(ctx context.Context, call *Call) error {
	call.Sequence.Reset()
	call.Limit = Limit{}
	head := is.names.find(call.BizType)
	if head == nil {
		var err error
		if head, err = is.lookup(call.BizType); err != nil {
			return err
		}
	}
	if call.Count < 1 || call.Count > MaxCount {
		return Errorf(CodeInvalidCount, "count is %d and must be from 1 to %d", call.Count, MaxCount)
	}
	if is.latency == nil {
		return is.issue(ctx, head, call)
	}
	began := time.Now()
	err := is.issue(ctx, head, call)
	is.latency.Took(head.newest().BizType.Strategy, int64(time.Since(began)))
	return err
}

// issue is Issue from a head on.
func (is *Issuer) issue(ctx context.Context, head *entry, call *Call) error {
	w := walk{patience: is.patience}
	if head.ready.Load() && !head.closes {
		if moved, err := is.issueFrom(ctx, head, head, call, &w); !moved {
			return err
		}
	}
	for {
		e, err := is.admit(ctx, head, &w)
		if err != nil {
			return is.refuse(ctx, call, AsError(err))
		}
		moved, err := is.issueFrom(ctx, head, e, call, &w)
		e.leave()
		if !moved {
			return err
		}
	}
}

// issueFrom issues from one entry. moved is true when it was closed because another one takes its
// place.
func (is *Issuer) issueFrom(ctx context.Context, head, e *entry, call *Call, w *walk) (moved bool, err error) {
	count := call.Count
	entered, err := is.run(ctx, e, call, w)
	call.BizType, call.Count = e.BizType.Name, count // whatever plugins made of them
	switch {
	case err == nil:
		is.observer.Issued(call.BizType, count)
		return false, nil
	case CodeOf(err) == CodeStopping && head.newest() != e && !is.changes.over():
		is.undo(ctx, e, call, w, entered, AsError(err))
		call.Limit = Limit{} // it was that of another definition
		return true, nil
	}
	return false, is.reject(ctx, e, call, w, entered, err)
}

// undo tells the plugins that were entered that the call came to nothing.
func (is *Issuer) undo(ctx context.Context, e *entry, call *Call, w *walk, entered int, refusal *Error) {
	call.Sequence.Reset()
	for _, l := range e.chain[:entered] {
		if err := w.onError(ctx, l, call, refusal); err != nil {
			is.log.Error("OnError failed", "bizType", call.BizType, "error", err)
		}
	}
}

// lookup finds the head of a biz type; the names of unknown ones are checked only then, so that the
// common path is one map look-up.
func (is *Issuer) lookup(name string) (*entry, error) {
	if e := is.names.find(name); e != nil {
		return e, nil
	}
	if e := is.names.findAdded(name); e != nil {
		return e, nil
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return nil, unknown(name)
}

// find finds what stands for a biz type now, and enters it: whoever calls it must leave.
func (is *Issuer) find(ctx context.Context, name string) (*entry, error) {
	head, err := is.lookup(name)
	if err != nil {
		return nil, err
	}
	return is.admit(ctx, head, &walk{})
}

// admit enters what stands in the place of a head.
func (is *Issuer) admit(ctx context.Context, head *entry, w *walk) (*entry, error) {
	return is.admitTo(ctx, head, w, false)
}

// admitTo is admit, to show as well: that is done by what is disabled, too.
func (is *Issuer) admitTo(ctx context.Context, head *entry, w *walk, show bool) (*entry, error) {
	for {
		e, err := is.present(ctx, head, w)
		switch {
		case err != nil && (!show || e == nil || e.Disabled == nil):
			return nil, err
		case e.enter():
			return e, nil
		case is.changes.over():
			e.inside.add() // nothing will take its place; what it says of the past it still says
			return e, nil
		}
	}
}

// run walks the chain and returns how many plugins were entered.
func (is *Issuer) run(ctx context.Context, e *entry, call *Call, w *walk) (entered int, err error) {
	count := call.Count
	for _, l := range e.chain {
		if err := w.before(ctx, l, call); err != nil {
			return entered, err
		}
		entered++
	}
	if !e.ready.Load() {
		if err := is.initialise(ctx, e, w); err != nil {
			return entered, err
		}
	}
	if err := generate(ctx, e, count, &call.Sequence); err != nil {
		return entered, err
	}
	if got := call.Sequence.Len(); got != count {
		return entered, fmt.Errorf("strategy %s returned %d numbers instead of %d", e.BizType.Strategy, got, count)
	}
	if len(e.chain) == 0 {
		return 0, nil
	}
	sum := call.Sequence.sum()
	for _, l := range e.chain {
		if err := w.after(ctx, l, call); err != nil {
			is.abandoned(e, count, err)
			return entered, err
		}
		if err := call.Sequence.check(count, sum); err != nil {
			is.abandoned(e, count, err)
			return entered, fmt.Errorf("plugin %s spoilt the answer: %w", l.Name, err)
		}
	}
	return entered, nil
}

// abandoned tells of numbers that the strategy gave and a plugin refused.
func (is *Issuer) abandoned(e *entry, n int, why error) {
	is.observer.Event(Event{BizType: e.BizType.Name, Kind: EventAbandoned, Numbers: int64(n), Err: why})
}

func generate(ctx context.Context, e *entry, n int, seq *Sequence) (err error) {
	defer recoverFrom(CodeInternal, "strategy", e.BizType.Strategy, &err)
	return e.Strategy.Generate(ctx, n, seq)
}

// reject tells the plugins that were entered, those that want to know of every refusal, the
// rejection handler and the observer, and returns what the caller gets.
func (is *Issuer) reject(ctx context.Context, e *entry, call *Call, w *walk, entered int, err error) error {
	refusal := AsError(err)
	if defect(refusal.Code) {
		is.log.Error("request failed", "bizType", call.BizType, "requestId", call.Caller.RequestID, "error", refusal)
	}
	is.undo(ctx, e, call, w, entered, refusal)
	for _, l := range e.chain {
		if l.rejected == nil {
			continue
		}
		if err := w.rejected(ctx, l, call, refusal); err != nil {
			is.log.Error("plugin was not told of a refusal", "bizType", call.BizType, "error", err)
		}
	}
	if err := tell(ctx, e, call, refusal); err != nil {
		is.log.Error("rejection handler failed", "bizType", call.BizType, "error", err)
	}
	is.observer.Rejected(call.BizType, refusal.Code)
	return refusal
}

// defect reports whether a code says that a program is wrong, and not a caller or a back end.
func defect(code Code) bool { return code == CodeInternal || code == CodePluginPanic }

// refuse refuses a call for a biz type that is there but must not issue.
func (is *Issuer) refuse(ctx context.Context, call *Call, refusal *Error) error {
	if refusal.Code == CodeUnknownBizType {
		return refusal
	}
	return is.reject(ctx, &entry{Definition: Definition{BizType: BizType{Name: call.BizType}, Rejected: is.rejected}}, call, nil, 0, refusal)
}

// tell calls the rejection handler.
func tell(ctx context.Context, e *entry, call *Call, refusal *Error) (err error) {
	defer recoverFrom(CodeInternal, "rejection handler of", e.BizType.Name, &err)
	e.Rejected.Rejected(ctx, call, refusal)
	return nil
}

// recoverFrom turns a panic into an error of this one request. It must be deferred directly.
func recoverFrom(code Code, kind, name string, err *error) {
	if p := recover(); p != nil {
		*err = &Error{Code: code, Detail: kind + " " + name + " panicked", Err: fmt.Errorf("%v\n%s", p, debug.Stack())}
	}
}

// Parsed is what an ID says.
type Parsed struct {
	// Number is the number behind the display form.
	Number int64
	// Valid is false when the ID carries a check digit that does not fit.
	Valid bool
	// Time is when the number was made, the zero time where it does not say.
	Time time.Time
	// Period is what the date in the ID says, 0 where there is none.
	Period Period
	// MachineID and Sequence are nil where the number does not say.
	MachineID, Sequence *int64
}

// Parse reads an ID back. It says whether text has the form of an ID of this biz type, not whether
// it was issued.
func (is *Issuer) Parse(bizType, id string) (Parsed, error) {
	e, err := is.find(context.Background(), bizType)
	if err != nil {
		return Parsed{}, err
	}
	defer e.leave()
	p, shown, err := e.read(id)
	if err != nil {
		return Parsed{}, err
	}
	most := MaxNumber
	parser, ok := e.Strategy.(Parser)
	if ok {
		most = math.MaxInt64
	}
	number, err := strconv.ParseInt(shown, 10, 64)
	switch {
	case err != nil && errors.Is(err, strconv.ErrRange), err == nil && (number < 1 || number > most):
		return Parsed{}, Errorf(CodeInvalidID, "%s is outside 1 to %d, where all numbers of %s are", shorten(shown), most, bizType)
	case err != nil || strconv.FormatInt(number, 10) != shown:
		return Parsed{}, Errorf(CodeInvalidID, "%s is no ID of %s: an ID is a decimal number without sign or leading zeros",
			shorten(shown), bizType)
	case ok:
		valid, period := p.Valid, p.Period
		p, err = parser.Parse(number)
		p.Valid, p.Period = p.Valid && valid, period
		return p, err
	}
	p.Number = number
	return p, nil
}

// read takes back what plugins made of a number, the last one first.
func (e *entry) read(id string) (p Parsed, shown string, err error) {
	p.Valid, shown = true, id
	for _, l := range slices.Backward(e.chain) {
		reader, ok := l.Plugin.(Reader)
		switch {
		case ok:
			reading, err := l.read(reader, shown)
			if err != nil {
				return p, "", err
			}
			shown, p.Valid = reading.Shown, p.Valid && !reading.Invalid
			p.Period = cmp.Or(p.Period, reading.Period)
		case l.Rewrites:
			return p, "", Errorf(CodeInvalidID, "IDs of %s cannot be read back: the plugin %s has no way to", e.BizType.Name, l.Name)
		}
	}
	return p, shown, nil
}

func (l *link) read(reader Reader, shown string) (r Reading, err error) {
	defer recoverFrom(CodePluginPanic, "plugin", l.Name, &err)
	return reader.Read(shown)
}

// Resource returns what a plugin has to show of a biz type; see [Resource]. It does so as well
// while the biz type is disabled or cannot issue.
func (is *Issuer) Resource(ctx context.Context, bizType, name string, query url.Values) (shown any, err error) {
	head, err := is.lookup(bizType)
	if err != nil {
		return nil, err
	}
	e, err := is.admitTo(ctx, head, &walk{}, true)
	if err != nil {
		return nil, err
	}
	defer e.leave()
	for _, l := range e.chain {
		if r, ok := l.Plugin.(Resource); ok && r.ResourceName() == name {
			defer recoverFrom(CodePluginPanic, "plugin", l.Name, &err)
			return r.Show(ctx, query)
		}
	}
	return nil, Errorf(CodeNotFound, "the biz type %s has no plugin that shows %s", bizType, shorten(name))
}

// shorten quotes text of unknown length for an error message.
func shorten(text string) string {
	const most = 40
	if len(text) > most {
		return strconv.QuoteToASCII(text[:most]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

// Close closes every strategy that was initialised, several at a time, and returns their errors. A
// call to Issue after Close gets [CodeStopping].
func (is *Issuer) Close(ctx context.Context) error {
	is.changes.end(ctx)
	entries := is.open()
	for _, e := range entries {
		e.stop()
	}
	var (
		mu     sync.Mutex // guards what follows
		failed []error
		total  int
	)
	each(entries, func(e *entry) {
		if err := e.close(ctx); err != nil {
			mu.Lock()
			defer mu.Unlock()
			if total++; total <= mostFailed {
				failed = append(failed, fmt.Errorf("close biz type %s: %w", e.BizType.Name, err))
			}
		}
	})
	if total > mostFailed {
		failed = append(failed, fmt.Errorf("%d biz types more did not close well", total-mostFailed))
	}
	return errors.Join(failed...)
}

// mostFailed is how many biz types an error of Close tells of: there may be 100,000.
const mostFailed = 10

// parallel bounds how many biz types are opened or closed at once; the store merges what comes
// together: the more, the fewer times it has to sync.
const parallel = 256

// each runs f on every entry, several at a time, and returns when all are done.
func each(entries []*entry, f func(*entry)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, e := range entries {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(e)
		})
	}
	wg.Wait()
}

// retryInit is the longest pause between two attempts to initialise what failed.
const retryInit = time.Second
