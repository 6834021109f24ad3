package glob

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// matches is Match by its definition.
func matches(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	if pattern[0] == '*' {
		return matches(pattern[1:], name) || name != "" && matches(pattern, name[1:])
	}
	return name != "" && pattern[0] == name[0] && matches(pattern[1:], name[1:])
}

func TestMatch(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 1))
	text := func(letters string) string {
		var b strings.Builder
		for range r.IntN(7) {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	matched := 0
	for range 20_000 {
		pattern, name := text("ab*"), text("ab")
		want := matches(pattern, name)
		if got := Match(pattern, name); got != want {
			t.Fatalf("%q, %q: %t", pattern, name, got)
		}
		prefix, exact := Prefix(pattern)
		if want && !strings.HasPrefix(name, prefix) || want && exact && name != prefix {
			t.Fatalf("%q matches %q, and its prefix is %q, exact %t", pattern, name, prefix, exact)
		}
		if want {
			matched++
		}
	}
	if matched < 1000 {
		t.Errorf("only %d names matched", matched)
	}
}

// A pattern with many stars takes no more time than its length times that of the name.
func TestManyStars(t *testing.T) {
	if Match(strings.Repeat("*a", 1000)+"b", strings.Repeat("a", 10_000)) {
		t.Error("it matched")
	}
}
