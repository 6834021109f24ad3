package lazydeadline

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/tcppair"
)

// A Conn does what every connection must, with its deadlines too.
func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		a, b := tcppair.New(t)
		c1, c2 = New(a), New(b)
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

// request moves the deadlines as net/http does for a request, with time-outs that no test waits
// for.
func request(c net.Conn) {
	now := time.Now()
	_ = c.SetReadDeadline(now.Add(5 * time.Minute)) // the headers
	_ = c.SetReadDeadline(now.Add(5 * time.Minute)) // the body
	_ = c.SetWriteDeadline(now.Add(30 * time.Minute))
	_ = c.SetReadDeadline(time.Time{})     // while the handler runs
	_ = c.SetReadDeadline(time.Unix(1, 0)) // the handler has ended
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Time{})
	_ = c.SetReadDeadline(now.Add(2 * time.Hour)) // until the next request
}

// The connection below is only told of a deadline that could be the next to pass.
func TestFewDeadlinesAreArmed(t *testing.T) {
	a, b := tcppair.New(t)
	c := New(a)
	armed := watch(&c.read, 10)
	watch(&c.write, 10)
	buf := make([]byte, 4)
	for range 1000 {
		must.Get(b.Write([]byte("ping")))(t)
		must.Get(io.ReadFull(c, buf))(t)
		must.Get(c.Write(buf))(t)
		request(c)
	}
	must.Equal(t, len(armed), 1, "the times that the read deadline was armed")
}

// watch returns a channel that gets each deadline that is armed, at most so many.
func watch(d *deadline, most int) chan time.Time {
	armed, arm := make(chan time.Time, most), d.arm
	d.arm = func(t time.Time) error {
		armed <- t
		return arm(t)
	}
	return armed
}

// A deadline that has passed ends reads and writes although none was armed, and reads and writes
// go on when it is moved.
func TestPassedDeadline(t *testing.T) {
	a, b := tcppair.New(t)
	c := New(a)
	must.Do(t, c.SetDeadline(time.Unix(1, 0)))
	must.Is(t, must.Err(c.Read(make([]byte, 1))), os.ErrDeadlineExceeded, "the read ended with")
	must.Is(t, must.Err(c.Write([]byte("x"))), os.ErrDeadlineExceeded, "the write ended with")
	must.Do(t, c.SetDeadline(time.Time{}))
	must.Get(c.Write([]byte("x")))(t)
	must.Get(io.ReadFull(b, make([]byte, 1)))(t)
}

// A read goes on if what was armed passes before the deadline.
func TestReadGoesOn(t *testing.T) {
	a, b := tcppair.New(t)
	c := New(a)
	armed := watch(&c.read, 10)
	must.Do(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(c, make([]byte, 1))
		read <- err
	}()
	<-armed
	must.Do(t, c.SetReadDeadline(time.Time{}))
	must.Do(t, a.SetReadDeadline(time.Unix(1, 0)))
	if again := <-armed; !again.IsZero() {
		t.Errorf("armed for %s, want no deadline", again)
	}
	must.Get(b.Write([]byte("x")))(t)
	if err := <-read; err != nil {
		t.Errorf("the read ended with %v", err)
	}
}

// A write of which a part was written goes on in the same way, and nothing is written twice.
func TestWriteGoesOn(t *testing.T) {
	a, b := tcppair.New(t)
	c := New(a)
	armed := watch(&c.write, 10)
	must.Do(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
	sent := make([]byte, 64<<20) // more than the system buffers
	for i := range sent {
		sent[i] = byte(i >> 8)
	}
	written := make(chan error, 1)
	go func() {
		n, err := c.Write(sent)
		if err == nil && n != len(sent) {
			err = io.ErrShortWrite
		}
		written <- errors.Join(err, c.CloseWrite())
	}()
	<-armed
	begin := make([]byte, 1)
	must.Get(io.ReadFull(b, begin))(t)
	must.Do(t, a.SetWriteDeadline(time.Unix(1, 0)))
	<-armed
	rest, err := io.ReadAll(b)
	must.Do(t, errors.Join(err, <-written))
	if !bytes.Equal(append(begin, rest...), sent) {
		t.Error("other bytes arrived than were written")
	}
}

// A deadline that is moved to an earlier time while somebody waits ends the wait.
func TestEarlierDeadlineEndsTheWait(t *testing.T) {
	a, _ := tcppair.New(t)
	c := New(a)
	armed := watch(&c.read, 10)
	must.Do(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	<-armed
	must.Do(t, c.SetReadDeadline(time.Unix(1, 0)))
	must.Is(t, <-read, os.ErrDeadlineExceeded, "the read ended with")
}
