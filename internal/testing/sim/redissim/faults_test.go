package redissim_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/redissim"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// A replica that is promoted lacks what was on its way to it. Two primaries accept writes; the one
// that follows loses its own.
func TestFailover(t *testing.T) {
	bubble(t, redissim.Options{Servers: 2}, func(t *testing.T, d *redissim.Deployment) {
		old, young := d.Server(0), d.Server(1)
		c := open(t, old, "order")
		c.seed("e", 1, 100)
		c.takes(10, 1)
		young.Hold(true)
		c.takes(5, 11)
		c.takes(5, 16)
		if young.Lag() != 2 {
			t.Errorf("%d writes are on their way", young.Lag())
		}
		young.Replicate(1)
		key := rediscursor.Key("seqd:", "order")
		must.Equal(t, do(t, young, "hget", key, "cur"), "15", "the replica")
		must.Is(t, must.Err(open(t, young, "order").take(1)), rediscursor.ErrReplica, "a take from a replica")
		before := replicationID(t, young, "master_replid")
		young.Promote()
		if replicationID(t, young, "master_replid2") != before || replicationID(t, young, "master_replid") == before {
			t.Errorf("%v", do(t, young, "info", "replication"))
		}
		other := open(t, young, "order")
		other.isStub(100)
		c.takes(5, 21) // two primaries
		other.seed("f", 101, 200)
		other.takes(1, 101)

		young.Hold(false)
		old.Follow(young)
		must.Equal(t, do(t, old, "hget", key, "cur"), "25", "before the synchronization")
		if !old.Sync() || do(t, old, "hget", key, "cur") != "101" {
			t.Error("the old primary does not have what the new one has")
		}
		other.takes(1, 102)
		must.Equal(t, do(t, old, "hget", key, "cur"), "102", "after the synchronization")
		if !strings.Contains(do(t, young, "info").(string), "connected_slaves:1\r\n") {
			t.Errorf("%v", do(t, young, "info"))
		}
	})
}

func replicationID(t *testing.T, s *redissim.Server, name string) string {
	_, after, _ := strings.Cut(do(t, s, "info", "replication").(string), name+":")
	id, _, _ := strings.Cut(after, "\r\n")
	return id
}

// What a server refuses, a take has not done; a take that only reads goes on where writes fail.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		prefix string
		refuse func(s *redissim.Server)
		accept func(s *redissim.Server)
	}{
		{"OOM", func(s *redissim.Server) { s.Refuse(redissim.OutOfMemory) }, func(s *redissim.Server) { s.Refuse("") }},
		{"MISCONF", func(s *redissim.Server) { s.Refuse(redissim.DiskError) }, func(s *redissim.Server) { s.Refuse("") }},
		{"LOADING", func(s *redissim.Server) { s.Load(true) }, func(s *redissim.Server) { s.Load(false) }},
	} {
		t.Run(test.prefix, func(t *testing.T) {
			bubble(t, redissim.Options{}, func(t *testing.T, d *redissim.Deployment) {
				c, client := open(t, d.Server(0), "order"), connect(t, d.Server(0))
				c.seed("e", 1, 100)
				c.takes(10, 1)
				test.refuse(d.Server(0))
				if taken, err := c.take(1); !redis.HasErrorPrefix(err, test.prefix) {
					t.Errorf("%+v, %v", taken, err)
				}
				if err := client.Set(t.Context(), "k", "v", 0).Err(); !redis.HasErrorPrefix(err, test.prefix) {
					t.Errorf("%v", err)
				}
				if err := client.Del(t.Context(), "k").Err(); (err == nil) != (test.prefix == "OOM") {
					t.Errorf("%v", err)
				}
				test.accept(d.Server(0))
				c.takes(1, 11)
			})
		})
	}
}

