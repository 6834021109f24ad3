package format

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
)

// between separates dates that are formatted and parsed together. No layout contains it.
const between = "\x00"

// dates are the dates of a template under one calendar. They do not change once they are proven.
type dates struct {
	layouts  []string
	joined   string // layouts, joined with between
	years    bool   // they show the year
	calendar seqd.Calendar
	// widths are the lengths of the dates in bytes, which are constant.
	widths []int
	// shows are the characters that each date shows at each position.
	shows [][]charset
}

// resets reports whether numbers reset.
func (d *dates) resets() bool { return d.calendar.Reset != seqd.ResetNever }

// layoutError is what is wrong with the date of this index, or with all of them together if it is
// −1.
type layoutError struct {
	index int
	text  string
}

func (e *layoutError) Error() string { return e.text }

// proofs caches the results of prove by everything that they depend on. A proof takes some
// milliseconds, and many biz types have the same dates.
var proofs sync.Map // from proofKey to proof

type (
	proofKey struct {
		joined         string
		reset          seqd.Reset
		zone           string
		summer, winter int // its offsets, for a zone that has no name in the database
	}
	proof struct {
		dates *dates
		err   *layoutError
	}
)

// newDates returns the dates, or what is wrong with them.
func newDates(layouts []string, calendar seqd.Calendar) (*dates, *layoutError) {
	key := proofKey{joined: strings.Join(layouts, between), reset: calendar.Reset, zone: calendar.Zone.String()}
	_, key.winter = aDay.In(calendar.Zone).Zone()
	_, key.summer = aDay.AddDate(0, -5, 0).In(calendar.Zone).Zone()
	known, ok := proofs.Load(key)
	if !ok {
		d := &dates{layouts: layouts, joined: key.joined, calendar: calendar}
		// these years have the same weekdays
		d.years = aDay.Format(d.joined) != aDay.AddDate(28, 0, 0).Format(d.joined)
		known, _ = proofs.LoadOrStore(key, proof{d, d.prove()})
	}
	p := known.(proof)
	d := *p.dates
	d.calendar = calendar
	return &d, p.err
}

// prove returns an error unless it is certain that
//   - each date always has the same length in bytes, so that a text can be cut into its parts in
//     one way only;
//   - if numbers reset, the dates identify the period and show nothing that changes within it;
//   - the dates can be parsed again.
//
// It tries every period or day of the years seqd.FirstYear to seqd.LastYear.
func (d *dates) prove() *layoutError {
	for i, layout := range d.layouts {
		if err := d.proveWidth(i, layout); err != nil {
			return err
		}
		if err := d.proveSteady(i, layout); err != nil {
			return err
		}
	}
	if len(d.layouts) == 0 {
		return nil
	}
	for t := range d.days() {
		text := t.Format(d.joined)
		if period, err := d.read(text); err != nil || d.resets() && period != d.calendar.Reset.Of(t) {
			return d.explain()
		}
	}
	return nil
}

// days yields a time in each period, or on each day if numbers never reset. It is noon, which no
// clock change affects.
func (d *dates) days() iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		last := seqd.Period(0)
		for day := time.Date(seqd.FirstYear, 1, 1, 12, 0, 0, 0, time.UTC); day.Year() <= seqd.LastYear; day = day.AddDate(0, 0, 1) {
			t := time.Date(day.Year(), day.Month(), day.Day(), 12, 0, 0, 0, d.calendar.Zone)
			if d.resets() {
				period := d.calendar.Reset.Of(day)
				if period == last {
					continue
				}
				t, last = period.Date(), period
			}
			if !yield(t) {
				return
			}
		}
	}
}

// samples yields the days. It also yields the hours, minutes and seconds of one day, because a
// layout can show the time of day if numbers never reset. How a layout shows them depends neither
// on the day nor on each other.
func (d *dates) samples() iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for t := range d.days() {
			if !yield(t) {
				return
			}
		}
		for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
			for i := range time.Duration(60) {
				if t := aDay.In(d.calendar.Zone).Add(i * unit); !d.resets() && !yield(t) {
					return
				}
			}
		}
	}
}

// aDay is an arbitrary day.
var aDay = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// proveWidth sets the length of a date.
func (d *dates) proveWidth(i int, layout string) *layoutError {
	var (
		buf, first []byte
		width      = -1
		shows      []charset
	)
	for t := range d.samples() {
		buf = t.AppendFormat(buf[:0], layout)
		if width < 0 {
			width, first, shows = len(buf), append(first, buf...), make([]charset, len(buf))
		}
		if len(buf) != width {
			return &layoutError{i, fmt.Sprintf("{date:%s} shows %s and %s, which differ in length: use parts of fixed length, such as 2006, 01, 02, 15, 04, 05", layout, first, buf)}
		}
		for position, c := range buf {
			if !plain(c) {
				return &layoutError{i, fmt.Sprintf("{date:%s} shows %q: %q cannot stand in an ID", layout, buf, c)}
			}
			shows[position].add(c)
		}
	}
	d.widths, d.shows = append(d.widths, width), append(d.shows, shows)
	return nil
}

