package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// Whatever a coordinator has that keeps a node from a session, operators see it.
func TestWithoutSession(t *testing.T) {
	for err, want := range map[error]string{
		nil: "",
		fmt.Errorf("x: %w", persist.ErrUnavailable):  "", // it is the store
		coordination.ErrUnavailable:                  "does not answer",
		fmt.Errorf("its ID: %w", persist.ErrInvalid): "its ID",
		fmt.Errorf("its ID: %w", persist.ErrNewer):   "its ID",
		seqd.Errorf(seqd.CodeConflict, "another"):    "another",
	} {
		why := withoutSession(err)
		must.Equal(t, why != nil, want != "", fmt.Sprint(err))
		if why != nil && !strings.Contains(why.Detail, want) {
			t.Errorf("%v: %s", err, why.Detail)
		}
	}
}
