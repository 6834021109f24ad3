package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// redisCheck looks at Redis.
type redisCheck struct{ d *Doctor }

// run checks each address on its own, and Redis as nodes use it.
func (c redisCheck) run(ctx context.Context, f *findings) {
	if !c.d.Config.Redis.Configured() {
		return
	}
	var wg sync.WaitGroup
	for _, addr := range c.d.Config.Redis.Addrs {
		wg.Go(func() { c.redisAddress(ctx, f, addr) })
	}
	wg.Go(func() { c.redisWhole(ctx, f) })
	wg.Wait()
	f.sort()
}

// alone returns the configuration of one address on its own.
func (c redisCheck) alone(addr string) config.Redis {
	one := c.d.Config.Redis
	if one.MasterName != "" {
		one.Username, one.Password = one.SentinelUsername, one.SentinelPassword
		one.DB = 0
	}
	one.Addrs, one.MasterName = []string{addr}, ""
	return one
}

// redisAddress finds out who answers at an address.
func (c redisCheck) redisAddress(ctx context.Context, f *findings, addr string) {
	key := "redis " + addr
	client, err := c.d.Redis(c.alone(addr))
	if err != nil {
		f.add(Fail, key, "", "%v", err)
		return
	}
	defer client.Close()
	trip, err := roundTrip(ctx, client)
	if err != nil {
		f.add(Fail, key, "", "%v", err)
		return
	}
	if c.d.Config.Redis.MasterName != "" {
		c.sentinel(ctx, f, key, client, trip)
		return
	}
	info, err := infoOf(ctx, client)
	if err != nil {
		f.add(Fail, key, "", "INFO: %v", err)
		return
	}
	level, change := OK, ""
	if trip > slowRedis {
		level, change = Warn, "put it nearer: each take is one answer"
	}
	f.add(level, key, change, "Redis %s, %s, %s, answers in %s", info["redis_version"], info["redis_mode"], role(info), trip.Round(10*time.Microsecond))
	c.redisClock(ctx, key, client)
	if info["role"] == "master" {
		c.primary(ctx, f, key, client, info)
	}
}

// slowRedis is the latency from which callers notice it.
const slowRedis = 5 * time.Millisecond

func role(info map[string]string) string {
	if info["role"] == "master" {
		return "primary with " + info["connected_slaves"] + " replicas"
	}
	return "replica of " + info["master_host"] + ":" + info["master_port"]
}

// pings is how often the latency of an address is measured; the median is reported.
const pings = 5

func roundTrip(ctx context.Context, client redis.UniversalClient) (time.Duration, error) {
	var trips []time.Duration
	for i := range pings + 1 {
		sent := time.Now()
		if err := client.Do(ctx, "INFO", "server").Err(); err != nil {
			return 0, err
		}
		if i > 0 { // the first one connects
			trips = append(trips, time.Since(sent))
		}
	}
	slices.Sort(trips)
	return trips[len(trips)/2], nil
}

// infoOf returns the fields of INFO.
func infoOf(ctx context.Context, client redis.UniversalClient) (map[string]string, error) {
	text, err := client.Do(ctx, "INFO").Text()
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, err
}

func (c redisCheck) redisClock(ctx context.Context, key string, client redis.UniversalClient) {
	sent := time.Now()
	said, err := client.Do(ctx, "TIME").StringSlice()
	trip := time.Since(sent)
	if err != nil || len(said) != 2 {
		return // the rights are looked at elsewhere
	}
	seconds, _ := strconv.ParseInt(said[0], 10, 64)
	micros, _ := strconv.ParseInt(said[1], 10, 64)
	c.d.clocks.heard(key, time.Unix(seconds, micros*1000).Sub(sent.Add(trip/2)), trip)
}

// primary checks the settings of a server that holds cursors.
func (c redisCheck) primary(ctx context.Context, f *findings, key string, client redis.UniversalClient, info map[string]string) {
	switch policy := info["maxmemory_policy"]; {
	case strings.HasPrefix(policy, "allkeys-"):
		f.add(Fail, key, "set maxmemory-policy to noeviction", "maxmemory-policy is %s, which drops cursors: seqd refuses to start", policy)
	default:
		f.ok(key, "maxmemory-policy is %s", policy)
	}
	setting := func(name string) (value string, known bool) {
		said, err := client.Do(ctx, "CONFIG", "GET", name).StringSlice()
		if err != nil || len(said) != 2 {
			return "", false
		}
		return said[1], true
	}
	if replicas := info["connected_slaves"]; replicas != "0" {
		switch least, known := setting("min-replicas-to-write"); {
		case !known:
			f.add(Info, key, "", "min-replicas-to-write cannot be read by this user")
		case least == "0":
			f.add(Warn, key, "set min-replicas-to-write to 1", "min-replicas-to-write is 0: a primary that is cut off continues, and meanwhile order over the nodes is suspended")
		default:
			f.ok(key, "min-replicas-to-write is %s", least)
		}
		if ttl, known := setting("repl-backlog-ttl"); known && ttl != "0" {
			f.add(Warn, key, "set repl-backlog-ttl to 0", "repl-backlog-ttl is %s s: when all replicas are away for that long, the replication ID changes and each cursor is replaced", ttl)
		}
	}
	if save, known := setting("save"); info["aof_enabled"] == "1" || known && save != "" {
		f.add(Info, key, "turn it off where seqd has Redis for itself and keeps no Idempotency-Key there",
			"it writes its data to disk; seqd does not need that: after a restart each cursor is replaced by one above all previous numbers")
	}
}

