package segment

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// Keyed issues the numbers of one biz type that counts for each key on its own, and, if its numbers
// reset, for each key and period. Every key has a counter, and a strategy while the node uses it.
// It is safe for concurrent use.
//
// There is no record of a key but its counter, so a cold key that exists costs one call of the
// store. A counter that is missing belongs to a new key. If it was lost, its numbers would begin
// again; so a store that has failed over creates none (see [persist.Fenced]), and this process
// creates none that it remembers (see [counters.Memory]).
type Keyed struct {
	family
	pulse pulse
	parts counters.Periods[*keyPart] // what the keys of a period share
}

const (
	// idleKey is for how long a key may be unused before its numbers go back to the store. Then
	// they are not skipped if the node crashes, and other nodes get them. A key that is used less
	// often costs two writes for each use instead of one in many; at 10 minutes that is next to
	// nothing.
	idleKey = 10 * time.Minute
)

var (
	_ seqd.Strategy         = (*Keyed)(nil)
	_ seqd.KeyLister        = (*Keyed)(nil)
	_ seqd.HealthReporter   = (*Keyed)(nil)
	_ seqd.DegradedReporter = (*Keyed)(nil)
	_ seqd.DetailReporter   = (*Keyed)(nil)
	_ seqd.Measurer         = (*Keyed)(nil)
	_ seqd.Testator         = (*Keyed)(nil)
)

// newKeyed makes the strategy of a keyed biz type.
func newKeyed(env strategy.Env, bizType seqd.BizType, settings *Settings, open opener) *Keyed {
	s := &Keyed{}
	s.parts.New = s.newPart
	s.family.init(env, bizType, settings, open)
	s.memory.Least = max(counters.Remembered, settings.LiveKeys)
	s.pulse = pulse{
		tell: func(e seqd.Event) { e.BizType = bizType.Name; env.Observer.Event(e) },
		log: func(err error) {
			if err != nil {
				env.Log.Error("no ranges from the store", "bizType", bizType.Name, "error", err)
				return
			}
			env.Log.Info("the store gives ranges again", "bizType", bizType.Name)
		},
		watch: func() { s.start(s.watchStore) },
	}
	s.set = counters.NewSet(counters.Options[counting]{
		Most: s.settings.LiveKeys, MostEach: s.settings.LiveKeysPerCaller, Idle: idleKey, Wait: s.settings.AcquireTimeout, Timeout: fetchDeadline, Context: s.running,
		Open: s.openKey, Close: s.closeCounter,
	})
	return s
}

// partOf returns what the keys of a period share that a caller opens.
func (s *Keyed) partOf(p seqd.Period, by string) *keyPart {
	part := s.parts.Of(p)
	if s.settings.NewKeysPerCaller > 0 { // otherwise it does not matter who
		own := *part
		own.by, part = by, &own
	}
	return part
}

// newPart returns what the keys of a period share.
func (s *Keyed) newPart(p seqd.Period) *keyPart {
	return &keyPart{pulse: &s.pulse, family: &s.family, period: p, places: counters.NewPlaces(counters.PlacesConfig{
		Counters: s.env.Store.Counters(), Now: s.env.Now, Log: s.env.Log, BizType: s.bizType.Name, Strategy: Name,
		Name: counters.PlacesName(s.bizType.Name, p), Most: s.settings.MaxKeys, Running: s.running,
		Documents: s.env.Store.Documents(), MostNew: s.settings.NewKeysPerCaller,
		Keys: func(ctx context.Context) (int64, error) { return s.countKeys(ctx, p) },
	})}
}

// Init makes sure that the store can be read. Counters are created when their keys are used.
func (s *Keyed) Init(ctx context.Context, _ bool) error {
	return storeError(s.parts.Of(s.present()).places.Look(ctx))
}

// Generate adds n numbers of the key of seq, and of the period that is present when the call
// begins.
func (s *Keyed) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.ask(ctx, counting.Generate, n, seq)
}

// GenerateSome implements [seqd.PartialGenerator].
func (s *Keyed) GenerateSome(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateSome(ctx, n, seq, s)
}

// GenerateConsecutive implements [seqd.ConsecutiveGenerator].
func (s *Keyed) GenerateConsecutive(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateConsecutive(ctx, n, seq, s)
}

// GenerateRange refuses: it would need a floor for each key that has ever handed out a range.
func (s *Keyed) GenerateRange(context.Context, int64, *seqd.Sequence) error {
	return seqd.Errorf(seqd.CodeInvalidRequest, "%s hands out no ranges: it counts for each key on its own", s.bizType.Name)
}

// some implements [takesSome].
func (s *Keyed) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.ask(ctx, counting.some, n, seq)
}

