package snowflake

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/persisttest"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
)

const (
	clusterID = "a cluster"
	tableName = "order"
	calm      = await.Patience
)

// connect returns a client as the product builds it.
func connect(t testing.TB, addr string, timeout time.Duration) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, Protocol: 2,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// slots is a registry under test. An error ends the test.
type slots struct {
	*redisslots.Slots
	t      testing.TB
	client redis.UniversalClient
	key    string
}

func open(t testing.TB, client redis.UniversalClient, prefix string) *slots {
	return &slots{
		Slots: redisslots.Open(redisslots.Options{Client: client, Prefix: prefix, Cluster: clusterID}),
		t:     t, client: client, key: redisslots.Key(prefix, tableName),
	}
}

func (s *slots) look(ids ...int64) persist.SlotTable {
	s.t.Helper()
	table := must.Get(s.Look(s.t.Context(), tableName, ids...))(s.t)
	return table
}

func (s *slots) swap(want bool, swap persist.SlotSwap) {
	s.t.Helper()
	if made, err := s.Swap(s.t.Context(), tableName, swap); err != nil || made != want {
		s.t.Fatalf("swap: %v, %v; want %v", made, err, want)
	}
}

// fill makes a registry with one slot.
func (s *slots) fill() (source string) {
	s.t.Helper()
	source = s.look().Source
	s.swap(true, persist.SlotSwap{NewSet: &set, NewSlot: leased(5), Source: source})
	return source
}

// hash returns the hash in Redis.
func (s *slots) hash() map[string]string {
	s.t.Helper()
	fields := must.Get(s.client.HGetAll(s.t.Context(), s.key).Result())(s.t)
	return fields
}

var set = persist.SlotSet{Incarnation: strings.Repeat("a1", 16), Layout: "12/10/1ms", Floor: 7, Ahead: 5000}

func leased(id int64) *persist.Slot {
	return &persist.Slot{ID: id, Key: "seqd.8080.10.0.0.1", Token: "t", Until: 100, Reserved: 200, RenewedAt: 50}
}

func command(t testing.TB, client redis.UniversalClient, args ...any) {
	t.Helper()
	must.Do(t, client.Do(context.Background(), args...).Err())
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	persisttest.RunSlots(t, func(t *testing.T, _ func() time.Time) (persist.SlotStore, func() error) {
		client := connect(t, server.Addr(), calm)
		end := func() error {
			if err := client.Close(); !errors.Is(err, redis.ErrClosed) {
				return err
			}
			return nil
		}
		return open(t, client, testenv.Unique()), end
	})
}

// A server that may have lost confirmed writes has another source. What was read with the old
// source is no longer valid.
func TestSourceChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings []string
		lose     func(t *testing.T, server *testenv.Redis, old testenv.RedisSnapshot) *testenv.Redis
		lag      bool
	}{
		"restart without loss": {[]string{"appendonly yes", "appendfsync always"}, func(_ *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot) *testenv.Redis {
			r.Restart()
			return r
		}, false},
		"restart on a snapshot": {nil, func(_ *testing.T, r *testenv.Redis, old testenv.RedisSnapshot) *testenv.Redis {
			r.RestartFrom(old)
			return r
		}, false},
		"promotion": {nil, func(t *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot) *testenv.Redis {
			heir := testenv.StartReplica(t, r)
			heir.Promote()
			return heir
		}, true},
		"to be a replica for a moment": {nil, func(t *testing.T, r *testenv.Redis, _ testenv.RedisSnapshot) *testenv.Redis {
			command(t, r.Client(), "REPLICAOF", "127.0.0.1", "1")
			command(t, r.Client(), "REPLICAOF", "NO", "ONE")
			return r
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, test.settings...)
			s := open(t, connect(t, server.Addr(), calm), "seqd:")
			source := s.fill()
			server = test.lose(t, server, server.SaveSnapshot())
			s = open(t, connect(t, server.Addr(), calm), "seqd:")
			table := s.look()
			if table.Source == source || table.Source != server.ReplicationID() || len(table.Source) != 40 {
				t.Errorf("the source was %s and is %s", source, table.Source)
			}
			if table.Set == nil || *table.Set != set || len(table.Slots) != 1 || table.Slots[0] != *leased(5) {
				t.Errorf("it holds %+v", table)
			}
			must.Equal(t, table.Lag, map[bool]int64{false: 0, true: 12_000}[test.lag], "the lag")
			before := s.hash()
			s.swap(false, persist.SlotSwap{OldSet: &set, NewSet: &set, Source: source})
			s.swap(false, persist.SlotSwap{OldSet: &set, OldSlot: leased(5), NewSlot: leased(5), Source: source})
			s.swap(false, persist.SlotSwap{OldSet: &set, NewSlot: leased(6)})
			if after := s.hash(); !maps.Equal(before, after) {
				t.Errorf("%v became %v", before, after)
			}
			s.swap(true, persist.SlotSwap{OldSet: &set, OldSlot: leased(5), NewSlot: leased(5), Source: table.Source})
		})
	}
}

// After a loss the registry is empty. Its source is another one, except if only the hash is lost.
func TestLostHash(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	s := open(t, connect(t, server.Addr(), calm), "seqd:")
	source := s.fill()
	server.Kill()
	must.Is(t, must.Err(s.Look(t.Context(), tableName)), persist.ErrUnavailable, "a dead server")
	server.Restart()
	table := s.look()
	if table.Set != nil || len(table.Slots) != 0 || table.Source == source {
		t.Errorf("after kill -9: %+v", table)
	}
	s.swap(false, persist.SlotSwap{NewSet: &set, Source: source})
	source = s.fill()
	command(t, server.Client(), "DEL", s.key)
	if table := s.look(); table.Set != nil || len(table.Slots) != 0 || table.Source != source {
		t.Errorf("after DEL: %+v", table)
	}
	s.swap(false, persist.SlotSwap{OldSet: &set, OldSlot: leased(5), NewSlot: leased(5), Source: source})
}

