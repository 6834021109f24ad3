package rediscursor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/persist"
)

// ErrUnfit is returned by [Check] if Redis answers but cannot be used as it is configured. Waiting
// does not help. The error begins with the setting to change.
var ErrUnfit = errors.New("this Redis cannot hold cursors")

// unfitError is an ErrUnfit with what is wrong.
type unfitError struct {
	text  string
	cause error // what a server said, nil for none
}

// Error implements [error].
func (e *unfitError) Error() string {
	if e.cause == nil {
		return e.text
	}
	return e.text + ": " + e.cause.Error()
}

// Is makes it an ErrUnfit.
func (e *unfitError) Is(target error) bool { return target == ErrUnfit }

// Unwrap returns what a server said.
func (e *unfitError) Unwrap() error { return e.cause }

// oldest is the first major version of Redis that replicates the effects of scripts, which a script
// that reads the clock needs, and that has users.
const oldest = 6

// probe is the counter of a cursor that is only looked at. No biz type can have this name. Each
// format has its own: during a rolling upgrade older nodes continue to look at theirs.
var probe = ":probe" + strconv.Itoa(FormatVersion)

// Check reports whether Redis can be used. It reads what the servers say about themselves, and runs
// the scripts of takes and installs as issuing does. It returns ErrUnfit with the setting to
// change, ErrForeign, ErrNewer, or any other error if Redis is away. The caller bounds its time.
func Check(ctx context.Context, opts Options) error {
	var err error
	switch client := opts.Client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return checkServer(ctx, node, "cluster") })
	case *redis.Client:
		err = checkServer(ctx, client, "standalone")
	}
	if err == nil {
		err = checkScripts(ctx, opts)
	}
	return explain(err, opts)
}

// Look reports whether Redis serves cursors now, by one script that usually only reads. It returns
// the errors of [Check].
func Look(ctx context.Context, opts Options) error {
	_, err := Open(opts, probe).Take(ctx, Take{Threshold: 1})
	return explain(err, opts)
}

// Ceil returns the highest number that was ever installed in the cursor of a counter, 0 for none.
// It takes no number. It returns the errors of [Check].
func Ceil(ctx context.Context, opts Options, counter string) (int64, error) {
	seen, err := Open(opts, counter).Take(ctx, Take{Threshold: 1})
	return seen.Ceil, explain(err, opts)
}

// checkServer checks what one server says of itself.
func checkServer(ctx context.Context, client *redis.Client, mode string) error {
	raw, err := redisonce.Do(ctx, client, "info")
	if err != nil {
		return err
	}
	text, _ := raw.(string)
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	if why, wrong := wrongMode[info["redis_mode"]]; wrong && info["redis_mode"] != mode {
		return &unfitError{text: why}
	}
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return &unfitError{text: fmt.Sprintf("redis.addrs: the server is version %s; %d.0 or newer is needed", version, oldest)}
	}
	if policy := info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		return &unfitError{text: "redis.addrs: the server's maxmemory-policy is " + policy +
			", under which it may drop cursors at any time: set it to noeviction, or to one of volatile-*"}
	}
	return nil
}

// wrongMode says what to do about a server in another mode than the settings expect.
var wrongMode = map[string]string{
	"sentinel": "redis.addrs: the server is a Sentinel; set redis.masterName to what it calls the primary",
	"cluster":  "redis.addrs: one address means a single server, and this one is part of a Redis Cluster; give the addresses of several of its servers",
}

// checkScripts takes and installs, and one of these writes, so that missing rights show. Other
// nodes that check at the same time can interfere; if they do so in every round, Redis works.
func checkScripts(ctx context.Context, opts Options) error {
	const rounds = 5
	cursor := Open(opts, probe)
	for range rounds {
		seen, err := cursor.Take(ctx, Take{Threshold: 1})
		if err != nil {
			return err
		}
		next := persist.Range{First: seen.Ceil + 1, Last: seen.Ceil + 1}
		answer, err := cursor.Install(ctx, Install{Mode: Seed, Gen: seen.Gen, Epoch: persist.NewEpoch(), Range: next})
		if err != nil || answer.Verdict == Installed {
			return err
		}
	}
	return nil
}

// transient are the beginnings of the errors of a server that cannot serve now. Redis 6 wraps one
// that a script got: "ERR Error running script (call to f_…): @user_script:47: @user_script: 47:
// -OOM …".
var transient = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "OOM", "NOREPLICAS", "TRYAGAIN", "MISCONF", "max number of clients"}

