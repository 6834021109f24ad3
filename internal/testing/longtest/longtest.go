// Package longtest decides whether the tests that take long run: the environment variable SEQD_TEST_LONG
// is set, to anything. .ci/run sets it; scripts/test and a plain go test do not.
package longtest

import (
	"os"
	"testing"
)

// Env names the environment variable.
const Env = "SEQD_TEST_LONG"

// Tests reports whether the tests that take long run.
func Tests() bool { return os.Getenv(Env) != "" }

// Only skips a test unless the tests that take long run.
func Only(t testing.TB) {
	t.Helper()
	if !Tests() {
		t.Skip("it takes long: " + Env + "=1 runs it")
	}
}

// Or returns always, or instead if the tests that take long run: how many seeds a test tries, for
// example.
func Or[T any](always, instead T) T {
	if Tests() {
		return instead
	}
	return always
}
