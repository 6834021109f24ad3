package gate

import (
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

func newAccessLog(kind string, perSecond int) *AccessLog {
	l := new(AccessLog)
	l.Limit(kind, perSecond)
	return l
}

// TestAccessLogIsSampled sends a flood. The first lines of each second are written, the next line
// says how many were left out, and failures are still logged.
func TestAccessLogIsSampled(t *testing.T) {
	l := newAccessLog("on", 2)
	now := time.Unix(1_800_000_000, 0)
	for i, want := range []bool{true, true, false, false, false} {
		if skipped, ok := l.Takes(false, false, now); ok != want || skipped != 0 {
			t.Errorf("request %d: %v, %d skipped; want %v, none", i, ok, skipped, want)
		}
	}
	if skipped, ok := l.Takes(true, true, now); !ok || skipped != 3 {
		t.Errorf("a failure during a flood: %v, %d skipped; want a line that tells of 3", ok, skipped)
	}
	l.Takes(false, false, now)
	if skipped, ok := l.Takes(false, false, now.Add(time.Second)); !ok || skipped != 1 {
		t.Errorf("a second later: %v, %d skipped; want a line that tells of 1", ok, skipped)
	}
	if skipped, ok := l.Takes(false, false, now.Add(time.Second)); !ok || skipped != 0 {
		t.Errorf("and once more: %v, %d skipped; want a line", ok, skipped)
	}
	must.Equal(t, l.skipped.Load(), 4, "how many were skipped in all")
}

func TestAccessLogOfEveryRequest(t *testing.T) {
	l := newAccessLog("on", 0)
	for range 10_000 {
		if skipped, ok := l.Takes(false, false, time.Unix(1, 0)); !ok || skipped != 0 {
			t.Fatal("a line is missing")
		}
	}
}

// TestAccessLogLosesNone checks that each request is logged, reported as left out, or still to be
// reported, however many there are at once.
func TestAccessLogLosesNone(t *testing.T) {
	l := newAccessLog("on", 10)
	var mu sync.Mutex
	var told, written int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for i := range 1000 {
				if skipped, ok := l.Takes(i%2 == 1, i%2 == 1, time.Unix(int64(i/100), 0)); ok {
					mu.Lock()
					told, written = told+skipped, written+1
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	if told+written+l.unsaid.Load() != 8000 || l.skipped.Load()+written != 8000 {
		t.Errorf("%d written, %d told of, %d still to tell, %d skipped: of 8000", written, told, l.unsaid.Load(), l.skipped.Load())
	}
}

// TestAccessLogOfRefusals checks that requests without an error get no line and are not counted as
// left out.
func TestAccessLogOfRefusals(t *testing.T) {
	l := newAccessLog("refused", 10)
	for _, tt := range []struct{ refused, failed bool }{{false, false}, {true, false}, {true, true}} {
		if _, ok := l.Takes(tt.refused, tt.failed, time.Unix(1, 0)); ok != tt.refused {
			t.Errorf("%+v gets a line: %t", tt, ok)
		}
	}
	must.Equal(t, l.Skipped(), 0, "how many were left out")
}
