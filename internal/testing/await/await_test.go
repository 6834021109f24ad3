package await_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
)

// failing is a test that notes that it was ended.
type failing struct {
	testing.TB
	ended bool
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(string, ...any) {
	f.ended = true
	panic(f)
}

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, f := time.Now(), &failing{TB: t}
		await.True(f, "two minutes are over", func() bool { return time.Since(began) > 2*time.Minute })
		func() {
			defer func() { _ = recover() }()
			await.Eventually(f, "the end", func() error { return errors.New("not yet") })
		}()
		if !f.ended {
			t.Error("a test that waits in vain is not ended")
		}
	})
}
