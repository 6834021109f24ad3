// Package server is the runtime: it wires configuration, store, strategies and HTTP together and
// runs them until told to stop.
//
// A program of one's own needs no more than this, next to the imports of its strategies and
// plugins:
//
//	cfg, err := config.Load(config.Sources{File: "seqd.yaml", Env: os.Environ()})
//	if err != nil { log.Fatal(err) }
//	err = server.Run(ctx, cfg)
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/server/metrics"
	"github.com/seqd/seqd/server/tracing"
)

// Option changes how Run works.
type Option func(*options)

type options struct {
	log      *slog.Logger
	logTo    io.Writer
	version  string
	revision string
	now      func() time.Time
	observer seqd.Observer
	rejected seqd.RejectedHandler
	onListen func(net.Addr)
	// certLook is the pause between two looks at the files of the certificate.
	certLook time.Duration
}

// WithLogger uses log instead of one made from the configuration.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithLogOutput writes the log to w instead of standard error. Where w blocks or fails, lines are
// dropped, and nothing else happens; but a program whose standard output or error is a pipe must
// ignore SIGPIPE, else Go ends it when the reader has ended.
func WithLogOutput(w io.Writer) Option { return func(o *options) { o.logTo = w } }

// WithClock uses now wherever the time of day matters. It is meant for tests.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithVersion says what is running: to /metrics, /nodes and in traces, instead of what the program
// was built from.
func WithVersion(version string) Option { return func(o *options) { o.version = version } }

// WithRevision says which commit is running, where the program does not know it: one that is built
// without its repository does not. "" says nothing.
func WithRevision(revision string) Option { return func(o *options) { o.revision = revision } }

// WithObserver tells observer what happens, beside what /metrics shows.
func WithObserver(observer seqd.Observer) Option { return func(o *options) { o.observer = observer } }

// WithRejected is told of refusals instead of the default, which logs them.
func WithRejected(handler seqd.RejectedHandler) Option {
	return func(o *options) { o.rejected = handler }
}

// WithOnListen calls f with the address as soon as the port is open.
func WithOnListen(f func(net.Addr)) Option { return func(o *options) { o.onListen = f } }

// Run serves until ctx ends, then stops in order: /readyz turns 503, drainDelay passes, the
// listener closes, running requests end, unused numbers are given back, Redis and the store are
// closed. It returns nil after a clean stop.
//
// The port opens before the store is reached. A store that is out of space or out of reach is tried
// again; any other error of opening it ends Run. A Redis that cannot be used as it is ends Run at
// the start too; one that is out of reach does not.
func Run(ctx context.Context, cfg *config.Config, opts ...Option) error {
	o := options{logTo: os.Stderr, now: time.Now, observer: seqd.NopObserver{}, certLook: 5 * time.Second}
	for _, opt := range opts {
		opt(&o)
	}
	r := &runtime{cfg: cfg, options: o, failed: make(chan error, 1)}
	if r.log == nil {
		r.log, r.logLines = openLog(cfg.Log, o.logTo)
		defer r.logLines.close(logPatience)
	}
	return r.run(ctx)
}

// runtime is one Run.
type runtime struct {
	options
	cfg      *config.Config
	logLines *logWriter // nil with WithLogger
	api      *httpapi.API
	http     *http.Server
	addr     string // what is listened on
	tokens   *access.Tokens
	store    persist.Store
	cluster  string                // the ID of the cluster, as the store has it
	redis    redis.UniversalClient // nil without redis.addrs
	// redisAway says since when and why Redis cannot be used; nil where none is configured.
	redisAway func() (time.Time, error)
	issuer    *seqd.Issuer
	traces    *tracing.Tracing // nil where nothing is traced
	feed      *feed
	catalogue *catalogue
	nodes     *nodes
	claims    []claim // of the biz types that began without the store
	// before the store, where that could not be reached at the start; else nil
	gate     *gate
	alone    map[string]bool // the biz types that began without it
	handlers handlers
	failed   chan error // what ends a run that serves
	answers  answers
	metrics  *metrics.Metrics // nil where nothing is counted
}

func (r *runtime) run(ctx context.Context) error {
	r.measure()
	// What runs in the background while serving ends with it.
	background, stop := context.WithCancel(ctx)
	defer stop()
	served, err := r.listen(background)
	if err != nil {
		return err
	}
	opened := make(chan error, 1)
	go func() { opened <- r.open(background) }()

	select {
	case err = <-opened:
	case err = <-served:
		return r.broken(err, stop, opened)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = nil // told to stop while starting
		}
		return errors.Join(err, r.stop(served))
	}
	go r.issuer.Init(background)
	go r.follow(background)
	go r.catalogue.seedRest(background)
	go r.nodes.beat(background)
	select {
	case err = <-served:
		return r.broken(err, stop, nil)
	case err = <-r.failed:
		return errors.Join(err, r.stop(served))
	case <-ctx.Done():
		r.drain()
		return r.stop(served)
	}
}

