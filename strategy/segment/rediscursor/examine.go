package rediscursor

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisonce"
)

var (
	//go:embed lua/examine.lua
	examineSource string

	examineScript = redisonce.NewScript(examineSource)
)

// Rights are what the user of Redis may do.
type Rights struct {
	// Known is false if the server cannot say, which needs Redis 7.
	Known bool
	// Denied are the commands that the user may not use, of those that only some uses of seqd need,
	// in the order hset, del, get, set, publish, subscribe.
	Denied []string
}

// Examine reports what [Check] does as far as that is possible without writing. If opts.Cluster is
// empty, the cluster is not compared. channel is where changes are published. It returns the errors
// of Check. The caller bounds its time.
func Examine(ctx context.Context, opts Options, channel string) (found Rights, err error) {
	switch client := opts.Client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return checkServer(ctx, node, "cluster") })
	case *redis.Client:
		err = checkServer(ctx, client, "standalone")
	}
	if err != nil {
		return found, explain(err, opts)
	}
	reply, err := Open(opts, probe).run(ctx, &examineScript, channel)
	if err != nil {
		return found, explain(err, opts)
	}
	if !reply.is("fit", 3) {
		reply.spoil()
		return found, reply.err
	}
	return Rights{Known: reply.text(1) == "1", Denied: strings.Fields(reply.text(2))}, reply.err
}

// Owner returns the ID of the cluster that Redis serves, "" for none. It writes nothing, and needs
// only rights that the scripts need too.
func Owner(ctx context.Context, opts Options) (string, error) {
	found, err := opts.Client.HMGet(ctx, Key(opts.Prefix, probe), "cluster").Result()
	if err != nil {
		return "", explain(err, opts)
	}
	cluster, _ := first(found)
	return cluster, nil
}

// Ceils returns the highest number that was ever installed in the cursors of some counters, in
// their order, 0 for none. It writes nothing, and needs only rights that the scripts need too.
func Ceils(ctx context.Context, opts Options, counters []string) ([]int64, error) {
	calls := make([]*redis.SliceCmd, len(counters))
	_, err := opts.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, counter := range counters {
			calls[i] = pipe.HMGet(ctx, Key(opts.Prefix, counter), "ceil")
		}
		return nil
	})
	if err != nil {
		return nil, explain(err, opts)
	}
	ceils := make([]int64, len(counters))
	for i, call := range calls {
		text, ok := first(call.Val())
		if !ok {
			continue // there is no cursor
		}
		if ceils[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%s: ceil: %w", Key(opts.Prefix, counters[i]), err)
		}
	}
	return ceils, nil
}

// first returns the first field of an answer to HMGET, if it has one.
func first(fields []any) (text string, ok bool) {
	if len(fields) > 0 {
		text, ok = fields[0].(string)
	}
	return text, ok
}
