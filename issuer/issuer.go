package issuer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/fewlines"
)

// Definition is one biz type with its strategy and plugins.
type Definition struct {
	Strategy seqd.Strategy
	// Plugins in any order; the issuer sorts them.
	Plugins []seqd.BoundPlugin
	BizType seqd.BizType
	// Rejected overrides the issuer's rejection handler; nil leaves it.
	Rejected seqd.RejectedHandler
	// Display is a text that changes with everything that decides how numbers are shown; see
	// [seqd.Call].
	Display string
	// OnlyDegrades is true if the biz type was defined while nodes served. If its definition cannot
	// be used here ([seqd.CodeConflict]), the node is degraded and not unready, because one mistake
	// of an administrator must not take every node out of service.
	OnlyDegrades bool
	// Claim checks the definition against the record of the biz type in the store. strategy.NewClaim
	// makes a Claim. Without one nothing checks that the definition fits the numbers that earlier
	// processes issued, and a counter that the store has lost begins again. The log warns once.
	Claim seqd.Claim
	// Recall finds the numbers that a request with [seqd.Call].Once got before the biz type got its
	// present shape. It is called only while Claim reports [seqd.Claim].Reshaped. It is nil if only
	// the caller of [Issuer.Issue] could have kept such answers.
	Recall seqd.Recaller
	// Follows is called before numbers are issued for a request with [seqd.Call].Once, unless the
	// strategy is a [seqd.Ledger]. An error says that another process may have answered the request
	// under a definition that this process does not know yet; then Issue returns that error. Follows
	// is nil if no other process changes the biz type.
	Follows func(ctx context.Context) error
	// Disabled is the error that callers get if the biz type must not issue; nil if it may. A
	// disabled biz type needs no Strategy. Its plugins still answer [Issuer.Resource]. It still
	// answers [Issuer.Parse] if BizType has its settings and Plugins has all plugins.
	Disabled *seqd.Error
}

// Options are the parts of an [Issuer] that all its biz types share. Zero values are replaced by
// defaults.
type Options struct {
	// Rejected is called for each refusal; default: [seqd.LogRejected] on Log.
	Rejected seqd.RejectedHandler
	// Observer counts; default: nothing.
	Observer seqd.Observer
	// PluginTimeout is how long a request waits in all for plugins that are not
	// [seqd.BoundPlugin].Quick; default: 5 s.
	PluginTimeout time.Duration
	// Source fetches the biz types that the issuer does not hold; nil if it holds all.
	Source Source
	// Log is for operators; default: [slog.Default].
	Log *slog.Logger
}

// defaultPluginTimeout is the default of [Options].PluginTimeout.
const defaultPluginTimeout = 5 * time.Second

// Issuer issues the numbers of many biz types. It is safe for concurrent use.
type Issuer struct {
	names         names
	changes       changes
	opener        opener
	fetcher       fetcher
	rejected      seqd.RejectedHandler
	observer      seqd.Observer
	latency       seqd.LatencyObserver // the observer, nil if it is none
	log           *slog.Logger
	failures      *fewlines.Log
	pluginTimeout time.Duration // see [Options]
	// unclaimed warns of the first biz type without a Claim.
	unclaimed sync.Once
}

// New returns an Issuer that holds these biz types. The error names the biz type whose definition
// is wrong. New does no I/O: see [Issuer.Init].
func New(definitions []Definition, opts Options) (*Issuer, error) {
	is := &Issuer{
		rejected: opts.Rejected, observer: opts.Observer, log: opts.Log, pluginTimeout: cmp.Or(opts.PluginTimeout, defaultPluginTimeout),
		changes: changes{ended: make(chan struct{})},
	}
	if is.log == nil {
		is.log = slog.Default()
	}
	if is.observer == nil {
		is.observer = seqd.NopObserver{}
	}
	is.failures = fewlines.New(is.log)
	is.latency, _ = is.observer.(seqd.LatencyObserver)
	if is.rejected == nil {
		is.rejected = seqd.LogRejected(is.log)
	}
	is.fetcher.init(opts.Source)
	is.opener.more = make(chan struct{}, 1)
	is.names.first = make(map[string]*seat, len(definitions))
	seats := make([]seat, len(definitions))
	for n, d := range definitions {
		if _, twice := is.names.first[d.BizType.Name]; twice {
			return nil, fmt.Errorf("biz type %s is defined twice", d.BizType.Name)
		}
		if err := d.check(); err != nil {
			return nil, err
		}
		seats[n].fill(is.stateOf(d))
		is.names.first[d.BizType.Name] = &seats[n]
	}
	return is, nil
}

