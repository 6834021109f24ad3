// Package ruleset has sets of the rules that a machine keeps. Tests take rules out of a machine by
// name, to show that each is needed, and that they would notice.
package ruleset

import (
	"fmt"
	"slices"
	"strings"
)

// Set is a set of rules, which are numbered from 0 to 31; the zero value is empty.
type Set[R ~uint8] uint32

// Of returns the set of some rules.
func Of[R ~uint8](list ...R) (set Set[R]) {
	for _, r := range list {
		set |= 1 << r
	}
	return set
}

// Has reports whether a rule is in the set.
func (s Set[R]) Has(r R) bool { return s&(1<<r) != 0 }

// All returns the rules from 0 to n-1.
func All[R ~uint8](n R) (all []R) {
	for r := range n {
		all = append(all, r)
	}
	return all
}

// Parse returns the rules whose names are in a text, separated by commas. The name of a rule is at
// the index that is its number. A name that no rule has is an error.
func Parse[R ~uint8](names []string, text string) (set Set[R], err error) {
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(names, name)
		switch {
		case i >= 0:
			set |= Of(R(i))
		case name != "":
			return 0, fmt.Errorf("no rule is called %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	return set, nil
}
