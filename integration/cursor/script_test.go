package cursor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// step is a take, or an append if more is set, and its expected result.
type step struct {
	count     int64
	threshold float64 // 0.5 when 0
	reserve   int
	use       bool // take from the reserve
	more      string
	want      string
}

// Some takes in full. [TestModel] has the others.
func TestTake(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).Addr(), calm)
	for name, test := range map[string]struct {
		ranges  string
		reserve int // at the install
		steps   []step
	}{
		"a full queue ends the claim": {ranges: "1-10", steps: []step{
			{count: 5, reserve: 1, want: "1-5; ceil 10 low free 2 next 0 hand 0"},
			{count: 1, reserve: 1, want: "6-6; ceil 10 claimed free 2 next 0 hand 0"},
			{more: "11-20", reserve: 1, want: "ok free 1"},
			{count: 0, reserve: 1, want: "; ceil 20 claimed free 1 next 7 hand 14"},
			{count: 1, reserve: 1, want: "7-7; ceil 20 claimed free 1 next 0 hand 0"},
			{more: "21-30", reserve: 1, want: "ok free 0"},
			{count: 3, reserve: 1, want: "8-10"},
		}},
		"the reserve": {ranges: "1-10 21-30 101-110 201-210", reserve: 2, steps: []step{
			{count: 25, reserve: 2, use: true, want: "1-10 21-30 101-105; ceil 210 low free 2 next 0 hand 0"},
			{count: 99, reserve: 2, use: true, want: "106-110 201-210; ceil 210 claimed free 3 next 0 hand 0"},
			{count: 99, reserve: 2, use: true, want: "; ceil 210 claimed free 3 next 0 hand 0"},
			{more: "211-211", reserve: 2, want: "ok free 2"},
			{count: 2, reserve: 2, use: true, want: "211-211; ceil 211 claimed free 3 next 0 hand 0"},
		}},
		"threshold 1": {ranges: "1-10", steps: []step{
			{count: 9, threshold: 1, want: "1-9"},
			{count: 1, threshold: 1, want: "10-10; ceil 10 low free 1 next 0 hand 0"},
		}},
		"the threshold is buffer 1's": {ranges: "1-10 11-30", reserve: 1, steps: []step{
			{count: 5, reserve: 1, want: "1-5; ceil 30 low free 1 next 0 hand 0"},
			{count: 14, reserve: 1, want: "6-10 11-19; ceil 30 enough free 2 next 0 hand 0"},
			{count: 1, reserve: 1, want: "20-20; ceil 30 claimed free 2 next 0 hand 0"},
		}},
		"a smaller reserve than is queued": {ranges: "1-10 11-20 21-30 31-40", reserve: 2, steps: []step{
			{count: 9, reserve: 0, want: "1-9"},
			{more: "41-50", reserve: 0, want: "full"},
			{more: "41-50", reserve: 2, want: "full"},
			{count: 10, reserve: 0, want: "10-10 11-19; ceil 40 enough free 0 next 0 hand 0"},
			{count: 10, reserve: 0, want: "20-20 21-29; ceil 40 enough free 0 next 0 hand 0"},
			{count: 0, reserve: 1, want: "; ceil 40 low free 1 next 30 hand 11"},
			{more: "41-50", reserve: 0, want: "full"},
			{more: "41-50", reserve: 1, want: "ok free 0"},
			{count: 0, reserve: 5, want: "; ceil 50 low free 4 next 30 hand 21"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, client)
			c.fill(test.ranges, test.reserve)
			for i, step := range test.steps {
				if got := c.do(step); got != step.want {
					t.Fatalf("step %d\n got %s\nwant %s", i, got, step.want)
				}
			}
		})
	}
}

func (c *cursor) do(s step) string {
	c.t.Helper()
	if s.more != "" {
		r := parse(c.t, s.more)[0]
		answer := c.install(rediscursor.Append, r.First, r.Last, s.reserve)
		if answer.Verdict != rediscursor.Installed {
			return string(answer.Verdict)
		}
		return fmt.Sprintf("ok free %d", answer.Free)
	}
	if s.threshold == 0 {
		s.threshold = 0.5
	}
	gen := c.gen
	taken := c.take(rediscursor.Take{Count: s.count, Threshold: s.threshold, Reserve: s.reserve, UseReserve: s.use, Claim: claim})
	if taken.Gen != gen && taken.Gen != "" {
		c.t.Errorf("the gen was %s and is %s", gen, taken.Gen)
	}
	return show(taken)
}

// Without an epoch nothing is taken, and no cursor begins.
func TestWithoutEpoch(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).Addr(), calm)
	live := open(t, client)
	live.fill("1-10", 1)
	for name, c := range map[string]*cursor{"live": live, "a stub": open(t, client)} {
		if taken, err := c.Cursor.Take(t.Context(), rediscursor.Take{Count: 3, Threshold: 0.5}); err != nil || taken.Other != (c == live) || taken.Stub == (c == live) {
			t.Errorf("%s: %+v, %v", name, taken, err)
		}
	}
	if _, err := live.Cursor.Install(t.Context(), rediscursor.Install{Mode: rediscursor.Seed, Gen: live.gen, Range: persist.Range{First: 11, Last: 20}}); !errors.Is(err, persist.ErrInvalid) {
		t.Errorf("a seed: %v", err)
	}
}

