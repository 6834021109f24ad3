// Package format shows numbers by a template, such as INV-{date:20060102}-{seq:06}{check}. Its
// import registers the plugin "format".
//
// Invariant: two numbers of one period never have one text, and where numbers begin again, neither
// have those of two periods (U6). It is certain when the configuration is loaded: literals, dates
// and check digits have a fixed length, so a text can be cut into its parts in one way; what is
// left is the number, which is written in one way; and the dates say which period it is, which is
// tried for every one from 2000 to 2099.
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
		Name:     name,
		Order:    200,
		Quick:    true,
		Settings: func() any { return new(Settings) },
		Check: func(b seqd.BizType, binding seqd.PluginBinding) []seqd.Problem {
			return binding.Settings.(*Settings).fits(b, binding)
		},
		New: func(env plugin.Env, b seqd.BizType, binding seqd.PluginBinding) (seqd.Plugin, error) {
			p, err := New(*binding.Settings.(*Settings), seqd.CalendarOf(b), displayWidth(b, binding), env.Now)
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
			return binding.Settings.(*Settings).showsPeriod(seqd.CalendarOf(b))
		},
	})
}

// Settings are the settings of one binding.
type Settings struct {
	// Template is how a number is shown: text, {date:LAYOUT} with a layout of package time, {seq}
	// with padding and radix, {check}. At most 256 bytes.
	Template string `config:"template"`
	// Check is the algorithm of {check}: luhn, damm or mod97; empty without {check}.
	Check string `config:"check"`
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

// fits returns what is wrong with valid settings in this place.
func (s *Settings) fits(b seqd.BizType, binding seqd.PluginBinding) (problems []seqd.Problem) {
	bound := 0
	for _, other := range b.Plugins {
		if other.Name == name {
			bound++
		}
	}
	if bound > 1 {
		return []seqd.Problem{{Key: "name", Text: "a biz type has one template: format is there more than once"}}
	}
	if previous, ok := rewriter(b, binding); ok {
		if _, decimal := previous.Settings.(seqd.Decimal); !decimal {
			problems = append(problems, seqd.Problem{Key: "order", Text: fmt.Sprintf(
				"it is %d, so format runs after %s, which does not promise to show decimal digits: format needs a number", binding.Order, previous.Name)})
		}
	}
	if t, err := parse(s.Template); err == nil {
		if _, err := newDates(t.layouts(), seqd.CalendarOf(b)); err != nil && len(t.layouts()) > 0 {
			problems = append(problems, seqd.Problem{Key: "template", Text: fmt.Sprintf("byte %d: %s", t.dateAt(err.index), err)})
		}
	}
	return problems
}

// dateAt returns where the i-th date begins; the first one for −1.
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

// rewriter returns the binding whose display form this one is given; ok is false where the numbers
// are shown as they are.
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

// displayWidth returns how many digits the plugins before this binding show, 0 where they show no
// zeros in front.
func displayWidth(b seqd.BizType, binding seqd.PluginBinding) int {
	if previous, ok := rewriter(b, binding); ok {
		if d, ok := previous.Settings.(seqd.Decimal); ok {
			return d.DisplayWidth()
		}
	}
	return 0
}

// shape changes with every setting that could make an ID appear a second time.
func (s Settings) shape() string { return "v1 " + strconv.Quote(s.Template) + " " + s.Check }

// showsPeriod reports whether the template has dates and they determine the period.
func (s *Settings) showsPeriod(calendar seqd.Calendar) bool {
	t, err := parse(s.Template)
	if err != nil || len(t.layouts()) == 0 || calendar.Reset == seqd.ResetNever {
		return false
	}
	_, wrong := newDates(t.layouts(), calendar)
	return wrong == nil
}
