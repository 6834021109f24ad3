package cursor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

func command(t testing.TB, client redis.UniversalClient, args ...any) {
	t.Helper()
	must.Do(t, client.Do(context.Background(), args...).Err())
}

// inStep waits until a replica has the same hash as its master.
func inStep(t testing.TB, master, replica *testenv.Redis, key string) {
	t.Helper()
	eventually(t, "the replica is in step", func() error {
		want := master.Client().HGetAll(context.Background(), key).Val()
		if got, err := replica.Client().HGetAll(context.Background(), key).Result(); err != nil || !maps.Equal(got, want) {
			return fmt.Errorf("it has %v of %v, %w", got, want, err)
		}
		return nil
	})
}

// cutReplication disconnects the replicas of a master and keeps them out. Later writes exist only
// on the master.
func cutReplication(t testing.TB, master *testenv.Redis) {
	t.Helper()
	command(t, master.Client(), "ACL", "SETUSER", "default", "-psync", "-sync")
	command(t, master.Client(), "CLIENT", "KILL", "TYPE", "replica")
	eventually(t, "the replicas are gone", func() error {
		if n := master.Info("replication")["connected_slaves"]; n != "0" {
			return errors.New("there are " + n)
		}
		return nil
	})
}

// field returns a number from a server's own copy of the hash, whatever its role.
func field(t testing.TB, server *testenv.Redis, key, name string) int64 {
	t.Helper()
	text, err := server.Client().HGet(context.Background(), key, name).Result()
	n, bad := strconv.ParseInt(text, 10, 64)
	if err != nil || bad != nil {
		t.Fatalf("%s is %q, %v", name, text, err)
	}
	return n
}

// After every kind of loss the cursor is a stub: earlier installs no longer count, nothing is
// issued again, and ceil is kept if the hash is.
func TestLoss(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings []string
		lose     func(t *testing.T, server *testenv.Redis, old testenv.RedisSnapshot, key string) *testenv.Redis
		ceil     int64
	}{
		"restart on nothing": {lose: func(_ *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot, _ string) *testenv.Redis {
			r.RestartEmpty()
			return r
		}},
		"restart on a snapshot": {ceil: 200, lose: func(_ *testing.T, r *testenv.Redis, old testenv.RedisSnapshot, _ string) *testenv.Redis {
			r.RestartFrom(old)
			return r
		}},
		"restart without loss": {[]string{"appendonly yes", "appendfsync always"},
			func(t *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot, key string) *testenv.Redis {
				r.Restart()
				must.Equal(t, field(t, r, key, "cur"), 20, "cur")
				return r
			}, 200},
		"a snapshot on another server": {ceil: 200, lose: func(t *testing.T, _ *testenv.Redis, old testenv.RedisSnapshot, _ string) *testenv.Redis {
			other := testenv.StartRedis(t)
			other.RestartFrom(old)
			return other
		}},
		"FLUSHALL": {lose: func(t *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot, _ string) *testenv.Redis {
			command(t, r.Client(), "FLUSHALL")
			return r
		}},
		"DEL": {lose: func(t *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot, key string) *testenv.Redis {
			command(t, r.Client(), "DEL", key)
			return r
		}},
		"an expiry": {lose: func(t *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot, key string) *testenv.Redis {
			command(t, r.Client(), "PEXPIRE", key, "1")
			time.Sleep(10 * time.Millisecond)
			return r
		}},
		"a first replica": {ceil: 200, lose: func(t *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot, _ string) *testenv.Redis {
			testenv.StartReplica(t, r)
			return r
		}},
		"a promotion": {ceil: 200, lose: func(t *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot, _ string) *testenv.Redis {
			heir := testenv.StartReplica(t, r)
			heir.Promote()
			return heir
		}},
		"to be a replica for a moment": {ceil: 200, lose: func(t *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot, _ string) *testenv.Redis {
			// the address is unused, and nothing is lost
			command(t, r.Client(), "REPLICAOF", "127.0.0.1", "1")
			command(t, r.Client(), "REPLICAOF", "NO", "ONE")
			return r
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, test.settings...)
			c, seen := open(t, connect(t, server.Addr(), calm)), newLedger(t)
			c.fill("1-100 101-200", 1)
			seen.add(c.take(rediscursor.Take{Count: 10, Threshold: 0.5}).Runs)
			old := server.SaveSnapshot()
			seen.add(c.take(rediscursor.Take{Count: 10, Threshold: 0.5}).Runs)

			server = test.lose(t, server, old, c.key)
			before := c.gen
			c = reopen(t, connect(t, server.Addr(), calm), c.name)
			refuse := func(mode rediscursor.Mode, gen string, first, last int64, want rediscursor.Verdict) {
				t.Helper()
				in := rediscursor.Install{Mode: mode, Gen: gen, Range: persist.Range{First: first, Last: last}, Reserve: 1}
				if answer, err := c.Install(context.Background(), in); err != nil || answer.Verdict != want {
					t.Errorf("%+v: %+v, %v", in, answer, err)
				}
			}
			for _, when := range []string{"before", "after"} {
				refuse(rediscursor.Append, before, 201, 300, rediscursor.Moved)
				refuse(rediscursor.Advance, before, 201, 300, rediscursor.Moved)
				refuse(rediscursor.Seed, before, 201, 300, rediscursor.Moved)
				if taken := c.take(rediscursor.Take{Count: 10, Threshold: 0.5}); show(taken) != fmt.Sprintf("stub; ceil %d", test.ceil) {
					t.Fatalf("%s: %s", when, show(taken))
				}
				if c.gen == before {
					t.Errorf("the gen is still %s", before)
				}
			}
			refuse(rediscursor.Append, c.gen, 201, 300, rediscursor.Moved)
			if test.ceil > 0 {
				refuse(rediscursor.Seed, c.gen, 101, 200, rediscursor.Stale)
			}
			if answer := c.install(rediscursor.Seed, 201, 300, 1); answer.Verdict != rediscursor.Installed {
				t.Errorf("seed: %+v", answer)
			}
			refuse(rediscursor.Seed, c.gen, 301, 400, rediscursor.Moved)
			taken := c.take(rediscursor.Take{Count: 10, Threshold: 0.5})
			must.Equal(t, show(taken), "201-210", "then")
			seen.add(taken.Runs)
		})
	}
}

