// Package config reads the configuration into a struct that does not change afterwards. The
// environment overrides the file, and flags override both. Every key has a default. A key that is
// unknown, of a wrong type or out of its range is an error that names the key. If a node reads its
// configuration again, [Config.Reread] says what it applies.
package config

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/forwarded"
)

// Config is the whole configuration. [Load] returns a validated one.
type Config struct {
	Server Server `config:"server"`
	// Resp is the Redis protocol.
	Resp  Resp  `config:"resp"`
	Log   Log   `config:"log"`
	Store Store `config:"store"`
	Redis Redis `config:"redis"`
	// Coordination is where nodes agree on who does a job.
	Coordination Coordination `config:"coordination"`
	Auth         Auth         `config:"auth"`
	// BizTypesFrom is where definitions of biz types come from. `store`: `bizTypes` are only the
	// first ones, and from then on the store decides. `config`: `bizTypes` are all of them, and
	// only the configuration changes them. All nodes that share a store need the same.
	BizTypesFrom string `config:"bizTypesFrom" range:"store, config" nodes:"same"`
	// LiveBizTypes is how many biz types of the store a node keeps open, besides those in
	// `bizTypes`. It opens one when it is first needed. If there are too many, it closes one or two
	// that nobody has used lately; some more stay open if it finds none among 16. An open one takes 2
	// to 7 KB.
	LiveBizTypes int `config:"liveBizTypes" range:"1 to 10,000,000"`
	// BizTypeIdle is after how long a node closes a biz type of the store that nobody uses, except
	// those in `bizTypes`: its unused numbers go back to the store. It may be half as long, because a
	// node looks twice in that time.
	BizTypeIdle time.Duration `config:"bizTypeIdle" range:"0s, or 1s to 720h" zero:"only to make room"`
	// BizTypeFolder is the folder in which the files lie that definitions of biz types name: keys,
	// history, what snowflake reserved. Files that seqd uses itself cannot be named. Empty is the
	// folder of `store.bolt.path`, whichever store is used.
	BizTypeFolder string `config:"bizTypeFolder"`
	// BizTypeVariables is what the names of environment variables begin with that definitions of biz
	// types may name. Empty allows none, and names that begin with `SEQD_` are never allowed.
	BizTypeVariables string `config:"bizTypeVariables"`
	// Idempotency is what is remembered of requests with an Idempotency-Key.
	Idempotency Idempotency `config:"idempotency"`
	// Jobs is how [jobs](JOBS.md) run, which issue many numbers in the background. All nodes that share
	// a store need the same.
	Jobs Jobs `config:"jobs"`
	// Events is how long [events](EVENTS.md) are kept. All nodes that share a store need the same value.
	Events Events `config:"events"`
	// Subscriptions is how [subscriptions](SUBSCRIPTIONS.md) send events to receivers.
	Subscriptions Subscriptions `config:"subscriptions"`
	// Snapshots is when [snapshots](operations/backup.md) are saved.
	Snapshots Snapshots `config:"snapshots"`
	// Metrics is what /metrics shows.
	Metrics Metrics `config:"metrics"`
	// Tracing is where traces go.
	Tracing Tracing `config:"tracing"`
	// Compat is what clients of other services get.
	Compat Compat `config:"compat"`
	// BizTypes are what numbers are issued for, with the settings of their strategies, decoded.
	BizTypes []seqd.BizType

	definitions map[string]definition // what the configuration says of each biz type
	defaults    []defaults            // the sections of the strategies
	repair      bool                  // see [Config.ForRepair]
	reach       *seqd.Reach           // what definitions may name
	file        string                // the configuration was read from; "" for none
}

