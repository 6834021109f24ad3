// Package server is the service. It connects configuration, back ends, biz types and HTTP, runs
// them, and stops them in the reverse order.
//
// A program of your own needs only this, and the imports of its strategies and plugins:
//
//	cfg, err := config.Load(config.Sources{File: "seqd.yaml", Env: os.Environ()})
//	if err != nil { log.Fatal(err) }
//	err = server.Run(ctx, cfg)
//
// The packages below this one do the work. The files of this package connect them:
//
//   - options.go: what a program may change
//   - server.go, cleanups.go, background.go: the life cycle
//   - front.go, access.go, connections.go: the port and the API behind it
//   - respfront.go: the port for Redis clients
//   - back.go: store, Redis, biz types; what runs in the background
//   - answers.go: where answers to an Idempotency-Key are kept
//   - telemetry.go: metrics and traces
//   - reload.go: the configuration is read again
//
// A function that opens something during Start also adds the clean-up for it; see [cleanups].
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/internal/resident"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/logging"
)

// logPatience is how long a stop waits for the rest of the log to be written.
const logPatience = 2 * time.Second

// Run serves until ctx ends, then stops in order: /readyz turns 503, drainDelay passes, the
// listener closes, running requests end, unused numbers are given back, Redis and the store are
// closed. It returns nil after a clean stop.
//
// The port opens before the store is reached. A store that is out of space or out of reach is tried
// again; any other error of opening it ends Run. A Redis that cannot be used as it is ends Run at
// the start too; one that is out of reach does not.
func Run(ctx context.Context, cfg *config.Config, opts ...Option) error {
	s := New(cfg, opts...)
	err := s.Start(ctx)
	switch {
	case err == nil:
		s.base.background.run(ctx, settle)
		if err = s.Wait(ctx); err == nil {
			s.Drain()
		}
	case ctx.Err() != nil:
		err = nil // asked to stop while it started
	}
	return errors.Join(err, s.Stop())
}

// settled is how long after its start the service has what it uses in memory.
const settled = time.Second

// settle gives back the memory that only the start needed.
func settle(ctx context.Context) {
	select {
	case <-time.After(settled):
		_ = resident.Trim() // without it, more memory is resident
	case <-ctx.Done():
	}
}

// Server is the service of one process: [New], [Server.Start], [Server.Wait], [Server.Drain],
// [Server.Stop], in this order.
type Server struct {
	base  base
	front front
	back  back
	stop  func() error

	starting sync.Mutex      // held by Start, and by Stop once that has returned
	asked    context.Context // ends when Stop is called
	ask      context.CancelFunc
}

// base is what the parts of a Server share.
type base struct {
	cfg        *config.Config                // of the start
	now        atomic.Pointer[config.Config] // with what reloads have changed
	opts       options
	log        *slog.Logger
	telemetry  telemetry
	background background
	cleanups   cleanups
	failed     chan error // gets what ends a service that runs
}

// New returns a Server that has opened nothing but its log. It must be stopped.
func New(cfg *config.Config, opts ...Option) *Server {
	s := &Server{base: base{cfg: cfg, opts: newOptions(opts), failed: make(chan error, 1)}}
	s.base.background.open()
	s.asked, s.ask = context.WithCancel(context.Background())
	s.front.base = &s.base
	s.back.base, s.back.front = &s.base, &s.front
	s.stop = sync.OnceValue(s.shutDown)
	if s.base.log = s.base.opts.log; s.base.log == nil {
		s.base.log, s.base.telemetry.lines = logging.Open(logging.Options(cfg.Log), s.base.opts.logTo)
	}
	s.base.cleanups.add("the log", logPatience, s.closeLog)
	s.front.reloads.open(&s.base, &s.front)
	s.base.count(s.source)
	return s
}

// closeLog writes the rest of the log.
func (s *Server) closeLog(context.Context) error {
	if s.front.addr != "" {
		s.base.log.Info("stopped")
	}
	if lines := s.base.telemetry.lines; lines != nil {
		lines.Close(logPatience)
	}
	return nil
}

// Start opens the port, then the back ends, and returns when the service can issue, or when ctx
// ends. After an error the caller must still call [Server.Stop], which closes what was opened.
func (s *Server) Start(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	if err := s.asked.Err(); err != nil {
		return fmt.Errorf("start a service that was stopped: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.asked, cancel)()
	if err := s.front.listen(ctx); err != nil {
		return err
	}
	if s.base.opts.load != nil {
		s.base.background.run(ctx, s.front.reloads.follow)
	}
	opened := make(chan error, 1)
	go func() { opened <- s.back.open(ctx) }()
	select {
	case err := <-opened:
		return err
	case <-s.front.ended:
		cancel()
		<-opened
		return fmt.Errorf("serve HTTP: %w", s.front.err)
	}
}

// Wait returns nil when ctx ends, or why the service must stop before.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-s.front.ended:
		return fmt.Errorf("serve HTTP: %w", s.front.err)
	case err := <-s.base.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Drain makes /readyz say 503 and waits for drainDelay, so that balancers notice. A stop that is
// hurried ends the wait. Requests are still answered.
func (s *Server) Drain() {
	delay := s.base.cfg.Server.DrainDelay
	s.base.log.Info("stopping", "drainDelayMs", delay.Milliseconds())
	s.front.gate.Drain()
	select {
	case <-time.After(delay):
	case <-s.base.opts.hurry.Done():
	}
}

// Stop closes the listener, waits for running requests and undoes what Start has done, the last
// step first. Each step is bounded in time and happens even if one before it failed; the errors are
// joined. Calling it again returns the same. A Start that is under way ends first.
func (s *Server) Stop() error { return s.stop() }

func (s *Server) shutDown() error {
	s.ask()
	s.starting.Lock()
	defer s.starting.Unlock()
	err := s.front.close(s.base.cfg.Server.StopTimeout)
	s.base.background.end()
	return errors.Join(err, s.base.cleanups.run())
}
