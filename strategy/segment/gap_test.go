package segment

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

// The gap is ten steps or more, whichever way it is written, and no request with it is invalid.
func TestGap(t *testing.T) {
	for _, test := range []struct {
		gap                  Gap
		step, recorded, want int64
	}{
		{1_000_000, 1000, 1000, 1_000_000},
		{1_000_000, 1000, 200_000, 2_000_000},
		{0, 1000, 0, 10_000},
		{0, 1, 1, 10},
		{AutoGap, 1, 1, 500},
		{AutoGap, 1, 0, 500},
		{AutoGap, 100, 50, 1000},
		{AutoGap, 100, 1_000_000, 10_000_000},
		{AutoGap, 1, seqd.MaxNumber, 10 * mostStep},
		{mostStep, mostStep, 1, 10 * mostStep},
	} {
		s := DefaultSettings()
		s.RestoreGap, s.Step, s.MaxStep = test.gap, test.step, mostStep
		if problems := s.Validate(); problems != nil {
			t.Fatal(problems)
		}
		must.Equal(t, s.gap(test.recorded), test.want, "%s, step %d, %d recorded", test.gap, test.step, test.recorded)
		for _, floor := range []int64{0, 1, 12345, seqd.MaxNumber - 1, seqd.MaxNumber} {
			req := s.withGaps(persist.Request{BizTag: "order", Floor: floor}, test.recorded)
			if err := req.Validate(); err != nil || floor+req.Gap > seqd.MaxNumber {
				t.Errorf("%+v: %v", req, err)
			}
		}
	}
}

// A number is a number and the word is the word; nothing else is a gap.
func TestGapText(t *testing.T) {
	if AutoGap.String() != "auto" || Gap(7).String() != "7" {
		t.Errorf("%s, %s", AutoGap, Gap(7))
	}
	for _, text := range []string{"", "Auto", "auto ", "7", "-1", "none"} {
		g := Gap(5)
		if err := g.UnmarshalText([]byte(text)); err == nil || g != 5 {
			t.Errorf("%q: %v, %v", text, g, err)
		}
	}
	var g Gap
	if err := g.UnmarshalText([]byte("auto")); err != nil || g != AutoGap {
		t.Errorf("auto: %v, %v", g, err)
	}
	for _, bad := range []Gap{-1, mostStep + 1} {
		s := DefaultSettings()
		s.RestoreGap = bad
		must.Equal(t, len(s.Validate()), 1, "%s is accepted", bad)
	}
}

// One call gets no more numbers than the gap if a failover of the store may lose them: other nodes
// continue that many higher.
func TestMostInCall(t *testing.T) {
	store := newFailingOver()
	for name, change := range map[string]func(*Settings){
		"per node": func(s *Settings) { s.Ordering = PerNode }, "store": byStore, "increment": func(s *Settings) { s.Increment, s.Offset = 3, 1 },
		"periods": func(s *Settings) { s.Reset = seqd.ResetDaily }, "keys": func(s *Settings) { s.Keyed = true }, "followed": func(*Settings) {},
	} {
		most := func(gap Gap, lossless bool) int {
			store.lossless = lossless
			settings := DefaultSettings()
			settings.Step, settings.RestoreGap = 10, gap
			change(&settings)
			env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: &observer{}}
			if name == "followed" {
				client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // which nobody asks
				defer func() { _ = client.Close() }()
				env.Redis = client
			}
			s := must.Get(build(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}))(t)
			n, why := s.(seqd.CountLimiter).MostInCall()
			must.Equal(t, why != "", n < seqd.MaxCount, "%s: %d, because %q", name, n, why)
			return n
		}
		if got := []int{most(AutoGap, false), most(3000, false), most(2_000_000, false), most(AutoGap, true)}; !slices.Equal(got, []int{500, 3000, seqd.MaxCount, seqd.MaxCount}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
