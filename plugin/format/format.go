// Package format displays numbers with a template, such as INV-{date:20060102}-{seq:06}{check}.
// Importing it registers the plugin "format".
//
// Invariant U6: two numbers of one period never have the same text, and if numbers reset, neither
// have two numbers of different periods. This is proven when the configuration is loaded. Literals,
// dates and check digits have a constant length, so a text can be cut into its parts in one way
// only. The rest is the number, which has one form. The dates identify the period, which is checked
// for every period from 2000 to 2099.
//
// If the template shows the key, neither have two numbers of different keys. The length of a key
// varies too. So between the key and the number there is a place that shows a character which no
// number has, and what is between that place and the number shows only characters that numbers have
// (cut.go). Seen from the number, that place is where the first character is that is not of a
// number. It says where the number ends, and the rest is the key. If the template does not show the
// key, the IDs of each key are unique, and those of two keys are not.
//
// [Settings] are parsed into a template (template.go) of parts: dates (dates.go), the number
// (digits.go), the key (cut.go) and check digits (check.go). [Plugin] displays and reads IDs. To add
// a check digit algorithm, add it to the list algorithms. To add a part, add a kind in template.go.
package format

import (
	"fmt"
	"strconv"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

const name = "format"

func init() {
	plugin.Register(plugin.Factory{
		Name: name,
		Help: "Shows numbers by a template, with dates, padding, other letters and " +
			"check digits, such as INV-20260102-000123.",
		Order:    200,
		Quick:    true,
		Pure:     true,
		Settings: func() any { return new(Settings) },
		Check: func(b seqd.BizType, binding seqd.PluginBinding) []seqd.Problem {
			return binding.Settings.(*Settings).fits(b, binding)
		},
		New: func(env plugin.Env, b seqd.BizType, binding seqd.PluginBinding) (seqd.Plugin, error) {
			p, err := New(*binding.Settings.(*Settings), seqd.TraitsOf(b.Settings).Calendar, displayWidth(b, binding), env.Now)
			if err != nil {
				return nil, err
			}
			_, p.scattered = rewriter(b, binding)
			return p, nil
		},
		Shape: func(_ seqd.BizType, binding seqd.PluginBinding) (string, error) {
			return binding.Settings.(*Settings).shape(), nil
		},
		ShowsPeriod: func(b seqd.BizType, binding seqd.PluginBinding) bool {
			return binding.Settings.(*Settings).showsPeriod(seqd.TraitsOf(b.Settings).Calendar)
		},
	})
}

// Settings are the settings of one binding.
type Settings struct {
	// Template is how a number is displayed: text with `{seq}` for the number (`{seq:06}` pads it,
	// `{seq:r36}` writes it in radix 36), `{date:2006}` for the year, `{date:200601}` for year and
	// month, `{date:20060102}` for the day (these digits stand for the date, as in Go's package
	// time), `{check}` for a check digit and `{key}` for the key: `INV-{date:2006}-{seq:06}` shows
	// `INV-2026-000001`. It has at most 256 bytes.
	Template string `config:"template"`
	// Check is the algorithm of `{check}`. It is empty without `{check}`.
	Check string `config:"check" range:"luhn, damm, mod97, or empty"`
}

var _ seqd.Validator = (*Settings)(nil)

// Validate implements [seqd.Validator].
func (s *Settings) Validate() []seqd.Problem {
	t, err := parse(s.Template)
	if err != nil {
		return []seqd.Problem{{Key: "template", Text: err.Error()}}
	}
	algorithm, at := lookupAlgorithm(s.Check), t.find(check)
	radix := len(t[t.find(sequence)].numeral.alphabet)
	problem := seqd.Problem{Key: "check"}
	switch {
	case s.Check != "" && algorithm == nil:
		problem.Text = fmt.Sprintf("%q is not one of %q", s.Check, []string{"luhn", "damm", "mod97"})
	case s.Check == "" && at >= 0:
		problem.Key = "template"
		problem.Text = fmt.Sprintf("byte %d: {check} needs an algorithm: set check to luhn, damm or mod97", t[at].at)
	case s.Check != "" && at < 0:
		problem.Key = "template"
		problem.Text = fmt.Sprintf("byte %d: the template ends without {check}, and check is %s", len(s.Template), s.Check)
	case algorithm != nil && algorithm.decimal && radix != 10:
		problem.Text = fmt.Sprintf("%s counts decimal digits only, so it would not cover all of a number in radix %d: use mod97, or radix 10", s.Check, radix)
	default:
		return nil
	}
	return []seqd.Problem{problem}
}

// fits returns what is wrong with valid settings at this place in the chain.
func (s *Settings) fits(b seqd.BizType, binding seqd.PluginBinding) []seqd.Problem {
	var problems seqd.Problems
	bound := 0
	for _, other := range b.Plugins {
		if other.Name == name {
			bound++
		}
	}
	if bound > 1 {
		return []seqd.Problem{{Key: "name", Text: "a biz type can have one template, but format is bound more than once"}}
	}
	if previous, ok := rewriter(b, binding); ok {
		problems.Check(seqd.TraitsOf(previous.Settings).Decimal, "order",
			"it is %d, so format runs after %s, which does not promise to show decimal digits: format needs a number", binding.Order, previous.Name)
	}
	if t, err := parse(s.Template); err == nil {
		d, wrong := newDates(t.layouts(), seqd.TraitsOf(b.Settings).Calendar)
		at := t.find(key)
		switch {
		case wrong != nil && len(t.layouts()) > 0:
			problems.Check(false, "template", "byte %d: %s", t.dateAt(wrong.index), wrong)
		case at >= 0 && !seqd.TraitsOf(b.Settings).Keyed:
			problems.Check(false, "template",
				"byte %d: {key} has nothing to show, because %s is not keyed: set keyed: true for it, or leave {key} out", t[at].at, b.Name)
		case at >= 0 && wrong == nil:
			_, err := newCut(t, d, lookupAlgorithm(s.Check))
			problems.Add("template", err)
		}
	}
	return problems
}

// dateAt returns the position of the i-th date, or of the first one for −1.
func (t template) dateAt(i int) int {
	for _, p := range t {
		if p.kind == date {
			if i <= 0 {
				return p.at
			}
			i--
		}
	}
	return 0
}

// rewriter returns the binding whose display form this one receives. ok is false if it receives
// plain numbers.
func rewriter(b seqd.BizType, binding seqd.PluginBinding) (previous seqd.PluginBinding, ok bool) {
	for _, other := range plugin.Chain(b) {
		if other.Name == binding.Name {
			break
		}
		if factory, err := plugin.Lookup(other.Name); err == nil && factory.Shape != nil {
			previous, ok = other, true
		}
	}
	return previous, ok
}

// displayWidth returns how many digits the previous plugins display, 0 if without leading zeros.
func displayWidth(b seqd.BizType, binding seqd.PluginBinding) int {
	if previous, ok := rewriter(b, binding); ok {
		return seqd.TraitsOf(previous.Settings).Digits
	}
	return 0
}

// shape returns a text that changes with every setting that could repeat an ID.
func (s Settings) shape() string { return "v1 " + strconv.Quote(s.Template) + " " + s.Check }

// showsPeriod reports whether the template has dates that identify the period.
func (s *Settings) showsPeriod(calendar seqd.Calendar) bool {
	t, err := parse(s.Template)
	if err != nil || len(t.layouts()) == 0 || calendar.Reset == seqd.ResetNever {
		return false
	}
	_, wrong := newDates(t.layouts(), calendar)
	return wrong == nil
}
