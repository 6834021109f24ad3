package testenv_test

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
)

func TestLinkCut(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	reply := bufio.NewReader(conn)
	if line, err := reply.ReadString('\n'); err != nil || line != "+PONG\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	l.Cut()
	if _, err := reply.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an open connection: %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v", err)
	}
	addr := l.Addr()
	l.Restore()
	l.Restore() // has no effect
	if l.Addr() != addr {
		t.Errorf("%s is now %s", addr, l.Addr())
	}
	set(t, impatient(t, l.Addr()), "a", "1")
	l.Cut()
	l.Cut()
}

func TestLinkHang(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	client, late := impatient(t, l.Addr()), impatient(t, l.Addr())
	set(t, client, "a", "1")
	accepted := r.Info("stats")["total_connections_received"]
	l.Hang()
	answer := make(chan error)
	go func() { answer <- late.Set(t.Context(), "b", "1", 0).Err() }() // it has enough time
	if err := client.Set(brief(t), "a", "2", 0).Err(); err == nil {
		t.Error("a hanging link answers")
	}
	want(t, r.Client(), "a", "1")
	want(t, r.Client(), "b", "")
	l.Resume()
	if err := <-answer; err != nil {
		t.Errorf("a request was lost while the link hung: %v", err)
	}
	want(t, r.Client(), "b", "1")
	eventually(t, "what was sent arrives", r, func() error {
		if got := r.Client().Get(t.Context(), "a").Val(); got != "2" {
			return errors.New("a is " + got)
		}
		return nil
	})
	if r.Info("stats")["total_connections_received"] == accepted {
		t.Error("the hanging link did not accept a connection")
	}
}

func TestLinkDropReplies(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	client := impatient(t, l.Addr())
	set(t, client, "a", "1")
	l.DropReplies()
	if err := client.Incr(brief(t), "a").Err(); err == nil {
		t.Error("a reply came through")
	}
	eventually(t, "the request comes through", r, func() error {
		if got := r.Client().Get(t.Context(), "a").Val(); got != "2" {
			return errors.New("a is " + got)
		}
		return nil
	})
	l.Restore()
	eventually(t, "the link works again", l, func() error { return client.Ping(t.Context()).Err() })
	want(t, r.Client(), "a", "2")
}

func TestLinkLatency(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	client := impatient(t, l.Addr())
	ping := func() time.Duration {
		start := time.Now()
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
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
	eventually(t, "the latency ends", l, func() error {
		if got := ping(); got > 50*time.Millisecond {
			return errors.New(got.String())
		}
		return nil
	})
}

func TestLinkFaultsTogether(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	client := impatient(t, l.Addr())
	for range 5 {
		set(t, client, "a", "1")
		l.Latency(10 * time.Millisecond)
		l.Hang()
		_ = client.Set(brief(t), "a", "2", 0).Err()
		l.Latency(0)
		l.DropReplies()
		_ = client.Set(brief(t), "a", "3", 0).Err()
		l.Cut()
		l.Restore()
		eventually(t, "the link works again", l, func() error { return client.Ping(t.Context()).Err() })
	}
	l.Hang() // a test may end like this
}

func TestLinkSwitch(t *testing.T) {
	t.Parallel()
	a, b := testenv.StartRedis(t), testenv.StartRedis(t)
	set(t, a.Client(), "who", "a")
	set(t, b.Client(), "who", "b")
	l := testenv.NewLink(t, a.Addr())
	client := impatient(t, l.Addr())
	want(t, client, "who", "a")
	l.Switch(b.Addr())
	eventually(t, "the link leads to the other", l, func() error {
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
	eventually(t, "the link works again", l, func() error { return client.Ping(t.Context()).Err() })
	want(t, client, "who", "a")
}

func TestLinkWithoutUpstream(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	l := testenv.NewLink(t, r.Addr())
	r.Kill()
	if err := impatient(t, l.Addr()).Ping(t.Context()).Err(); err == nil {
		t.Error("a link without an upstream answers")
	}
	if !strings.Contains(l.Log(), "Unable to open connection to upstream") {
		t.Errorf("the log says %s", l.Log())
	}
	r.Restart()
	set(t, impatient(t, l.Addr()), "a", "1")
}
