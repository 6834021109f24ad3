// Package must ends or fails a test at an error of its set-up: an error that the test is not about.
package must

import "testing"

// Do ends the test if err is not nil.
func Do(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Get returns a function that returns v, and that ends the test if err is not nil:
//
//	data := must.Get(os.ReadFile(name))(t)
func Get[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		Do(tb, err)
		return v
	}
}

// Report reports err if it is not nil, and the test goes on. Goroutines of a test use it: they cannot
// end the test.
func Report(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}
