// Package must ends or fails a test that gets another error or another value than it must.
package must

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/seqd/seqd"
)

// TB is the part of [testing.TB] that the helpers use.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Do ends the test if err is not nil.
func Do(tb TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Get returns a function that returns v, and that ends the test if err is not nil:
//
//	data := must.Get(os.ReadFile(name))(t)
func Get[T any](v T, err error) func(TB) T {
	return func(tb TB) T {
		tb.Helper()
		Do(tb, err)
		return v
	}
}

// Report reports err if it is not nil, and the test goes on. Goroutines of a test use it: they
// cannot end the test.
func Report(tb TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Errorf("%v", err)
	}
}

// Err returns the error of a call that returns something else too.
func Err[T any](_ T, err error) error { return err }

// Is reports err if it is not target, see [errors.Is], and the test goes on. What, if it is there,
// is what failed: a format and its arguments, see [fmt.Sprintf].
func Is(tb TB, err, target error, what ...any) {
	tb.Helper()
	if !errors.Is(err, target) {
		tb.Errorf("%s: %v, want %v", said(what), err, target)
	}
}

// Code reports err if it does not have this code, and the test goes on. What is as for [Is].
func Code(tb TB, err error, code seqd.Code, what ...any) {
	tb.Helper()
	if seqd.CodeOf(err) != code {
		tb.Errorf("%s: %v, want %q", said(what), err, code)
	}
}

// Equal reports got if it is not want, and the test goes on. What is as for [Is].
func Equal[T comparable](tb TB, got, want T, what ...any) {
	if got == want {
		return // early: Helper is slow, and many tests compare in a loop
	}
	tb.Helper()
	format := "%s: %+v, want %+v"
	if reflect.TypeFor[T]().Kind() == reflect.String {
		format = "%s: %q, want %q"
	}
	tb.Errorf(format, said(what), got, want)
}

// said returns what failed.
func said(what []any) string {
	if len(what) == 0 {
		return "got"
	}
	return fmt.Sprintf(what[0].(string), what[1:]...)
}
