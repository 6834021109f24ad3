package snowflake

import (
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/strategy/snowflake/coordslots"
)

// Settings are what a biz type with this strategy can say; the section snowflake holds their
// defaults. Biz types with the same settings share one machine ID and one generator.
type Settings struct {
	// Epoch is the time that numbers count from, as RFC 3339, in whole milliseconds and not in the
	// future.
	Epoch Plain `config:"epoch"`
	// BitsMachine is how many bits of a number the machine ID has.
	BitsMachine int `config:"bitsMachine" range:"1 to 16"`
	// BitsSequence is how many bits the sequence within a millisecond has. The time has the rest of
	// 63 bits.
	BitsSequence int `config:"bitsSequence" range:"1 to 31 less snowflake.bitsMachine"`
	// BitsRack is how many bits of the machine ID, the highest ones, are the rack.
	BitsRack int `config:"bitsRack" range:"0 to snowflake.bitsMachine" zero:"no racks"`
	// Registry is where machine IDs are leased. [SNOWFLAKE.md](SNOWFLAKE.md#the-registry) says when
	// to use `redis` or `coordinator`.
	Registry string `config:"registry" range:"store, redis, coordinator"`
	// MachineID is `auto`, or the machine ID to use, which is leased all the same. With
	// `snowflake.bitsRack` it is the worker within the rack.
	MachineID Plain `config:"machineId"`
	// Rack is `none`, or the number of this node's rack, below 2^`bitsRack`.
	Rack Plain `config:"rack"`
	// Horizon is how far ahead of the clock a lease reaches: how long issuing continues without the
	// registry, and how long the machine ID of a node that died stays taken.
	Horizon time.Duration `config:"horizon" range:"500ms to 1h"`
	// RenewInterval is the pause between two renewals.
	RenewInterval time.Duration `config:"renewInterval" range:"50ms to a third of snowflake.horizon"`
	// PollInterval is the pause between two attempts to get a machine ID.
	PollInterval time.Duration `config:"pollInterval" range:"50ms to 1h"`
	// MaxWaitRollback is the longest wait for a clock that was set back. A clock that was set back
	// further is refused with `clock_rollback`.
	MaxWaitRollback time.Duration `config:"maxWait" range:"0s to 1s" zero:"does not wait"`
	// MaxSkew is how far the clock may be off the registry's to get or renew a lease. At most half
	// of `snowflake.horizon`.
	MaxSkew time.Duration `config:"maxSkew" range:"100ms to 1m"`
	// RandomStart is true if the sequence of each millisecond begins at a random value instead of
	// 0, so that low traffic leaves no bits constant. It costs the numbers below that value: up to
	// half of a millisecond's, a quarter on average.
	RandomStart bool `config:"randomStart"`
	// OfflineStart is how long a node may issue without the registry, also after a restart. For
	// that long nobody else can use the machine ID of a node that died.
	OfflineStart time.Duration `config:"offlineStart" range:"0s, or 1s to 720h" zero:"not at all"`
	// StateDir is the folder of the file that `snowflake.offlineStart` needs, in `bizTypeFolder`. It
	// must not be copied or shared.
	StateDir string `config:"stateDir"`
	// AppName is the first part of the key `app.port.ip` that an instance is known by: letters,
	// digits, `-` and `_`.
	AppName string `config:"appName" range:"1 to 64 characters"`
	// AdvertiseIP is the last part of the key `app.port.ip`. Empty finds it: the address that is listened on, or
	// else the machine's first address that is not loopback, IPv4 before IPv6.
	AdvertiseIP string `config:"advertiseIp"`

	reach *seqd.Reach // where StateDir may be
}

// Plain is text that YAML may parse as a number or a time.
type Plain string

// UnmarshalText implements [encoding.TextUnmarshaler]. Validate checks the value.
func (o *Plain) UnmarshalText(text []byte) error { *o = Plain(text); return nil }

// Values of MachineID and Rack.
const (
	auto Plain = "auto"
	none Plain = "none"
)

// Values of Registry.
const (
	registryStore = "store"
	registryRedis = "redis"
	registryCoord = "coordinator"
)

// DefaultSettings returns the default settings.
func DefaultSettings() Settings {
	return Settings{
		Epoch:           "2025-01-01T00:00:00Z",
		BitsMachine:     10,
		BitsSequence:    12,
		Registry:        registryStore,
		MachineID:       auto,
		Rack:            none,
		Horizon:         5 * time.Second,
		RenewInterval:   time.Second,
		PollInterval:    time.Second,
		MaxWaitRollback: 5 * time.Millisecond,
		MaxSkew:         2 * time.Second,
		StateDir:        "data",
		AppName:         "seqd",
	}
}

var appNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Validate implements [seqd.Validator]. An epoch in the future is wrong, unless the clock cannot
// be right.
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	check := problems.Check
	duration := func(key string, value, least, most time.Duration) {
		check(value >= least && value <= most, key, "%s is outside %s to %s", value, least, most)
	}
	_, list := layoutProblems(s)
	for _, w := range list {
		check(false, w.key, "%s", w.text)
	}
	check(s.BitsRack >= 0 && s.BitsRack <= s.BitsMachine, "bitsRack", "%d is outside 0 to bitsMachine (%d)", s.BitsRack, s.BitsMachine)
	registries := []string{registryStore, registryRedis, registryCoord}
	check(slices.Contains(registries, s.Registry), "registry", "%q is not one of %q", s.Registry, registries)
	check(s.Registry != registryCoord || s.BitsMachine <= coordslots.MostBits, "bitsMachine",
		"%d is more than %d, which a registry in a coordinator can have: let registry be store or redis", s.BitsMachine, coordslots.MostBits)
	check(s.Registry != registryCoord || s.OfflineStart == 0, "offlineStart",
		"%s: each lease of a registry in a coordinator would begin later by that: set it to 0, or let registry be store or redis", s.OfflineStart)
	if len(problems) == 0 {
		rack, rackErr := s.Rack.number(none, int64(1)<<s.BitsRack-1)
		switch {
		case s.BitsRack == 0:
			check(s.Rack == none, "rack", "%s needs bitsRack, which says how many of the machine ID's bits are the rack", s.Rack)
		case rackErr == nil:
			check(rack >= 0, "rack", "none with bitsRack %d: say which rack this is, 0 to %d", s.BitsRack, int64(1)<<s.BitsRack-1)
		default:
			check(false, "rack", "%v", rackErr)
		}
		_, err := s.MachineID.number(auto, int64(1)<<(s.BitsMachine-s.BitsRack)-1)
		problems.Add("machineId", err)
	}
	duration("horizon", s.Horizon, 500*time.Millisecond, time.Hour)
	check(s.RenewInterval >= 50*time.Millisecond && s.RenewInterval <= s.Horizon/3, "renewInterval",
		"%s is outside 50ms to a third of the horizon (%s)", s.RenewInterval, s.Horizon/3)
	check(s.MaxSkew <= s.Horizon/2, "maxSkew", "%s is more than half of the horizon (%s): a lease of a node whose clock is behind by that would hardly last", s.MaxSkew, s.Horizon/2)
	duration("pollInterval", s.PollInterval, 50*time.Millisecond, time.Hour)
	duration("maxWait", s.MaxWaitRollback, 0, time.Second)
	duration("maxSkew", s.MaxSkew, 100*time.Millisecond, time.Minute)
	check(s.OfflineStart == 0 || s.OfflineStart >= time.Second && s.OfflineStart <= 30*24*time.Hour, "offlineStart",
		"%s is neither 0 nor from 1s to 720h", s.OfflineStart)
	check(s.StateDir != "" || s.OfflineStart == 0, "stateDir", "it is empty; offlineStart needs a folder")
	check(appNames.MatchString(s.AppName), "appName", "%q is not 1 to 64 letters, digits, '-' and '_'", s.AppName)
	if s.AdvertiseIP != "" {
		ip, err := netip.ParseAddr(s.AdvertiseIP)
		check(err == nil && ip.Zone() == "" && !ip.IsUnspecified(), "advertiseIp", "%q is not the IP address of this node", s.AdvertiseIP)
	}
	return problems
}

// Confine implements [seqd.Confined].
func (s *Settings) Confine(r *seqd.Reach) []seqd.Problem {
	s.reach = r
	if s.OfflineStart == 0 {
		return nil
	}
	if err := r.Check(s.StateDir); err != nil {
		return []seqd.Problem{{Key: "stateDir", Text: err.Error()}}
	}
	return nil
}

var _ seqd.Confined = (*Settings)(nil)

// stateDir returns the folder of the state file. Without offlineStart it may be out of reach: then
// it is "".
func (s *Settings) stateDir() (string, error) {
	if s.OfflineStart == 0 && s.reach.Check(s.StateDir) != nil {
		return "", nil
	}
	dir, err := s.reach.Resolve(s.StateDir)
	if err != nil {
		err = fmt.Errorf("stateDir: %w", err)
	}
	return dir, err
}

// number returns the number, or -1 for the word.
func (o Plain) number(word Plain, most int64) (int64, error) {
	if o == word {
		return -1, nil
	}
	n, ok := literal.Int(string(o))
	if !ok || n < 0 || n > most {
		return 0, fmt.Errorf("%q is neither %s nor a number from 0 to %d", string(o), word, most)
	}
	return n, nil
}

// machineIDs returns the first and the last machine ID that a node with these valid settings may
// use.
func (s *Settings) machineIDs() (first, last int64) {
	workers := int64(1) << (s.BitsMachine - s.BitsRack)
	rack, _ := s.Rack.number(none, int64(1)<<s.BitsRack-1)
	first = max(rack, 0) * workers
	if id, _ := s.MachineID.number(auto, workers-1); id >= 0 {
		return first + id, first + id
	}
	return first, first + workers - 1
}

// Traits implements [seqd.HasTraits]. The first number is about the one of the current time.
func (s *Settings) Traits() seqd.Traits {
	t := seqd.Traits{First: 1, Last: math.MaxInt64, MaxWait: s.MaxWaitRollback + patience}
	if l, wrong := newLayout(s); wrong == nil {
		t.First = max(1, l.first(min(time.Now().UnixMilli(), l.last()), 0))
	}
	switch s.Registry {
	case registryRedis:
		t.Redis = "registry"
	case registryCoord:
		t.Coordinator = "registry"
	}
	return t
}

// Parse implements [seqd.Parser].
func (s *Settings) Parse(number int64) (seqd.Parsed, error) {
	l, wrong := newLayout(s)
	if wrong != nil {
		return seqd.Parsed{}, wrong
	}
	return l.parse(number)
}

var (
	_ seqd.HasTraits = (*Settings)(nil)
	_ seqd.Parser    = (*Settings)(nil)
	_ seqd.Validator = (*Settings)(nil)
)
