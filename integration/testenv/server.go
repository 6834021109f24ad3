package testenv

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// server is what servers have in common, whatever they are.
type server struct {
	*output
	t       testing.TB
	name    string // in messages
	port    int
	process *process
}

// newServer reserves a port for a server that is not started yet. Its log is shown if the test
// fails.
func newServer(t testing.TB, kind string) *server {
	t.Helper()
	s := &server{output: &output{}, t: t, port: reservePort(t)}
	s.name = kind + " " + s.Addr()
	showOnFailure(t, s.name, s)
	return s
}

// await is like eventually, and fails if this server ends.
func (s *server) await(what string, condition func(context.Context) error) {
	s.t.Helper()
	eventually(s.t, what, func(ctx context.Context) error {
		if err := s.process.ended(); err != nil {
			s.t.Fatalf("%s: %v\n%s", what, err, lastOf(s.Log()))
		}
		return condition(ctx)
	})
}

// Addr returns the server's host and port, which stay the same over restarts.
func (s *server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Kill ends the server and all its children as kill -9 does.
func (s *server) Kill() { s.process.kill() }

// Pause suspends the server and all its children (SIGSTOP). Connections stay open and new ones are
// accepted, but nothing is answered.
func (s *server) Pause() {
	s.t.Helper()
	must(s.t, s, "pause "+s.name, s.process.pause())
}

// Resume continues a paused server (SIGCONT). It then serves what was sent meanwhile.
func (s *server) Resume() {
	s.t.Helper()
	must(s.t, s, "resume "+s.name, s.process.resume())
}

// Ended reports whether the server has ended.
func (s *server) Ended() bool { return !s.process.alive() }

// stop asks the server by a signal to end, and waits until it has.
func (s *server) stop(signal syscall.Signal) {
	s.t.Helper()
	must(s.t, s, "stop "+s.name, s.process.signal(signal))
	eventually(s.t, "stop "+s.name, func(context.Context) error {
		if s.process.alive() {
			return errors.New("it still runs")
		}
		return nil
	})
}
