package testenv_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/respconn"
)

// set writes a key, and fails the test on an error.
func set(t *testing.T, client redis.Cmdable, key, value string) {
	t.Helper()
	if err := client.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatalf("SET %s: %v", key, err)
	}
}

// want checks the value of a key; "" stands for a missing key.
func want(t *testing.T, client redis.Cmdable, key, value string) {
	t.Helper()
	got, err := client.Get(t.Context(), key).Result()
	if err != nil && err != redis.Nil || got != value {
		t.Fatalf("GET %s: %q, %v; want %q", key, got, err, value)
	}
}

// once returns a client without retries, like that of code under test.
func once(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: await.Patience, ReadTimeout: await.Patience})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// raw returns a connection on which a test sends commands and reads their answers.
func raw(t *testing.T, addr string) *respconn.Conn {
	t.Helper()
	conn, err := respconn.Dial(addr, await.Patience, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// send sends a command and does not wait for its answer.
func send(t *testing.T, conn *respconn.Conn, command string) {
	t.Helper()
	if err := conn.Send(command); err != nil {
		t.Fatal(err)
	}
}

// silent fails the test if an answer comes in the time that one usually takes, and longer.
func silent(t *testing.T, conn *respconn.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if answer, err := conn.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an answer came: %v, %v", answer, err)
	}
	_ = conn.SetReadDeadline(time.Time{})
}

func TestRedisForgetsAtKill(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	addr, id := r.Addr(), r.ReplicationID()
	set(t, r.Client(), "a", "1")
	r.Kill()
	if err := once(t, addr).Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a killed server says %v", err)
	}
	r.Restart()
	want(t, r.Client(), "a", "")
	if r.Addr() != addr || r.ReplicationID() == id {
		t.Errorf("%s with %s after the restart of %s with %s", r.Addr(), r.ReplicationID(), addr, id)
	}
	if strings.Count(r.Log(), "Ready to accept connections") != 2 {
		t.Errorf("the log of both lives: %s", r.Log())
	}
}

func TestRedisKeepsAppendOnly(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t, "appendonly yes", "appendfsync always")
	for i := range 200 {
		set(t, r.Client(), fmt.Sprint(i), "1")
	}
	r.Restart()
	for i := range 200 {
		want(t, r.Client(), fmt.Sprint(i), "1")
	}
	r.RestartEmpty()
	want(t, r.Client(), "0", "")
}

func TestRedisPause(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	conn := raw(t, r.Addr())
	r.Pause()
	send(t, conn, "SET a 2")
	silent(t, conn)
	r.Resume()
	if answer, err := conn.Read(); answer != "OK" {
		t.Errorf("what was sent to a paused server: %v, %v", answer, err)
	}
	want(t, r.Client(), "a", "2")
	r.Pause()
	r.Kill() // also when it is paused
	r.Restart()
}

func TestRedisSnapshot(t *testing.T) {
	t.Parallel()
	for _, settings := range [][]string{nil, {"appendonly yes"}} {
		r := testenv.StartRedis(t, settings...)
		set(t, r.Client(), "a", "old")
		id := r.ReplicationID()
		old := r.SaveSnapshot()
		set(t, r.Client(), "a", "new")
		set(t, r.Client(), "b", "new")
		if len(settings) == 0 {
			r.SaveSnapshot() // a later one does not change the earlier one
		}
		r.Restart()
		want(t, r.Client(), "a", "new")
		r.RestartFrom(old)
		want(t, r.Client(), "a", "old")
		want(t, r.Client(), "b", "")
		if r.ReplicationID() == id {
			t.Errorf("%v: the replication ID came back with the snapshot", settings)
		}
		set(t, r.Client(), "c", "late")
		if len(settings) > 0 {
			r.Restart()
			want(t, r.Client(), "c", "late")
		}
		another := testenv.StartRedis(t)
		another.RestartFrom(old)
		want(t, another.Client(), "a", "old")
	}
}

func TestReplica(t *testing.T) {
	t.Parallel()
	a := testenv.StartRedis(t)
	set(t, a.Client(), "a", "1")
	before := a.ReplicationID()
	b := testenv.StartReplica(t, a)
	want(t, b.Client(), "a", "1")
	attached := a.ReplicationID()
	if attached == before || b.ReplicationID() != attached {
		t.Errorf("IDs: %s alone, then %s, and %s at the replica", before, attached, b.ReplicationID())
	}
	if err := b.Client().Set(t.Context(), "a", "2", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
		t.Errorf("a replica takes a write: %v", err)
	}
	b.Promote()
	set(t, b.Client(), "a", "b's")
	if b.ReplicationID() == attached || b.Info("replication")["role"] != "master" {
		t.Errorf("promoted: %v", b.Info("replication"))
	}
	b.Restart()
	if b.Info("replication")["role"] != "master" {
		t.Error("a promoted replica is a replica again after a restart")
	}
	set(t, b.Client(), "a", "b's")
	a.Follow(b)
	want(t, a.Client(), "a", "b's")
	a.Restart()
	await.Eventually(t, "a follows b after a restart too", func() error {
		if info := a.Info("replication"); info["role"] != "slave" || info["master_link_status"] != "up" {
			return fmt.Errorf("%v", info)
		}
		return nil
	})
	if a.ReplicationID() != b.ReplicationID() {
		t.Error("a replica has another ID than its master")
	}
}

func TestWritableReplica(t *testing.T) {
	t.Parallel()
	master := testenv.StartRedis(t)
	replica := testenv.StartReplica(t, master, testenv.WritableReplica)
	set(t, replica.Client(), "a", "mine")
	want(t, master.Client(), "a", "")
}
