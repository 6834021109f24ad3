package snowflake

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

func TestLayoutsThatCannotBe(t *testing.T) {
	for key, changes := range map[string][]func(*Settings){
		"bitsMachine":   {func(s *Settings) { s.BitsMachine = 0 }, func(s *Settings) { s.BitsMachine = 17 }, func(s *Settings) { s.BitsMachine = -1 }, func(s *Settings) { s.Registry, s.BitsMachine = registryCoord, 11 }},
		"bitsSequence":  {func(s *Settings) { s.BitsSequence = 0 }, func(s *Settings) { s.BitsSequence = 22 }},
		"bitsRack":      {func(s *Settings) { s.BitsRack = -1 }, func(s *Settings) { s.BitsRack = 11 }},
		"rack":          {func(s *Settings) { s.BitsRack = 2 }, func(s *Settings) { s.Rack = "1" }, func(s *Settings) { s.Rack, s.BitsRack = "4", 2 }, func(s *Settings) { s.Rack, s.BitsRack = "r1", 2 }},
		"machineId":     {func(s *Settings) { s.MachineID, s.BitsRack, s.Rack = "256", 2, "1" }},
		"registry":      {func(s *Settings) { s.Registry = "zookeeper" }},
		"horizon":       {func(s *Settings) { s.Horizon = 500*time.Millisecond - 1 }, func(s *Settings) { s.Horizon = time.Hour + 1 }},
		"renewInterval": {func(s *Settings) { s.RenewInterval = s.Horizon/3 + 1 }, func(s *Settings) { s.RenewInterval = 50*time.Millisecond - 1 }},
		"pollInterval":  {func(s *Settings) { s.PollInterval = 50*time.Millisecond - 1 }, func(s *Settings) { s.PollInterval = time.Hour + 1 }},
		"maxWait":       {func(s *Settings) { s.MaxWaitRollback = -1 }, func(s *Settings) { s.MaxWaitRollback = time.Second + 1 }},
		"maxSkew": {
			func(s *Settings) { s.MaxSkew = 100*time.Millisecond - 1 }, func(s *Settings) { s.Horizon, s.MaxSkew = time.Hour, time.Minute+1 }, func(s *Settings) { s.MaxSkew = s.Horizon/2 + 1 },
		},
		"offlineStart": {func(s *Settings) { s.OfflineStart = time.Second - 1 }, func(s *Settings) { s.OfflineStart = 720*time.Hour + 1 }, func(s *Settings) { s.Registry, s.OfflineStart = registryCoord, time.Minute }},
		"stateDir":     {func(s *Settings) { s.OfflineStart, s.StateDir = time.Minute, "" }},
	} {
		for _, change := range changes {
			notValid(t, key, change)
		}
	}
	for _, epoch := range []string{"yesterday", "1969-12-31T23:59:59Z", "2300-01-01T00:00:00Z", "2025-01-01T00:00:00.0001Z", time.Now().Add(time.Hour).Format(time.RFC3339)} {
		notValid(t, "epoch", func(s *Settings) { s.Epoch = Plain(epoch) })
	}
	for _, id := range []Plain{"1024", "-1", "+1", "five"} {
		notValid(t, "machineId", func(s *Settings) { s.MachineID = id })
	}
	for _, name := range []string{"", "a.b", strings.Repeat("a", 65)} {
		notValid(t, "appName", func(s *Settings) { s.AppName = name })
	}
	for _, ip := range []string{"0.0.0.0", "fe80::1%eth0", "localhost"} {
		notValid(t, "advertiseIp", func(s *Settings) { s.AdvertiseIP = ip })
	}
}

// notValid checks that settings with a change have a problem of that key.
func notValid(t *testing.T, key string, change func(*Settings)) {
	t.Helper()
	s := DefaultSettings()
	change(&s)
	if problems := s.Validate(); len(problems) == 0 || problems[0].Key != key || problems[0].Text == "" {
		t.Errorf("%+v: %v, want a problem of %s", s, problems, key)
	}
}

func TestGoodSettings(t *testing.T) {
	s := DefaultSettings()
	if problems := s.Validate(); len(problems) > 0 {
		t.Errorf("the defaults: %v", problems)
	}
	s.Horizon, s.RenewInterval, s.MaxSkew, s.PollInterval, s.MaxWaitRollback = 600*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond, 50*time.Millisecond, 0
	shortest := s
	shortest.Horizon, shortest.RenewInterval, shortest.MaxSkew = 500*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond
	longest := s
	longest.Horizon, longest.MaxSkew, longest.PollInterval, longest.MaxWaitRollback, longest.OfflineStart = time.Hour, time.Minute, time.Hour, time.Second, 720*time.Hour
	longest.Epoch, longest.AppName, longest.BitsRack, longest.Rack = "1970-01-01T00:00:00Z", strings.Repeat("a", 64), 10, "1023"
	s.BitsRack, s.Rack, s.MachineID, s.OfflineStart = 2, "3", "255", time.Second
	for _, s := range []Settings{s, shortest, longest} {
		if problems := s.Validate(); len(problems) > 0 {
			t.Errorf("%+v: %v", s, problems)
		}
	}
	if first, last := s.machineIDs(); first != 1023 || last != 1023 {
		t.Errorf("machine IDs %d to %d", first, last)
	}
	s.MachineID = auto
	if first, last := s.machineIDs(); first != 768 || last != 1023 {
		t.Errorf("machine IDs %d to %d", first, last)
	}
}

