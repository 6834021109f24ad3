package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/forwarded"
)

// problems collects what is wrong: one problem for each key, and no more than maxProblems.
type problems []seqd.Problem

// maxProblems is more than anybody reads. Each problem is compared with those before it.
const maxProblems = 1000

// check adds a problem unless ok is true or the key has one already.
func (p *problems) check(ok bool, key, format string, args ...any) {
	if ok || len(*p) == maxProblems || p.has(key) {
		return
	}
	*p = append(*p, seqd.Problem{Key: key, Text: fmt.Sprintf(format, args...)})
}

func (p *problems) has(key string) bool {
	return slices.ContainsFunc(*p, func(known seqd.Problem) bool { return known.Key == key })
}

// hasBelow reports whether one of the keys, or of those below them, has a problem already.
func (p *problems) hasBelow(keys ...string) bool {
	return slices.ContainsFunc(*p, func(known seqd.Problem) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return known.Key == key || strings.HasPrefix(known.Key, key+".") })
	})
}

func (p *problems) add(key string, err error) {
	if err != nil {
		p.check(false, key, "%s", err.Error())
	}
}

// settings adds what a strategy or plugin finds wrong with its settings.
func (p *problems) settings(prefix string, settings any) {
	for _, problem := range seqd.ProblemsOf(settings) {
		p.check(false, prefix+problem.Key, "%s", problem.Text)
	}
}

// Invalid is the error of [Load] for a configuration with wrong keys. It is never empty.
type Invalid []seqd.Problem

// Error returns a line for each key.
func (i Invalid) Error() string {
	lines := make([]string, len(i))
	for n, problem := range i {
		lines[n] = problem.Key + ": " + problem.Text
	}
	return strings.Join(lines, "\n")
}

func (p *problems) err() error {
	if len(*p) == 0 {
		return nil
	}
	return Invalid(*p)
}

func (p *problems) oneOf(key, value string, allowed ...string) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	p.check(false, key, "%q is not one of %q", value, allowed)
}

// bytes checks a bound of bytes.
func (p *problems) bytes(key string, most int64) {
	p.check(most == 0 || most >= 1<<20 && most <= 1<<40, key, "%d is neither 0, for no bound, nor from 1048576 to 1099511627776", most)
}

func (p *problems) duration(key string, value, least, most time.Duration) {
	p.add(key, literal.Within(value, least, most))
}

// Validate returns an error that names every key that is wrong, or nil. [Load] has called it.
func (c *Config) Validate() error {
	var p problems
	c.validate(&p)
	for i, b := range c.BizTypes {
		path := bizTypePath(i)
		p.name(path, b.Name)
		p.settings(path+".", b.Settings)
		for j, binding := range b.Plugins {
			p.settings(pluginPath(path, j)+".", binding.Settings)
		}
		for j, binding := range b.Rejected {
			p.settings(rejectedPath(path, j)+".", binding.Settings)
		}
		if len(p) == 0 {
			p.chain(path, b)
		}
	}
	return p.err()
}

// noBizTypes is the problem of a configuration without biz types, which is more likely a mistake,
// unless bizTypesFrom is set.
const noBizTypes = "there is none; at least one is needed, in the file that --config names or in SEQD_BIZTYPES; or write bizTypesFrom: store, to create the first one in the console or with the API, or if the store has them"

