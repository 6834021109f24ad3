// Package glob compares names with patterns in which a star stands for any characters, also none.
package glob

import "strings"

// Match reports whether name matches pattern. It backtracks only to the latest star, which is
// enough: an earlier star could only match a shorter run.
func Match(pattern, name string) bool {
	star, resume := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p, n = p+1, n+1
		case star >= 0:
			resume++
			p, n = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Prefix returns what every name that matches pattern begins with. exact is true if pattern has no
// star, so that it matches this one name only.
func Prefix(pattern string) (prefix string, exact bool) {
	prefix, _, star := strings.Cut(pattern, "*")
	return prefix, !star
}
