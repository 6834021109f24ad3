// Package literal reads values as people write them: in configuration files, variables, flags,
// definitions, queries and commands of the Redis protocol. Everything that reads one uses this
// package, so a text means the same in all of them. A text that other programs read in another way,
// such as 010, 0x10, 1_000 or 1e3 for a whole number, is refused.
package literal

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a container without the database has all time zones too
)

// Int reads a whole number: decimal digits, without a plus sign and leading zeros. ok is false for
// any other text, and for a number outside the range of int64.
func Int(text string) (n int64, ok bool) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && text != "0" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Port reads a port, from 0 to 65535. Names of services are none: machines differ in them.
func Port(text string) (port int, ok bool) {
	n, ok := Int(text)
	return int(n), ok && n >= 0 && n <= 65535
}

// Float reads a number as JSON writes it, such as 0.2 or 1e-3.
func Float(text string) (f float64, ok bool) {
	if !isNumber(text) {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if digits, _, _ := strings.Cut(strings.ToLower(text), "e"); f == 0 && strings.ContainsAny(digits, "123456789") {
		return 0, false // too small, and 0 often means something else
	}
	return f, err == nil
}

// isNumber reports whether a text is a number of JSON.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	return text[len(text)-1] >= '0' && json.Valid([]byte(text)) // which may end in a space
}

// Bool reads true or false, in this spelling only.
func Bool(text string) (b, ok bool) { return text == "true", text == "true" || text == "false" }

// durations are numbers with units, the largest unit first and each at most once.
var durations = regexp.MustCompile(strings.ReplaceAll(`^-?(#h)?(#m)?(#s)?(#ms)?(#[uµμ]s)?(#ns)?$`, "#", `\d+(?:\.\d+)?`))

// Duration reads a duration such as 1h30m or 500ms: numbers with the units h, m, s, ms, us and ns,
// the largest first. Only 0 may have no unit.
func Duration(text string) (d time.Duration, ok bool) {
	if text == "0" {
		return 0, true
	}
	if !durations.MatchString(text) {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if d == 0 && strings.ContainsAny(text, "123456789") {
		return 0, false // less than a nanosecond, and 0 often means something else
	}
	return d, err == nil
}

// ShortDuration writes 30m0s as 30m.
func ShortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Within returns an error if value is less than least or more than most.
func Within(value, least, most time.Duration) error {
	if value >= least && value <= most {
		return nil
	}
	return fmt.Errorf("%s is outside %s to %s", ShortDuration(value), ShortDuration(least), ShortDuration(most))
}

// times are the forms of RFC 3339, of which [time.Parse] takes more than there are.
var times = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// Time reads a time of RFC 3339, such as 2027-01-31T00:00:00Z.
func Time(text string) (t time.Time, ok bool) {
	if !times.MatchString(text) {
		return t, false
	}
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// zones are the names of time zones that mean the same everywhere: UTC, or a place. What machines
// have beside them differs, such as localtime. Abbreviations have several meanings, and the sign of
// Etc/GMT+8 is the opposite of what people read.
var zones = regexp.MustCompile(`^(UTC|Etc/UTC|` +
	`(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Brazil|Canada|Chile|Mexico|US)` +
	`(/[A-Z][A-Za-z_-]+)+)$`)

// known are zones by their names, because [time.LoadLocation] reads a file each time.
var known sync.Map

// Zone returns the time zone with a name of the IANA database, in the spelling of the database,
// such as Asia/Shanghai or UTC.
func Zone(name string) (*time.Location, error) {
	if zone, ok := known.Load(name); ok {
		return zone.(*time.Location), nil
	}
	if !zones.MatchString(name) {
		return nil, fmt.Errorf("%.100q is not the name of a time zone: a region and a city, such as Asia/Shanghai, or UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%.100q is not the name of a time zone, such as Asia/Shanghai or UTC", name)
	}
	known.Store(name, zone)
	return zone, nil
}
