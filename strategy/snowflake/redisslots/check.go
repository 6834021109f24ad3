package redisslots

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/persist"
)

// slack is how far, in ms, a server's count of its replicas may be behind min-replicas-max-lag: it
// counts once a second, in whole seconds.
const slack = 2000

// alone reports whether the client always uses the same server. Behind Sentinels and in a Cluster
// another one can take over, even if there is no replica now.
func alone(client redis.UniversalClient) bool {
	c, ok := client.(*redis.Client)
	return ok && c.Options().Addr != "FailoverClient" // the name of the client of Sentinels
}

// Check returns ErrUnfit with the setting to change if the servers cannot hold a registry, and
// another error if they cannot be reached. A server can hold a registry if it has no replicas and
// none can take over, so that it loses nothing that it confirmed unless it loses everything. It
// also can if it only accepts writes while all of its replicas follow. The caller must limit the
// time.
//
// That replicas follow does not mean that they have every write. It means that a primary that is
// cut off, while one of its replicas takes over, stops accepting writes after min-replicas-max-lag.
// So what a failover loses was confirmed at most that long after the new primary began. That time
// is the Lag of a table.
func Check(ctx context.Context, client redis.UniversalClient) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		err := c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return checkServer(ctx, node, false) })
		if err == nil || errors.Is(err, ErrUnfit) || errors.Is(err, persist.ErrUnavailable) {
			return err
		}
		return translate(err) // an error of the client when it asked for the servers
	case *redis.Client:
		return checkServer(ctx, c, alone(c))
	}
	return fmt.Errorf("%w: it is reached by a client of an unknown kind, %T", ErrUnfit, client)
}

// unfit returns an ErrUnfit.
func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnfit}, args...)...)
}

// checkServer checks one server. alone is true if no other one can replace it.
func checkServer(ctx context.Context, client redis.UniversalClient, alone bool) error {
	raw, err := redisonce.Do(ctx, client, "info", "everything")
	if err != nil {
		return translate(err)
	}
	text, _ := raw.(string)
	info := parseInfo(text)
	switch role := info["role"]; {
	case role == "slave" && alone:
		return fmt.Errorf("%w: redis.addrs: give the primary's address, or set redis.masterName and the addresses of the Sentinels: %w", ErrUnfit, ErrReplica)
	case role == "slave":
		return ErrReplica
	case role != "master":
		return unfit("redis.addrs: the server does not say in INFO whether it is a primary (role:%s)", role)
	}
	if policy := info["maxmemory_policy"]; policy == "" || strings.HasPrefix(policy, "allkeys") {
		return unfit("redis.addrs: the server's maxmemory-policy is %q, under which it may drop the registry at any time: set it to noeviction, or to one of volatile-*", policy)
	}
	replicas, err := strconv.Atoi(info["connected_slaves"])
	if err != nil || replicas < 0 {
		return unfit("redis.addrs: the server does not say in INFO how many replicas it has (connected_slaves:%s)", info["connected_slaves"])
	}
	set, err := askSettings(ctx, client)
	if err != nil {
		return err
	}
	if alone && replicas == 0 && set.minReplicas == 0 {
		return nil
	}
	if _, err := set.lag(); err != nil {
		return err
	}
	if set.minReplicas < replicas {
		return tooMany(replicas, set.minReplicas)
	}
	return nil
}

// parseInfo parses the answer to INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// settings are a server's settings for replication.
type settings struct {
	minReplicas int // min-replicas-to-write
	maxLag      int // min-replicas-max-lag, in s
}

// maxLagSeconds is the largest lag that is believed.
const maxLagSeconds = 24 * 60 * 60

// left is the lag of a server without replicas, and without a need for them, that took over from
// another one. The settings of that one are unknown, so its own are used.
func (s settings) left() int64 { return min(int64(s.maxLag), maxLagSeconds)*1000 + slack }

// lag returns how long a primary that was cut off accepts writes, in ms. It returns ErrUnfit if
// there is no limit.
func (s settings) lag() (int64, error) {
	switch {
	case s.minReplicas < 1:
		return 0, unfit("the server is replicated and its min-replicas-to-write is 0: set it to the number of replicas on every server, or keep the registry in the store")
	case s.maxLag < 1:
		return 0, unfit("the server is replicated and its min-replicas-max-lag is 0: set it to some seconds on every server, or keep the registry in the store")
	case s.maxLag > maxLagSeconds:
		return 0, unfit("the server's min-replicas-max-lag is %d s: set it to some seconds on every server", s.maxLag)
	}
	return int64(s.maxLag)*1000 + slack, nil
}

// askSettings reads the settings of a server.
func askSettings(ctx context.Context, client redis.UniversalClient) (settings, error) {
	raw, err := redisonce.Do(ctx, client, "config", "get", "min-replicas-*")
	if err != nil {
		return settings{}, translate(err)
	}
	return parseSettings(raw)
}

// parseSettings parses the answer to CONFIG GET: a list of pairs, or a map under RESP3.
func parseSettings(raw any) (s settings, err error) {
	values := map[string]string{}
	keep := func(name, value any) {
		n, _ := name.(string)
		values[n], _ = value.(string)
	}
	switch answer := raw.(type) {
	case []any:
		for ; len(answer) >= 2; answer = answer[2:] {
			keep(answer[0], answer[1])
		}
	case map[any]any:
		for name, value := range answer {
			keep(name, value)
		}
	}
	for name, field := range map[string]*int{"min-replicas-to-write": &s.minReplicas, "min-replicas-max-lag": &s.maxLag} {
		if *field, err = strconv.Atoi(values[name]); err != nil || *field < 0 {
			return s, fmt.Errorf("%w: redis.addrs: the server says %.100q when asked for its %s", ErrUnfit, values[name], name)
		}
	}
	return s, nil
}

// tooMany returns an error for a server with more replicas than it waits for.
func tooMany(replicas, minReplicas int) error {
	return unfit("the server has %d replicas and its min-replicas-to-write is %d: set it to %d on every server, so that no replica can take over unnoticed, "+
		"or keep the registry in the store", replicas, minReplicas, replicas)
}
