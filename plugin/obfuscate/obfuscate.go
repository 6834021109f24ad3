// Package obfuscate is the plugin that displays each number as another one of a fixed domain, so
// that IDs neither increase nor reveal how many there are. It uses a keyed permutation, which needs
// no storage and can be reversed with the key.
//
// This is obfuscation, not encryption. IDs can be guessed: if 10^6 IDs were issued from a domain of
// 10^8, one guess in a hundred is a valid ID. Every node has the key. An attacker who collects most
// pairs of numbers and IDs of a small domain needs no key. Never use an ID to authorize access.
// docs/plugins/obfuscate.md says more.
//
// [Plugin] is the plugin, [Settings] say how large the domain is and where the key comes from,
// permutation.go has the permutations, and version.go says which one a number gets.
package obfuscate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

// Name is the name of the plugin in a binding.
const Name = "obfuscate"

// order is the default place in the chain: before format, which displays the result.
const order = 100

func init() {
	plugin.Register(plugin.Factory{
		Name: Name,
		Help: "Shows each number as another one that reveals neither the order nor how " +
			"many there are. It needs a key, and can be undone with it.",
		Order:    order,
		Quick:    true,
		Pure:     true,
		Settings: func() any { return &Settings{} },
		Check:    check,
		CheckNew: checkNew,
		New: func(env plugin.Env, bizType seqd.BizType, binding seqd.PluginBinding) (seqd.Plugin, error) {
			return New(env, bizType, binding)
		},
		Shape: func(bizType seqd.BizType, binding seqd.PluginBinding) (string, error) {
			return shape(bizType, binding, unasked)
		},
		ShapeLike: shape,
		Missing:   missing,
	})
}

// check returns what is wrong with a binding: a domain that does not contain the first number, or a
// previous plugin that changes how numbers are displayed.
func check(bizType seqd.BizType, binding seqd.PluginBinding) []seqd.Problem {
	settings, ok := binding.Settings.(*Settings)
	if !ok {
		return nil // New reports it
	}
	var problems seqd.Problems
	key, value := settings.domain()
	first := seqd.TraitsOf(bizType.Settings).First
	problems.Check(first < 0 || uint64(first) < settings.size(), key,
		"%d is too small: it has room for numbers up to %d, and those of %s begin at about %d", value, settings.size()-1, bizType.Name, first)
	for _, before := range plugin.Chain(bizType) {
		if before.Settings == binding.Settings {
			break
		}
		factory, err := plugin.Lookup(before.Name)
		problems.Check(err != nil || factory.Shape == nil, "order",
			"%s, whose order is %d, comes first and rewrites the numbers: obfuscate must be the first that does", before.Name, before.Order)
	}
	return problems
}

// shape returns a text that changes with everything that decides which ID a number has. It contains
// a hash of the key. known is what it returned before, "" if there was nothing.
func shape(bizType seqd.BizType, binding seqd.PluginBinding, known string) (string, error) {
	settings, ok := binding.Settings.(*Settings)
	if !ok {
		return "", wrongSettings(binding)
	}
	made, err := settings.material()
	if err != nil {
		return "", err
	}
	key, value := settings.domain()
	return fmt.Sprintf("%d %s=%d key=%s", settings.version(bizType, known), key, value, made.fingerprint), nil
}

func wrongSettings(binding seqd.PluginBinding) error {
	return fmt.Errorf("settings of type %T are not *obfuscate.Settings", binding.Settings)
}

// Plugin displays numbers as other numbers. It is safe for concurrent use.
type Plugin struct {
	seqd.NopPlugin
	env      plugin.Env
	bizType  seqd.BizType
	keyed    bool // see counters
	dated    bool
	settings *Settings
	digits   int // of an ID; 0 if it has no leading zeros
	size     uint64
	all      *view // of the version oneForAll
	family   *family
	// version is the one that is used, 0 while it is not known for good.
	version atomic.Int32
	// latest is the latest view of the version oneForEach, nil at first.
	latest atomic.Pointer[view]
	// when the next warning is due, in ns since the Unix epoch
	warnAgain atomic.Int64
}

// New returns the plugin of a binding whose Settings are a valid *Settings. If the key is in a
// file, New reads the file, or creates it. Errors about the key do not show it.
func New(env plugin.Env, bizType seqd.BizType, binding seqd.PluginBinding) (*Plugin, error) {
	settings, ok := binding.Settings.(*Settings)
	if !ok {
		return nil, wrongSettings(binding)
	}
	made, err := settings.material()
	if err != nil {
		return nil, err
	}
	// A new file is a mistake if there was one before: the volume is not mounted, or the key of
	// another node was not copied.
	if made.made {
		env.Log.Warn("a new key was created: copy its file to all other nodes and to the backups", "bizType", bizType.Name, "keyFile", settings.KeyFile)
	}
	p := &Plugin{
		env: env, bizType: bizType, settings: settings, digits: settings.Digits, size: settings.size(), family: made.family,
		all: newView(made.permutation, settings.Digits, 0, ""),
	}
	p.keyed, p.dated = counters(bizType)
	if settings.Version != 0 || !varies(bizType) || env.OnRecord == nil {
		p.version.Store(int32(settings.version(bizType, unasked)))
	}
	return p, nil
}