// A hash of the format before epochs counts as a stub, because its epoch is unknown. It keeps its
// ceil.
func TestFormatBeforeEpochs(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).Addr(), calm)
	c := open(t, client)
	c.fill("1-10 11-20", 1)
	for _, field := range []string{"v", "live"} {
		c.set(field, "1")
	}
	must.Do(t, client.HDel(t.Context(), c.key, "epoch").Err())
	if got := show(c.take(rediscursor.Take{Count: 3, Threshold: 0.5})); got != "stub; ceil 20" {
		t.Errorf("a take gets %s", got)
	}
	for _, mode := range []rediscursor.Mode{rediscursor.Append, rediscursor.Advance} {
		if answer := c.install(mode, 21, 30, 1); answer.Verdict != rediscursor.Moved {
			t.Errorf("%s: %+v", mode, answer)
		}
	}
	if answer := c.install(rediscursor.Seed, 21, 30, 1); answer.Verdict != rediscursor.Installed {
		t.Errorf("a seed: %+v", answer)
	}
	if got := show(c.take(rediscursor.Take{Count: 3, Threshold: 0.5})); got != "21-23" || c.hash()["v"] != fmt.Sprint(rediscursor.FormatVersion) {
		t.Errorf("then %s, %v", got, c.hash())
	}
}

// A claim expires, and one from a clock that was far ahead is ignored.
func TestClaim(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).Addr(), calm)
	low := func(c *cursor, claim time.Duration) rediscursor.Low {
		return c.take(rediscursor.Take{Threshold: 0.5, Claim: claim}).Low
	}
	drained := func(t *testing.T) *cursor {
		c := open(t, client)
		c.fill("1-10", 0)
		if got := c.take(rediscursor.Take{Count: 9, Threshold: 0.5}).Low; got != rediscursor.Claimed {
			t.Errorf("a take without a claim gets %v", got)
		}
		return c
	}
	in := func(t *testing.T, d time.Duration) string { // by the server's clock
		now := must.Get(client.Time(context.Background()).Result())(t)
		return fmt.Sprint(now.Add(d).UnixMilli())
	}
	t.Run("expires", func(t *testing.T) {
		c := drained(t)
		began := time.Now()
		if got := low(c, 300*time.Millisecond); got != rediscursor.WantsRefill {
			t.Fatalf("first %v", got)
		}
		for got := low(c, claim); got != rediscursor.WantsRefill; got = low(c, claim) {
			if time.Since(began) > await.Patience {
				t.Fatal("it does not")
			}
		}
		if took := time.Since(began); took < 290*time.Millisecond {
			t.Errorf("after %s", took)
		}
		if got := low(c, claim); got != rediscursor.Claimed {
			t.Errorf("then %v", got)
		}
	})
	for name, test := range map[string]struct {
		until time.Duration
		want  rediscursor.Low
	}{
		"runs":                    {30 * time.Second, rediscursor.Claimed},
		"is over":                 {-time.Millisecond, rediscursor.WantsRefill},
		"of a clock a day ahead":  {24 * time.Hour, rediscursor.WantsRefill},
		"of a clock a bit ahead":  {90 * time.Second, rediscursor.WantsRefill},
		"of a clock a year ahead": {365 * 24 * time.Hour, rediscursor.WantsRefill},
	} {
		t.Run(name, func(t *testing.T) {
			c := drained(t)
			c.set("claim", in(t, test.until))
			if got := low(c, time.Minute); got != test.want {
				t.Errorf("it is %v", got)
			}
			if got := low(c, time.Minute); got != rediscursor.Claimed {
				t.Errorf("then %v", got)
			}
		})
	}
	t.Run("is not taken if there is enough", func(t *testing.T) {
		c := open(t, client)
		c.fill("1-10", 0)
		if got := low(c, claim); got != rediscursor.Enough {
			t.Errorf("it is %v", got)
		}
		if got := c.hash()["claim"]; got != "0" {
			t.Errorf("the claim is %s", got)
		}
	})
}

func TestForeignAndNewer(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).Addr(), calm)
	ctx := context.Background()
	for name, test := range map[string]struct {
		change func(*cursor)
		want   error
	}{
		"newer":             {func(c *cursor) { c.set("v", fmt.Sprint(rediscursor.FormatVersion+1)) }, rediscursor.ErrNewer},
		"two digits":        {func(c *cursor) { c.set("v", "10") }, rediscursor.ErrNewer},
		"newer and foreign": {func(c *cursor) { c.set("v", "10"); c.set("cluster", "x") }, rediscursor.ErrNewer},
		"foreign":           {func(c *cursor) { c.set("cluster", "x") }, rediscursor.ErrForeign},
		"foreign and lost":  {func(c *cursor) { c.set("cluster", "x"); c.set("replid", "0123") }, rediscursor.ErrForeign},
		"newer and lost":    {func(c *cursor) { c.set("v", "10"); c.set("replid", "0123") }, rediscursor.ErrNewer},
		"of no cluster":     {func(c *cursor) { client.HDel(ctx, c.key, "cluster") }, rediscursor.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, client)
			c.fill("1-10", 0)
			test.change(c)
			before := c.hash()
			taken, err := c.Take(ctx, rediscursor.Take{Count: 1, Threshold: 0.5, Claim: claim})
			if !errors.Is(err, test.want) || len(taken.Runs) > 0 {
				t.Errorf("take: %+v, %v", taken, err)
			}
			for _, mode := range []rediscursor.Mode{rediscursor.Append, rediscursor.Seed, rediscursor.Advance} {
				_, err = c.Install(ctx, rediscursor.Install{Mode: mode, Gen: c.gen, Range: persist.Range{First: 11, Last: 20}})
				must.Is(t, err, test.want, "%s", mode)
			}
			if after := c.hash(); !maps.Equal(before, after) {
				t.Errorf("%v became %v", before, after)
			}
		})
	}
}