// proveSteady checks that a date does not change within a period, or within a second if numbers
// never reset.
func (d *dates) proveSteady(i int, layout string) *layoutError {
	if !d.resets() {
		if aDay.Format(layout) != aDay.Add(123456789).Format(layout) {
			return &layoutError{i, fmt.Sprintf("{date:%s} shows fractions of a second, but a date can only show whole seconds", layout)}
		}
		elsewhere := time.Date(aDay.Year(), aDay.Month(), aDay.Day(), aDay.Hour(), aDay.Minute(), aDay.Second(), 0, time.FixedZone("XYZ", 20700))
		if aDay.Format(layout) != elsewhere.Format(layout) && !strings.Contains(layout, "15") {
			return &layoutError{i, fmt.Sprintf("{date:%s} shows the time zone but not the hour (15): it could not be read back on days when clocks change", layout)}
		}
		return nil
	}
	period := d.calendar.Reset.Of(aDay)
	// The same period as late as possible, in another time zone, and with everything else different
	// too.
	later := time.Date(2026, 11, 21, 3, 37, 48, 123456789, time.FixedZone("XYZ", 20700))
	switch d.calendar.Reset {
	case seqd.ResetMonthly:
		later = later.AddDate(0, 0, 9) // to the 30th, a Monday; the 1st is a Sunday
	case seqd.ResetYearly:
		later = later.AddDate(0, 0, 39) // to December 30, a Wednesday; January 1 is a Thursday
	}
	if period.Date().Format(layout) != later.Format(layout) {
		return &layoutError{i, fmt.Sprintf("{date:%s} shows more than the %s: numbers reset %s, so all numbers of one %[2]s must show the same date", layout,
			unit(d.calendar.Reset), d.calendar.Reset)}
	}
	return nil
}

// unit returns the name of a period of r.
func unit(r seqd.Reset) string {
	return map[seqd.Reset]string{seqd.ResetDaily: "day", seqd.ResetMonthly: "month", seqd.ResetYearly: "year"}[r]
}

// explain finds out why some periods cannot be parsed again.
func (d *dates) explain() *layoutError {
	needs := map[seqd.Reset]string{seqd.ResetDaily: "year, month and day", seqd.ResetMonthly: "year and month", seqd.ResetYearly: "the year"}
	seen := make(map[string]seqd.Period)
	for t := range d.days() {
		if !d.resets() {
			break
		}
		text, period := t.Format(d.joined), d.calendar.Reset.Of(t)
		if other, twice := seen[text]; twice {
			return &layoutError{-1, fmt.Sprintf("%s needs %s in the date; {date:%s} shows the same for %s and %s, so IDs would repeat", d.calendar.Reset,
				needs[d.calendar.Reset], strings.ReplaceAll(d.joined, between, "} and {date:"), other, period)}
		}
		seen[text] = period
	}
	return &layoutError{-1, fmt.Sprintf("{date:%s} cannot be read back from what it shows, such as %s", strings.ReplaceAll(d.joined, between, "} and {date:"),
		aDay.Format(strings.ReplaceAll(d.joined, between, " ")))}
}

// check returns an error for a time in a year for which the dates are not proven.
func (d *dates) check(t time.Time) error {
	if len(d.layouts) == 0 {
		return nil
	}
	return seqd.CheckDate(t)
}

// show returns the dates of t, or an error if they are not proven for t.
func (d *dates) show(t time.Time) (texts []string, err error) {
	if err := d.check(t); err != nil {
		return nil, err
	}
	for i, layout := range d.layouts {
		texts = append(texts, t.Format(layout))
		if len(texts[i]) != d.widths[i] {
			return nil, fmt.Errorf("the date %s has %d bytes instead of %d", texts[i], len(texts[i]), d.widths[i])
		}
	}
	return texts, nil
}

var errNoDate = errors.New("no date")

// read parses dates joined with between. It returns an error for a text that they never show. The
// period is 0 if numbers never reset.
func (d *dates) read(text string) (seqd.Period, error) {
	zone := d.calendar.Zone
	if d.resets() {
		zone = time.UTC
	}
	t, err := time.ParseInLocation(d.joined, text, zone)
	if err != nil {
		return 0, err
	}
	for _, t := range centuries(t.In(zone)) {
		period := d.calendar.Reset.Of(t)
		if d.resets() {
			t = period.Date()
		}
		if t.Format(d.joined) == text && (!d.years || d.check(t) == nil) {
			return period, nil
		}
	}
	return 0, errNoDate
}

// centuries returns what a date may mean, the likeliest first. time.Parse interprets a year with
// two digits as 1969 to 2068, and here it means 2000 to 2099. If no year is shown, time.Parse
// returns the year 0.
func centuries(t time.Time) []time.Time {
	if t.Year() >= seqd.FirstYear {
		return []time.Time{t}
	}
	return []time.Time{t.AddDate(100, 0, 0), t}
}
