package cursor

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/internal/testing/must"
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

// Takes of many counters, by 64 callers. reads/op is how often the server read from a connection.
func BenchmarkManyCounters(b *testing.B) {
	const counters, callers = 2000, 64
	server := testenv.StartRedis(b)
	client := connect(b, server.Addr(), calm)
	var all []*cursor
	for range counters {
		c := open(b, client)
		c.fill(fmt.Sprintf("1-%d %d-%d", persist.MaxNumber/2, persist.MaxNumber/2+1, persist.MaxNumber), 0)
		all = append(all, c)
	}
	for _, bench := range []struct {
		name  string
		batch *redisbatch.Sender
	}{{"alone", nil}, {"batched", redisbatch.New(client)}} {
		b.Run(bench.name, func(b *testing.B) {
			var cursors []*cursor
			for _, c := range all {
				cursors = append(cursors, c.batched(bench.batch))
			}
			before := stat(b, client, `total_reads_processed:(\d+)`)
			b.SetParallelism(callers / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c := cursors[rand.IntN(counters)]
					if _, err := c.Take(context.Background(), rediscursor.Take{Count: 1, Threshold: 0.99, Claim: claim}); err != nil {
						b.Error(err)
					}
				}
			})
			reads := stat(b, client, `total_reads_processed:(\d+)`) - before
			b.ReportMetric(float64(reads)/float64(b.N), "reads/op")
		})
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

// measure runs a call and reports the server's own time.
func measure(b *testing.B, client *redis.Client, command string, call func() error) {
	b.Helper()
	must.Do(b, client.ConfigResetStat(context.Background()).Err())
	for b.Loop() {
		must.Do(b, call())
	}
	spent := stat(b, client, `cmdstat_`+command+`:calls=\d+,usec=(\d+)`)
	b.ReportMetric(float64(spent)/float64(b.N), "server-µs/op")
}
