//go:build seqd_sabotage

package sabotage

import (
	"os"
	"slices"
	"strings"
)

// names are the rules that are taken out.
var names = strings.FieldsFunc(os.Getenv("SEQD_TEST_SABOTAGE"), func(r rune) bool { return r == ',' })

// Off reports whether a rule is taken out.
func Off(r Rule) bool { return slices.Contains(names, string(r)) }

// Names returns the names of the rules that are taken out.
func Names() []string { return names }

// Script returns a Lua script without the rules that are taken out.
func Script(source string) string { return Without(source, Off) }
