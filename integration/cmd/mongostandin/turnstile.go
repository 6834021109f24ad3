package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
)

// turnstile forwards commands from all its clients to the server behind it, one at a time.
//
//  1. A request is read in full before it takes the turn, so that a slow or broken client never
//     holds the turn.
//  2. The reply to a forwarded request is read in full before the turn ends, even if the client has
//     disconnected meanwhile.
//  3. Replies are sent to the client after the turn, so that a client that does not read never
//     holds it.
//  4. A request whose client has disconnected before its turn is dropped, as if the network had lost
//     it. Otherwise clients that give up and ask again would make the queue longer for ever.
type turnstile struct {
	backend string
	log     *slog.Logger

	// held from the first byte of a request to the last byte of its reply, on the server's side
	turn sync.Mutex
}

// serve accepts clients until ctx ends or the listener fails, and returns when all have
// disconnected.
func (t *turnstile) serve(ctx context.Context, listener net.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		clients.Go(func() {
			if err := t.pass(ctx, client); err != nil && ctx.Err() == nil {
				t.log.Warn("connection ended", "client", client.RemoteAddr().String(), "error", err)
			}
		})
	}
}

// pass serves one client until it disconnects.
func (t *turnstile) pass(ctx context.Context, client net.Conn) error {
	defer func() { _ = client.Close() }()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.backend)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()
	return t.relay(client, server)
}

func (t *turnstile) relay(client io.ReadWriter, server io.ReadWriter) error {
	from, replies := newRequests(client), bufio.NewReader(server)
	defer close(from.unwanted)
	for request := range from.list {
		unacknowledged := request.has(flagMoreToCome)
		// Without exhaustAllowed every request has one reply; a streaming heartbeat would keep the
		// turn forever. For an unacknowledged write a reply is requested too, to know when the
		// write is done. The client does not get that reply.
		request.clear(flagExhaustAllowed | flagMoreToCome)
		gone := from.gone
		if unacknowledged {
			gone = nil // nobody waits for it
		}
		reply, err := t.exchange(server, replies, request, gone)
		if err != nil {
			return err
		}
		if unacknowledged {
			continue
		}
		if _, err := client.Write(reply); err != nil {
			return err
		}
	}
	return from.err
}

// requests are what a client sends. They are read while an earlier one waits for its turn, to
// notice that the client has disconnected.
type requests struct {
	list     chan message  // closed at the end
	gone     chan struct{} // closed when the client has disconnected
	err      error         // why, nil if it did so between two requests; valid once list is closed
	unwanted chan struct{} // closed by the reader of list, when it reads no more
}

func newRequests(client io.Reader) *requests {
	r := &requests{list: make(chan message), gone: make(chan struct{}), unwanted: make(chan struct{})}
	go func() {
		defer close(r.list)
		defer close(r.gone)
		for in := bufio.NewReader(client); ; {
			request, err := readMessage(in)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					r.err = err
				}
				return
			}
			select {
			case r.list <- request:
			case <-r.unwanted:
				return
			}
		}
	}()
	return r
}

var errGone = errors.New("the client disconnected before the turn of its request")

// exchange sends one request and returns its reply, or errGone if gone is closed before the turn.
func (t *turnstile) exchange(server io.Writer, replies io.Reader, request message, gone <-chan struct{}) (message, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	select {
	case <-gone:
		return nil, errGone
	default:
	}
	if _, err := server.Write(request); err != nil {
		return nil, err
	}
	reply, err := readMessage(replies)
	if err != nil {
		return nil, fmt.Errorf("the server did not answer: %w", err)
	}
	if reply.responseTo() != request.requestID() || reply.has(flagMoreToCome) {
		return nil, fmt.Errorf("reply to %d with flags %#x on request %d", reply.responseTo(), reply.flags(), request.requestID())
	}
	return reply, nil
}