// newReach returns what definitions of biz types may name.
func (c *Config) newReach() *seqd.Reach {
	tls, redis, other := &c.Server.TLS, &c.Redis.TLS, &c.Coordination.TLS
	own := slices.DeleteFunc([]string{c.file, tls.CertFile, tls.KeyFile, redis.CAFile, redis.CertFile, redis.KeyFile, other.CAFile, other.CertFile, other.KeyFile},
		func(path string) bool { return path == "" })
	beside := Store{Driver: DefaultDriver, Settings: c.Store.Settings}
	path, _ := beside.File()
	store, _ := c.Store.File()
	return &seqd.Reach{Folder: cmp.Or(c.BizTypeFolder, filepath.Dir(path)), Variables: c.BizTypeVariables, Own: own, Store: store}
}

// ForRepair returns the configuration for a command that issues nothing. It accepts definitions of
// the store that this configuration could not issue for, such as those that need Redis although it
// is lost.
func (c *Config) ForRepair() *Config {
	repair := *c
	repair.repair = true
	return &repair
}

// Server is how the HTTP side behaves.
type Server struct {
	// Addr is the address to listen on, as host:port. Port 0 takes a free port.
	Addr string `config:"addr"`
	// MaxCount is the largest `?count=`.
	MaxCount int `config:"maxCount" range:"1 to 1,000,000" applies:"live"`
	// DrainDelay is how long a stopping node answers `/readyz` with 503, and ends each connection
	// with its answer, before the listener closes: balancers notice meanwhile.
	DrainDelay time.Duration `config:"drainDelay" range:"0s to 1h" zero:"close the listener at once"`
	// StopTimeout is the bound of each of the two phases after `server.drainDelay`: ending running
	// requests, and giving numbers back.
	StopTimeout time.Duration `config:"stopTimeout" range:"1s to 1h"`
	// AccessLog is `on` if requests are logged, and `refused` if those are that got a status of 400 or
	// above. See [the log](LOG.md).
	AccessLog string `config:"accessLog" range:"off, refused, on" applies:"live"`
	// AccessLogPerSecond is the most lines a second that the access log has, and as many again for
	// answers of 500 and above.
	AccessLogPerSecond int `config:"accessLogPerSecond" range:"0 to 1,000,000" zero:"a line for each request" applies:"live"`
	// TrustedProxies are the addresses or networks whose `server.forwardedHeader` is believed, and for
	// the console `X-Forwarded-Proto`. Empty trusts nobody.
	TrustedProxies []string `config:"trustedProxies" applies:"live"`
	// ForwardedHeader is the header in which trusted proxies say who sent a request. The others are
	// ignored, because a proxy that sets one passes on what callers write into another one.
	ForwardedHeader string `config:"forwardedHeader" range:"X-Forwarded-For, Forwarded, X-Real-Ip" applies:"live"`
	// Hosts are the names and IP addresses, without a port, that a request may have as its `Host`
	// [where callers need no token](API.md#web-pages): everywhere without tokens, and at `/metrics`
	// with `auth.publicMetrics`. `localhost`, loopback addresses and what `server.addr` names always
	// pass.
	Hosts []string `config:"hosts" applies:"live"`
	// Console is true if [the console](API.md#the-console), a page for people, is served at
	// `/console`.
	Console bool `config:"console"`
	// ConsoleSession is how long people stay signed in to the console. Only nodes that ask for
	// tokens have a sign-in.
	ConsoleSession time.Duration `config:"consoleSession" range:"5m to 24h"`
	// Pprof is true if profiles of the process are served at `/debug/pprof/`, for the scope `admin`. See
	// [profiles](operations/overload.md#profiles).
	Pprof bool `config:"pprof"`
	// ReadHeaderTimeout is the bound of reading a request's headers, and of how long a connection
	// stays open without an answered request, until a request on it shows a token, or none is
	// needed.
	ReadHeaderTimeout time.Duration `config:"readHeaderTimeout" range:"100ms to 1h"`
	// ReadTimeout is the bound of reading a whole request.
	ReadTimeout time.Duration `config:"readTimeout" range:"100ms to 1h"`
	// WriteTimeout is the bound from reading a request to the end of its answer. It must be 3s
	// longer than every wait for numbers (`segment.acquireTimeout` and plugins), and with Redis
	// 2 × `redis.timeout` more.
	WriteTimeout time.Duration `config:"writeTimeout" range:"3s to 1h"`
	// IdleTimeout is how long an idle connection is kept.
	IdleTimeout time.Duration `config:"idleTimeout" range:"100ms to 24h"`
	// PluginTimeout is how long a request waits, in all, for plugins that may block.
	PluginTimeout time.Duration `config:"pluginTimeout" range:"100ms to 1m"`
	// MaxHeaderBytes is the largest request line with headers. About 4 KiB more are tolerated.
	MaxHeaderBytes int `config:"maxHeaderBytes" range:"1,024 to 1,048,576" unit:"bytes"`
	// MaxBodyBytes is the largest request body.
	MaxBodyBytes int64 `config:"maxBodyBytes" range:"0 to 1,073,741,824" unit:"bytes" zero:"no bodies, and so no changes by the API" applies:"live"`
	TLS          TLS   `config:"tls"`
	// MaxInFlight is the most requests that are answered at once. Further ones get 503 `overloaded`
	// at once. See [overload](operations/overload.md).
	MaxInFlight int `config:"maxInFlight" range:"0 to 1,000,000" zero:"no bound" applies:"live"`
	// MaxInFlightBytes is the most memory that large answers (more than 16 IDs, lists, history)
	// take at once. Requests that find no room get 503 `overloaded`. See
	// [overload](operations/overload.md).
	MaxInFlightBytes int64 `config:"maxInFlightBytes" range:"0, or 1,048,576 to 1,099,511,627,776" unit:"bytes" zero:"no bound" applies:"live"`
	// MaxConnections is the most open connections. A further one takes the place of the one that
	// has gone longest without an answered request.
	MaxConnections int `config:"maxConnections" range:"0 to 10,000,000" zero:"no bound" applies:"live"`
}

