// Package ratelimit is the plugin that limits how often callers request numbers of a biz type. It
// uses a token bucket for each caller, identified by the name of its access token. Callers without
// a name share one bucket. Each binding has buckets of its own.
//
// A bucket starts full with burst tokens and gains rate tokens per second. A request that costs
// more tokens than there are is refused with [seqd.CodeRateLimited]. It costs nothing, and the
// error says exactly when it would pass. Tokens stay spent if a later plugin refuses or issuing
// fails.
//
// [Limiter] is the plugin. Its buckets are in this process (local.go) or in Redis (cluster.go).
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
		Help:  "Limits how often each caller may ask for numbers.",
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
		return &Limiter{settings: *settings, buckets: newShared(env, bizType.Name, indexOf(bizType, binding), *settings)}, nil
	}
	return New(*settings, env.Now), nil
}

// indexOf returns the index of a binding among the rate limits of its biz type.
func indexOf(bizType seqd.BizType, binding seqd.PluginBinding) (n int) {
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
	// take takes cost tokens, at most burst, from a caller's bucket if it has as many; ok says
	// whether it had. left is how many remain. An error, which is a [seqd.Error], means that the
	// caller has gone.
	take(ctx context.Context, caller string, cost int64) (left float64, ok bool, err error)
	// full reports whether all buckets that this process keeps are full.
	full() bool
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
	_ seqd.Idler    = (*Limiter)(nil)
)

// New returns a limiter with buckets in this process, whatever the scope. The settings must be
// valid.
func New(settings Settings, now func() time.Time) *Limiter {
	return &Limiter{settings: settings, buckets: newLocal(settings, now)}
}

// Before takes the tokens that a request costs, and sets call.Limit. If there are not enough, it
// returns [seqd.CodeRateLimited] with the time until there are. If the request costs more than a
// full bucket has, it returns [seqd.CodeInvalidCount].
func (l *Limiter) Before(ctx context.Context, call *seqd.Call) error {
	cost, size := l.settings.cost(call.Count), l.settings.size()
	possible := cost <= size
	if !possible {
		cost = 0 // only sets call.Limit
	}
	left, ok, err := l.buckets.take(ctx, call.Caller.Name, cost)
	if err != nil {
		return err
	}
	call.Limit.Tighten(seqd.Limit{Quota: size, Remaining: int64(max(left, 0)), Reset: l.until(left, size)})
	switch {
	case !possible:
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d, but the rate limit of %s allows at most %d numbers at once",
			call.Count, call.BizType, size)
	case !ok:
		return &seqd.Error{
			Code: seqd.CodeRateLimited, RetryAfter: max(l.until(left, cost), 1),
			Detail: fmt.Sprintf("the rate limit of %s is %v %ss per second, and at most %d at once", call.BizType, l.settings.Rate, l.settings.Per, size),
		}
	}
	return nil
}

// Measure implements [seqd.Measurer]: whether a limit that nodes share is currently enforced by
// each node alone.
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

// Idle implements [seqd.Idler]: a limiter whose buckets are full is like a new one.
func (l *Limiter) Idle() bool { return l.buckets.full() }

// until returns the time until there are wanted tokens, rounded up to µs, the resolution of the
// clock of Redis.
func (l *Limiter) until(left float64, wanted int64) time.Duration {
	if missing := float64(wanted) - left; missing > 0 {
		return time.Duration(math.Ceil(missing/l.settings.Rate*1e6)) * time.Microsecond
	}
	return 0
}
