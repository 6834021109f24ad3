package gcpace

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

func TestPercentFor(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 800, mib: 800, 8 * mib: 800, 16 * mib: 400, 32 * mib: 200, 40 * mib: 160, 64 * mib: 100, 1000 * mib: 100} {
		must.Equal(t, percentFor(live), want, "the percent for %d MiB", live/mib)
	}
}

// The pace follows the size of the live heap, up and down.
func TestPaceFollowsWhatLives(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	Start()
	awaitPace(t, 800)
	large := make([]byte, 2*spare)
	awaitPace(t, 100)
	runtime.KeepAlive(large)
	awaitPace(t, 800)
}

// awaitPace collects garbage until the pace is as wanted.
func awaitPace(t *testing.T, want uint64) {
	t.Helper()
	pace := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	await.Eventually(t, "the pace follows", func() error {
		runtime.GC()
		if metrics.Read(pace); pace[0].Value.Uint64() != want {
			return fmt.Errorf("it is %d %%, want %d", pace[0].Value.Uint64(), want)
		}
		return nil
	})
}