// sentinel checks one Sentinel.
func (c redisCheck) sentinel(ctx context.Context, f *findings, key string, client redis.UniversalClient, trip time.Duration) {
	name := c.d.Config.Redis.MasterName
	said, err := client.Do(ctx, "SENTINEL", "MASTER", name).StringSlice()
	if err != nil {
		f.add(Fail, key, "", "SENTINEL MASTER %s: %v", name, err)
		return
	}
	fields := make(map[string]string)
	for pair := range slices.Chunk(said, 2) {
		if len(pair) == 2 {
			fields[pair[0]] = pair[1]
		}
	}
	others, _ := strconv.Atoi(fields["num-other-sentinels"])
	quorum, _ := strconv.Atoi(fields["quorum"])
	text := fmt.Sprintf("Sentinel, %d others, quorum %d, answers in %s; %s is %s:%s (%s)", others, quorum, trip.Round(10*time.Microsecond), name, fields["ip"], fields["port"], fields["flags"])
	switch {
	case others+1 < 3:
		f.add(Warn, key, "run three", "%s: fewer than three cannot lose one", text)
	case quorum > others || 2*quorum < others+1:
		f.add(Warn, key, fmt.Sprintf("set the quorum to %d", (others+1)/2+1), "%s: the quorum does not fit", text)
	default:
		f.ok(key, "%s", text)
	}
}

// redisWhole checks Redis as nodes use it: through Sentinels, as a Cluster, or one server.
func (c redisCheck) redisWhole(ctx context.Context, f *findings) {
	client, err := c.d.Redis(c.d.Config.Redis)
	if err != nil {
		f.add(Fail, "redis", "", "%v", err)
		return
	}
	defer client.Close()
	cluster := c.cluster(ctx)
	rights, err := rediscursor.Examine(ctx, rediscursor.Options{Client: client, Prefix: c.d.Config.Redis.KeyPrefix, Cluster: cluster}, c.d.Config.Redis.Changes(cluster))
	if err != nil {
		f.add(Fail, "redis", "", "%v", err)
		return
	}
	f.ok("redis", "a primary answers, its scripts may call INFO")
	if cluster == "" {
		f.add(Info, "redis", "", "whether it serves another cluster was not compared: the store does not tell the cluster's ID now")
	}
	judgeRights(f, rights)
	if c.d.Config.Redis.MasterName != "" {
		c.behindSentinels(ctx, f, client)
	}
}

// behindSentinels checks the primary that Sentinels name, which is not in the configuration.
func (c redisCheck) behindSentinels(ctx context.Context, f *findings, client redis.UniversalClient) {
	const key = "redis primary"
	trip, err := roundTrip(ctx, client)
	if err != nil {
		f.add(Fail, key, "", "%v", err)
		return
	}
	info, err := infoOf(ctx, client)
	if err != nil {
		f.add(Fail, key, "", "INFO: %v", err)
		return
	}
	f.ok(key, "Redis %s, %s, answers in %s", info["redis_version"], role(info), trip.Round(10*time.Microsecond))
	c.redisClock(ctx, key, client)
	c.primary(ctx, f, key, client, info)
}

// why is what a right is needed for.
var why = map[string]string{
	"hset": "no numbers without it", "del": "for numbers that reset",
	"get": "for Idempotency-Key and rate-limit with scope cluster", "set": "for Idempotency-Key and rate-limit with scope cluster",
	"publish": "changes reach other nodes in 5 s instead of at once", "subscribe": "changes of other nodes come in 5 s instead of at once",
}

func judgeRights(f *findings, rights rediscursor.Rights) {
	if !rights.Known {
		f.add(Info, "redis.username", "", "what the user may write cannot be told without writing: that takes Redis 7")
		return
	}
	for _, command := range rights.Denied {
		level := Warn
		if command == "hset" {
			level = Fail
		}
		f.add(level, "redis.username", "allow +"+command+" on the keys, or the channels, of redis.keyPrefix", "the user may not use %s: %s", command, why[command])
	}
	if len(rights.Denied) == 0 {
		f.ok("redis.username", "the user has every right that seqd can use")
	}
}

// cluster returns the ID of the cluster, "" if the store cannot be asked.
func (c redisCheck) cluster(ctx context.Context) string {
	store, err := storeCheck(c).look(ctx)
	if err != nil {
		return ""
	}
	defer store.Close()
	known, err := persist.ReadCluster(ctx, store.Documents())
	if err != nil {
		return ""
	}
	return known.ID
}