// explain adds the setting to change to an error. An error without ErrUnfit may pass by itself.
func explain(err error, opts Options) error {
	if err == nil || errors.Is(err, ErrUnfit) || errors.Is(err, ErrForeign) || errors.Is(err, ErrNewer) {
		return err
	}
	if errors.Is(err, ErrReplica) && single(opts.Client) {
		return &unfitError{"redis.addrs: give the primary's address, or set redis.masterName and the addresses of the Sentinels", err}
	}
	for _, prefix := range transient {
		if redis.HasErrorPrefix(err, prefix) || strings.Contains(err.Error(), ": -"+prefix+" ") {
			return fmt.Errorf("redis.addrs: %w", err)
		}
	}
	text := err.Error()
	list := explanations
	if strings.Contains(text, noSentinel) {
		list = sentinelExplanations
	}
	for _, known := range list {
		if known.pattern.MatchString(text) {
			return &unfitError{strings.ReplaceAll(known.text, "PREFIX", opts.Prefix), err}
		}
	}
	var answer redis.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return &unfitError{"redis.tls.caFile, redis.tls.serverName: the server's certificate is not trusted", err}
	case errors.As(err, &answer):
		return &unfitError{"redis.addrs", err}
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("redis.addrs, redis.timeout: no answer in time: %w", err)
	}
	return fmt.Errorf("redis.addrs: %w", err)
}

// single reports whether the client always uses one server. After a failover the Sentinels, or the
// servers of a Cluster, may name a server that does not yet know that it is the primary; that
// passes.
func single(client redis.UniversalClient) bool {
	c, ok := client.(*redis.Client)
	return ok && c.Options().Addr != "FailoverClient" // what the client of Sentinels calls itself
}

type explanation struct {
	pattern *regexp.Regexp
	text    string
}

// explanations say what the errors of servers mean. The first match counts.
var explanations = []explanation{
	{regexp.MustCompile(`NOAUTH|WRONGPASS|ERR invalid password|ERR AUTH|ERR Client sent AUTH`), "redis.username, redis.password: the server does not accept them"},
	{regexp.MustCompile(`(?i)NOPERM.*'info|not allowed from script|unknown.*command.*from.*script`),
		"redis.addrs: scripts may not call INFO here, so a cursor could not tell a restored or promoted server; use a server and a user that may (ACL: +info)"},
	{regexp.MustCompile(`(?i)NOPERM|no permissions|can't run this command`),
		"redis.username: the user lacks rights; it needs ~PREFIX* +eval +evalsha +info +hmget +hset +time, +del if numbers are reset or the sequencer changes, and for redis.db +select, for a Redis Cluster +cluster|slots +asking"},
	{regexp.MustCompile(`(^|: )MOVED `),
		"redis.addrs: one address means a single server, and this one is part of a Redis Cluster; give the addresses of several of its servers"},
	{regexp.MustCompile(`cluster support disabled|unknown command.*cluster`),
		"redis.addrs: several addresses mean a Redis Cluster, and this server is in none; give one address, or set redis.masterName if these are Sentinels"},
	{regexp.MustCompile(`DB index is out of range|SELECT is not allowed in cluster mode`), "redis.db"},
	{regexp.MustCompile(`unknown command`), "redis.addrs: the server does not know a command that is needed"},
	{regexp.MustCompile(`(redis: (invalid reply|can't parse)|the answer of Redis cannot be used: it begins with)`), "redis.addrs: what answers there is not Redis, or speaks TLS and redis.tls.enabled is false"},
	{regexp.MustCompile(`first record does not look like a TLS handshake`), "redis.tls.enabled: the server does not speak TLS"},
	{regexp.MustCompile(`remote error: tls: `), "redis.tls.certFile: the server does not accept the connection"},
}

// noSentinel is the error of the client if no Sentinel named the primary.
const noSentinel = "all sentinels specified in configuration are unreachable"

// sentinelExplanations say what the errors of Sentinels mean.
var sentinelExplanations = append([]explanation{
	{regexp.MustCompile(`redis: nil`), "redis.masterName: the Sentinels know no primary of this name"},
	{regexp.MustCompile(`unknown command.*sentinel`), "redis.masterName: it is set, but the servers of redis.addrs are not Sentinels"},
	{regexp.MustCompile(`NOAUTH|WRONGPASS|ERR invalid password|ERR AUTH|ERR Client sent AUTH`), "redis.sentinelUsername, redis.sentinelPassword: the Sentinels do not accept them"},
	{regexp.MustCompile(`NOPERM`), "redis.sentinelUsername: the user lacks rights; it needs +sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe and all channels"},
}, explanations...)
