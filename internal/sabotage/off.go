//go:build !seqd_sabotage

package sabotage

// Off reports whether a rule is taken out.
func Off(Rule) bool { return false }

// Names returns the names of the rules that are taken out.
func Names() []string { return nil }

// Script returns a Lua script without the rules that are taken out. A script marks a rule by a
// comment "without NAME: CODE", whose code takes it out.
func Script(source string) string { return source }
