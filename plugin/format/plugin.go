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
	cut      *cut // nil without {key}
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
	_ seqd.Idler    = (*Plugin)(nil)
)

// New returns the plugin for a biz type with this calendar, or what is wrong with the settings.
// width is how many digits the numbers that it receives have, 0 if they have no leading zeros; see
// [seqd.Traits].Digits. now is the clock, for dates if numbers never reset. A template with {key}
// needs a biz type that is keyed.
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
	p := &Plugin{
		template: t, numeral: t[t.find(sequence)].numeral, given: decimal{width}, check: lookupAlgorithm(s.Check), dates: d, now: now,
	}
	if p.cut, err = newCut(t, d, p.check); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	return p, nil
}

// frame is everything in a text except the key, the number and its check digit, for one date.
type frame struct {
	// when is the period or, if numbers never reset, the second since the Unix epoch.
	when int64
	// head is before the number, middle between it and the check digit, tail after that. Without
	// {check}, tail is empty.
	head, middle, tail string
	// sum is the state of the check digit after head. It is zero if the key is in head.
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
	f, err := p.current(call.Sequence.Period(), call.Sequence.Made())
	if err != nil {
		return err
	}
	if p.cut != nil {
		return p.showKeyed(call, f)
	}
	var bad error
	call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte {
		n, ok := p.given.value(shown)
		if !ok {
			bad = unlikePromised(shown)
		}
		return p.append(dst, f, n)
	})
	return bad
}

// showKeyed displays numbers with their key.
func (p *Plugin) showKeyed(call *seqd.Call, f *frame) (bad error) {
	key := call.Sequence.Key()
	if key == "" {
		return errNoKey
	}
	call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte {
		n, ok := p.given.value(shown)
		if !ok {
			bad = unlikePromised(shown)
		}
		return p.appendKeyed(dst, f, key, n)
	})
	return bad
}

func unlikePromised(shown []byte) error {
	return fmt.Errorf("format received %.40q, which is not a decimal number of the promised form", shown)
}

// Idle implements [seqd.Idler]: a plugin that is made anew shows numbers alike.
func (*Plugin) Idle() bool { return true }

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

// appendKeyed appends the text of the number n of a key. The template shows the key.
func (p *Plugin) appendKeyed(dst []byte, f *frame, key string, n uint64) []byte {
	covered := len(dst)
	dst = p.cut.append(dst, 0, f.head, key)
	if p.cut.section > 0 {
		covered = len(dst) // f.sum covers the head
	}
	dst = p.cut.append(p.numeral.append(dst, n), 1, f.middle, key)
	if p.check == nil {
		return dst
	}
	return p.cut.append(p.check.end(dst, p.check.add(f.sum, dst[covered:])), 2, f.tail, key)
}

var (
	errPeriod = errors.New("the strategy and its calendar disagree on whether numbers reset")
	errNoKey  = errors.New("the template shows the key, but the numbers have none")
)

// current returns the frame of a period or, for 0, of the time when the numbers were made: now, if
// made is zero.
func (p *Plugin) current(period seqd.Period, made time.Time) (*frame, error) {
	if (period != 0) != p.dates.resets() {
		return nil, errPeriod // the dates are proven for this calendar only
	}
	when, t := int64(period), time.Time{}
	if period == 0 && len(p.dates.layouts) > 0 {
		if t = made; t.IsZero() {
			t = p.now()
		}
		when = t.Unix()
	}
	if f := p.frame.Load(); f != nil && f.when == when {
		return f, nil
	}
	if period != 0 {
		t = period.Date()
	} else {
		t = t.In(p.dates.calendar.Zone)
	}
	f, err := p.build(when, t)
	if err != nil {
		return nil, err
	}
	p.frame.Store(f)
	return f, nil
}

// build returns the frame of a date.
func (p *Plugin) build(when int64, t time.Time) (*frame, error) {
	dates, err := p.dates.show(t)
	if err != nil {
		return nil, err
	}
	var texts [3]strings.Builder
	section := 0
	for _, part := range p.template {
		switch part.kind {
		case literal:
			texts[section].WriteString(part.text)
		case date:
			texts[section].WriteString(dates[0])
			dates = dates[1:]
		case sequence, check:
			section++
		case key: // of each request
		}
	}
	f := &frame{when: when, head: texts[0].String(), middle: texts[1].String(), tail: texts[2].String()}
	if p.check != nil && (p.cut == nil || p.cut.section > 0) {
		f.sum = p.check.add(state{}, []byte(f.head))
	}
	return f, nil
}