// variablePrefix are the values of bizTypeVariables.
var variablePrefix = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_]*_)?$`)

// validate checks everything but each biz type by itself.
func (c *Config) validate(p *problems) {
	c.Server.validate(p)
	c.Resp.validate(p, c.Server.Addr)
	p.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	p.oneOf("log.format", c.Log.Format, "json", "text")
	c.Store.validate(p)
	c.Redis.validate(p)
	c.Coordination.validate(p, c.Store.Shared())
	c.Tracing.validate(p)
	c.validateCompat(p)
	p.oneOf("bizTypesFrom", c.BizTypesFrom, FromStore, FromConfig)
	p.check(c.LiveBizTypes >= 1 && c.LiveBizTypes <= 10_000_000, "liveBizTypes", "%d is outside 1 to 10000000", c.LiveBizTypes)
	if c.BizTypeIdle != 0 {
		p.duration("bizTypeIdle", c.BizTypeIdle, time.Second, 720*time.Hour)
	}
	p.check(variablePrefix.MatchString(c.BizTypeVariables) && !strings.HasPrefix(strings.ToUpper(c.BizTypeVariables), "SEQD_"), "bizTypeVariables",
		"%.100q is neither empty nor a name that ends with _, other than SEQD_", c.BizTypeVariables)
	p.check(len(c.BizTypes) > 0 || c.BizTypesFrom != FromConfig, bizTypesKey, noBizTypes)
	c.Auth.validate(p)
	c.Auth.opens(p, "server.addr", c.Server.Addr)
	if c.Resp.Configured() {
		c.Auth.opens(p, "resp.addr", c.Resp.Addr)
	}
	p.duration("idempotency.ttl", c.Idempotency.TTL, time.Minute, 168*time.Hour)
	p.bytes("idempotency.maxBytes", c.Idempotency.MaxBytes)
	p.bytes("idempotency.maxBytesPerCaller", c.Idempotency.MaxBytesPerCaller)
	p.check(c.Jobs.AtOnce >= 0 && c.Jobs.AtOnce <= 100, "jobs.atOnce", "%d is outside 0 to 100", c.Jobs.AtOnce)
	p.check(c.Jobs.Most >= 1 && c.Jobs.Most <= 10_000, "jobs.most", "%d is outside 1 to 10000", c.Jobs.Most)
	p.duration("jobs.resultTTL", c.Jobs.ResultTTL, time.Minute, 720*time.Hour)
	p.duration("events.keep", c.Events.Keep, time.Hour, 8760*time.Hour)
	every, folder := c.Snapshots.Every, c.Snapshots.Folder
	if every != 0 {
		p.duration("snapshots.every", every, time.Minute, 8760*time.Hour)
	}
	p.check(every == 0 || folder != "", "snapshots.folder", "no folder is named for the snapshots of snapshots.every")
	p.check(every != 0 || folder == "", "snapshots.every", "it says not how often a snapshot is saved in snapshots.folder: say 1h, for example")
	p.check(c.Snapshots.Keep >= 1 && c.Snapshots.Keep <= 10_000, "snapshots.keep", "%d is outside 1 to 10000", c.Snapshots.Keep)
	p.duration("subscriptions.keepDead", c.Subscriptions.KeepDead, time.Minute, 720*time.Hour)
	p.check(c.Metrics.MaxBizTypes >= 0 && c.Metrics.MaxBizTypes <= 10_000, "metrics.maxBizTypes", "%d is outside 0 to 10000", c.Metrics.MaxBizTypes)
	names := make(map[string]int, len(c.BizTypes))
	for i, b := range c.BizTypes {
		first, twice := names[b.Name]
		p.check(!twice, bizTypePath(i)+".name", "%s is the name of %s already", b.Name, bizTypePath(first))
		names[b.Name] = i
		c.validateBizType(p, bizTypePath(i), b)
	}
}

// mostBindings is how many plugins a biz type can have, and how many rejection handlers: each may
// keep a queue.
const mostBindings = 32

// validateBizType checks that a biz type fits the rest of the configuration.
func (c *Config) validateBizType(p *problems, path string, b seqd.BizType) {
	c.confine(p, path, b)
	if c.repair {
		return
	}
	traits := seqd.TraitsOf(b.Settings)
	p.check(traits.Sequencer != seqd.RedisSequencer || !c.Store.Shared() || c.Redis.Configured(), path+".sequencer",
		"redis needs redis.addrs; or set this, or segment.sequencer, to auto or store: then the store keeps the order")
	p.check(traits.Redis == "" || c.Redis.Configured(), path+"."+traits.Redis, "redis needs redis.addrs")
	p.check(traits.Coordinator == "" || c.Coordination.Apart(), path+"."+traits.Coordinator, "coordinator needs coordination.driver to be consul or zookeeper, and it is store")
	p.check(len(b.Plugins) <= mostBindings, path+"."+pluginsKey, "there are %d, more than %d", len(b.Plugins), mostBindings)
	p.check(len(b.Rejected) <= mostBindings, path+"."+rejectedKey, "there are %d, more than %d", len(b.Rejected), mostBindings)
	for j, binding := range b.Plugins {
		key := seqd.TraitsOf(binding.Settings).Redis
		p.check(key == "" || c.Redis.Configured(), pluginPath(path, j)+"."+key, "it needs Redis: set redis.addrs")
	}
	// A sum explains nothing if a part of it is wrong.
	if wait := c.wait(b); wait > 0 && !p.hasBelow("redis.timeout", "server.pluginTimeout", path, b.Strategy) {
		spare := c.spareTime()
		if c.TakesFromStore(b) {
			_, timeout := c.Store.Timeout()
			spare += 2 * timeout // the take under way, and the next one
		}
		p.check(wait+spare <= c.Server.WriteTimeout, "server.writeTimeout",
			"%s is too short: %s may wait %s for numbers and plugins, and the answer needs %s more to be written", c.Server.WriteTimeout, b.Name, wait, spare)
	}
}

// confine tells the settings of a biz type which files and variables they may name, and checks
// those that they do.
func (c *Config) confine(p *problems, path string, b seqd.BizType) {
	confined := func(path string, settings any) {
		for _, problem := range seqd.Confine(settings, c.reach) {
			p.check(c.repair, path+"."+problem.Key, "%s", problem.Text)
		}
	}
	confined(path, b.Settings)
	for i, binding := range b.Plugins {
		confined(pluginPath(path, i), binding.Settings)
	}
	for i, binding := range b.Rejected {
		confined(rejectedPath(path, i), binding.Settings)
	}
}

// TakesFromStore reports whether every request for numbers of a biz type waits for the store,
// because the store keeps their order. With the sequencer auto it may do so although there is a
// Redis.
func (c *Config) TakesFromStore(b seqd.BizType) bool {
	by := seqd.TraitsOf(b.Settings).Sequencer
	return c.Store.Shared() && (by == seqd.StoreSequencer || by == seqd.AnySequencer && !c.Redis.Configured())
}

// wait returns how long a request may wait for numbers and plugins, 0 if it never waits.
func (c *Config) wait(b seqd.BizType) time.Duration {
	wait := seqd.TraitsOf(b.Settings).MaxWait
	for _, binding := range b.Plugins {
		wait += seqd.TraitsOf(binding.Settings).MaxWait
	}
	if mayBlock(b) {
		wait += c.Server.PluginTimeout
	}
	return wait
}

// mayBlock reports whether a request may have to wait for a plugin of the biz type.
func mayBlock(b seqd.BizType) bool {
	return slices.ContainsFunc(b.Plugins, func(binding seqd.PluginBinding) bool {
		factory, err := plugin.Lookup(binding.Name)
		return err == nil && !factory.Quick
	})
}

// chain checks that the plugins of a biz type fit each other. Everything is valid by itself.
func (p *problems) chain(path string, b seqd.BizType) {
	shown := false
	for i, binding := range b.Plugins {
		factory, err := plugin.Lookup(binding.Name)
		if err != nil {
			p.add(pluginPath(path, i)+".name", err)
			continue
		}
		if factory.Check != nil {
			for _, problem := range factory.Check(b, binding) {
				p.check(false, pluginPath(path, i)+"."+problem.Key, "%s", problem.Text)
			}
		}
		shown = shown || factory.ShowsPeriod != nil && factory.ShowsPeriod(b, binding)
	}
	reset := seqd.TraitsOf(b.Settings).Calendar.Reset
	p.check(shown || reset == seqd.ResetNever, path+".reset",
		"%s resets the numbers, so IDs would repeat: it needs a plugin that shows the date, such as format with {date:20060102}", reset)
}

// spareTime is what writeTimeout must leave after the longest wait. Otherwise numbers would be
// taken whose answer cannot be written.
const spareTime = 3 * time.Second

// spareTime is the constant and, if there is a Redis, the time of two commands that get no answer:
// one before and one after the wait.
func (c *Config) spareTime() time.Duration {
	if !c.Redis.Configured() {
		return spareTime
	}
	return spareTime + 2*c.Redis.Timeout
}

func bizTypePath(i int) string { return fmt.Sprintf("%s[%d]", bizTypesKey, i) }

func pluginPath(bizType string, i int) string { return fmt.Sprintf("%s.plugins[%d]", bizType, i) }

func rejectedAt(owner string) string { return owner + "." + rejectedKey }

func rejectedPath(owner string, i int) string { return fmt.Sprintf("%s[%d]", rejectedAt(owner), i) }

func tokenPath(i int) string { return fmt.Sprintf("%s[%d]", tokensKey, i) }

func (p *problems) name(path, name string) {
	if err := seqd.CheckName(name); err != nil {
		p.check(false, path+".name", "%s", seqd.AsError(err).Detail)
	}
}

func (t *Tracing) validate(p *problems) {
	u, err := url.Parse(t.Endpoint)
	good := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	// It is not shown: what does not belong there may be a secret.
	p.check(t.Endpoint == "" || good, "tracing.endpoint", "it is not http(s)://host:port, or with a path behind it")
	p.check(t.SampleRatio >= 0 && t.SampleRatio <= 1, "tracing.sampleRatio", "%v is outside 0 to 1", t.SampleRatio)
}

func (s *Store) validate(p *problems) {
	p.oneOf("store.driver", s.Driver, driver.Names()...)
	p.check(!s.Forgets() || !s.MustExist, "store.mustExist", "a store in memory is new at every start")
	path, inFile := s.File()
	p.check(!inFile || path != "", s.Key(), "it is empty")
	for _, name := range driver.Names() {
		p.settings("store."+name+".", s.Settings[name])
	}
}

// addr checks an address to listen on.
func (p *problems) addr(key, addr string) {
	_, port, err := net.SplitHostPort(addr)
	_, ok := literal.Port(port)
	p.check(err == nil && ok, key, "%q is not host:port with a port from 0 to 65535", addr)
}

// opens checks that an address may be opened without tokens, if there are none.
func (a *Auth) opens(p *problems, key, addr string) {
	p.check(a.Mode != "auto" || a.Enforced() || IsLoopback(addr), key, "%s %s", addr, NotLoopback)
}

func (r *Resp) validate(p *problems, httpAddr string) {
	if !r.Configured() {
		return
	}
	p.addr("resp.addr", r.Addr)
	p.check(!samePort(r.Addr, httpAddr), "resp.addr", "%s is the port of server.addr, %s: the Redis protocol needs a port of its own", r.Addr, httpAddr)
}

// samePort reports whether two addresses to listen on cannot both be opened: they have the same
// port, and the same host or one that means all.
func samePort(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	numberA, _ := strconv.Atoi(portA)
	numberB, _ := strconv.Atoi(portB)
	return errA == nil && errB == nil && numberA == numberB && numberA != 0 && (hostA == hostB || everyHost(hostA) || everyHost(hostB))
}

// everyHost reports whether a host to listen on means all addresses of the machine.
func everyHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func (s *Server) validate(p *problems) {
	p.addr("server.addr", s.Addr)
	p.check(s.MaxCount >= 1 && s.MaxCount <= seqd.MaxCount, "server.maxCount", "%d is outside 1 to %d", s.MaxCount, seqd.MaxCount)
	p.duration("server.drainDelay", s.DrainDelay, 0, time.Hour)
	p.duration("server.stopTimeout", s.StopTimeout, time.Second, time.Hour)
	p.oneOf("server.accessLog", s.AccessLog, "off", "refused", "on")
	p.check(s.AccessLogPerSecond >= 0 && s.AccessLogPerSecond <= 1_000_000, "server.accessLogPerSecond", "%d is outside 0 to 1000000", s.AccessLogPerSecond)
	for i, proxy := range s.TrustedProxies {
		_, err := forwarded.Network(proxy)
		p.add(fmt.Sprintf("server.trustedProxies[%d]", i), err)
	}
	p.oneOf("server.forwardedHeader", s.ForwardedHeader, forwarded.Headers()...)
	s.validateHosts(p)
	p.duration("server.consoleSession", s.ConsoleSession, 5*time.Minute, 24*time.Hour)
	p.duration("server.readHeaderTimeout", s.ReadHeaderTimeout, 100*time.Millisecond, time.Hour)
	p.duration("server.readTimeout", s.ReadTimeout, 100*time.Millisecond, time.Hour)
	p.duration("server.writeTimeout", s.WriteTimeout, spareTime, time.Hour)
	p.duration("server.idleTimeout", s.IdleTimeout, 100*time.Millisecond, 24*time.Hour)
	p.duration("server.pluginTimeout", s.PluginTimeout, 100*time.Millisecond, time.Minute)
	p.check(s.MaxHeaderBytes >= 1<<10 && s.MaxHeaderBytes <= 1<<20, "server.maxHeaderBytes", "%d is outside 1024 to 1048576", s.MaxHeaderBytes)
	p.check(s.MaxBodyBytes >= 0 && s.MaxBodyBytes <= 1<<30, "server.maxBodyBytes", "%d is outside 0 to 1073741824", s.MaxBodyBytes)
	p.check(s.TLS.CertFile == "" || s.TLS.KeyFile != "", "server.tls.keyFile", "it is empty, and server.tls.certFile needs it")
	p.check(s.TLS.KeyFile == "" || s.TLS.CertFile != "", "server.tls.certFile", "it is empty, and server.tls.keyFile needs it")
	p.check(s.MaxInFlight >= 0 && s.MaxInFlight <= 1_000_000, "server.maxInFlight", "%d is outside 0 to 1000000", s.MaxInFlight)
	p.bytes("server.maxInFlightBytes", s.MaxInFlightBytes)
	p.check(s.MaxConnections >= 0 && s.MaxConnections <= 10_000_000, "server.maxConnections", "%d is outside 0 to 10000000", s.MaxConnections)
}

// NotLoopback is the problem of an address that auth.mode auto does not open.
const NotLoopback = "can be reached from other machines, and there are no tokens, without which auth.mode auto opens only a loopback address: " +
	"give callers tokens in auth.tokens, or set auth.mode to none to open it to everybody who can reach it"

// IsLoopback reports whether addr, host:port, can only be reached from this machine.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
