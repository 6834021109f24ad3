package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/config"
)

// configCheck looks for settings that are legal and dangerous.
type configCheck struct{ d *Doctor }

// soon is how long before an expiry a warning is given.
const soon = 30 * 24 * time.Hour

// run checks the settings of a configuration that has been loaded, and so is valid.
func (c configCheck) run(_ context.Context, f *findings) {
	f.ok("configuration", "it loads: %d biz types, store %s, address %s", len(c.d.Config.BizTypes), c.d.Config.Store.Driver, c.d.Config.Server.Addr)
	c.serverSettings(f)
	c.storeSettings(f)
	c.tokens(f)
	for _, b := range c.d.Config.BizTypes {
		c.segmentSettings(f, b)
		c.snowflakeSettings(f, b)
	}
}

func (c configCheck) serverSettings(f *findings) {
	s, public := c.d.Config.Server, !config.IsLoopback(c.d.Config.Server.Addr)
	if left, name := c.d.Config.WriteTimeLeft(); name != "" && left < s.WriteTimeout/20 {
		f.add(Warn, "server.writeTimeout", "make it longer", "%s leaves %s beyond the longest wait of a request for %s", s.WriteTimeout, left, name)
	}
	if public && s.DrainDelay == 0 {
		f.add(Warn, "server.drainDelay", "set it to at least twice the pause between two checks of the balancer, if there is one",
			"0s: a balancer continues to send requests to a node that has stopped listening")
	}
	if public && !c.d.Config.Auth.Enforced() {
		f.add(Warn, "auth.mode", "give callers tokens in auth.tokens", "%s: anyone who reaches %s can take numbers and change biz types", c.d.Config.Auth.Mode, s.Addr)
	}
	if resp := c.d.Config.Resp; resp.Configured() && !config.IsLoopback(resp.Addr) && c.d.Config.Auth.Enforced() && !s.TLS.Configured() {
		f.add(Info, "resp.addr", "set server.tls, which holds for it too", "tokens come to %s unencrypted", resp.Addr)
	}
	if public && c.d.Config.Auth.Enforced() && !s.TLS.Configured() {
		f.add(Info, "server.tls", "set server.tls, unless a proxy in front does it", "tokens come to %s unencrypted", s.Addr)
	}
	if perSecond, known := config.Setting[int](s, "accessLogPerSecond"); s.AccessLog != "off" && (!known || perSecond == 0) {
		f.add(Warn, "server.accessLog", "bound it, or turn it off", "on: a line for every request, without bound")
	}
}

func (c configCheck) storeSettings(f *findings) {
	switch cfg := c.d.Config; {
	case cfg.Store.Forgets():
		f.add(Warn, "store.driver", "use "+config.DefaultDriver+", or a store that nodes share", "%s: numbers restart at every start of seqd", cfg.Store.Driver)
	case cfg.Store.Shared() && cfg.BizTypesFrom == config.FromConfig:
		f.add(Info, "bizTypesFrom", "", "config: every node must have the same bizTypesFrom, and the same bizTypes, of which only the shapes of their numbers are compared")
	}
}

func (c configCheck) tokens(f *findings) {
	now, good := c.d.Now(), 0
	for _, t := range c.d.Config.Auth.Tokens {
		switch left := t.Expires.Sub(now); {
		case !t.Enabled:
			f.add(Info, "auth.tokens", "", "%s is switched off", t.Name)
		case t.Expires.IsZero() || left > soon:
			good++
		case left <= 0:
			f.add(Warn, "auth.tokens", "make a new one with seqd token, or remove it", "%s expired at %s", t.Name, t.Expires.UTC().Format(time.RFC3339))
		default:
			f.add(Warn, "auth.tokens", "make a new one with seqd token", "%s expires at %s, in %s", t.Name, t.Expires.UTC().Format(time.RFC3339), days(left))
		}
	}
	if good > 0 {
		f.ok("auth.tokens", "%d of the configuration count for more than %s; those of the store are not looked at", good, days(soon))
	}
}

func days(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// Settings beyond these bounds are unusual.
const (
	lateThreshold = 0.9
	longTarget    = 6 * time.Hour
	// largeShare is the largest share of all numbers, as one in so many, that a crash should skip.
	largeShare = 100
)

// segmentSettings checks a biz type that takes numbers from a counter: one that has a step.
func (c configCheck) segmentSettings(f *findings, b seqd.BizType) {
	step, ok := config.Setting[int64](b.Settings, "step")
	if !ok {
		return
	}
	ordering, _ := config.Setting[string](b.Settings, "ordering")
	threshold, _ := config.Setting[float64](b.Settings, "threshold")
	target, _ := config.Setting[time.Duration](b.Settings, "targetDuration")
	reserve, _ := config.Setting[int](b.Settings, "reserveSegments")
	if threshold >= lateThreshold {
		f.add(Warn, b.Name+".threshold", "leave it at 0.2", "%v: the next segment is asked for when hardly anything is left, and callers wait for the store", threshold)
	}
	if target > longTarget {
		f.add(Warn, b.Name+".targetDuration", "shorten it, or set maxStep", "%s: losing what is in hand may skip the numbers of %s", target, 2*target)
	}
	if most := mostNumbers(b); step > most/largeShare/int64(2+reserve) {
		f.add(Warn, b.Name+".step", "make it smaller", "%d: losing what is in hand once skips up to %d of the %d numbers there are", step, step*int64(2+reserve), most)
	}
	if !c.d.Config.Store.Shared() {
		return
	}
	switch {
	case ordering == "per-node":
		f.add(Info, b.Name+".ordering", "", "per-node: numbers are unique over all nodes, and increase on each node alone")
	case c.d.Config.TakesFromStore(b):
		f.add(Info, b.Name+".sequencer", "", "the store keeps the order: every request waits for it, and is refused while it is away")
	case reserve == 0:
		f.add(Warn, b.Name+".reserveSegments", "set it to 1 or more", "0: while the store is away there is nothing but the rest of two segments")
	}
}

// mostNumbers returns how many numbers a biz type can show.
func mostNumbers(b seqd.BizType) int64 {
	most := seqd.MaxNumber
	for _, p := range b.Plugins {
		if digits, ok := config.Setting[int](p.Settings, "digits"); ok && digits > 0 && digits < 16 {
			most = min(most, pow(10, digits))
		}
		if bits, ok := config.Setting[int](p.Settings, "bits"); ok && bits > 0 && bits < 53 {
			most = min(most, pow(2, bits))
		}
	}
	return most
}

func pow(base int64, n int) int64 {
	result := int64(1)
	for range n {
		result *= base
	}
	return result
}

// snowflakeSettings checks a biz type that leases a machine ID: one that has a horizon.
func (c configCheck) snowflakeSettings(f *findings, b seqd.BizType) {
	horizon, ok := config.Setting[time.Duration](b.Settings, "horizon")
	if !ok {
		return
	}
	renew, _ := config.Setting[time.Duration](b.Settings, "renewInterval")
	if horizon < 4*renew {
		f.add(Warn, b.Name+".horizon", "make it at least 5 × renewInterval", "%s leaves room for %d renewals: a short outage of the registry stops issuing", horizon, horizon/renew)
	}
	if key, timeout := c.d.Config.Store.Timeout(); timeout > 0 && horizon < renew+2*timeout {
		f.add(Warn, b.Name+".horizon", "make it at least renewInterval + 2 × "+key,
			"%s: two renewals that run into the time-out of %s, as at a failover, end the lease", horizon, timeout)
	}
}