// stateOf returns what the seat of a definition holds.
func (is *Issuer) stateOf(d Definition) seatState {
	if d.Disabled != nil {
		return refusingState(d.Disabled, is.newInstance(d).atRest())
	}
	if d.Claim == nil {
		is.unclaimed.Do(func() {
			is.log.Warn("a biz type has no Claim: nothing checks that its definition still fits the numbers that it has issued; see strategy.NewClaim. Others like it are not named",
				"bizType", d.BizType.Name)
		})
	}
	return servingState(is.newInstance(d))
}

// check returns what is wrong with a definition.
func (d *Definition) check() error {
	if err := seqd.CheckName(d.BizType.Name); err != nil {
		return err
	}
	if d.Strategy == nil && d.Disabled == nil {
		return fmt.Errorf("biz type %s has no strategy", d.BizType.Name)
	}
	return nil
}

// Next issues n numbers of a biz type. It is [Issuer.Issue] for callers that can afford an
// allocation.
func (is *Issuer) Next(ctx context.Context, bizType string, n int) (*seqd.Sequence, error) {
	call := &seqd.Call{BizType: bizType, Count: n}
	if err := is.Issue(ctx, call); err != nil {
		return nil, err
	}
	return &call.Sequence, nil
}

// Issue fills call.Sequence with call.Count numbers of call.BizType, of the kind that call.Want
// names. If it fails, it returns an [*seqd.Error], and call.Sequence is empty. Numbers that the
// failed call had taken are skipped, or given back if the strategy is a [seqd.Ledger].
func (is *Issuer) Issue(ctx context.Context, call *seqd.Call) error {
	clearAnswer(call)
	s := is.names.find(call.BizType)
	if s == nil {
		if err := is.fetcher.absent(call.BizType); err != nil {
			return err
		}
	}
	if uint(call.Count)-1 >= seqd.MaxCount || call.Want != seqd.AnyNumbers {
		if err := checkCall(call); err != nil {
			return err
		}
	}
	if is.latency == nil {
		_, err := is.issue(ctx, s, call)
		return err
	}
	began := time.Now()
	s, err := is.issue(ctx, s, call)
	if s != nil {
		is.latency.Took(s.strategy(), int64(time.Since(began)))
	}
	return err
}

// issue issues from the instance in a seat, nil if there is none yet. If a change replaces that
// instance first, it issues from the next one. It returns the seat that it has found last.
func (is *Issuer) issue(ctx context.Context, s *seat, call *seqd.Call) (*seat, error) {
	p := progress{call: call, waits: waits{pluginTimeout: is.pluginTimeout}}
	for {
		i := s.enter()
		if i == nil {
			var err error
			if s, i, err = is.admit(ctx, call.BizType, &p.waits, false); err != nil {
				return s, is.refuse(ctx, call, seqd.AsError(err))
			}
		}
		err := is.run(ctx, i, &p)
		replaced := err != nil && is.replaced(s, i, err)
		if replaced {
			is.undo(ctx, i, &p, seqd.AsError(err))
			call.Limit = seqd.Limit{} // it was that of another definition
		} else if err != nil {
			err = is.reject(ctx, i, &p, err)
		}
		i.leave()
		if !replaced {
			return s, err
		}
	}
}

