package figures

import (
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
)

// Issuer is what is looked at. Its methods are those of [issuer.Issuer].
type Issuer interface {
	Serves() bool
	States(tell func(issuer.State))
	Measure(tell func(bizType, plugin string, m seqd.Measurement))
}

// look is what was found in all biz types.
type look struct {
	inHand   []inHand
	runsOut  []runsOut
	bizTypes census
	unready  []admin.Reason
	degraded []admin.Reason
	starting bool // some biz type has not started yet
	// offset is how far this node's clock is ahead of that of a registry, nil if no registry says
	// it.
	offset *time.Duration
}

// looker looks at one biz type after the other.
type looker struct {
	inHand     shortlist[inHand]
	runsOut    shortlist[runsOut]
	unready    shortlist[admin.Reason]
	degraded   shortlist[admin.Reason]
	found      look
	looked     int
	subject    subject
	registries map[string]*registry
}

// subject is the biz type being measured. All measurements of one biz type follow each other.
type subject struct {
	bizType string
	got     map[seqd.Gauge]float64
	limits  map[string]float64 // by plugin, "" for the strategy
}

// registry is what is known of a registry of machine IDs.
type registry struct {
	bizType              string // the first that uses it
	free, used, timeLeft float64
}

// mostRegistries bounds how many registries are looked at.
const mostRegistries = 1000

func newLooker() *looker {
	reasons := func(a, b admin.Reason) int { return strings.Compare(a.BizType, b.BizType) }
	return &looker{
		inHand:   shortlist[inHand]{most: mostListed, order: shorter},
		runsOut:  shortlist[runsOut]{most: mostListed, order: sooner},
		unready:  shortlist[admin.Reason]{most: mostListed, order: reasons},
		degraded: shortlist[admin.Reason]{most: mostListed, order: reasons},
		subject:  subject{got: make(map[seqd.Gauge]float64), limits: make(map[string]float64)},

		registries: make(map[string]*registry),
	}
}

// lookAt looks at all biz types. exists is called with the name of each.
func lookAt(is Issuer, exists func(bizType string)) look {
	l := newLooker()
	is.States(func(s issuer.State) {
		l.pause()
		exists(s.BizType)
		l.state(s)
	})
	is.Measure(l.told)
	l.conclude()
	for name, r := range l.registries {
		l.registry(name, r)
	}
	l.found.inHand, l.found.runsOut = l.inHand.list, l.runsOut.list
	l.found.unready, l.found.degraded = l.unready.list, l.degraded.list
	return l.found
}

// pause lets others use the processor now and then: there may be a million biz types.
func (l *looker) pause() {
	if l.looked++; l.looked%100 == 0 {
		runtime.Gosched()
	}
}

// state notes the state of a biz type.
func (l *looker) state(s issuer.State) {
	c := &l.found.bizTypes
	c.Total++
	switch {
	case s.Disabled:
		c.Disabled++
	case s.Unready != nil:
		c.Unready++
		l.found.starting = l.found.starting || s.Unready.Code == seqd.CodeStarting
		l.unready.add(gate.ReasonOf(s.BizType, s.Unready))
	case s.Degraded != nil:
		c.Degraded++
		l.degraded.add(gate.ReasonOf(s.BizType, s.Degraded))
	default:
		c.Ready++
	}
}

// told notes a measurement.
func (l *looker) told(bizType, plugin string, v seqd.Measurement) {
	if bizType != l.subject.bizType {
		l.conclude()
		l.subject.bizType = bizType
	}
	switch {
	case v.Of != "":
		l.ofRegistry(v)
	case v.Gauge == seqd.GaugeLimit:
		l.subject.limits[plugin] = v.Value
	case plugin == "":
		l.subject.got[v.Gauge] = v.Value
	}
}

// ofRegistry notes what the biz type being measured tells of its registry.
func (l *looker) ofRegistry(v seqd.Measurement) {
	r := l.registries[v.Of]
	if r == nil {
		if len(l.registries) == mostRegistries {
			return
		}
		r = &registry{bizType: l.subject.bizType, used: math.NaN(), free: math.NaN(), timeLeft: math.NaN()}
		l.registries[v.Of] = r
	}
	r.bizType = min(r.bizType, l.subject.bizType)
	switch v.Gauge {
	case seqd.GaugeMachineIDsFree:
		r.free = v.Value
	case seqd.GaugeMachineIDsUsed:
		r.used = v.Value
	case seqd.GaugeTimeLeft:
		r.timeLeft = v.Value
	case seqd.GaugeClockOffset:
		offset := time.Duration(v.Value * float64(time.Second))
		l.found.offset = &offset
	}
}

// registry notes what follows from the measurements of a registry.
func (l *looker) registry(name string, r *registry) {
	if !math.IsNaN(r.timeLeft) {
		l.runsOut.add(runsOut{BizType: r.bizType, What: timestampsEnd, Registry: name, LastsMS: amount(r.timeLeft * 1000), Share: unknown})
	}
	if all := r.free + r.used; all > 0 {
		l.runsOut.add(runsOut{BizType: r.bizType, What: machineIDsEnd, Registry: name, LastsMS: forEver(unknown), Share: amount(r.used / all)})
	}
}

// conclude notes what follows from the measurements of a biz type.
func (l *looker) conclude() {
	s := &l.subject
	if len(s.got) == 0 && len(s.limits) == 0 {
		return
	}
	l.pause()
	perSecond, rated := s.got[seqd.GaugeRate]
	// Without a step nothing is fetched ahead: numbers are taken from the store one call at a time.
	if numbers, step := s.got[seqd.GaugeInHand], s.got[seqd.GaugeStep]; rated && step > 0 {
		l.inHand.add(inHand{s.bizType, amount(numbers), lasts(numbers, perSecond), amount(step)})
	}
	if reached, ok := s.got[seqd.GaugeHighest]; ok {
		for plugin, limit := range s.limits {
			l.runsOut.add(s.end(plugin, reached, limit))
		}
	}
	if most := s.got[seqd.GaugeMaxKeys]; most > 0 {
		l.share(keysEnd, s.got[seqd.GaugeKeys]/most)
	}
	l.share(reservationsEnd, s.got[seqd.GaugeReservedShare])
	clear(s.got)
	clear(s.limits)
}

// share notes what has no rate. What nobody uses cannot run out.
func (l *looker) share(of what, share float64) {
	if share > 0 {
		l.runsOut.add(runsOut{BizType: l.subject.bizType, What: of, LastsMS: forEver(unknown), Share: amount(share)})
	}
}

// end returns when the numbers up to a limit are used up, of which those up to reached have left
// the store.
func (s *subject) end(plugin string, reached, limit float64) runsOut {
	e := runsOut{BizType: s.bizType, Plugin: plugin, What: numbersEnd, Share: 1}
	if plugin != "" {
		e.What = displayEnds
	}
	if limit > 0 {
		e.Share = amount(min(max(reached, 0)/limit, 1))
	}
	e.LastsMS = lasts((limit-reached)/max(1, s.got[seqd.GaugeIncrement]), s.got[seqd.GaugeRate])
	if period, ok := s.got[seqd.GaugePeriodLeft]; ok && amount(period*1000) < e.LastsMS {
		e.LastsMS, e.Resets = forEver(unknown), true
	}
	return e
}
