package redissim_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/internal/testing/sim/redissim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const timeout = time.Second

// bubble runs a test in a bubble, with a deployment that must know everything it is asked for.
func bubble(t *testing.T, opts redissim.Options, test func(*testing.T, *redissim.Deployment)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, deploy(t, opts))
	})
}

func deploy(t testing.TB, opts redissim.Options) *redissim.Deployment {
	d := redissim.New(opts)
	t.Cleanup(func() {
		d.Close()
		if unknown := d.Unknown(); len(unknown) > 0 {
			t.Errorf("unknown: %q", unknown)
		}
	})
	return d
}

// connect returns a client as the product builds it.
func connect(t testing.TB, s *redissim.Server) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: "192.0.2.1:6379", Protocol: 2, MaxRetries: -1, DialerRetries: 1, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		ContextTimeoutEnabled: true, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			if !s.Up() {
				return nil, syscall.ECONNREFUSED
			}
			mine, its := net.Pipe()
			go s.Serve(its)
			return mine, nil
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// cursor is a cursor with the gen that it saw last.
type cursor struct {
	*rediscursor.Cursor
	testing.TB
	gen, epoch string
}

func open(t testing.TB, s *redissim.Server, counter string) *cursor {
	client := connect(t, s)
	return &cursor{Cursor: rediscursor.Open(rediscursor.Options{Client: client, Batch: redisbatch.New(client), Prefix: "seqd:", Cluster: "c"}, counter), TB: t}
}

func (c *cursor) take(count int64) (rediscursor.Taken, error) {
	return c.Take(context.Background(), rediscursor.Take{Count: count, Threshold: 0.9, Claim: time.Minute, Epoch: c.epoch})
}

// takes expects to get numbers that begin with first.
func (c *cursor) takes(count, first int64) {
	c.Helper()
	taken, err := c.take(count)
	if err != nil || len(taken.Runs) != 1 || taken.Runs[0] != (persist.Range{First: first, Last: first + count - 1}) {
		c.Errorf("got %+v, %v, want %d numbers from %d", taken, err, count, first)
	}
}

// seed begins the cursor with a range.
func (c *cursor) seed(epoch string, first, last int64) {
	c.Helper()
	c.epoch = epoch
	stub, err := c.take(0)
	if err != nil || !stub.Stub {
		c.Fatalf("got %+v, %v, want a stub", stub, err)
	}
	answer, err := c.Install(context.Background(), rediscursor.Install{
		Mode: rediscursor.Seed, Gen: stub.Gen, Epoch: epoch, Range: persist.Range{First: first, Last: last},
	})
	if err != nil || answer.Verdict != rediscursor.Installed {
		c.Fatalf("got %+v, %v, want an install", answer, err)
	}
	c.gen = answer.Gen
}

// isStub expects a cursor that waits for a seed above ceil.
func (c *cursor) isStub(ceil int64) {
	c.Helper()
	if taken, err := c.take(1); err != nil || !taken.Stub || taken.Ceil != ceil {
		c.Errorf("got %+v, %v, want a stub with ceil %d", taken, err, ceil)
	}
}

func do(t testing.TB, s *redissim.Server, args ...string) any {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return reply
}