// run calls the plugins and the strategy.
func (is *Issuer) run(ctx context.Context, i *instance, p *progress) (err error) {
	call := p.call
	count, want, key, ordered := call.Count, call.Want, call.Key, needsLedger(call)
	var o seqd.Order
	if ordered {
		o = orderOf(call)
	}
	if err := p.before(ctx, i); err != nil {
		return err
	}
	if !i.ready.Load() {
		if err := is.initialise(ctx, i, &p.waits); err != nil {
			return err
		}
	}
	i.prepare(&call.Sequence, key, &call.Caller)
	if !call.Made.IsZero() {
		call.Sequence.MadeAt(call.Made)
	}
	if ordered {
		err = i.carryOut(ctx, o, want, call)
	} else {
		err = makeNumbers(ctx, i, want, count, &call.Sequence)
	}
	if err != nil {
		return err
	}
	if got := call.Sequence.Len(); got != count && (want != seqd.OneRange || count != 0) {
		return fmt.Errorf("strategy %s returned %d numbers instead of %d", i.kind, got, count)
	}
	return is.deliver(ctx, i, p)
}

// makeNumbers generates numbers of the kind that a caller wants.
func makeNumbers(ctx context.Context, i *instance, want seqd.Want, n int, seq *seqd.Sequence) error {
	if want == seqd.AnyNumbers {
		return generate(ctx, i, n, seq)
	}
	return generateOne(ctx, i, want, n, seq)
}

func generate(ctx context.Context, i *instance, n int, seq *seqd.Sequence) (err error) {
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	return i.strategy.Generate(ctx, n, seq)
}

// generateOne makes the numbers of a call that wants one run. checkWant has agreed.
func generateOne(ctx context.Context, i *instance, want seqd.Want, n int, seq *seqd.Sequence) (err error) {
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	switch {
	case want == seqd.OneRange:
		err = i.can.ranges.GenerateRange(ctx, int64(n), seq)
	case n == 1:
		err = i.strategy.Generate(ctx, n, seq)
	default:
		err = i.can.consecutive.GenerateConsecutive(ctx, n, seq)
	}
	if err == nil && (len(seq.Runs()) != 1 || want == seqd.Consecutive && !seq.Consecutive()) {
		return fmt.Errorf("strategy %s returned %d runs instead of one", i.kind, len(seq.Runs()))
	}
	return err
}

// deliver calls After of the plugins for a call that has its numbers.
func (is *Issuer) deliver(ctx context.Context, i *instance, p *progress) error {
	if len(i.chain) > 0 {
		p.resume()
		if err := is.after(ctx, i, p.call, &p.waits); err != nil {
			return err
		}
		p.restore(i)
	}
	if !p.call.Replayed {
		is.observer.Issued(i.name, p.call.Sequence.Len())
	}
	return nil
}

// after calls After of the plugins.
func (is *Issuer) after(ctx context.Context, i *instance, call *seqd.Call, w *waits) error {
	m := i.undelivered(call) // before plugins can change it
	err := is.showAll(ctx, i, call, w)
	if err != nil {
		is.giveBack(i, m, err)
	}
	return err
}

// showAll calls After of the plugins, or, if the numbers were issued before, of those that change
// how numbers are shown.
func (is *Issuer) showAll(ctx context.Context, i *instance, call *seqd.Call, w *waits) error {
	count, sum := call.Sequence.Len(), sumOf(&call.Sequence)
	call.Count = count
	for _, plug := range i.chain {
		if call.Replayed && !plug.Rewrites {
			continue
		}
		if err := w.after(ctx, plug, call); err != nil {
			return err
		}
		if err := checkShown(&call.Sequence, sum); err != nil {
			return fmt.Errorf("plugin %s broke the answer: %w", plug.Name, err)
		}
	}
	return nil
}

// carryOut answers a call that reserves, or that may be repeated.
func (i *instance) carryOut(ctx context.Context, o seqd.Order, want seqd.Want, call *seqd.Call) (err error) {
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	err = i.recall(ctx, o, call)
	switch {
	case err != nil || call.Replayed:
		return err
	case !i.keepsAnswers() && o.Once != "" && o.NoAnswer != nil:
		return o.NoAnswer
	case !i.keepsAnswers():
		if o.Once != "" && i.follows != nil {
			if err := i.follows(ctx); err != nil {
				return err
			}
		}
		return makeNumbers(ctx, i, want, o.Count, &call.Sequence)
	}
	call.Reservation, call.Replayed, err = i.can.ledger.HandOut(ctx, o, &call.Sequence) // checkAllowed has agreed
	if err == nil {
		call.AnswerKept = false
	}
	return err
}