var errRewritten = errors.New("obfuscate: a previous plugin has rewritten the numbers")

// After displays each number as another one. For a number outside the domain it returns an
// [seqd.Error] with [seqd.CodeExhausted].
func (p *Plugin) After(ctx context.Context, call *seqd.Call) error {
	if call.Sequence.Shown() {
		return errRewritten // the check of the configuration refuses such a chain
	}
	v, err := p.viewOf(ctx, call.Sequence.Period(), call.Sequence.Key())
	if err != nil {
		return err
	}
	size := p.size
	largest := uint64(0)
	for _, run := range call.Sequence.Runs() {
		last := run.First + int64(run.Count-1)*run.Stride
		// as uint64, a negative number exceeds every size
		largest = max(largest, uint64(run.First), uint64(last))
	}
	if largest >= size {
		return p.exhausted()
	}
	if left := size - 1 - largest; left < (size+99)/100 {
		p.warn(left)
	}
	call.Sequence.Show(v.rewrite)
	return nil
}

// exhausted is the error for a number outside the domain.
func (p *Plugin) exhausted() *seqd.Error {
	return seqd.Errorf(seqd.CodeExhausted, "%s has reached a number above %d, the largest that IDs of %s have room for: create a new biz type with longer IDs",
		p.bizType.Name, p.size-1, p.domain())
}

// domain describes the domain.
func (p *Plugin) domain() string {
	if p.digits > 0 {
		return fmt.Sprintf("%d digits", p.digits)
	}
	return fmt.Sprintf("the numbers below %d", p.size)
}

// warnEvery is the shortest time between two warnings.
const warnEvery = time.Minute

// warn logs, at most once a minute, that few numbers are left.
func (p *Plugin) warn(left uint64) {
	now, due := p.env.Now().UnixNano(), p.warnAgain.Load()
	// it also logs if the clock was set back
	if now < due && due-now <= int64(warnEvery) || !p.warnAgain.CompareAndSwap(due, now+int64(warnEvery)) {
		return
	}
	p.env.Log.Warn("nearly all numbers that the IDs have room for are used up", "bizType", p.bizType.Name, "left", left, "last", p.size-1)
	p.env.Observer.Event(seqd.Event{BizType: p.bizType.Name, Kind: seqd.EventNearlyExhausted, Numbers: int64(left)})
}

const zeros = "0000000000000000000"

// appendPadded appends n with leading zeros up to a length of at most 19.
func appendPadded(dst []byte, n uint64, length int) []byte {
	start := len(dst)
	dst = strconv.AppendUint(dst, n, 10)
	if missing := start + length - len(dst); missing > 0 { // true for one number in ten
		dst = append(dst, zeros[:missing]...)
		copy(dst[start+missing:], dst[start:])
		copy(dst[start:], zeros[:missing])
	}
	return dst
}

// Read implements [seqd.Reader].
func (p *Plugin) Read(ctx context.Context, shown string, of seqd.Counter) (seqd.Reading, error) {
	y, ok := p.parse(shown)
	if !ok {
		return seqd.Reading{}, p.invalid()
	}
	permutation, err := p.permutationOf(ctx, of)
	if err != nil {
		return seqd.Reading{}, err
	}
	number := permutation.backward(y)
	if number == 0 || number > math.MaxInt64 {
		return seqd.Reading{}, seqd.Errorf(seqd.CodeInvalidID, "it stands for a number that is never issued")
	}
	return seqd.Reading{Shown: strconv.FormatUint(number, 10)}, nil
}

// parse returns the number in an ID. ok is false unless the ID has the form that show gives it.
func (p *Plugin) parse(shown string) (y uint64, ok bool) {
	if len(shown) == 0 || len(shown) > mostDigits || p.digits > 0 && len(shown) != p.digits || p.digits == 0 && len(shown) > 1 && shown[0] == '0' {
		return 0, false
	}
	for _, c := range []byte(shown) {
		if c < '0' || c > '9' {
			return 0, false
		}
		y = 10*y + uint64(c-'0') // at most 19 digits
	}
	return y, y < p.size
}

// invalid is the error for a text that is never displayed.
func (p *Plugin) invalid() *seqd.Error {
	if p.digits > 0 {
		return seqd.Errorf(seqd.CodeInvalidID, "an ID has exactly %d digits", p.digits)
	}
	return seqd.Errorf(seqd.CodeInvalidID, "an ID is a number from 0 to %d without zeros in front", p.size-1)
}

// Idle implements [seqd.Idler]: a plugin that is made anew shows numbers alike.
func (*Plugin) Idle() bool { return true }

// Measure implements [seqd.Measurer]: the largest number in the domain.
func (p *Plugin) Measure(tell func(seqd.Measurement)) {
	tell(seqd.Measurement{Gauge: seqd.GaugeLimit, Value: float64(p.size - 1)})
}

var (
	_ seqd.Plugin   = (*Plugin)(nil)
	_ seqd.Reader   = (*Plugin)(nil)
	_ seqd.Measurer = (*Plugin)(nil)
	_ seqd.Idler    = (*Plugin)(nil)
)
