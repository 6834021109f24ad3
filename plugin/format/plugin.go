package format

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// Plugin displays numbers with a template. It is safe for concurrent use.
type Plugin struct {
	seqd.NopPlugin
	template template
	numeral  numeral
	given    decimal
	check    *algorithm // nil without {check}
	dates    *dates
	now      func() time.Time
	// scattered is true if another plugin replaces the numbers first. Then their length does not
	// say how many are left.
	scattered bool
	// frame is the latest frame, nil at first. It is replaced when the date changes. A request that
	// needs an older one builds its own.
	frame atomic.Pointer[frame]
}

var (
	_ seqd.Plugin   = (*Plugin)(nil)
	_ seqd.Reader   = (*Plugin)(nil)
	_ seqd.Measurer = (*Plugin)(nil)
)

// New returns the plugin for a biz type with this calendar, or what is wrong with the settings.
// width is how many digits the numbers that it receives have, 0 if they have no leading zeros; see
// [seqd.Decimal]. now is the clock, for dates if numbers never reset.
func New(s Settings, calendar seqd.Calendar, width int, now func() time.Time) (*Plugin, error) {
	for _, problem := range s.Validate() {
		return nil, fmt.Errorf("%s: %s", problem.Key, problem.Text)
	}
	t, err := parse(s.Template)
	if err != nil {
		return nil, err
	}
	d, wrong := newDates(t.layouts(), calendar)
	if wrong != nil {
		return nil, fmt.Errorf("template: byte %d: %w", t.dateAt(wrong.index), wrong)
	}
	return &Plugin{
		template: t, numeral: t[t.find(sequence)].numeral, given: decimal{width}, check: lookupAlgorithm(s.Check), dates: d, now: now,
	}, nil
}

// frame is everything in a text except the number and its check digit, for one date.
type frame struct {
	// key is the period or, if numbers never reset, the second since the Unix epoch.
	key int64
	// head is before the number, middle between it and the check digit, tail after that. Without
	// {check}, tail is empty.
	head, middle, tail string
	// sum is the state of the check digit after head.
	sum state
}

// Before implements [seqd.Plugin]. It refuses the request, before it takes a number, if the clock
// shows a year that no ID may show. If numbers reset, the strategy checks that.
func (p *Plugin) Before(context.Context, *seqd.Call) error {
	if len(p.dates.layouts) == 0 || p.dates.resets() {
		return nil
	}
	return p.dates.check(p.now().In(p.dates.calendar.Zone))
}

// After implements [seqd.Plugin].
func (p *Plugin) After(_ context.Context, call *seqd.Call) error {
	f, err := p.current(call.Sequence.Period())
	if err != nil {
		return err
	}
	var bad error
	call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte {
		n, ok := p.given.value(shown)
		if !ok {
			bad = fmt.Errorf("format received %.40q, which is not a decimal number of the promised form", shown)
		}
		return p.append(dst, f, n)
	})
	return bad
}

// Measure implements [seqd.Measurer]: the largest number that has no more digits than {seq} is
// padded to. Larger ones are displayed too, but are longer and do not sort with the others. Without
// padding there is no such number.
func (p *Plugin) Measure(tell func(seqd.Measurement)) {
	if most, ok := p.numeral.most(); ok && !p.scattered {
		tell(seqd.Measurement{Gauge: seqd.GaugeLimit, Value: float64(most)})
	}
}

// append appends the text of n.
func (p *Plugin) append(dst []byte, f *frame, n uint64) []byte {
	dst = append(dst, f.head...)
	covered := len(dst)
	dst = append(p.numeral.append(dst, n), f.middle...)
	if p.check == nil {
		return dst
	}
	return append(p.check.end(dst, p.check.add(f.sum, dst[covered:])), f.tail...)
}

var errPeriod = errors.New("the strategy and its calendar disagree on whether numbers reset")

// current returns the frame of a period or, for 0, of the current time.
func (p *Plugin) current(period seqd.Period) (*frame, error) {
	if (period != 0) != p.dates.resets() {
		return nil, errPeriod // the dates are proven for this calendar only
	}
	key, t := int64(period), time.Time{}
	if period == 0 && len(p.dates.layouts) > 0 {
		t = p.now()
		key = t.Unix()
	}
	if f := p.frame.Load(); f != nil && f.key == key {
		return f, nil
	}
	if period != 0 {
		t = period.Date()
	} else {
		t = t.In(p.dates.calendar.Zone)
	}
	f, err := p.build(key, t)
	if err != nil {
		return nil, err
	}
	p.frame.Store(f)
	return f, nil
}

// build returns the frame of a date.
func (p *Plugin) build(key int64, t time.Time) (*frame, error) {
	dates, err := p.dates.show(t)
	if err != nil {
		return nil, err
	}
	var texts [3]strings.Builder
	place := 0
	for _, part := range p.template {
		switch part.kind {
		case literal:
			texts[place].WriteString(part.text)
		case date:
			texts[place].WriteString(dates[0])
			dates = dates[1:]
		case sequence, check:
			place++
		}
	}
	f := &frame{key: key, head: texts[0].String(), middle: texts[1].String(), tail: texts[2].String()}
	if p.check != nil {
		f.sum = p.check.add(state{}, []byte(f.head))
	}
	return f, nil
}