// ask gets numbers of a key.
func (s *Keyed) ask(ctx context.Context, get func(counting, context.Context, int, *seqd.Sequence) error, n int, seq *seqd.Sequence) error {
	name := counters.Name{Key: seq.Key(), Period: s.present()}
	e, err := s.acquire(ctx, name, seq.Asker())
	if err != nil {
		return err
	}
	err = get(e.Counter(), ctx, n, seq)
	e.Release()
	seq.In(name.Period)
	if err != nil && isHopeless(err) {
		s.set.Forget(name) // it does not count, and would stay open
	}
	return err
}

// acquire returns the strategy of a counter, open.
func (s *Keyed) acquire(ctx context.Context, name counters.Name, by string) (*counters.Entry[counting], error) {
	if s.settings.NewKeysPerCaller > 0 {
		if err := s.parts.Of(name.Period).places.Check(ctx, by); err != nil && !s.exists(ctx, name) {
			return nil, err
		}
	}
	e, err := s.set.Acquire(ctx, name, by)
	if err == nil {
		return e, nil
	}
	if errors.Is(err, counters.ErrLate) {
		if away := s.pulse.why(); away != nil {
			return nil, storeError(away)
		}
	}
	if checked := name.Period.Check(); checked != nil {
		return nil, checked
	}
	return nil, err
}

// exists reports whether a key has a counter, or a caller who may create it is about to, or nobody
// knows.
func (s *Keyed) exists(ctx context.Context, name counters.Name) bool {
	if _, open := s.set.Peek(name); open {
		return true
	}
	_, err := s.env.Store.Counters().Read(ctx, name.Counter(s.bizType.Name))
	return !isNotFound(err)
}

// present returns the present period, 0 if numbers never reset.
func (s *Keyed) present() seqd.Period {
	if !s.resets() {
		return 0
	}
	p := s.calendar.Present(s.env.Now()).Period
	if s.purger.Due(p) {
		s.start(s.purger.Run)
	}
	return p
}

// openKey opens the counter of a key.
func (s *Keyed) openKey(ctx context.Context, name counters.Name, by string) (counting, error) {
	return s.openCounter(ctx, name, s.partOf(name.Period, by))
}

// watchStore asks the store again and again, while it is away: a node that was taken out of
// rotation must find out by itself that it can issue again.
func (s *Keyed) watchStore() {
	for counters.Pause(s.running, time.Second) && s.pulse.watches() {
		ctx, cancel := context.WithTimeout(s.running, fetchDeadline)
		_, err := s.env.Store.Counters().Read(ctx, counters.PlacesName(s.bizType.Name, s.present()))
		cancel()
		if err == nil || isNotFound(err) {
			s.pulse.note(nil)
		}
	}
}

// looks is how many open keys stand for all of them.
const looks = 16

// Health returns why no key can get a number, as far as some of the open ones show.
func (s *Keyed) Health() error {
	var first error
	for _, c := range s.set.Some(looks) {
		err := c.Health()
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = storeError(s.pulse.why())
	}
	return first
}

// Degraded returns why some keys get no numbers, or not as they should, as far as some of the open
// ones show.
func (s *Keyed) Degraded() *seqd.Error {
	if away := s.pulse.why(); away != nil {
		return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store gives no ranges; the numbers in hand are still issued", Err: away}
	}
	for _, c := range s.set.Some(looks) {
		if err := c.Degraded(); err != nil {
			return err
		}
	}
	return nil
}

// Details implements [seqd.DetailReporter].
func (s *Keyed) Details() map[string]any {
	p := s.present()
	details := map[string]any{"openKeys": s.set.Len(), "keys": s.parts.Of(p).places.Taken(), "maxKeys": s.settings.MaxKeys}
	if p != 0 {
		details["period"] = p.String()
	}
	for _, c := range s.set.Some(1) {
		if d, ok := c.(seqd.DetailReporter); ok {
			maps.Copy(details, d.Details())
		}
	}
	return details
}

// Measure implements [seqd.Measurer]. Nothing is measured for each key: there may be millions.
func (s *Keyed) Measure(tell func(seqd.Measurement)) {
	tell(seqd.Measurement{Gauge: seqd.GaugeOpenKeys, Value: float64(s.set.Len())})
	tell(seqd.Measurement{Gauge: seqd.GaugeKeys, Value: float64(s.parts.Of(s.present()).places.Taken())})
	tell(seqd.Measurement{Gauge: seqd.GaugeMaxKeys, Value: float64(s.settings.MaxKeys)})
	if s.resets() {
		s.tellPeriodLeft(tell)
	}
}

// Close ends issuing and gives back the numbers that only this node had, and the places of keys.
func (s *Keyed) Close(ctx context.Context) error {
	err := s.family.close(ctx)
	for _, part := range s.parts.All() {
		err = errors.Join(err, part.places.Close(ctx))
	}
	return err
}
