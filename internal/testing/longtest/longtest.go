// Package longtest decides whether long tests run. They do if the environment variable
// SEQD_TEST_LONG is not empty. .ci/run sets it; scripts/test and a plain go test do not.
package longtest

import (
	"os"
	"testing"
)

// env is the name of the environment variable.
const env = "SEQD_TEST_LONG"

// Tests reports whether long tests run.
func Tests() bool { return os.Getenv(env) != "" }

// Only skips a test unless long tests run.
func Only(t testing.TB) {
	t.Helper()
	if !Tests() {
		t.Skip("it takes long: " + env + "=1 runs it")
	}
}

// Or returns instead if long tests run, and always otherwise. It chooses, for example, how many
// seeds a test tries.
func Or[T any](always, instead T) T {
	if Tests() {
		return instead
	}
	return always
}