// TLS is what the service shows to callers. Without files connections are not encrypted.
type TLS struct {
	// CertFile is the service's certificate, with those between it and its root, as PEM. With
	// `server.tls.keyFile` connections are encrypted (TLS 1.2 or newer). It is read again when it
	// changes.
	CertFile string `config:"certFile" applies:"contents"`
	// KeyFile is the key of the certificate, as PEM. It is read again when it changes.
	KeyFile string `config:"keyFile" applies:"contents"`
}

// Configured reports whether connections are encrypted.
func (t *TLS) Configured() bool { return t.CertFile != "" && t.KeyFile != "" }

// Resp is the Redis protocol. The settings of `server` hold for it too: TLS, limits, time-outs.
type Resp struct {
	// Addr is the address to listen on [for Redis clients](API.md#redis-protocol), as host:port.
	// Port 0 takes a free port. Empty listens on none.
	Addr string `config:"addr"`
	// LargeIntegers lets `INCR` and `INCRBY` answer with integers above 2^53 − 1, such as those of
	// snowflake. Clients that keep integers as doubles, as JavaScript does, round them: two callers
	// may read the same number. `SEQ.NEXT` answers with text.
	LargeIntegers bool `config:"largeIntegers"`
}

// Configured reports whether the Redis protocol is served.
func (r *Resp) Configured() bool { return r.Addr != "" }

// Log is what is logged and how.
type Log struct {
	// Level is the lowest level that is logged.
	Level string `config:"level" range:"debug, info, warn, error" applies:"live"`
	// Format is the format of the lines on standard error.
	Format string `config:"format" range:"json, text"`
}

// Store is where ranges come from.
type Store struct {
	// Driver is the [kind of store](STORES.md#which-store): a file of one node, a database that nodes
	// share, or memory, which ends with the process.
	Driver string `config:"driver"`
	// MustExist refuses a store that no seqd has run on: a volume that is not mounted, a path or
	// name that is mistyped, a database that was lost. Switch it on after the first start.
	MustExist bool `config:"mustExist"`
	// Settings are those of each registered driver, by its name.
	Settings map[string]driver.Settings `config:"*"`
}

// DefaultDriver is the store of a configuration that names none.
const DefaultDriver = "bolt"

