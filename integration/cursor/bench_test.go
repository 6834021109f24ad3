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
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const (
	takeFile = "../../strategy/segment/rediscursor/lua/take.lua"
	readInfo = "redis.call('INFO', 'replication')"
)

// The cost of a take on one connection, next to a plain INCR and to the same script without INFO.
// server-µs/op is the time that the server reports for the command itself.
func BenchmarkTake(b *testing.B) {
	ctx := context.Background()
	server := testenv.StartRedis(b)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, PoolSize: 1})
	b.Cleanup(func() { _ = client.Close() })
	c := open(b, client)
	// the usual case: buffer 2 is full
	c.fill(fmt.Sprintf("1-%d %d-%d", persist.MaxNumber/2, persist.MaxNumber/2+1, persist.MaxNumber), 0)
	without := withoutInfo(b, client, server)
	s := &spy{}
	client.AddHook(s)

	b.Run("INCR", func(b *testing.B) {
		measure(b, client, "incr", func() error { return client.Incr(ctx, c.name).Err() })
	})
	for _, count := range []int64{1, 32} {
		b.Run(fmt.Sprintf("take %d", count), func(b *testing.B) {
			measure(b, client, "evalsha", func() error {
				taken, err := c.Take(ctx, rediscursor.Take{Count: count, Threshold: 0.99, Claim: claim})
				if err == nil && len(taken.Runs) != 1 {
					b.Fatalf("got %+v", taken)
				}
				return err
			})
		})
		args := append([]any{}, s.args...)
		b.Run(fmt.Sprintf("take %d, bare command", count), func(b *testing.B) {
			measure(b, client, "evalsha", func() error { return client.Process(ctx, redis.NewCmd(ctx, args...)) })
		})
		args = append([]any{}, s.args...)
		args[1] = without
		b.Run(fmt.Sprintf("take %d without INFO, bare command", count), func(b *testing.B) {
			measure(b, client, "evalsha", func() error { return client.Process(ctx, redis.NewCmd(ctx, args...)) })
		})
	}
}

// withoutInfo loads take.lua with the reply of INFO as a constant.
func withoutInfo(b *testing.B, client *redis.Client, server *testenv.Redis) (hash string) {
	b.Helper()
	source, err := os.ReadFile(takeFile)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Replace(string(source), readInfo, fmt.Sprintf("'role:master master_replid:%s'", server.ReplicationID()), 1)
	if text == string(source) {
		b.Fatalf("%s has no %s", takeFile, readInfo)
	}
	if err := client.ScriptLoad(context.Background(), text).Err(); err != nil {
		b.Fatal(err)
	}
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// measure runs a call and reports the server's own time.
func measure(b *testing.B, client *redis.Client, command string, call func() error) {
	b.Helper()
	if err := client.ConfigResetStat(context.Background()).Err(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
	spent := stat(b, client, `cmdstat_`+command+`:calls=\d+,usec=(\d+)`)
	b.ReportMetric(float64(spent)/float64(b.N), "server-µs/op")
}
