package obfuscate

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
)

// varies reports whether the two versions differ for a biz type: it counts for each key or period.
func varies(b seqd.BizType) bool {
	keyed, dated := counters(b)
	return keyed || dated
}

// counters reports whether a biz type counts for each key, and for each period.
func counters(b seqd.BizType) (keyed, dated bool) {
	traits := seqd.TraitsOf(b.Settings)
	return traits.Keyed, traits.Calendar.Reset != seqd.ResetNever
}

// checkNew asks for the version of a biz type whose other numbers were or are issued elsewhere, as
// far as its definition says, or were issued under a shape that does not tell their version. IDs of
// the other version could be the same.
func checkNew(b seqd.BizType, binding seqd.PluginBinding, issued bool, known string) []seqd.Problem {
	traits := seqd.TraitsOf(b.Settings)
	settings, ok := binding.Settings.(*Settings)
	text := "set it, because start or increment says that this store may not have all numbers: " +
		"1 if IDs were issued elsewhere by a version of seqd without this setting, the same as there if they were by another one, and 2 if there are none"
	switch {
	case !ok || settings.Version != 0 || !varies(b):
		return nil
	case issued && strings.HasPrefix(known, strconv.Itoa(oneForEach)+" "):
		return nil
	case issued:
		text = "set it, because the biz type has issued, and its last shape does not tell the version that earlier IDs of its keys or periods had: that one, or 2 if there are none"
	case traits.Increment == 1 && traits.First <= 1:
		return nil
	}
	return []seqd.Problem{{Key: "version", Text: text}}
}

// unasked is the shape that is known where nobody can tell: in programs that embed an issuer and
// ask no store. They go on as before there were versions, unless one is set.
const unasked = "1 "

// version returns the version of a biz type. known is the shape that it has on record or was given
// by force, "" if there is none.
func (s *Settings) version(b seqd.BizType, known string) int {
	had, _, _ := strings.Cut(known, " ")
	switch {
	case s.Version != 0:
		return s.Version
	case !varies(b):
		return oneForAll
	case had == strconv.Itoa(oneForAll), had == strconv.Itoa(oneForEach):
		return int(had[0] - '0')
	}
	return oneForEach
}

// decide returns the version. If no shape is on record, issued is why that must not be.
func (p *Plugin) decide(ctx context.Context, issued error) (int, error) {
	if v := p.version.Load(); v != 0 {
		return int(v), nil
	}
	known, err := p.env.OnRecord(ctx)
	if err == nil && known == "" {
		err = issued
	}
	if err != nil {
		return 0, err
	}
	v := p.settings.version(p.bizType, known)
	if known == "" {
		return v, nil
	}
	p.version.Store(int32(v))
	if v == oneForAll {
		told.Do(func() {
			p.env.Log.Warn("version 1 of obfuscate shows a number of all keys and periods of a biz type as the same ID, so who knows the numbers "+
				"of one reads those of others; a new biz type gets version 2. Others like it are not named", "bizType", p.bizType.Name)
		})
	}
	return v, nil
}

// told is done once the process has warned of a biz type.
var told sync.Once

// view shows the numbers of one period and key. It is immutable.
type view struct {
	period      seqd.Period
	key         string
	permutation *permutation
	digits      int
	// v.show, made once, because a method value allocates
	rewrite func(dst []byte, number int64, shown []byte) []byte
}

func newView(of *permutation, digits int, period seqd.Period, key string) *view {
	v := &view{period: period, key: key, permutation: of, digits: digits}
	v.rewrite = v.show
	return v
}

// show appends the display form of number, which is in the domain.
func (v *view) show(dst []byte, number int64, _ []byte) []byte {
	y := v.permutation.forward(uint64(number))
	if v.digits == 0 {
		return strconv.AppendUint(dst, y, 10)
	}
	return appendPadded(dst, y, v.digits)
}

var (
	// errNoRecord is why nothing is shown although a number was made: the shape is recorded first, so
	// what was asked lags behind.
	errNoRecord = &seqd.Error{
		Code: seqd.CodeStoreUnavailable, Detail: "the shape of the biz type cannot be read yet", RetryAfter: time.Second,
	}
	errCounter = errors.New("obfuscate: the strategy and its settings disagree on whether numbers belong to a key or a period")
)

// viewOf returns the view of numbers that were issued for a period and a key.
func (p *Plugin) viewOf(ctx context.Context, period seqd.Period, key string) (*view, error) {
	v, err := p.decide(ctx, errNoRecord)
	if err != nil {
		return nil, err
	}
	if v == oneForAll {
		return p.all, nil
	}
	if latest := p.latest.Load(); latest != nil && latest.period == period && latest.key == key {
		return latest, nil
	}
	if !p.counts(period, key) {
		return nil, errCounter
	}
	made := newView(p.family.of(period, key), p.digits, period, key)
	p.latest.Store(made)
	return made, nil
}

// counts reports whether the biz type has a counter of a period and a key.
func (p *Plugin) counts(period seqd.Period, key string) bool {
	return p.keyed == (key != "") && p.dated == (period != 0)
}

// permutationOf returns the permutation that an ID of a counter was made with.
func (p *Plugin) permutationOf(ctx context.Context, of seqd.Counter) (*permutation, error) {
	v, err := p.decide(ctx, nil)
	switch {
	case err != nil:
		return nil, err
	case v == oneForAll:
		return p.all.permutation, nil
	case p.keyed && of.Key == "":
		return nil, seqd.Errorf(seqd.CodeInvalidKey, "IDs of %s can only be read with the key that they were issued for, and this one does not show it: name it with key", p.bizType.Name)
	case !p.counts(of.Period, of.Key):
		return nil, seqd.Errorf(seqd.CodeInvalidID, "IDs of %s can only be read with the period that they were issued in, and this one does not show it", p.bizType.Name)
	}
	return p.family.of(of.Period, of.Key), nil
}
