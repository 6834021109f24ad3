package testenv_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/respconn"
)

// set writes a key, and fails the test on an error.
func set(t *testing.T, client redis.Cmdable, key, value string) {
	t.Helper()
	must.Do(t, client.Set(t.Context(), key, value, 0).Err())
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
	conn := must.Get(respconn.Dial(addr, await.Patience, nil))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// send sends a command and does not wait for its answer.
func send(t *testing.T, conn *respconn.Conn, command string) {
	t.Helper()
	must.Do(t, conn.Send(command))
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

func TestLinkCut(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	conn := raw(t, l.Addr())
	if answer, err := conn.Do("PING"); answer != "PONG" {
		t.Fatalf("%v, %v", answer, err)
	}
	l.Cut()
	must.Is(t, must.Err(conn.Read()), syscall.ECONNRESET)
	must.Is(t, must.Err(net.Dial("tcp", l.Addr())), syscall.ECONNREFUSED)
	addr := l.Addr()
	l.Restore()
	l.Restore() // has no effect
	if l.Addr() != addr {
		t.Errorf("%s is now %s", addr, l.Addr())
	}
	set(t, once(t, l.Addr()), "a", "1")
	l.Cut()
	l.Cut()
}

func TestLinkHang(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	open := raw(t, l.Addr())
	if answer, err := open.Do("SET a 1"); answer != "OK" {
		t.Fatalf("%v, %v", answer, err)
	}
	l.Hang()
	late := raw(t, l.Addr())
	send(t, open, "SET a 2")
	send(t, late, "SET b 1")
	silent(t, open)
	silent(t, late)
	want(t, r.Client(), "a", "1")
	want(t, r.Client(), "b", "")
	l.Resume()
	for _, conn := range []*respconn.Conn{open, late} {
		if answer, err := conn.Read(); answer != "OK" {
			t.Errorf("a request was lost while the link hung: %v, %v", answer, err)
		}
	}
	want(t, r.Client(), "a", "2")
	want(t, r.Client(), "b", "1")
}

func TestLinkDropReplies(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	conn := raw(t, l.Addr())
	if answer, err := conn.Do("INCR a"); answer != int64(1) {
		t.Fatalf("%v, %v", answer, err)
	}
	l.DropReplies()
	send(t, conn, "INCR a")
	await.Eventually(t, "the request comes through", func() error {
		if got := r.Client().Get(t.Context(), "a").Val(); got != "2" {
			return errors.New("a is " + got)
		}
		return nil
	})
	silent(t, conn)
	l.Restore()
	client := once(t, l.Addr())
	await.Eventually(t, "the link works again", func() error { return client.Ping(t.Context()).Err() })
	want(t, r.Client(), "a", "2")
}

func TestLinkLatency(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	client := once(t, l.Addr())
	ping := func() time.Duration {
		start := time.Now()
		must.Do(t, client.Ping(t.Context()).Err())
		return time.Since(start)
	}
	ping()
	for _, d := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond} {
		l.Latency(d)
		if got := ping(); got < d {
			t.Errorf("%v with %v", got, d)
		}
	}
	l.Latency(0)
	await.Eventually(t, "the latency ends", func() error {
		if got := ping(); got >= 300*time.Millisecond {
			return errors.New(got.String())
		}
		return nil
	})
}

func TestLinkSwitch(t *testing.T) {
	t.Parallel()
	a, b := testenv.StartRedis(t), testenv.StartRedis(t)
	set(t, a.Client(), "who", "a")
	set(t, b.Client(), "who", "b")
	l := testenv.NewLink(t, a.Addr())
	client := once(t, l.Addr())
	want(t, client, "who", "a")
	l.Switch(b.Addr())
	await.Eventually(t, "the link leads to the other", func() error {
		got, err := client.Get(t.Context(), "who").Result()
		if err == nil && got != "b" {
			t.Fatalf("%s still answers", got)
		}
		return err
	})
	l.Cut()
	l.Switch(a.Addr())
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a link that was cut answers")
	}
	l.Restore()
	await.Eventually(t, "the link works again", func() error { return client.Ping(t.Context()).Err() })
	want(t, client, "who", "a")
}

func TestLinkWithoutUpstream(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	r.Kill()
	if err := once(t, l.Addr()).Ping(t.Context()).Err(); err == nil {
		t.Error("a link without an upstream answers")
	}
	if !strings.Contains(l.Log(), "Unable to open connection to upstream") {
		t.Errorf("the log says %s", l.Log())
	}
	r.Restart()
	set(t, once(t, l.Addr()), "a", "1")
}
