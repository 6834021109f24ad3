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
	must.Is(t, must.Err(live.Cursor.Install(t.Context(), rediscursor.Install{Mode: rediscursor.Seed, Gen: live.gen, Range: persist.Range{First: 11, Last: 20}})), persist.ErrInvalid)
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
	must.Equal(t, show(c.take(rediscursor.Take{Count: 3, Threshold: 0.5})), "stub; ceil 20", "a take gets")
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
		must.Equal(t, c.take(rediscursor.Take{Count: 9, Threshold: 0.5}).Low, rediscursor.Claimed, "a take without a claim gets")
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
		must.Equal(t, low(c, claim), rediscursor.Claimed, "then")
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
			must.Equal(t, low(c, time.Minute), test.want, "it")
			must.Equal(t, low(c, time.Minute), rediscursor.Claimed, "then")
		})
	}
	t.Run("is not taken if there is enough", func(t *testing.T) {
		c := open(t, client)
		c.fill("1-10", 0)
		must.Equal(t, low(c, claim), rediscursor.Enough, "it")
		must.Equal(t, c.hash()["claim"], "0", "the claim")
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
