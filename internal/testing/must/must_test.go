package must_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// noting is a test that notes what it was told instead of failing.
type noting struct {
	testing.TB
	told string
}

func (n *noting) Helper()           {}
func (n *noting) Error(args ...any) { n.told += "error " + fmt.Sprint(args...) }
func (n *noting) Errorf(format string, args ...any) {
	n.told += "error " + fmt.Sprintf(format, args...)
}
func (n *noting) Fatal(args ...any) { n.told += "fatal " + fmt.Sprint(args...) }

// Each helper fails a test that gets another error or value than it must, and no other test.
func TestMust(t *testing.T) {
	missing, wrapped := fs.ErrNotExist, fmt.Errorf("open: %w", fs.ErrNotExist)
	disabled := seqd.Errorf(seqd.CodeDisabled, "off")
	for i, test := range []struct {
		check func(*noting)
		want  string
	}{
		{func(n *noting) { must.Do(n, nil) }, ""},
		{func(n *noting) { must.Do(n, missing) }, "fatal file does not exist"},
		{func(n *noting) { n.told = must.Get("value", nil)(n) }, "value"},
		{func(n *noting) { must.Get("value", missing)(n) }, "fatal file does not exist"},
		{func(n *noting) { must.Report(n, nil) }, ""},
		{func(n *noting) { must.Report(n, must.Err(1, missing)) }, "error file does not exist"},
		{func(n *noting) { must.Is(n, wrapped, missing, "read") }, ""},
		{func(n *noting) { must.Is(n, nil, missing, "read %d", 7) }, "error read 7: <nil>, want file does not exist"},
		{func(n *noting) { must.Is(n, errors.ErrUnsupported, missing) }, "error got: unsupported operation, want file does not exist"},
		{func(n *noting) { must.Code(n, fmt.Errorf("put: %w", disabled), seqd.CodeDisabled) }, ""},
		{func(n *noting) { must.Code(n, disabled, seqd.CodeConflict, "put") }, `error put: disabled: off, want "conflict"`},
		{func(n *noting) { must.Code(n, nil, seqd.CodeConflict) }, `error got: <nil>, want "conflict"`},
		{func(n *noting) { must.Equal(n, 7, 7, "put") }, ""},
		{func(n *noting) { must.Equal(n, 7, 8, "put %d", 9) }, "error put 9: 7, want 8"},
		{func(n *noting) { must.Equal(n, seqd.CodeDisabled, "") }, `error got: "disabled", want ""`},
	} {
		n := &noting{}
		if test.check(n); n.told != test.want {
			t.Errorf("%d: told %q, want %q", i, n.told, test.want)
		}
	}
}
