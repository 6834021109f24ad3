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

// slack is what a server's count of its replicas may be behind what min-replicas-max-lag says, in
// ms: it counts once a second, in whole seconds.
const slack = 2000

// alone reports whether the client leads to one server for ever. Behind Sentinels and in a Cluster
// another one can take over, whether or not there is a replica at the moment.
func alone(client redis.UniversalClient) bool {
	c, ok := client.(*redis.Client)
	return ok && c.Options().Addr != "FailoverClient" // what the client of Sentinels calls itself
}

// Check returns ErrUnfit with the setting to change when the servers cannot hold a registry, or any
// other error when they are not there now. A server can when it has no replicas and none can take
// over, so that all it confirmed comes and goes with it; or when it takes writes only while all of
// its replicas follow. The caller bounds the check in time.
//
// That replicas follow does not mean that they have a write. What it does mean: a primary that was
// cut off from replicas of which one took over stops taking writes after min-replicas-max-lag. So
// what a failover loses was confirmed at most that long after the new primary began; that is the
// Lag of a table.
func Check(ctx context.Context, client redis.UniversalClient) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		err := c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return checkServer(ctx, node, false) })
		if err == nil || errors.Is(err, ErrUnfit) || errors.Is(err, persist.ErrUnavailable) {
			return err
		}
		return translate(err) // what the client met when it asked for the servers
	case *redis.Client:
		return checkServer(ctx, c, alone(c))
	}
	return fmt.Errorf("%w: it is reached by a client of an unknown kind, %T", ErrUnfit, client)
}

// unfit returns an ErrUnfit.
func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnfit}, args...)...)
}

// checkServer checks one server. alone is whether no other one can take its place.
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

// parseInfo reads what INFO says.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// settings are what a server is told about its replicas.
type settings struct {
	minReplicas int // min-replicas-to-write
	maxLag      int // min-replicas-max-lag, in s
}

// maxLagSeconds is the highest lag that is taken for one.
const maxLagSeconds = 24 * 60 * 60

// left is the lag of a server that nobody follows or must follow now, but that took over from
// another one: what that one was told is not known, so its own setting stands for it.
func (s settings) left() int64 { return min(int64(s.maxLag), maxLagSeconds)*1000 + slack }

// lag is for how long a primary that was cut off goes on taking writes, in ms. It is ErrUnfit when
// nothing bounds that.
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

// askSettings asks a server for them.
func askSettings(ctx context.Context, client redis.UniversalClient) (settings, error) {
	raw, err := redisonce.Do(ctx, client, "config", "get", "min-replicas-*")
	if err != nil {
		return settings{}, translate(err)
	}
	return parseSettings(raw)
}

// parseSettings reads what CONFIG GET answers: pairs in a row, or a map under RESP3.
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

// tooMany refuses a server with more replicas than it waits for.
func tooMany(replicas, minReplicas int) error {
	return unfit("the server has %d replicas and its min-replicas-to-write is %d: set it to %d on every server, so that no replica can take over unnoticed, "+
		"or keep the registry in the store", replicas, minReplicas, replicas)
}