// TestNumbersAreSonyflakes checks that sonyflake makes the same numbers from the same parts.
func TestNumbersAreSonyflakes(t *testing.T) {
	for range 10_000 {
		bitsMachine := 1 + rand.IntN(16)
		l := testLayout(t, bitsMachine, 1+rand.IntN(machineid.AllBits-machineid.LeastTime-bitsMachine))
		ms := l.epoch + 1 + rand.Int64N(l.last()-l.epoch)
		machine, sequence := rand.Int64N(1<<l.bits.Machine), rand.Int64N(1<<l.bits.Sequence)
		want := must.Get(l.flake.Compose(time.UnixMilli(ms), int(sequence), int(machine)))(t)
		got := l.first(ms, machine) + sequence<<l.bits.Machine
		if got != want {
			t.Fatalf("%s at %d: %d, sonyflake says %d", l.text(), ms, got, want)
		}
		when, m, s, err := l.decompose(got)
		if err != nil || when.UnixMilli() != ms || m != machine || s != sequence {
			t.Fatalf("%s: %d is read as %v, %d, %d, %v", l.text(), got, when, m, s, err)
		}
	}
}

func TestOverflow(t *testing.T) {
	s := DefaultSettings()
	l, err := newLayout(&s)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.overflow().Format(time.RFC3339); !strings.HasPrefix(got, "2094-09-07T") {
		t.Errorf("the layout ends at %s", got)
	}
	clock := &hands{}
	clock.ms.Store(l.last() + 1)
	g := newGenerator(l, generatorOptions{now: clock.now})
	g.set(1, l.last()-10, l.last()+10, false)
	refused(t, g, 1, seqd.CodeExhausted)
	clock.ms.Store(l.last())
	if n := numbers(t, g, 1)[0]; n < 0 {
		t.Errorf("the last time gives %d", n)
	}
}

// The last time of a layout is one of its times, and the next one is not.
func TestLastTime(t *testing.T) {
	l := testLayout(t, 10, 21) // it ends within 2262
	if when, _, _, err := l.decompose(l.first(l.last(), 1)); err != nil || when.UnixMilli() != l.last() {
		t.Errorf("%v, %v", when, err)
	}
	whole := testLayout(t, 1, 1)
	for number, ok := range map[int64]bool{-1: false, 0: false, 1: true, whole.first(mostMillis, 1): true, whole.first(mostMillis+1, 0): false} {
		if _, _, _, err := whole.decompose(number); (err == nil) != ok {
			t.Errorf("%d: %v", number, err)
		}
	}
	if number := l.first(l.last(), 1); l.last() == mostMillis || number < 0 {
		t.Errorf("the layout ends at %d", l.last())
	}
}

// A definition must not name a folder out of its reach, unless it needs none.
func TestStateDirOutOfReach(t *testing.T) {
	for _, test := range []struct {
		offline time.Duration
		dir     string
		ok      bool
	}{{0, "/elsewhere", true}, {time.Minute, "/elsewhere", false}, {time.Minute, "here/state", true}} {
		s := Settings{OfflineStart: test.offline, StateDir: test.dir}
		problems := s.Confine(&seqd.Reach{Folder: "here"})
		dir, err := s.stateDir()
		if (problems == nil) != test.ok || (err == nil) != test.ok || (dir != "") != (test.ok && test.offline > 0) {
			t.Errorf("%+v: problems %v, folder %q, %v", test, problems, dir, err)
		}
	}
}

func FuzzDecompose(f *testing.F) {
	l := testLayout(f, 10, 12)
	f.Add(int64(1))
	f.Add(int64(-1))
	f.Add(int64(1<<63 - 1))
	f.Fuzz(func(t *testing.T, number int64) {
		when, machine, sequence, err := l.decompose(number)
		if err == nil && l.first(when.UnixMilli(), machine)+sequence<<l.bits.Machine != number {
			t.Errorf("%d is read as %v, %d, %d", number, when, machine, sequence)
		}
	})
}

// TestBounds checks the first number, which plugins that shorten numbers rely on.
func TestBounds(t *testing.T) {
	s := DefaultSettings()
	l, wrong := newLayout(&s)
	if wrong != nil {
		t.Fatal(wrong)
	}
	before := time.Now().UnixMilli()
	first, last := s.Traits().First, s.Traits().Last
	made, _, _, err := l.decompose(first)
	if err != nil || made.UnixMilli() < before || made.After(time.Now()) || last != math.MaxInt64 {
		t.Errorf("bounds %d of %s and %d, error %v", first, made, last, err)
	}
	if p, err := s.Parse(first); err != nil || !p.Time.Equal(made) {
		t.Errorf("%d is read as %+v, %v", first, p, err)
	}
	must.Do(t, s.Epoch.UnmarshalText([]byte("never")))
	if p, err := s.Parse(1); err == nil || !strings.HasPrefix(err.Error(), "epoch: ") {
		t.Errorf("a wrong layout reads %+v, %v", p, err)
	}
	if first, last = s.Traits().First, s.Traits().Last; first != 1 || last != math.MaxInt64 {
		t.Errorf("bounds %d and %d of a wrong layout", first, last)
	}
}