// A primary that misses its replicas refuses writes, if it is set so. A replica always does, unless
// it is set to be writable.
func TestReplicaSettings(t *testing.T) {
	settings := map[string]string{"min-replicas-to-write": "1"}
	bubble(t, redissim.Options{Servers: 2, Settings: settings}, func(t *testing.T, d *redissim.Deployment) {
		primary, replica := d.Server(0), d.Server(1)
		atPrimary, atReplica := connect(t, primary), connect(t, replica)
		set := func(c *redis.Client, prefix string) {
			t.Helper()
			err := c.Set(t.Context(), "k", "v", 0).Err()
			if prefix == "" && err != nil || prefix != "" && !redis.HasErrorPrefix(err, prefix) {
				t.Errorf("got %v, want %q", err, prefix)
			}
		}
		set(atPrimary, "")
		set(atReplica, "READONLY")
		replica.Writable(true)
		set(atReplica, "")
		replica.Kill()
		set(atPrimary, "NOREPLICAS")
		replica.Start(redissim.Nothing)
		replica.Sync()
		set(atPrimary, "")
	})
}

// A reply that is lost belongs to a command that was executed.
func TestLostReply(t *testing.T) {
	bubble(t, redissim.Options{}, func(t *testing.T, d *redissim.Deployment) {
		c := open(t, d.Server(0), "order")
		c.seed("e", 1, 100)
		d.Server(0).LoseReplies(1)
		if taken, err := c.take(10); err == nil {
			t.Errorf("%+v, %v", taken, err)
		}
		c.takes(10, 11)
	})
}

// A server that hangs answers nothing. When it continues it also executes what its client has given
// up; if it is killed, it does not.
func TestHang(t *testing.T) {
	bubble(t, redissim.Options{}, func(t *testing.T, d *redissim.Deployment) {
		s := d.Server(0)
		c := open(t, s, "order")
		c.seed("e", 1, 100)
		givesUp := func() {
			t.Helper()
			s.Hang()
			begun := time.Now()
			if taken, err := c.take(10); err == nil || time.Since(begun) != timeout {
				t.Errorf("%+v, %v after %v", taken, err, time.Since(begun))
			}
		}
		givesUp()
		s.Resume()
		synctest.Wait()
		c.takes(10, 11)
		givesUp()
		s.Start(redissim.Everything)
		c.isStub(100)
		if cur := do(t, s, "hget", rediscursor.Key("seqd:", "order"), "cur"); cur != "0" {
			t.Errorf("cur is %v", cur)
		}
	})
}

func TestClocks(t *testing.T) {
	bubble(t, redissim.Options{}, func(t *testing.T, d *redissim.Deployment) {
		s := d.Server(0)
		client := connect(t, s)
		s.Shift(time.Hour)
		if now, err := client.Time(t.Context()).Result(); err != nil || !now.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("%v, %v", now, err)
		}
		must.Do(t, client.Do(t.Context(), "SET", "k", "v", "PX", 60_000).Err())
		time.Sleep(time.Minute)
		if n := do(t, s, "exists", "k"); n != int64(1) {
			t.Error("the key expired too early")
		}
		s.Shift(time.Millisecond)
		if n := do(t, s, "exists", "k"); n != int64(0) {
			t.Error("the key did not expire")
		}
	})
}

// What is not known here is an error, and noted.
func TestUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := redissim.New(redissim.Options{})
		defer d.Close()
		client := connect(t, d.Server(0))
		ctx := context.Background()
		for _, err := range []error{
			client.ZAdd(ctx, "z", redis.Z{}).Err(), client.Eval(ctx, "return redis.call('ZCARD', 'z')", nil).Err(), client.Set(ctx, "k", "v", redis.KeepTTL).Err(),
		} {
			if err == nil {
				t.Error("it is known")
			}
		}
		if got := strings.Join(d.Unknown(), ", "); got != "set keepttl, the command ZCARD in scripts, the command zadd" {
			t.Errorf("noted: %s", got)
		}
	})
}

// A key expires on the server that is the primary then, and is removed from its replica as well.
func TestExpiryAfterFailover(t *testing.T) {
	bubble(t, redissim.Options{Servers: 2}, func(t *testing.T, d *redissim.Deployment) {
		old, young := d.Server(0), d.Server(1)
		do(t, old, "set", "k", "v", "px", "60000")
		old.Kill()
		young.Promote()
		old.Start(redissim.Nothing)
		old.Follow(young)
		if !old.Sync() || do(t, old, "get", "k") != "v" {
			t.Error("the key was lost")
		}
		time.Sleep(time.Minute + time.Millisecond)
		do(t, young, "ping")
		if key := old.Evict(0) + young.Evict(0); key != "" {
			t.Errorf("%s did not expire", key)
		}
	})
}
