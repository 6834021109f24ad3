package metrics

import (
	"math"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
)

// series identifies one value of a family. label2 is "" if the family has one label.
type series struct {
	*family
	label, label2 string
}

// look is the state found by one scrape.
type look struct {
	*Metrics
	// everyone is true if each biz type has a label of its own, even without any event.
	everyone bool
	values   map[series]float64
	subject  subject
	// registries and handlers are those with a label of their own.
	registries, handlers map[string]bool
}

// subject is the biz type being measured. All measurements of one biz type follow each other.
type subject struct {
	bizType, label string
	got            map[seqd.Gauge]float64
	limits         map[string]float64 // by plugin, "" for the strategy
}

// collectState sends the state of the biz types and of what is behind them.
func (m *Metrics) collectState(to chan<- prometheus.Metric, s Source) {
	l := look{Metrics: m, values: make(map[series]float64), registries: make(map[string]bool), handlers: make(map[string]bool)}
	l.subject.got, l.subject.limits = make(map[seqd.Gauge]float64), make(map[string]float64)
	defer func() { // even what was reported before a panic
		for at, v := range l.values {
			at.send(to, l.grown(at, v), []string{at.label, at.label2}[:len(at.Labels)]...)
		}
	}()
	if s.Issuer != nil {
		l.states(s.Issuer)
		s.Issuer.Measure(l.told)
		l.conclude()
	}
	if s.Workers != nil {
		known := make(map[string]bool)
		s.Workers(func(pool string, p Pool) { l.pool(l.labelOf(known, pool), p) })
	}
	if s.Handlers != nil {
		s.Handlers(func(handler string, v seqd.Measurement) { l.beside("", l.labelOf(l.handlers, handler), v) })
	}
}

// grown keeps a counter that several share from going down when one of them is gone or gets a label
// of its own. Prometheus would take that for a restart, and the whole value for an increase.
func (l *look) grown(at series, v float64) float64 {
	if at.worst != sum || at.label != Other {
		return v
	}
	l.sums[at] = max(l.sums[at], v)
	return l.sums[at]
}

// states counts the biz types by state, and finds out which have a label.
func (l *look) states(is *issuer.Issuer) {
	known, total := make(map[*counts]bool), 0
	away, heard := l.storeAway.Load(), false
	var poor []issuer.State // their label is known only after all have been seen
	number := map[string]int{"ready": 0, "degraded": 0, "unready": 0, "disabled": 0}
	is.States(func(s issuer.State) {
		total++
		number[stateOf(s)]++
		if s.Unready != nil || s.Degraded != nil {
			poor = append(poor, s)
		}
		if c := l.bizTypes.find(s.BizType); c != nil {
			known[c] = true
		}
		heard = heard || away != nil && s.BizType == *away && !s.Disabled
	})
	if !heard {
		l.storeAway.CompareAndSwap(away, nil)
	}
	l.bizTypes.forget(known)
	l.everyone = total+len(l.bizTypes.all())-len(known) <= l.opts.MaxBizTypes
	for state, n := range number {
		l.put(bizTypes, float64(n), state, "")
	}
	for _, s := range poor {
		f := degraded
		if s.Unready != nil {
			f = unready
		}
		l.put(f, 1, l.label(s.BizType), "")
	}
}

// stateOf returns the label of a state.
func stateOf(s issuer.State) string {
	switch {
	case s.Disabled:
		return "disabled"
	case s.Unready != nil:
		return "unready"
	case s.Degraded != nil:
		return "degraded"
	}
	return "ready"
}

// label returns the label of a biz type.
func (l *look) label(bizType string) string {
	if bizType == "" || l.everyone || l.bizTypes.find(bizType) != nil {
		return bizType
	}
	return Other
}