// Chosen returns the settings of the driver; nil if it is not registered.
func (s *Store) Chosen() driver.Settings { return s.Settings[s.Driver] }

// Shared reports whether the store is one that nodes share.
func (s *Store) Shared() bool {
	d, err := driver.Lookup(s.Driver)
	return err != nil || d.Shared
}

// Forgets reports whether the store is new at every start.
func (s *Store) Forgets() bool {
	d, _ := driver.Lookup(s.Driver)
	return d.Forgets
}

// Section returns the key of the driver's section.
func (s *Store) Section() string { return "store." + s.Driver }

// Key returns the key of the setting that says where the store is.
func (s *Store) Key() string {
	d, _ := driver.Lookup(s.Driver)
	return s.Section() + "." + d.Key
}

// File returns the path of a store that is a file. ok is false for other stores.
func (s *Store) File() (path string, ok bool) {
	if file, ok := s.Chosen().(driver.File); ok {
		return file.File(), true
	}
	return "", false
}

// Place returns where the store is: the path of the file, or the addresses and the name of the
// database. It has no credentials.
func (s *Store) Place() string { return s.Chosen().Place() }

// Timeout returns the bound of an operation of a store that nodes share, and its key; 0 for another
// store.
func (s *Store) Timeout() (key string, timeout time.Duration) {
	timeout, ok := Setting[time.Duration](s.Chosen(), "timeout")
	if !ok {
		return "", 0
	}
	return s.Section() + ".timeout", timeout
}

// Auth is who may call.
type Auth struct {
	// Mode is who may call. `auto`: if `auth.tokens` has tokens, every caller needs one; without
	// tokens only a loopback address is opened. `token`: every caller needs a token. `none`: open
	// to everybody who can reach the address.
	Mode string `config:"mode" range:"auto, token, none"`
	// PublicMetrics is true if `/metrics`, `/openapi.json` and `/docs` need no token.
	PublicMetrics bool `config:"publicMetrics" applies:"live"`
	// Tokens are those that the configuration gives; others come from the store.
	Tokens []access.Token
}

// Enforced reports whether callers need a token.
func (a *Auth) Enforced() bool {
	return a.Mode == "token" || a.Mode == "auto" && len(a.Tokens) > 0
}

// Idempotency is what is remembered of requests with an Idempotency-Key.
type Idempotency struct {
	// TTL is how long the same [`Idempotency-Key`](IDEMPOTENCY.md) gets the same numbers.
	TTL time.Duration `config:"ttl" range:"1m to 168h"`
	// MaxBytes is about how much is [kept](IDEMPOTENCY.md#how-much-is-kept) for all callers, of
	// keys, reservations and void numbers. Beyond that new ones are refused.
	MaxBytes int64 `config:"maxBytes" range:"0, or 1,048,576 to 1,099,511,627,776" unit:"bytes" zero:"no bound" applies:"live"`
	// MaxBytesPerCaller is about how much is kept for one owner. Beyond that its new keys and
	// reservations are refused, and all it wants of biz types with `onRelease: void`.
	MaxBytesPerCaller int64 `config:"maxBytesPerCaller" range:"0, or 1,048,576 to 1,099,511,627,776" unit:"bytes" zero:"no bound" applies:"live"`
}

// Events is how long events are kept.
type Events struct {
	// Keep is how long events can be read after 128 later ones have been added to those of their biz
	// type. The latest ones are kept for longer.
	Keep time.Duration `config:"keep" range:"1h to 8760h" nodes:"same"`
}

// Jobs is how jobs run.
type Jobs struct {
	// AtOnce is how many [jobs](JOBS.md) run at once, on all nodes together.
	AtOnce int `config:"atOnce" range:"0 to 100" zero:"none runs on this node"`
	// Most is how many jobs there may be, with those that have ended and are kept, and half as many of
	// each caller with a token. Further ones get 429 `too_many_jobs`.
	Most int `config:"most" range:"1 to 10,000" nodes:"same"`
	// ResultTTL is how long a job and its result are kept after its end.
	ResultTTL time.Duration `config:"resultTTL" range:"1m to 720h" nodes:"same"`
}

