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
	requests, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		request, err := readMessage(requests)
		if errors.Is(err, io.EOF) && request == nil {
			return nil
		}
		if err != nil {
			return err
		}
		unacknowledged := request.has(flagMoreToCome)
		// Without exhaustAllowed every request has one reply; a streaming heartbeat would keep the
		// turn forever. For an unacknowledged write a reply is requested too, to know when the
		// write is done. The client does not get that reply.
		request.clear(flagExhaustAllowed | flagMoreToCome)
		reply, err := t.exchange(server, replies, request)
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
}

// exchange sends one request and returns its reply.
func (t *turnstile) exchange(server io.Writer, replies io.Reader, request message) (message, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
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
