package resp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/gate"
)

// deadlines is a connection that notes its last deadline for reading.
type deadlines struct {
	pieces
	read time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = t
	return nil
}

// TestReadDeadline checks when a connection is cut off: the idle time-out after it last did
// something, unless the deadline was moved shortly before; the read time-out after a command began
// to arrive; and with the server, if that stops.
func TestReadDeadline(t *testing.T) {
	synctest.Test(t, readDeadline)
}

func readDeadline(t *testing.T) {
	const idle, read = 80 * time.Second, 3 * time.Second
	client := &deadlines{}
	c := New(Options{Gate: gate.New(gate.Options{}), IdleTimeout: idle, ReadTimeout: read, WriteTimeout: time.Hour}).newConn(client, nil)
	sent := func(text string) {
		c.in.filled(copy(c.in.space(), text))
		for {
			if _, ok, _ := c.in.command(); !ok {
				break
			}
			c.halfRead, c.now = false, time.Now() // as answer does
		}
	}
	want := func(want time.Time, what string) {
		t.Helper()
		c.setReadDeadline()
		must.Equal(t, client.read, want, what)
	}
	began := time.Now()
	want(began.Add(idle), "at the beginning")
	time.Sleep(idle / lateBy)
	sent("PING\r\n")
	want(began.Add(idle), "an eighth of the time-out later")
	time.Sleep(time.Nanosecond)
	sent("PING\r\n")
	moved := time.Now()
	want(moved.Add(idle), "after more than that")
	time.Sleep(time.Second)
	want(moved.Add(idle), "without anything done")

	sent("PI")
	half := time.Now()
	want(half.Add(read), "with half a command")
	time.Sleep(time.Second)
	sent("N")
	want(half.Add(read), "with more of it")
	sent("G\r\nPING\r\nP")
	another := time.Now()
	want(another.Add(read), "with half of another command")
	time.Sleep(time.Second)
	sent("ING\r\n")
	answered := time.Now()
	want(answered.Add(idle), "after that")
	time.Sleep(time.Second)
	sent("PING\r\n")
	want(answered.Add(idle), "a second later")

	end := time.Now().Add(grace)
	c.server.stopping.Store(&end)
	client.read = end // by wake
	want(end, "while the server stops")
	sent("PI")
	want(end, "with half a command while the server stops")
	sent("NG\r\n")
	want(end, "after it")
}
