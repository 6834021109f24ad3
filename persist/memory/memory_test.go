package memory_test

import (
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/persisttest"
)

func TestConformance(t *testing.T) {
	persisttest.Run(t, func(_ *testing.T, now func() time.Time) persist.Store { return memory.New(now) })
}