// put notes a value. If several values share the labels, it combines them as the family says.
func (l *look) put(f *family, v float64, label, label2 string) {
	at := series{f, label, label2}
	if old, there := l.values[at]; there {
		switch f.worst {
		case sum:
			v += old
		case least:
			v = min(old, v)
		case most:
			v = max(old, v)
		}
	}
	l.values[at] = v
}

// told notes a measurement.
func (l *look) told(bizType, plugin string, v seqd.Measurement) {
	if bizType != l.subject.bizType {
		l.conclude()
		l.subject.bizType, l.subject.label = bizType, l.label(bizType)
	}
	switch {
	case registries[v.Gauge] != nil:
		l.put(registries[v.Gauge], v.Value, l.labelOf(l.registries, v.Of), "")
	case v.Gauge == seqd.GaugeLimit:
		l.subject.limits[plugin] = v.Value
	case besides[v.Gauge] != nil:
		l.beside(l.subject.label, plugin, v)
	case plugin == "":
		l.subject.got[v.Gauge] = v.Value
	}
}

// beside notes what a plugin or a rejection handler measured for itself.
func (l *look) beside(label, plugin string, v seqd.Measurement) {
	if f := besides[v.Gauge]; f != nil {
		l.put(f, v.Value, label, plugin)
	}
}

// pool notes what this node measured of a pool of worker IDs.
func (l *look) pool(label string, p Pool) {
	if p.Seen {
		l.put(workersHeld, float64(p.Held), label, "")
		l.put(workersFree, float64(p.Free), label, "")
	}
	l.put(workersStandby, float64(p.StandingBy), label, "")
	l.put(workersLeased, float64(p.Leased), label, "")
	l.put(workersRenewed, float64(p.Renewed), label, "")
	l.put(workersLost, float64(p.Lost), label, "")
}

// labelOf returns the label of a registry, a pool or a handler. As many have their own as biz types may
// have, but at least one.
func (l *look) labelOf(known map[string]bool, name string) string {
	name = strings.ToValidUTF8(name, "?")
	if !known[name] {
		if len(known) >= max(1, l.opts.MaxBizTypes) {
			return Other
		}
		known[name] = true
	}
	return name
}

// conclude notes what follows from the measurements of a biz type.
func (l *look) conclude() {
	s := &l.subject
	for g, v := range s.got {
		if f := measured[g]; f != nil {
			l.put(f, v, s.label, "")
		}
	}
	perSecond, rated := s.got[seqd.GaugeRate]
	// Without a step nothing is fetched ahead: numbers are taken from the store one call at a time.
	if numbers, step := s.got[seqd.GaugeInHand], s.got[seqd.GaugeStep]; rated && step > 0 {
		l.put(inHandSeconds, lasts(numbers, perSecond), s.label, "")
	}
	if reached, ok := s.got[seqd.GaugeHighest]; ok {
		for plugin, limit := range s.limits {
			l.put(numbersLeft, max(0, limit-reached)/max(1, limit), s.label, "")
			if rated {
				l.exhaustion(plugin, s.left((limit-reached)/max(1, s.got[seqd.GaugeIncrement]), perSecond))
			}
		}
	}
	clear(s.got)
	clear(s.limits)
}

func (l *look) exhaustion(plugin string, seconds float64) {
	if plugin == "" {
		l.put(exhaustion, seconds, l.subject.label, "")
		return
	}
	l.put(serialExhaustion, seconds, l.subject.label, plugin)
}

// left returns for how many seconds the rest of all numbers lasts: for ever, if the counter resets
// before they are used up.
func (s *subject) left(numbers, perSecond float64) float64 {
	if numbers <= 0 {
		return 0
	}
	seconds := lasts(numbers, perSecond)
	if period, ok := s.got[seqd.GaugePeriodLeft]; ok && period < seconds {
		return math.Inf(1)
	}
	return seconds
}

// lasts returns for how many seconds numbers last.
func lasts(numbers, perSecond float64) float64 {
	if perSecond <= 0 {
		return math.Inf(1)
	}
	return numbers / perSecond
}
