package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// newMessage returns an OP_MSG of the given size, with a checksum if the flags say so.
func newMessage(id uint32, responseTo uint32, flags uint32, size int) message {
	m := make(message, size)
	for i, v := range []uint32{uint32(size), id, responseTo, opMsg, flags} {
		binary.LittleEndian.PutUint32(m[4*i:], v)
	}
	if flags&flagChecksum != 0 {
		binary.LittleEndian.PutUint32(m[size-4:], crc32.Checksum(m[:size-4], crc32.MakeTable(crc32.Castagnoli)))
	}
	return m
}

func TestReadMessage(t *testing.T) {
	whole := newMessage(1, 0, 0, 40)
	short := newMessage(1, 0, 0, 40)
	binary.LittleEndian.PutUint32(short, 15)
	long := newMessage(1, 0, 0, 40)
	binary.LittleEndian.PutUint32(long, maxMessageSize+1)
	bare := newMessage(1, 0, 0, 20)[:18]
	binary.LittleEndian.PutUint32(bare, 18)
	for name, c := range map[string]struct {
		in   []byte
		fine bool
		eof  bool
	}{
		"whole":            {in: whole, fine: true},
		"nothing":          {eof: true},
		"half a header":    {in: whole[:7]},
		"half a body":      {in: whole[:30]},
		"length too small": {in: short},
		"length too large": {in: long},
		"OP_MSG, no flags": {in: bare},
	} {
		m, err := readMessage(bytes.NewReader(c.in))
		if c.fine != (err == nil) || c.eof != errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		if c.fine && !bytes.Equal(m, c.in) {
			t.Errorf("%s: came back changed", name)
		}
	}
}

func TestClearRenewsTheChecksum(t *testing.T) {
	m := newMessage(7, 0, flagChecksum|flagExhaustAllowed, 40)
	m.clear(flagExhaustAllowed | flagMoreToCome)
	if want := newMessage(7, 0, flagChecksum, 40); !bytes.Equal(m, want) {
		t.Errorf("got %x and not %x", m, want)
	}
}

// fakeServer answers every request with a reply of the same size, and counts concurrent requests.
type fakeServer struct {
	addr         string
	served       atomic.Int64
	now, most    atomic.Int64
	sawFlags     atomic.Uint32
	before       func()
	largestReply int
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	f := &fakeServer{addr: listener.Addr().String(), before: func() {}}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go f.answer(conn)
		}
	}()
	return f
}

func (f *fakeServer) answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for {
		request, err := readMessage(conn)
		if err != nil {
			return
		}
		f.sawFlags.Store(f.sawFlags.Load() | request.flags())
		f.note(f.now.Add(1))
		f.before()
		f.now.Add(-1)
		f.served.Add(1)
		if _, err := conn.Write(newMessage(0, request.requestID(), 0, max(len(request), f.largestReply))); err != nil {
			return
		}
	}
}

// note updates the largest number of concurrent requests.
func (f *fakeServer) note(now int64) {
	for most := f.most.Load(); now > most && !f.most.CompareAndSwap(most, now); most = f.most.Load() {
	}
}

// startTurnstile starts a turnstile in front of the server and returns a function that connects to
// it.
func startTurnstile(t *testing.T, f *fakeServer) func() net.Conn {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- (&turnstile{backend: f.addr, log: slog.New(slog.DiscardHandler)}).serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		must.Report(t, <-done)
	})
	return func() net.Conn {
		conn := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
		_ = conn.SetDeadline(time.Now().Add(await.Patience))
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

// ask sends a request and checks its reply.
func ask(t *testing.T, conn net.Conn, request message) {
	t.Helper()
	if _, err := conn.Write(request); err != nil {
		t.Error(err)
		return
	}
	reply, err := readMessage(conn)
	if err != nil || reply.responseTo() != request.requestID() {
		t.Errorf("reply %x: %v", reply[:min(len(reply), 40)], err)
	}
}

func TestOneAtATime(t *testing.T) {
	f := newFakeServer(t)
	// enough time for another one to arrive
	f.before = func() { time.Sleep(20 * time.Microsecond) }
	connect := startTurnstile(t, f)
	var clients sync.WaitGroup
	for client := range uint32(16) {
		conn := connect()
		clients.Go(func() {
			for i := range uint32(100) {
				ask(t, conn, newMessage(client*1000+i, 0, 0, 100))
			}
		})
	}
	clients.Wait()
	if f.most.Load() != 1 || f.served.Load() != 1600 {
		t.Errorf("%d at once, %d served", f.most.Load(), f.served.Load())
	}
}

func TestFlagsAreTakenAway(t *testing.T) {
	f := newFakeServer(t)
	conn := startTurnstile(t, f)()
	ask(t, conn, newMessage(1, 0, flagExhaustAllowed, 60))
	// an unacknowledged write has no reply …
	must.Get(conn.Write(newMessage(2, 0, flagMoreToCome, 60)))(t)
	ask(t, conn, newMessage(3, 0, 0, 60)) // … so that the next one to come is the reply to this
	if f.sawFlags.Load() != 0 || f.served.Load() != 3 {
		t.Errorf("the server saw flags %#x and %d requests", f.sawFlags.Load(), f.served.Load())
	}
}

func TestLargestMessage(t *testing.T) {
	f := newFakeServer(t)
	ask(t, startTurnstile(t, f)(), newMessage(1, 0, 0, maxMessageSize))
}

func TestClientGoesMidRequest(t *testing.T) {
	f := newFakeServer(t)
	connect := startTurnstile(t, f)
	conn := connect()
	must.Get(conn.Write(newMessage(1, 0, 0, 1000)[:500]))(t)
	ask(t, connect(), newMessage(2, 0, 0, 60)) // half a request does not hold the turn
	_ = conn.Close()
	ask(t, connect(), newMessage(3, 0, 0, 60))
	if f.served.Load() != 2 {
		t.Errorf("%d requests got through", f.served.Load())
	}
}

func TestClientGoesBeforeTheReply(t *testing.T) {
	f := newFakeServer(t)
	reached, goOn := make(chan struct{}), make(chan struct{})
	f.before = sync.OnceFunc(func() { close(reached); <-goOn })
	connect := startTurnstile(t, f)
	conn := connect()
	must.Get(conn.Write(newMessage(1, 0, 0, 60)))(t)
	<-reached
	_ = conn.Close()
	close(goOn)
	ask(t, connect(), newMessage(2, 0, 0, 60))
	if f.most.Load() != 1 || f.served.Load() != 2 {
		t.Errorf("%d at once, %d served", f.most.Load(), f.served.Load())
	}
}

func TestClientThatDoesNotReadHoldsNothing(t *testing.T) {
	f := newFakeServer(t)
	f.largestReply = 20_000_000
	connect := startTurnstile(t, f)
	// its reply does not fit in the socket's buffers
	must.Get(connect().Write(newMessage(1, 0, 0, 60)))(t)
	ask(t, connect(), newMessage(2, 0, 0, 60))
}

func TestClientGoesBeforeItsTurn(t *testing.T) {
	client, other := net.Pipe()
	from := newRequests(client)
	must.Get(other.Write(newMessage(1, 0, 0, 60)))(t)
	request := <-from.list
	_ = other.Close()
	<-from.gone
	var server bytes.Buffer
	if _, err := new(turnstile).exchange(&server, nil, request, from.gone); !errors.Is(err, errGone) || server.Len() > 0 {
		t.Errorf("%d bytes were sent for a client that had gone: %v", server.Len(), err)
	}
}
