// Package ratelimit is the plugin that limits how often numbers of a biz type are asked for: a
// token bucket for each caller, by the name that goes with its access token. Callers without a name
// share one bucket. Each binding has buckets of its own.
//
// A bucket begins full with burst tokens and gains rate tokens a second. A request that finds fewer
// tokens than it costs is refused with [seqd.CodeRateLimited], costs nothing, and is told exactly
// when it would pass. Tokens stay spent when a later plugin vetoes or issuing fails.
package ratelimit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

const name = "rate-limit"

func init() {
	plugin.Register(plugin.Factory{
		Name:  name,
		Order: 10,
		Quick: true,
		Settings: func() any {
			s := DefaultSettings()
			return &s
		},
		New: newPlugin,
	})
}

func newPlugin(env plugin.Env, bizType seqd.BizType, binding seqd.PluginBinding) (seqd.Plugin, error) {
	settings, ok := binding.Settings.(*Settings)
	if !ok {
		return nil, fmt.Errorf("the settings are a %T", binding.Settings)
	}
	if settings.Scope == Cluster {
		if env.Redis == nil {
			return nil, fmt.Errorf("scope %s needs Redis", Cluster)
		}
		return &Limiter{settings: *settings, buckets: newShared(env, bizType.Name, place(bizType, binding), *settings)}, nil
	}
	return New(*settings, env.Now), nil
}

// place is which of the rate limits of its biz type a binding is, from 0, in the order of the
// configuration.
func place(bizType seqd.BizType, binding seqd.PluginBinding) (n int) {
	at := slices.IndexFunc(bizType.Plugins, func(b seqd.PluginBinding) bool { return b.Settings == binding.Settings })
	for _, b := range bizType.Plugins[:max(at, 0)] {
		if b.Name == name {
			n++
		}
	}
	return n
}

// buckets hold the tokens of callers. They are safe for concurrent use.
type buckets interface {
	// take takes cost tokens, at most burst, out of the bucket of a caller if there are so many,
	// else none; ok says which. It returns how many are there afterwards. An error, which is a
	// [seqd.Error], means that the caller is gone.
	take(ctx context.Context, caller string, cost int64) (left float64, ok bool, err error)
}

// Limiter is the plugin of one binding.
type Limiter struct {
	seqd.NopPlugin
	settings Settings
	buckets  buckets
}

var (
	_ seqd.Plugin   = (*Limiter)(nil)
	_ seqd.Measurer = (*Limiter)(nil)
)

// New returns a limiter with buckets in this process, whatever the scope. The settings are valid.
func New(settings Settings, now func() time.Time) *Limiter {
	return &Limiter{settings: settings, buckets: newLocal(settings, now)}
}

// Before lets a request pass that finds the tokens it costs, and notes in call.Limit where the
// caller stands. It refuses with [seqd.CodeRateLimited] and the time until there are enough, or
// with [seqd.CodeInvalidCount] what costs more than a full bucket holds.
func (l *Limiter) Before(ctx context.Context, call *seqd.Call) error {
	cost, size := l.settings.cost(call.Count), l.settings.size()
	possible := cost <= size
	if !possible {
		cost = 0 // only to see where the caller stands
	}
	left, ok, err := l.buckets.take(ctx, call.Caller.Name, cost)
	if err != nil {
		return err
	}
	call.Limit.Tighten(seqd.Limit{Quota: size, Remaining: int64(max(left, 0)), Reset: l.until(left, size)})
	switch {
	case !possible:
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d, and the rate limit of %s never lets more than %d numbers pass at once",
			call.Count, call.BizType, size)
	case !ok:
		return &seqd.Error{
			Code: seqd.CodeRateLimited, RetryAfter: max(l.until(left, cost), 1),
			Detail: fmt.Sprintf("the rate limit of %s is %v %ss per second, and at most %d at once", call.BizType, l.settings.Rate, l.settings.Per, size),
		}
	}
	return nil
}

// Measure implements [seqd.Measurer]: whether a limit that nodes share is each node's own for now.
func (l *Limiter) Measure(tell func(seqd.Measurement)) {
	s, ok := l.buckets.(*shared)
	if !ok {
		return
	}
	m := seqd.Measurement{Gauge: seqd.GaugeFallback}
	if s.alone() {
		m.Value = 1
	}
	tell(m)
}

// until is after how long there are wanted tokens, where there are left now. It is rounded up, to
// µs: the clock of Redis is no finer.
func (l *Limiter) until(left float64, wanted int64) time.Duration {
	if missing := float64(wanted) - left; missing > 0 {
		return time.Duration(math.Ceil(missing/l.settings.Rate*1e6)) * time.Microsecond
	}
	return 0
}