// all calls every operation.
func (s *slots) all(source string) map[string]error {
	ctx := s.t.Context()
	_, look := s.Look(ctx, tableName)
	_, one := s.Look(ctx, tableName, 5)
	made, swap := s.Swap(ctx, tableName, persist.SlotSwap{OldSet: &set, NewSet: &set, OldSlot: leased(5), NewSlot: leased(5), Source: source})
	anew, swapNothing := s.Swap(ctx, tableName, persist.SlotSwap{NewSet: &set, NewSlot: leased(7), Source: source})
	if made || anew {
		s.t.Errorf("it was changed: %v, %v", made, anew)
	}
	return map[string]error{"look": look, "look for one": one, "swap": swap, "swap of nothing": swapNothing, "drop": s.Drop(ctx, tableName)}
}

// Every operation rejects hashes that this version or this cluster cannot use, and leaves them
// unchanged.
func TestHashesThatAreNotOurs(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := connect(t, server.Addr(), calm)
	for name, test := range map[string]struct {
		args []any // HSET or HDEL of the hash
		want error
	}{
		"newer":           {[]any{"HSET", "v", "2"}, persist.ErrNewer},
		"no version":      {[]any{"HDEL", "v"}, persist.ErrInvalid},
		"broken version":  {[]any{"HSET", "v", "x"}, persist.ErrInvalid},
		"older version":   {[]any{"HSET", "v", "0"}, persist.ErrInvalid},
		"another cluster": {[]any{"HSET", "cluster", "another"}, redisslots.ErrForeign},
		"no cluster":      {[]any{"HDEL", "cluster"}, redisslots.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, client, testenv.Unique())
			source := s.fill()
			command(t, client, append([]any{test.args[0], s.key}, test.args[1:]...)...)
			before := s.hash()
			for what, err := range s.all(source) {
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), s.key) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if after := s.hash(); !maps.Equal(before, after) {
				t.Errorf("%v became %v", before, after)
			}
		})
	}
	t.Run("another type", func(t *testing.T) {
		s := open(t, client, testenv.Unique())
		command(t, client, "SET", s.key, "1")
		for what, err := range s.all(server.ReplicationID()) {
			must.Is(t, err, persist.ErrInvalid, "%s", what)
		}
		must.Equal(t, client.Get(t.Context(), s.key).Val(), "1", "it became")
	})
}

// A damaged field is not misread, and no swap matches it.
func TestDamagedFields(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).Addr(), calm)
	for _, damage := range []string{"set=", "set={}", "5=", "5=x", `5={"id":5}`, "6=x", "05=x", "more=x"} {
		t.Run(damage, func(t *testing.T) {
			s := open(t, client, testenv.Unique())
			source := s.fill()
			field, value, _ := strings.Cut(damage, "=")
			command(t, client, "HSET", s.key, field, value)
			if table, err := s.Look(t.Context(), tableName); !errors.Is(err, persist.ErrInvalid) || !strings.Contains(err.Error(), field) {
				t.Errorf("%+v, %v", table, err)
			}
			if field == "set" || field == "5" {
				s.swap(false, persist.SlotSwap{OldSet: &set, OldSlot: leased(5), NewSlot: leased(5), Source: source})
				s.swap(false, persist.SlotSwap{OldSet: &set, NewSlot: leased(5), Source: source})
				s.swap(false, persist.SlotSwap{NewSet: &set, Source: source})
			}
		})
	}
}

func TestReplicaIsRefused(t *testing.T) {
	t.Parallel()
	master := testenv.StartRedis(t)
	s := open(t, connect(t, master.Addr(), calm), "seqd:")
	s.fill()
	replica := testenv.StartReplica(t, master, testenv.WritableReplica)
	s = open(t, connect(t, replica.Addr(), calm), "seqd:")
	before := s.hash()
	for what, err := range s.all(master.ReplicationID()) {
		if !errors.Is(err, redisslots.ErrReplica) || !errors.Is(err, persist.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := s.hash(); len(before) != 4 || !maps.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}

// If a server cannot write, the result is an error, and nothing has changed.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		begin []any
		want  error
	}{
		"no replicas": {[]any{"CONFIG", "SET", "min-replicas-to-write", "1"}, persist.ErrUnavailable},
		"no memory":   {[]any{"CONFIG", "SET", "maxmemory", "1"}, persist.ErrUnavailable},
		"no rights":   {[]any{"ACL", "SETUSER", "default", "-evalsha"}, redisslots.ErrUnfit},
		"no INFO":     {[]any{"ACL", "SETUSER", "default", "-info"}, redisslots.ErrUnfit},
		"no HSET":     {[]any{"ACL", "SETUSER", "default", "-hset"}, redisslots.ErrUnfit},
		"no keys":     {[]any{"ACL", "SETUSER", "default", "resetkeys"}, redisslots.ErrUnfit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			s := open(t, connect(t, server.Addr(), calm), "seqd:")
			source := s.fill()
			command(t, s.client, test.begin...)
			made, err := s.Swap(t.Context(), tableName, persist.SlotSwap{OldSet: &set, NewSlot: leased(6), Source: source})
			if made || !errors.Is(err, test.want) {
				t.Errorf("%v, %v", made, err)
			}
			command(t, server.Client(), "ACL", "SETUSER", "default", "+@all", "~*")
			if got := s.hash(); len(got) != 4 {
				t.Errorf("it holds %v", got)
			}
		})
	}
}
