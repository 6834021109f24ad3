package seqd

import (
	"fmt"
	"strings"
	"time"
)

// Reset is how often the numbers of a biz type reset.
type Reset string

// The values of Reset.
const (
	ResetNever   Reset = "never"
	ResetDaily   Reset = "daily"
	ResetMonthly Reset = "monthly"
	ResetYearly  Reset = "yearly"
)

// Fits reports whether numbers that reset so have the period p.
func (r Reset) Fits(p Period) bool {
	if r == ResetNever || p == 0 {
		return r == ResetNever && p == 0
	}
	return r.Of(p.Date()) == p
}

// Valid reports whether r is one of the values.
func (r Reset) Valid() bool {
	return r == ResetNever || r == ResetDaily || r == ResetMonthly || r == ResetYearly
}

// Period is the day, month or year of a number whose biz type resets: year·10000 + month·100 + day,
// with zeros for the parts it does not have. It is 0 if numbers never reset. Later periods are
// larger.
type Period int32

// Of returns the period of t in its own time zone. It works for the years 1 to 9999.
func (r Reset) Of(t time.Time) Period {
	year, month, day := t.Date()
	p := Period(year) * 10000
	switch r {
	case ResetDaily:
		return p + Period(month)*100 + Period(day)
	case ResetMonthly:
		return p + Period(month)*100
	case ResetYearly:
		return p
	}
	return 0
}

// FirstYear and LastYear are the bounds of the years in the dates of numbers. Years of two digits
// repeat after a century, and a clock can be wrong by that much. Without the bounds, IDs of two
// centuries could be equal.
const FirstYear, LastYear = 2000, 2099

// CheckDate returns an [Error] with [CodeClockRollback] unless the year of t, in its own time zone,
// is from FirstYear to LastYear. Only a wrong clock shows another year.
func CheckDate(t time.Time) error {
	if hasDates(t.Year()) {
		return nil
	}
	return errYear(t.Format(time.DateOnly))
}

// Check is [CheckDate] for the year of a period. It returns nil for 0.
func (p Period) Check() error {
	if p == 0 || hasDates(int(p/10000)) {
		return nil
	}
	return errYear(p.String())
}

func hasDates(year int) bool { return FirstYear <= year && year <= LastYear }

func errYear(date string) error {
	return &Error{
		Code:       CodeClockRollback,
		Detail:     fmt.Sprintf("the clock of the node says that it is %s, outside the years %d to %d in which numbers have dates: set it right", date, FirstYear, LastYear),
		RetryAfter: time.Minute,
	}
}

// layouts are the layouts of periods in the names of counters.
var layouts = map[Reset]string{ResetDaily: "20060102", ResetMonthly: "200601", ResetYearly: "2006"}

// Parse reads a period from the name of a counter: 20261120, 202611 or 2026.
func (r Reset) Parse(digits string) (p Period, ok bool) {
	layout, ok := layouts[r]
	if !ok {
		return 0, false
	}
	t, err := time.Parse(layout, digits)
	return r.Of(t), err == nil
}

// Counter returns the name of the counter of a biz type in this period: order@20261120,
// order@202611 or order@2026. No biz type can have such a name.
func (p Period) Counter(bizType string) string {
	return bizType + "@" + strings.ReplaceAll(p.String(), "-", "")
}

// Date returns a time on the first day of the period, for formatting its date: noon in UTC, where
// every date exists exactly once.
func (p Period) Date() time.Time {
	return time.Date(int(p/10000), time.Month(max(1, p/100%100)), int(max(1, p%100)), 12, 0, 0, 0, time.UTC)
}

// String returns 2026-11-20, 2026-11 or 2026, and "" for 0.
func (p Period) String() string {
	switch {
	case p == 0:
		return ""
	case p%10000 == 0:
		return fmt.Sprintf("%04d", p/10000)
	case p%100 == 0:
		return fmt.Sprintf("%04d-%02d", p/10000, p/100%100)
	}
	return fmt.Sprintf("%04d-%02d-%02d", p/10000, p/100%100, p%100)
}

// Calendar is how often the numbers of a biz type reset, and the time zone of its days.
type Calendar struct {
	Reset Reset
	// Zone is never nil.
	Zone *time.Location
}

// Now returns the period of t. A period that has begun stays the present one if clocks are then set
// back to the day before, as in Newfoundland until 2010: so Now of a later time is never smaller.
func (c Calendar) Now(t time.Time) Period {
	if c.Reset == ResetNever {
		return 0
	}
	t = t.In(c.Zone)
	p := c.Reset.Of(t)
	if change, _ := t.ZoneBounds(); !change.IsZero() {
		p = max(p, c.Reset.Of(change.Add(-1)))
	}
	return p
}