// A promoted replica that missed the last numbers is master, and then the old master again (A → B →
// A), without a restart. The run ID of A never changes, and its hash could repeat what B issued.
func TestBackAndForth(t *testing.T) {
	t.Parallel()
	for _, loses := range []bool{false, true} {
		t.Run(fmt.Sprintf("loses %v", loses), func(t *testing.T) {
			t.Parallel()
			a := testenv.StartRedis(t)
			b := testenv.StartReplica(t, a)
			runID := a.Info("server")["run_id"]
			s, seen := &store{}, newLedger(t)
			onA := open(t, connect(t, a.Addr(), calm))
			onB := reopen(t, connect(t, b.Addr(), calm), onA.name)
			viaA, viaB := newNode(onA, s, seen), newNode(onB, s, seen)
			must.Is(t, must.Err(viaB.once(1)), rediscursor.ErrReplica, "the replica")
			viaA.take(t, 100)
			inStep(t, a, b, onA.key)
			if loses {
				cutReplication(t, a)
				viaA.take(t, 100)
				if at := field(t, b, onA.key, "cur"); at >= seen.last {
					t.Fatalf("b is at %d of %d: nothing was lost", at, seen.last)
				}
			}
			b.Promote()
			if got := onB.peek(); !got.Stub || got.Ceil == 0 {
				t.Errorf("b after its promotion: %+v", got)
			}
			for range 10 { // both act as the master
				viaA.take(t, 10)
				viaB.take(t, 10)
			}
			if loses {
				command(t, a.Client(), "ACL", "SETUSER", "default", "+@all")
			}
			a.Follow(b)
			must.Is(t, must.Err(viaA.once(1)), rediscursor.ErrReplica, "the old master")
			viaB.take(t, 100)
			if loses {
				cutReplication(t, b)
				viaB.take(t, 100)
			}
			a.Promote()
			if got := onA.peek(); !got.Stub || got.Ceil == 0 {
				t.Errorf("a once more: %+v", got)
			}
			viaA.take(t, 100)
			viaB.take(t, 10) // b has not been reconfigured
			b.Follow(a)
			viaA.take(t, 100)
			must.Equal(t, a.Info("server")["run_id"], runID, "the run ID")
		})
	}
}

// No numbers are taken from a replica, even if it accepts writes.
func TestWritableReplica(t *testing.T) {
	t.Parallel()
	a := testenv.StartRedis(t)
	b := testenv.StartReplica(t, a, testenv.WritableReplica)
	onA := open(t, connect(t, a.Addr(), calm))
	onA.fill("1-10", 0)
	onB := reopen(t, connect(t, b.Addr(), calm), onA.name)
	inStep(t, a, b, onA.key)
	command(t, b.Client(), "SET", "writable", "1")
	onB.gen = onA.gen
	for _, cursor := range []*cursor{onB, open(t, onB.client)} {
		before := cursor.hash()
		for name, call := range cursor.calls(1, persist.Range{First: 11, Last: 20}) {
			must.Is(t, call(), rediscursor.ErrReplica, "%s", name)
		}
		must.Equal(t, fmt.Sprint(cursor.hash()), fmt.Sprint(before), "%v became", before)
	}
	must.Equal(t, show(onA.peek()), "; ceil 10 enough free 1 next 1 hand 10", "a")
	a.Kill() // without its master it is still a replica
	must.Is(t, must.Err(onB.Take(context.Background(), rediscursor.Take{Count: 1, Threshold: 0.5})), rediscursor.ErrReplica, "without a master")
}
