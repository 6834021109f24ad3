package seqd

import (
	"cmp"
	"context"
	"time"
)

// This file asks settings, plugins and rejection handlers what they can do. Besides, package issuer
// asks strategies and plugins by its function ask, and package strategy asks strategies in
// NewClaim.

// TraitsOf returns the traits of settings, which may be of any type.
func TraitsOf(settings any) (t Traits) {
	if s, ok := settings.(HasTraits); ok {
		t = s.Traits()
	}
	t.Increment = max(1, t.Increment)
	t.Calendar.Reset = cmp.Or(t.Calendar.Reset, ResetNever)
	t.Calendar.Zone = cmp.Or(t.Calendar.Zone, time.UTC)
	return t
}

// ProblemsOf returns what is wrong with settings, which may be of any type; see [Validator].
func ProblemsOf(settings any) []Problem {
	if s, ok := settings.(Validator); ok {
		return s.Validate()
	}
	return nil
}

// Confine tells settings what they may name, and returns what they must not name; see [Confined].
func Confine(settings any, r *Reach) []Problem {
	if s, ok := settings.(Confined); ok {
		return s.Confine(r)
	}
	return nil
}

// Close closes a plugin or rejection handler; see [Closer].
func Close(ctx context.Context, of any) error {
	if c, ok := of.(Closer); ok {
		return c.Close(ctx)
	}
	return nil
}

// Measure calls tell with what a strategy, plugin or rejection handler measures; see [Measurer].
func Measure(of any, tell func(Measurement)) {
	if m, ok := of.(Measurer); ok {
		m.Measure(tell)
	}
}

// TableOf returns what a [Resource] shows as a table, and whether it is one; see [Table].
func TableOf(shown any) (t Table, ok bool) {
	t, ok = shown.(Table)
	return t, ok
}
