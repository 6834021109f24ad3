package snowflake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
)

// record is a slot as the registry has it.
type record struct {
	Key, Token      string
	Until, Reserved int64
}

// registry gives a test access to the records of machine IDs.
type registry interface {
	// slots returns the records by machine ID.
	slots() map[int64]record
	// rob writes another holder into a record.
	rob(machine int64)
	// wipe removes everything.
	wipe()
}

// set is the bootstrap part of a registry that needs no waiting time.
func (f *fleet) set(source string) persist.SlotSet {
	return persist.SlotSet{
		Incarnation: fmt.Sprintf("%032x", 1), Layout: f.registryName()[len("machineIds "):], Ahead: 1, Source: source,
	}
}

// found writes the registry.
func (m *onMongo) found() {
	m.t.Helper()
	s := m.set("")
	_, err := m.collection().InsertOne(m.t.Context(), bson.D{
		{Key: "_id", Value: m.registryName()}, {Key: "v", Value: persist.FormatVersion}, {Key: "slots", Value: bson.D{}},
		{Key: "set", Value: bson.D{
			{Key: "incarnation", Value: s.Incarnation}, {Key: "layout", Value: s.Layout}, {Key: "floor", Value: s.Floor},
			{Key: "ahead", Value: s.Ahead}, {Key: "source", Value: s.Source},
		}},
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *onMongo) collection() *mongo.Collection {
	return m.mongo.Client().Database(m.mongo.Database()).Collection("slots")
}

func (m *onMongo) slots() map[int64]record {
	m.t.Helper()
	var document struct{ Slots map[string]record }
	ctx, cancel := context.WithTimeout(m.t.Context(), await.Patience)
	defer cancel()
	if err := m.collection().FindOne(ctx, bson.D{{Key: "_id", Value: m.registryName()}}).Decode(&document); err != nil {
		m.t.Fatal(err)
	}
	list := make(map[int64]record)
	for text, slot := range document.Slots {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			m.t.Fatal(err)
		}
		list[id] = slot
	}
	return list
}

func (m *onMongo) rob(machine int64) {
	m.t.Helper()
	slot := fmt.Sprintf("slots.%d.", machine)
	result, err := m.collection().UpdateOne(m.t.Context(), bson.D{{Key: "_id", Value: m.registryName()}}, bson.D{{Key: "$set", Value: bson.D{
		{Key: slot + "token", Value: fmt.Sprintf("%032x", 2)}, {Key: slot + "key", Value: "seqd.1.1"},
	}}})
	if err != nil || result.ModifiedCount != 1 {
		m.t.Fatal(result, err)
	}
}

func (m *onMongo) wipe() {
	m.t.Helper()
	if result, err := m.collection().DeleteOne(m.t.Context(), bson.D{{Key: "_id", Value: m.registryName()}}); err != nil || result.DeletedCount != 1 {
		m.t.Fatal(result, err)
	}
}

// found starts a node that creates the registry with the shortest waiting time, so that the other
// nodes need not wait as long as their settings say.
func (r *onRedis) found() {
	r.t.Helper()
	first := r.launch("first", "", "SEQD_SNOWFLAKE_HORIZON=500ms", "SEQD_SNOWFLAKE_MAXSKEW=100ms", "SEQD_SNOWFLAKE_OFFLINESTART=0s")
	await.True(r.t, "the registry begins", func() bool { return len(r.slots()) > 0 })
	first.leave()
}

func (r *onRedis) key() string { return redisslots.Key("seqd:", r.registryName()) }

func (r *onRedis) slots() map[int64]record {
	r.t.Helper()
	fields, err := r.redis.Client().HGetAll(r.t.Context(), r.key()).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	list := make(map[int64]record)
	for name, text := range fields {
		if id, err := strconv.ParseInt(name, 10, 64); err == nil {
			var slot persist.Slot
			if err := json.Unmarshal([]byte(text), &slot); err != nil {
				r.t.Fatal(err)
			}
			list[id] = record{slot.Key, slot.Token, slot.Until, slot.Reserved}
		}
	}
	return list
}

func (r *onRedis) rob(machine int64) {
	r.t.Helper()
	field := strconv.FormatInt(machine, 10)
	write := func(tx *redis.Tx) error {
		text, err := tx.HGet(r.t.Context(), r.key(), field).Result()
		if err != nil {
			return err
		}
		var slot persist.Slot
		if err := json.Unmarshal([]byte(text), &slot); err != nil {
			return err
		}
		slot.Token, slot.Key = fmt.Sprintf("%032x", 2), "seqd.1.1"
		raw, err := json.Marshal(slot)
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(r.t.Context(), func(p redis.Pipeliner) error { return p.HSet(r.t.Context(), r.key(), field, raw).Err() })
		return err
	}
	// A renewal may come in between. An older until must not be written.
	await.True(r.t, "a record is robbed", func() bool {
		err := r.redis.Client().Watch(r.t.Context(), write, r.key())
		if err != nil && !errors.Is(err, redis.TxFailedErr) {
			r.t.Fatal(err)
		}
		return err == nil
	})
}

func (r *onRedis) wipe() {
	r.t.Helper()
	if err := r.redis.Client().FlushAll(r.t.Context()).Err(); err != nil {
		r.t.Fatal(err)
	}
}

// system is nodes and their registry.
type system struct {
	*fleet
	registry
}

// onBoth runs a test with either registry.
func onBoth(t *testing.T, bits int, test func(s system), settings ...string) {
	t.Run("mongo", func(t *testing.T) {
		t.Parallel()
		onMongoAlone(t, bits, test, settings...)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		onRedisAlone(t, bits, test, settings...)
	})
}

func onMongoAlone(t *testing.T, bits int, test func(s system), settings ...string) {
	m := newOnMongo(t, bits, settings...)
	test(system{m.fleet, m})
}

func onRedisAlone(t *testing.T, bits int, test func(s system), settings ...string) {
	r := newOnRedis(t, bits, testenv.StartRedis(t), settings...)
	r.found()
	test(system{r.fleet, r})
}

// over waits until the lease of a machine ID has ended.
func (s system) over(machine int64) {
	s.t.Helper()
	await.True(s.t, "a lease ends", func() bool { return s.slots()[machine].Until < time.Now().UnixMilli() })
}
