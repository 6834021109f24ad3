// Package seams lets a simulation take the place of what a service has outside of its process: its
// ports, Redis and the store. A context carries them, so a program that uses seqd does not see them:
// package server and the commands beside it ask [Of] at the one place where each of these is opened.
//
// Clocks need no seam: time passes as testing/synctest lets it, and what is a time of day comes from
// the clock that server.WithClock sets.
package seams

import (
	"context"
	"net"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
)

// Seams are functions that a simulation gives to a service. If one is nil, the service uses the real
// thing.
type Seams struct {
	// Listen opens a port.
	Listen func(ctx context.Context, addr string) (net.Listener, error)
	// DialRedis connects to a Redis server.
	DialRedis func(ctx context.Context, network, addr string) (net.Conn, error)
	// DialReceiver connects to a receiver of events.
	DialReceiver func(ctx context.Context, network, addr string) (net.Conn, error)
	// Poll is whether nodes learn of changes by polling the store only, and not over Redis: go-redis
	// holds a mutex of a subscription while it waits, which stops the time of a bubble.
	Poll bool
	// OpenStore opens the store. It may be called again.
	OpenStore func(ctx context.Context, how driver.How) (persist.Store, error)
	// OpenTarget opens the store that a command moves everything to.
	OpenTarget func(ctx context.Context, how driver.How) (persist.Store, error)
	// OpenCoordinator opens a coordinator.
	OpenCoordinator func() coordination.Coordinator
}

type key struct{}

// With returns a context with seams.
func With(ctx context.Context, s Seams) context.Context { return context.WithValue(ctx, key{}, s) }

// Target returns the context for what a command does with the store that it moves everything to.
func Target(ctx context.Context) context.Context {
	s := Of(ctx)
	if s.OpenTarget == nil {
		return ctx
	}
	s.OpenStore = s.OpenTarget
	return With(ctx, s)
}

// Of returns the seams of a context; they are all nil in a service that is not simulated.
func Of(ctx context.Context) Seams {
	s, _ := ctx.Value(key{}).(Seams)
	return s
}
