package stats_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin/stats"
)

// TestRatesWhereClocksJump checks, with concurrent requests and a clock without a monotonic part
// that jumps, that no rate is negative, not a number, or above what was issued per second.
func TestRatesWhereClocksJump(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		c := newClock()
		s := stats.New("order", c.now)
		total := 0
		for range 60 {
			switch r.IntN(6) {
			case 0:
				c.add(-time.Duration(r.Int64N(int64(time.Hour))))
			case 1:
				c.add(time.Duration(r.Int64N(int64(200 * 24 * time.Hour))))
			case 2:
				c.add(-time.Duration(r.Int64N(int64(100 * 24 * time.Hour))))
			default:
				c.add(time.Duration(r.Int64N(int64(30 * time.Second))))
			}
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { issue(s, 5); refuse(s, seqd.CodeTimeout) })
			}
			wg.Wait()
			total += 15
			rates := report(t, s).Rates
			for _, x := range []stats.Rate{rates.OneMinute, rates.FiveMinutes, rates.FifteenMinutes} {
				for _, v := range []float64{x.Issued, x.Requests, x.Refused} {
					if v < 0 || math.IsNaN(v) || v > float64(total) {
						t.Fatalf("%+v of %d", rates, total)
					}
				}
			}
		}
	}
}
