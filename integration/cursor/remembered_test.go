package cursor

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const (
	takeFile = "../../strategy/segment/rediscursor/lua/take.lua"
	readInfo = "redis.call('INFO', 'replication')"
)

// Why every take asks for the replication ID (docs/adr/0048): a take that relies on what was read
// earlier, on the same connection to the same process, issues numbers again.
func TestRememberedReplicationID(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	a := testenv.StartRedis(t)
	b := testenv.StartReplica(t, a)
	client := redis.NewClient(&redis.Options{Addr: a.Addr(), MaxRetries: -1, PoolSize: 1})
	t.Cleanup(func() { _ = client.Close() })
	c, s := open(t, client), &spy{}
	client.AddHook(s)
	c.fill("1-1000 1001-2000", 0)
	c.take(rediscursor.Take{Count: 10, Threshold: 0.99})
	remembered := withoutInfo(t, client, a)
	connection := client.ClientID(ctx).Val()
	inStep(t, a, b, c.key)

	cutReplication(t, a)
	if got := show(c.take(rediscursor.Take{Count: 10, Threshold: 0.99})); got != "11-20" {
		t.Fatalf("a issued %s", got)
	}
	// b becomes the primary, without 11 to 20, and issues nothing. So nothing in the hash tells it
	// from that of a.
	b.Promote()
	a.Follow(b)
	a.Promote()
	if now := client.ClientID(ctx).Val(); now != connection || now == 0 {
		t.Fatalf("connection %d became %d", connection, now)
	}

	args := append([]any{}, s.args...)
	args[1] = remembered
	reply, err := client.Do(ctx, args...).Slice()
	if err != nil || reply[0] != "took 2000 20" {
		t.Errorf("a take that remembers got %v, %v; so it may be safe by now", reply, err)
	}
	if got := c.take(rediscursor.Take{Count: 10, Threshold: 0.99}); !got.Stub || len(got.Runs) > 0 {
		t.Errorf("a take that asks got %+v", got)
	}
}

// withoutInfo loads take.lua with the reply of INFO as a constant.
func withoutInfo(t tester, client *redis.Client, server *testenv.Redis) (hash string) {
	t.Helper()
	source := must.Get(os.ReadFile(takeFile))(t)
	text := strings.Replace(string(source), readInfo, fmt.Sprintf("'role:master master_replid:%s\\r'", server.ReplicationID()), 1)
	if text == string(source) {
		t.Fatalf("%s has no %s", takeFile, readInfo)
	}
	must.Do(t, client.ScriptLoad(context.Background(), text).Err())
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
