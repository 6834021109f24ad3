// Package doctor tests seqd doctor with servers that are well, misconfigured, silent or absent.
package doctor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

// password must not appear in any report.
const password = "correct-horse"

// doctor runs the command and checks its output and its exit code.
func doctor(t *testing.T, env []string, code int, want ...string) string {
	t.Helper()
	node.Command(t, t.TempDir(), nil, "version") // builds the binary first, which takes long
	began := time.Now()
	report, got := node.Command(t, t.TempDir(), env, "doctor")
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %s", took)
	}
	misses := func(part string) bool { return !strings.Contains(report, part) }
	for tries := 0; tries < 5 && (got != code || slices.ContainsFunc(want, misses)) && !misses("store unavailable"); tries++ { // the machine stalled
		report, got = node.Command(t, t.TempDir(), env, "doctor")
	}
	must.Equal(t, got, code, "%s\nthe exit code", report)
	for _, part := range want {
		if !strings.Contains(report, part) {
			t.Errorf("%q is not in:\n%s", part, report)
		}
	}
	if strings.Contains(report, password) {
		t.Errorf("the password is in:\n%s", report)
	}
	if !strings.HasSuffix(report, "nothing was changed\n") {
		t.Errorf("no end:\n%s", report)
	}
	return report
}

func onMongo(m *testenv.Mongo, more ...string) []string {
	return append([]string{"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + m.URI(), "SEQD_STORE_MONGO_DATABASE=" + m.Database()}, more...)
}

func onRedis(addrs string, more ...string) []string {
	return append([]string{"SEQD_STORE_DRIVER=memory", "SEQD_REDIS_ADDRS=" + addrs}, more...)
}

// everything returns the whole content of a MongoDB database and a Redis server as text.
func everything(t *testing.T, m *testenv.Mongo, r *testenv.Redis) string {
	t.Helper()
	var all []string
	db := m.Client().Database(m.Database())
	names := must.Get(db.ListCollectionNames(t.Context(), bson.D{}))(t)
	for _, name := range names {
		cursor := must.Get(db.Collection(name).Find(t.Context(), bson.D{}))(t)
		var docs []bson.D
		must.Do(t, cursor.All(t.Context(), &docs))
		for _, doc := range docs {
			all = append(all, fmt.Sprint(name, doc))
		}
		all = append(all, name)
	}
	keys := must.Get(r.Client().Keys(t.Context(), "*").Result())(t)
	for _, key := range keys {
		value := must.Get(r.Client().Dump(t.Context(), key).Result())(t)
		all = append(all, key+value)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// doctor changes nothing, before and after seqd has run: no document, no collection, no key.
func TestChangesNothing(t *testing.T) {
	t.Parallel()
	m, r := testenv.StartMongo(t), testenv.StartRedis(t)
	env := onMongo(m, "SEQD_REDIS_ADDRS="+r.Addr())
	doctor(t, env, 0, "no seqd has run on it", "a server of its own", "primary with 0 replicas", "every right")
	must.Equal(t, everything(t, m, r), "", "left behind")
	n := node.StartReady(t, t.TempDir(), env...)
	must.Get(n.Take("order", 10))(t)
	n.Stop()
	before := everything(t, m, r)
	doctor(t, env, 0, "the cluster is", "1 biz types issue as they did before", "1 can be read", "the MongoDB server: its clock")
	if after := everything(t, m, r); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	other := append(env, `SEQD_BIZTYPES=[{"name":"order","start":7}]`)
	doctor(t, other, 0, "the store says something else than the configuration", "order")
	other = append(env, `SEQD_BIZTYPES=[{"name":"order","strategy":"snowflake"}]`, "SEQD_BIZTYPESFROM=config")
	doctor(t, other, 1, "order: seqd would refuse it")
}

// If a node runs, doctor asks the node and does not open its file.
func TestRunningNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addr := testenv.ReserveAddr(t)
	env := []string{"SEQD_STORE_BOLT_PATH=" + filepath.Join(dir, "seqd.db"), "SEQD_SERVER_ADDR=" + addr}
	n := node.StartReady(t, dir, env...)
	doctor(t, env, 0, addr+" is in use by a running seqd: http://"+addr+" is alive, ready", "seqd.db is in use by a running seqd")
	must.Report(t, must.Err(n.Take("order", 1)))
	n.Stop()
	doctor(t, env, 0, "no process has it", "1 biz types issue as they did before")
}

// Another program uses the port.
func TestForeignPort(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	doctor(t, []string{"SEQD_STORE_DRIVER=memory", "SEQD_SERVER_ADDR=" + r.Addr()}, 1, "is in use, and not by a seqd")
}

func TestRedisDangers(t *testing.T) {
	t.Parallel()
	well := testenv.StartRedis(t)
	replica := testenv.StartReplica(t, well)
	doctor(t, onRedis(replica.Addr()), 1, "replica of 127.0.0.1", "set redis.masterName")
	doctor(t, onRedis(well.Addr()), 0, "min-replicas-to-write is 0", "repl-backlog-ttl")
	evicting := testenv.StartRedis(t, "maxmemory-policy allkeys-lru", "appendonly yes")
	doctor(t, onRedis(evicting.Addr()), 1, "maxmemory-policy is allkeys-lru", "set maxmemory-policy to noeviction", "does not need that")
	doctor(t, onRedis(well.Addr()+","+evicting.Addr()), 1, "several addresses mean a Redis Cluster")
	doctor(t, onRedis(well.Addr(), "SEQD_REDIS_MASTERNAME=m"), 1, "SENTINEL MASTER m")
}

func TestRedisRights(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	user := func(name string, rules ...any) []string {
		args := append([]any{"ACL", "SETUSER", name, "reset", "on", ">" + password}, rules...)
		must.Do(t, server.Client().Do(t.Context(), args...).Err())
		return onRedis(server.Addr(), "SEQD_REDIS_USERNAME="+name, "SEQD_REDIS_PASSWORD="+password)
	}
	few := []any{"~seqd:*", "+@scripting", "+info", "+hmget", "+hset", "+time"}
	doctor(t, user("few", few...), 0, "may not use del", "may not use set", "may not use publish", "may not use subscribe")
	all := append(slices.Clone(few), "+del", "+get", "+set", "+publish", "+subscribe", "&seqd:changes:*")
	doctor(t, user("all", all...), 0, "every right")
	doctor(t, user("elsewhere", append(slices.Clone(all[:len(all)-1]), "&other:*")...), 0, "may not use publish")
	doctor(t, user("mute", "~seqd:*", "+@scripting", "+hmget", "+hset", "+time"), 1, "INFO")
	doctor(t, user("reader", "~seqd:*", "+@scripting", "+info", "+hmget", "+time"), 1, "may not use hset")
	doctor(t, append(user("few", few...), "SEQD_REDIS_PASSWORD=wrong"), 1, "redis.password: the server does not accept them")
}

func TestForeignCluster(t *testing.T) {
	t.Parallel()
	m, r := testenv.StartMongo(t), testenv.StartRedis(t)
	env := onMongo(m, "SEQD_REDIS_ADDRS="+r.Addr())
	node.StartReady(t, t.TempDir(), env...).Stop()
	must.Do(t, r.Client().HSet(t.Context(), "seqd:{:probe2}", "v", "1", "cluster", strings.Repeat("a", 32)).Err())
	doctor(t, env, 1, "belongs to a cluster with another store")
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	primary := testenv.StartRedis(t)
	s := testenv.StartSentinels(t, primary, testenv.StartReplica(t, primary))
	addrs := s.Addrs()
	doctor(t, onRedis(strings.Join(addrs, ","), "SEQD_REDIS_MASTERNAME="+s.Name), 0, "Sentinel, 2 others, quorum 2", "redis primary: Redis")
	doctor(t, onRedis(addrs[0]), 1, "the server is a Sentinel")
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := testenv.StartCluster(t)
	doctor(t, onRedis(strings.Join(c.Addrs(), ",")), 0, "cluster, primary with", "cluster, replica of", "a primary answers, its scripts may call INFO", "every right")
	doctor(t, onRedis(c.Addrs()[0]), 1, "one address means a single server")
}

func TestNothingThere(t *testing.T) {
	t.Parallel()
	m, r := testenv.StartMongo(t), testenv.StartRedis(t)
	env := onMongo(m, "SEQD_REDIS_ADDRS="+r.Addr())
	m.Kill()
	r.Kill()
	doctor(t, env, 1, "reach MongoDB at", "connection refused", "clocks")
}

// Addresses that accept connections and never answer do not delay doctor for long.
func TestSilence(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	silent := func() string {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { _ = l.Close() })
		return l.Addr().String()
	}
	env := []string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=mongodb://seqd:" + password + "@" + silent(),
		"SEQD_REDIS_ADDRS=" + silent() + "," + silent() + "," + silent(), "SEQD_SERVER_ADDR=" + silent(),
	}
	for _, more := range [][]string{nil, {"SEQD_REDIS_MASTERNAME=m"}} {
		doctor(t, append(env, more...), 1, "is in use, and not by a seqd", "reach MongoDB at", "clocks")
	}
}

// With a configuration that cannot be loaded the exit code is 78.
func TestWrongConfiguration(t *testing.T) {
	t.Parallel()
	report, code := node.Command(t, t.TempDir(), []string{"SEQD_SERVER_ADDR=nowhere"}, "doctor")
	if code != 78 || !strings.Contains(report, "server.addr") {
		t.Errorf("%d: %s", code, report)
	}
	if left, err := os.ReadDir(t.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