// Subscriptions is how events are sent to receivers.
type Subscriptions struct {
	// KeepDead is how long an event is kept that was given up, because its receiver did not take it
	// for three days.
	KeepDead time.Duration `config:"keepDead" range:"1m to 720h"`
}

// Snapshots is when the leader saves snapshots of the store.
type Snapshots struct {
	// Every is how often a snapshot is saved.
	Every time.Duration `config:"every" range:"0s, or 1m to 8760h" zero:"none is saved"`
	// Folder is where the node that leads saves them. It exists, and only seqd may read it: snapshots
	// have the secrets of definitions. The names of files have the ID of the cluster.
	Folder string `config:"folder"`
	// Keep is how many of the newest snapshots stay in the folder.
	Keep int `config:"keep" range:"1 to 10,000"`
}

// Metrics is what /metrics shows.
type Metrics struct {
	// Enabled is true if [metrics](METRICS.md) are counted and shown at `/metrics`.
	Enabled bool `config:"enabled"`
	// MaxBizTypes is how many biz types have a label of their own. The others are shown together as
	// `_other`.
	MaxBizTypes int `config:"maxBizTypes" range:"0 to 10,000" zero:"all are shown together as _other"`
}

// Tracing is which requests are traced, and where their spans go.
type Tracing struct {
	// Endpoint is the URL of an OTLP/HTTP collector, such as `http://127.0.0.1:4318`. Without a
	// path it means `/v1/traces`. Empty traces nothing.
	Endpoint string `config:"endpoint"`
	// SampleRatio is the share of the requests without a `traceparent` that is traced. See
	// [traces](LOG.md#traces) for the others.
	SampleRatio float64 `config:"sampleRatio" range:"0 to 1" zero:"traces only requests whose traceparent is sampled"`
}

// Default returns the default of every key. It has no biz types.
func Default() Config {
	return Config{
		Server: Server{
			Addr:              "127.0.0.1:8080",
			MaxCount:          10_000,
			StopTimeout:       15 * time.Second,
			AccessLog:         "off",
			TrustedProxies:    []string{},
			ForwardedHeader:   forwarded.For,
			Hosts:             []string{},
			Console:           true,
			ConsoleSession:    8 * time.Hour,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       5 * time.Second,
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       2 * time.Minute,
			PluginTimeout:     5 * time.Second,
			MaxHeaderBytes:    16 << 10,
			MaxBodyBytes:      64 << 10,
			MaxInFlight:       4096,
			MaxInFlightBytes:  32 << 20,
			MaxConnections:    16_384,

			AccessLogPerSecond: 100,
		},
		Log:   Log{Level: "info", Format: "json"},
		Store: Store{Driver: DefaultDriver, Settings: driver.Defaults()},
		Redis: Redis{Addrs: []string{}, KeyPrefix: "seqd:", Timeout: time.Second},
		Auth:  Auth{Mode: "auto"},

		Coordination: Coordination{Driver: CoordinateInStore, Addrs: []string{}, Prefix: "seqd", Timeout: 500 * time.Millisecond},

		BizTypesFrom: FromStore, BizTypeVariables: "OBFUSCATE_",
		LiveBizTypes: 100_000, BizTypeIdle: time.Hour,
		Idempotency:   Idempotency{TTL: 24 * time.Hour, MaxBytes: 2 << 30, MaxBytesPerCaller: 1 << 30},
		Jobs:          Jobs{AtOnce: 2, Most: 1000, ResultTTL: 24 * time.Hour},
		Subscriptions: Subscriptions{KeepDead: 7 * 24 * time.Hour},
		Snapshots:     Snapshots{Keep: 48},
		Events:        Events{Keep: 7 * 24 * time.Hour},
		Metrics:       Metrics{Enabled: true, MaxBizTypes: 1000},
		Tracing:       Tracing{SampleRatio: 0.01},
		Compat:        Compat{CosID: CosIDOff, MaxBizTypes: 1000},
	}
}
