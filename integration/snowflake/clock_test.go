package snowflake

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// restored runs seqd restored.
func (f *fleet) restored() {
	f.t.Helper()
	if out, code := node.Command(f.t, f.t.TempDir(), f.env, "restored"); code != 0 || !strings.Contains(out, "begin at") {
		f.t.Errorf("restored: %d, %s", code, out)
	}
}

// newOnBolt returns nodes with their own stores. The registry in such a store uses the node's
// clock.
func newOnBolt(t *testing.T, settings ...string) *fleet {
	return newFleet(t, 10, append([]string{"SEQD_STORE_DRIVER=bolt", "SEQD_STORE_BOLT_PATH=" + filepath.Join("data", "seqd.db")}, settings...)...)
}

// retryAfter asks for a number, checks that it is rejected because of the clock, and returns the
// seconds of Retry-After.
func (l *life) retryAfter() int {
	l.f.t.Helper()
	resp, err := http.Get(l.URL + "/seq/order")
	if err != nil {
		l.f.t.Fatal(err)
	}
	defer resp.Body.Close()
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || resp.StatusCode != 503 {
		l.f.t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	return seconds
}

// rejected returns how many calls were rejected because of the clock.
func (l *life) rejected() int { return l.traffic.Failures()["clock_rollback"] }

// logs checks how often the log of a node has a message.
func (l *life) logs(message string, want int) {
	l.f.t.Helper()
	if n := strings.Count(l.Log(), `"msg":"`+message); n != want {
		l.f.t.Errorf("%q was logged %d times, want %d", message, n, want)
	}
}

// The messages of one episode.
const (
	setBack = "the clock was set back"
	passed  = "the clock has passed the last time that was used"
)

// The clock is set back. If it is a little, calls wait. If it is more, calls are rejected until the
// clock has passed the last time, which is logged once.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	onClocks(t, func(t *testing.T, f *fleet, mongo bool) {
		a := f.start("a", "")
		off := time.Duration(0)
		for range 20 {
			off -= time.Millisecond
			a.turn(off)
			a.traffic.More(t, 5)
		}
		if a.rejected() > 0 {
			t.Errorf("refused: %v", a.traffic.Failures())
		}
		a.logs(setBack, 0)

		a.turn(off - 2*time.Second)
		await.True(f.t, "a rejection", func() bool { return a.rejected() > 0 })
		a.AwaitLog(setBack)
		if mongo { // the lease is not renewed while the clock is so far off
			a.AwaitLog("the machine ID cannot be renewed")
			a.AwaitLog("maxSkew")
			a.AwaitReadiness(503, "no_machine_id")
			a.turn(0)
		}
		a.AwaitReadiness(200, "")
		a.traffic.More(t, 100)
		a.logs(setBack, 1)
		a.logs(passed, 1)

		a.turn(-time.Hour)
		a.AwaitReadiness(503, "clock_rollback")
		await.True(f.t, "a second episode", func() bool { return strings.Count(a.Log(), `"msg":"`+setBack) == 2 })
		if s := a.retryAfter(); s < 3500 || s > 3602 {
			t.Errorf("Retry-After is %d", s)
		}
		a.turn(0)
		a.AwaitReadiness(200, "")
		a.traffic.More(t, 100)
		a.logs(setBack, 2)
		a.logs(passed, 2)
		f.finish()
	})
}

// onClocks runs a test with a registry that uses the node's clock, and with one that has its own
// clock.
func onClocks(t *testing.T, test func(t *testing.T, f *fleet, mongo bool)) {
	t.Run("bolt", func(t *testing.T) {
		t.Parallel()
		test(t, newOnBolt(t), false)
	})
	t.Run("mongo", func(t *testing.T) {
		t.Parallel()
		test(t, newOnMongo(t, 10).fleet, true)
	})
}

