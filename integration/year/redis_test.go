//go:build drill

package year

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// addRedis lets a Redis with Sentinels give the order of a biz type, which the store gave before. Order
// holds also while Redis is away, so that the checker excuses nothing.
func (y *year) addRedis() string {
	primary := testenv.StartRedis(y.t)
	y.redises = []*testenv.Redis{primary, testenv.StartReplica(y.t, primary)}
	y.sentinels = testenv.StartSentinels(y.t, primary, y.redises[1])
	for i, server := range y.redises {
		y.watching.Go(func() { y.watchRedis(fmt.Sprint("redis-", i+1), server) })
	}
	y.store = append(y.store, "SEQD_REDIS_ADDRS="+strings.Join(y.sentinels.Addrs(), ","), "SEQD_REDIS_MASTERNAME="+y.sentinels.Name)
	// Answers for keys are in Redis from now on.
	y.during("redis", "redis", record.Fault{Redis: true, LosesKeys: true}, func() {
		for _, m := range y.nodes {
			m.stop()
			m.start()
		}
		y.do(nil, "biz-types", "patch", "order", "--set", "sequencer=redis")
		y.more(50)
	})
	return "order has its cursor there"
}

// failOverRedis kills the primary, and lets the Sentinels promote the replica.
func (y *year) failOverRedis() string {
	down := y.pager.expect("SeqdRedisDown")
	y.during("redis-failover", "redis", record.Fault{Redis: true, LosesKeys: true}, func() {
		dead := y.redises[0]
		dead.Kill()
		down.fired()
		y.sentinels.Failover(dead)
		for _, m := range y.nodes {
			m.awaitIssuing()
		}
		y.more(50)
	})
	return down.cleared()
}

// watchRedis records who is the primary, for the checker, until nobody watches any more.
func (y *year) watchRedis(name string, server *testenv.Redis) {
	load.Every(y.watched, 100*time.Millisecond, func() {
		now := record.Server{Name: name, Role: record.Gone}
		if !server.Ended() {
			now.Role, now.Replid, now.Scripts = role(y.watched, server)
		}
		now.At = y.load.Journal.Now()
		y.load.Journal.Write(record.Entry{Server: &now})
	})
}

// role asks a Redis for its role, and how many scripts it has run.
func role(ctx context.Context, server *testenv.Redis) (role, replid string, scripts int64) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	info, err := server.Client().Info(ctx, "replication", "commandstats").Result()
	if err != nil {
		return record.Silent, "", -1
	}
	role = record.Replica
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "role":
			if value == "master" {
				role = record.Primary
			}
		case "master_replid":
			replid = value
		case "cmdstat_evalsha", "cmdstat_eval":
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, _ := strconv.ParseInt(calls, 10, 64) // digits
			scripts += n
		}
	}
	return role, replid, scripts
}
