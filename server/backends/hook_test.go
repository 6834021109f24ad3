package backends

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/internal/testing/must"
)

// tracer counts what it sees, and lets nothing get further.
type tracer struct{ single, pipelines int }

func (*tracer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *tracer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { c.single++; return nil }
}

func (c *tracer) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { c.pipelines++; return nil }
}

// The hook of a Cluster sees single calls once, and batches, which are sent with the client of one
// server.
func TestHookOfACluster(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		MaxRetries: -1, DisableRoutingPolicies: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: "192.0.2.1:1"}}}}, nil
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	c := &tracer{}
	addHook(client, c)
	if _, err := redisonce.Do(t.Context(), client, "get", "a"); err != nil || c.single != 1 {
		t.Errorf("a single call: %v, seen %d times", err, c.single)
	}
	node := must.Get(client.MasterForKey(t.Context(), "a"))(t)
	redisonce.Pipeline(t.Context(), node, []*redisonce.Call{redisonce.Command("get", "a"), redisonce.Command("get", "b")})
	if c.single != 1 || c.pipelines != 1 {
		t.Errorf("a batch: %d single calls, %d pipelines", c.single, c.pipelines)
	}
}