// broken ends a run whose HTTP side failed; opened, when not nil, is still to say how opening the
// store ended.
func (r *runtime) broken(err error, stop context.CancelFunc, opened <-chan error) error {
	stop()
	if opened != nil {
		<-opened
	}
	return errors.Join(fmt.Errorf("serve HTTP: %w", err), r.release())
}

// listen opens the port and serves in the background. The channel gets the error of serving.
func (r *runtime) listen(ctx context.Context) (served chan error, err error) {
	s := r.cfg.Server
	r.tokens = access.New(access.Options{Config: r.cfg.Auth.Tokens, Now: r.now, Log: r.log})
	r.api, err = httpapi.New(httpapi.Options{
		MaxCount:           s.MaxCount,
		MaxBodyBytes:       s.MaxBodyBytes,
		MaxInFlight:        s.MaxInFlight,
		MaxInFlightBytes:   s.MaxInFlightBytes,
		TrustedProxies:     s.TrustedProxies,
		AccessLog:          s.AccessLog == "on",
		AccessLogPerSecond: s.AccessLogPerSecond,
		Guard:              r.guard(),
		Hosts:              s.HostNames(),
		PublicMetrics:      r.cfg.Auth.PublicMetrics,
		Tokens:             r.tokens,
		Answers:            &r.answers,
		Metrics:            r.shownMetrics(),
		Log:                r.log,
	})
	if err != nil {
		return nil, err
	}
	r.watch(metrics.Source{Backends: notYet})
	encryption, err := r.encryption(ctx)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("server.addr: %w", err)
	}
	if err := r.mayOpen(listener.Addr()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	r.http = &http.Server{
		Handler:                      r.api,
		ReadHeaderTimeout:            s.ReadHeaderTimeout,
		ReadTimeout:                  s.ReadTimeout,
		WriteTimeout:                 s.WriteTimeout,
		IdleTimeout:                  s.IdleTimeout,
		MaxHeaderBytes:               s.MaxHeaderBytes,
		ConnContext:                  httpapi.ConnContext,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	r.addr = listener.Addr().String()
	if err := r.trace(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	r.log.Info("listening", "addr", listener.Addr().String(), "tls", encryption != nil, "tokensAskedFor", r.cfg.Auth.Enforced())
	r.warnOfAccess()
	if r.onListen != nil {
		r.onListen(listener.Addr())
	}
	served = make(chan error, 1)
	bounded := httpapi.Listener(listener, httpapi.ListenerOptions{TLS: encryption, MaxConnections: r.maxConnections(), API: r.api, Log: r.log})
	go func() { served <- r.http.Serve(bounded) }()
	return served, nil
}

// drain gives balancers time to notice.
func (r *runtime) drain() {
	r.log.Info("stopping", "drainDelay", r.cfg.Server.DrainDelay.String())
	r.api.Drain()
	time.Sleep(r.cfg.Server.DrainDelay)
}

// stop closes the listener, waits for running requests and releases what issuing uses.
func (r *runtime) stop(served <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Server.StopTimeout)
	defer cancel()
	err := r.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests were still running after stopTimeout %s: %w", r.cfg.Server.StopTimeout, err), r.http.Close())
	}
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return errors.Join(err, r.release())
}

// release gives numbers back and closes Redis and the store; each part happens even when the one
// before failed.
func (r *runtime) release() error {
	var failed []error
	if r.issuer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Server.StopTimeout)
		defer cancel()
		failed = append(failed, r.issuer.Close(ctx), r.handlers.close(ctx))
	}
	if r.redis != nil {
		// Its errors are those of connections that were broken anyway: nothing is lost by them.
		failed = append(failed, r.within("Redis", func() error { _ = r.redis.Close(); return nil }))
	}
	if r.store != nil {
		failed = append(failed, r.within("the store", r.store.Close))
	}
	r.endTraces()
	r.log.Info("stopped")
	return errors.Join(failed...)
}

// within closes something, or leaves it to the end of the process when it hangs.
func (r *runtime) within(what string, shut func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Server.StopTimeout)
	defer cancel()
	err := within(ctx, func(context.Context) error { return shut() })
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s did not close within stopTimeout %s", what, r.cfg.Server.StopTimeout)
	}
	return err
}
