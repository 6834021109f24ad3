package rediscursor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUnfit is returned by [Check] when Redis answers but cannot be used as it is: waiting does not mend it, another setting would.
var ErrUnfit = errors.New("this Redis cannot hold cursors")

// oldest is the first major version of Redis whose scripts replicate by their effects, which a script that reads the clock needs, and that
// knows users.
const oldest = 6

// probe is the counter of a cursor that is only looked at. No biz type can be called so.
const probe = ":probe"

// Check finds out whether Redis can be used, by what the servers say of themselves and by running a script as issuing does. It returns ErrUnfit with
// what is wrong and the setting to change, ErrForeign, ErrNewer, or any other error when Redis is not there now.
func Check(ctx context.Context, opts Options) error {
	var err error
	switch client := opts.Client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, checkServer)
	case *redis.Client:
		err = checkServer(ctx, client)
	}
	if err == nil {
		_, err = Open(opts, probe).Take(ctx, Take{Threshold: 1})
	}
	return explain(err)
}

// checkServer checks one primary.
func checkServer(ctx context.Context, client *redis.Client) error {
	info := map[string]string{}
	for _, section := range []string{"server", "memory", "cluster"} {
		raw, err := Do(ctx, client, "info", section)
		if err != nil {
			return fmt.Errorf("INFO: %w", err)
		}
		text, _ := raw.(string)
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				info[name] = value
			}
		}
	}
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return fmt.Errorf("%w: redis.addrs: the server is version %s; %d.0 or newer is needed", ErrUnfit, version, oldest)
	}
	if policy := info["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		return fmt.Errorf("%w: maxmemory-policy is %s, under which Redis may evict cursors at any time: set it to noeviction, or to one of volatile-*",
			ErrUnfit, policy)
	}
	return nil
}

// unavailable begins the errors by which a server says that it cannot serve now. Redis 6 wraps one that a script met:
// "ERR Error running script (call to f_…): @user_script:47: @user_script: 47: -OOM …".
var unavailable = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "OOM", "NOREPLICAS", "TRYAGAIN", "MISCONF", "ERR max number of clients"}

// explain gives an error of Redis that says no to us the setting to change. Text that came from a server is shown, but for what looks like
// a secret there is none in it.
func explain(err error) error {
	if errors.Is(err, ErrReplica) {
		return fmt.Errorf("%w: redis.addrs: the server is a replica; give the primary's address, or set redis.masterName and the addresses of the Sentinels: %w",
			ErrUnfit, ErrReplica)
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return err
	}
	for _, prefix := range unavailable {
		if redis.HasErrorPrefix(err, prefix) || strings.Contains(answer.Error(), ": -"+prefix+" ") {
			return err
		}
	}
	for _, known := range explanations {
		if known.pattern.MatchString(answer.Error()) {
			return fmt.Errorf("%w: %s: %w", ErrUnfit, known.text, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrUnfit, err)
}

var explanations = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`^(NOAUTH|WRONGPASS|ERR invalid password|ERR AUTH|ERR Client sent AUTH)`), "redis.username, redis.password: the server does not accept them"},
	{regexp.MustCompile(`(?i)info.*script|script.*info|not allowed from script|unknown.*command.*(called )?from.*script`),
		"scripts may not call INFO here, so a cursor could not tell a restored or promoted server; use a server that allows it (ACL: +info), or set segment.ordering to per-node"},
	{regexp.MustCompile(`^NOPERM|No permissions|can't run this command`),
		"redis.username: the user lacks rights; it needs ~" + "<redis.keyPrefix>* +@scripting +info +hmget +hset +time"},
	{regexp.MustCompile(`^MOVED`), "redis.addrs: the server is part of a Redis Cluster; give the addresses of several of its servers"},
	{regexp.MustCompile(`cluster support disabled`), "redis.addrs: several addresses mean a Redis Cluster, and the server is none; give one address, or set redis.masterName for Sentinels"},
	{regexp.MustCompile(`DB index is out of range|SELECT is not allowed in cluster mode`), "redis.db"},
}