// The clock is set ahead and back again. A registry with its own clock keeps the node from using
// times ahead.
func TestClockSetAheadAndBack(t *testing.T) {
	t.Parallel()
	onClocks(t, func(t *testing.T, f *fleet, mongo bool) {
		a := f.start("a", "")
		a.traffic.More(t, 100)
		a.turn(time.Hour)
		if mongo {
			a.AwaitReadiness(503, "no_machine_id")
			a.AwaitLog("maxSkew")
			a.turn(0)
			a.AwaitReadiness(200, "")
			a.traffic.More(t, 100)
			f.finish()
			return
		}
		a.traffic.Await(t, "numbers an hour ahead", func() bool {
			ms, _ := f.parse(a.traffic.Highest())
			return ms > time.Now().Add(59*time.Minute).UnixMilli()
		})
		a.turn(0)
		a.AwaitReadiness(503, "clock_rollback")
		await.True(f.t, "a rejection", func() bool { return a.rejected() > 0 })
		a.turn(time.Hour)
		a.AwaitReadiness(200, "")
		a.traffic.More(t, 100)
		a.logs(passed, 1)
		f.finish()
	})
}

// turns are the offsets of the clock in one life of a node and in the next.
var turns = map[string]struct {
	before, after time.Duration
	far           bool // too far for the second life to wait
}{
	"back 1 ms":             {0, -time.Millisecond, false},
	"back 2 s":              {0, -2 * time.Second, false},
	"back 1 h":              {0, -time.Hour, true},
	"ahead 1 h, then right": {time.Hour, 0, true},
}

// The clock is set back between two lives of a node; the first was stopped or killed. There is one
// machine ID, so the node rejects calls until the clock has passed the times that were used.
func TestClockSetBackAcrossRestart(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(l *life){"stopped": (*life).leave, "killed": (*life).die} {
		for name, turn := range turns {
			t.Run(how+", "+name, func(t *testing.T) {
				t.Parallel()
				f := newOnBolt(t, "SEQD_SNOWFLAKE_MACHINEID=5")
				a := f.launch("a0", "")
				a.turn(turn.before)
				a.load()
				a.traffic.More(t, 100)
				end(a)
				highest := a.traffic.Highest()
				a.turn(turn.after)
				a = f.launch("a1", a.dir)
				a.load()
				if turn.far {
					a.AwaitReady("refusing because of what was used", func(r node.Readiness) bool {
						return r.Status == 503 && (r.Code == "clock_rollback" || r.Code == "no_machine_id")
					})
					a.turn(turn.before)
				}
				a.AwaitReadiness(200, "")
				a.traffic.More(t, 100)
				a.history.Each(func(c ordercheck.Call) {
					if c.Numbers[0] <= highest {
						t.Errorf("got %d; the previous life issued %d", c.Numbers[0], highest)
					}
				})
				f.finish()
			})
		}
	}
}

// The same with all machine IDs: the node may lease another one, and nothing is issued twice. A
// registry with its own clock rejects a node whose clock is far off.
func TestClockSetBackAcrossRestartWithOtherIDs(t *testing.T) {
	t.Parallel()
	onClocks(t, func(t *testing.T, f *fleet, mongo bool) {
		a := f.start("a0", "")
		for i, off := range []time.Duration{-time.Millisecond, -2 * time.Second, -time.Hour, time.Hour, 0} {
			a.traffic.More(t, 100)
			a.die()
			a.turn(off)
			a = f.launch(fmt.Sprint("a", i+1), a.dir)
			a.load()
			if mongo && off.Abs() > maxSkew {
				a.AwaitReadiness(503, "no_machine_id")
				if r := a.Readiness(); !strings.Contains(r.Body, "maxSkew") {
					t.Errorf("it does not report why: %s", r.Body)
				}
				a.turn(0)
			}
			a.AwaitReadiness(200, "")
		}
		a.traffic.More(t, 100)
		f.finish()
	})
}

// Biz types with the same settings share a generator, so their numbers are distinct.
func TestBizTypes(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	f := newOnMongo(t, 10, `SEQD_BIZTYPES=[{"name":"order","strategy":"snowflake"},{"name":"user","strategy":"snowflake"},{"name":"refund","strategy":"snowflake"}]`)
	f.pace = node.Pace{Callers: 8, Pause: 0, Largest: 2000}
	a, b := f.start("a", ""), f.start("b", "")
	var others []*node.Traffic
	for _, l := range []*life{a, b} {
		for _, bizType := range []string{"user", "refund"} {
			others = append(others, node.StartTraffic(l.Node, bizType, l.history, l.name+" "+bizType, f.pace))
		}
	}
	for _, traffic := range append(others, a.traffic, b.traffic) {
		traffic.More(t, 50_000)
	}
	for _, traffic := range others {
		traffic.Stop()
	}
	f.finish()
}