// replaced reports whether an error of an instance came because another one replaces it.
func (is *Issuer) replaced(s *seat, i *instance, err error) bool {
	return seqd.CodeOf(err) == seqd.CodeStopping && s.serving.Load() != i && !is.changes.over()
}

// undo takes a call back to before its plugins, and calls OnError of those that were entered.
func (is *Issuer) undo(ctx context.Context, i *instance, p *progress, refusal *seqd.Error) {
	p.restore(i)
	p.call.Sequence.Reset()
	for _, plug := range i.chain[:p.entered] {
		if err := p.waits.onError(ctx, plug, p.call, refusal); err != nil {
			is.failures.Error("OnError failed", "bizType", i.name, "error", err)
		}
	}
}

// find returns the instance of a name, as admit does.
func (is *Issuer) find(ctx context.Context, name string, show bool) (*instance, error) {
	_, i, err := is.admit(ctx, name, &waits{}, show)
	return i, err
}

// admit returns the seat of a name and the instance in it, after the change under way, and enters
// the instance; the caller must leave it. If show is set, it may be an instance at rest. A biz type
// that the issuer does not hold is fetched first. s is nil if there is none.
func (is *Issuer) admit(ctx context.Context, name string, w *waits, show bool) (s *seat, i *instance, err error) {
	for {
		s, c, err := is.settled(ctx, name, w)
		switch {
		case err != nil && (!show || c.instance == nil):
			return s, nil, err
		case c.instance.enter():
			return s, c.instance, nil
		case is.changes.over():
			c.instance.calls.force() // nothing replaces it, and it can still read old IDs
			return s, c.instance, nil
		}
	}
}

// reject calls OnError of the plugins that were entered, the plugins that are a
// [seqd.RejectedHandler], the rejection handler and the observer. It returns what the caller gets.
func (is *Issuer) reject(ctx context.Context, i *instance, p *progress, err error) error {
	call, refusal := p.call, seqd.AsError(err)
	is.undo(ctx, i, p, refusal)
	is.logDefect(call, refusal)
	for _, plug := range i.chain {
		if plug.rejected == nil {
			continue
		}
		if err := p.waits.rejected(ctx, plug, call, refusal); err != nil {
			is.failures.Error("plugin failed to handle a refusal", "bizType", call.BizType, "error", err)
		}
	}
	return is.conclude(ctx, i.rejected, call, refusal)
}

// conclude calls the rejection handler and the observer, and returns what the caller gets.
func (is *Issuer) conclude(ctx context.Context, handler seqd.RejectedHandler, call *seqd.Call, refusal *seqd.Error) error {
	if err := tell(ctx, handler, call, refusal); err != nil {
		is.failures.Error("rejection handler failed", "bizType", call.BizType, "error", err)
	}
	is.observer.Rejected(call.BizType, refusal.Code)
	return refusal
}

// logDefect logs a refusal that a defect caused.
func (is *Issuer) logDefect(call *seqd.Call, refusal *seqd.Error) {
	if refusal.Code.Defect() {
		is.failures.Error("request failed", "bizType", call.BizType, "error", refusal, "requestId", call.Caller.RequestID)
	}
}

// refuse refuses a call to a seat that does not serve.
func (is *Issuer) refuse(ctx context.Context, call *seqd.Call, refusal *seqd.Error) error {
	if refusal.Code == seqd.CodeUnknownBizType {
		return refusal
	}
	is.logDefect(call, refusal)
	return is.conclude(ctx, is.rejected, call, refusal)
}

// tell calls a rejection handler.
func tell(ctx context.Context, handler seqd.RejectedHandler, call *seqd.Call, refusal *seqd.Error) (err error) {
	defer recoverFrom(seqd.CodeInternal, "rejection handler of", call.BizType, &err)
	handler.Rejected(ctx, call, refusal)
	return nil
}

// recoverFrom turns a panic into an error. It must be deferred directly.
func recoverFrom(code seqd.Code, kind, name string, err *error) {
	if p := recover(); p != nil {
		*err = &seqd.Error{Code: code, Detail: kind + " " + name + " panicked", Err: fmt.Errorf("%v\n%s", p, debug.Stack())}
	}
}
