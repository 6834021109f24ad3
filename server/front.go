package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/audit"
	"github.com/seqd/seqd/server/certificate"
	"github.com/seqd/seqd/server/compat"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/console"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// front is what callers reach: the port and the API behind it.
type front struct {
	base    *base
	addr    string // what is listened on, "" until then
	gate    *gate.Gate
	api     *httpapi.API
	tokens  *access.Tokens
	freed   chan struct{} // has an element if tokens of the store have to be read again
	proxies forwarded.Proxies
	reloads reloads
	console *console.Console // nil without
	audit   *audit.Log
	cert    *certificate.Certificate // nil if connections are not encrypted
	resp    respFront
	http    *http.Server  // nil until it serves
	ended   chan struct{} // closed when it no longer serves
	err     error         // why; known when ended is closed
}

// listen opens the port and serves in the background. The API answers that the service is starting.
func (f *front) listen(ctx context.Context) error {
	f.newGate()
	encryption, err := f.encryption(ctx)
	if err != nil {
		return err
	}
	listener, err := f.base.openPort(ctx, "server.addr", f.base.cfg.Server.Addr)
	if err != nil {
		return err
	}
	forResp, err := f.openResp(ctx)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	addr := listener.Addr().String()
	if err = f.base.trace(addr); err == nil {
		err = f.newAPI()
	}
	if err != nil {
		err = errors.Join(err, listener.Close())
		if forResp != nil {
			err = errors.Join(err, forResp.Close())
		}
		return err
	}
	f.addr = addr
	f.base.log.Info("listening", "addr", addr, "tls", encryption != nil, "tokensAskedFor", f.base.cfg.Auth.Enforced())
	f.serveResp(forResp, encryption)
	warnOfAccess(f.base.cfg, f.base.log, addrs(listener, forResp)...)
	if f.base.opts.onListen != nil {
		f.base.opts.onListen(listener.Addr())
	}
	f.serve(f.newHTTP(), httpapi.Listener(listener, encryption, f.gate.Connections))
	return nil
}

// newGate makes what every protocol asks, and the tokens.
func (f *front) newGate() {
	f.audit = audit.New(f.base.log, f.base.opts.now)
	f.freed = make(chan struct{}, 1)
	f.tokens = access.New(access.Options{Config: f.base.cfg.Auth.Tokens, Asked: f.base.cfg.Auth.Enforced(), Now: f.base.opts.now, Log: f.base.log})
	opts := f.limits(f.base.cfg)
	opts.FirstRequest, opts.Log = f.base.cfg.Server.ReadHeaderTimeout, f.base.log
	if f.base.cfg.Auth.Enforced() {
		opts.Guard = f.tokens
	}
	f.gate = gate.New(opts)
}

// limits returns the options of the gate that a reload changes.
func (f *front) limits(cfg *config.Config) gate.Options {
	s := &cfg.Server
	return gate.Options{
		MaxCount: s.MaxCount, MaxInFlight: s.MaxInFlight, MaxInFlightBytes: s.MaxInFlightBytes,
		MaxConnections: maxConnections(s.MaxConnections, f.base.log), AccessLog: s.AccessLog, AccessLogPerSecond: s.AccessLogPerSecond,
	}
}

// opening returns the options of the API that a reload changes.
func opening(cfg *config.Config) httpapi.Options {
	return httpapi.Options{MaxBodyBytes: cfg.Server.MaxBodyBytes, Hosts: cfg.Server.HostNames(), PublicMetrics: cfg.Auth.PublicMetrics}
}

// tokensFreed lets the tokens of the store be read again.
func (f *front) tokensFreed() {
	select {
	case f.freed <- struct{}{}:
	default:
	}
}

// newAPI makes the API.
func (f *front) newAPI() (err error) {
	cfg := f.base.cfg.Server
	f.proxies, err = forwarded.New(cfg.ForwardedHeader, cfg.TrustedProxies)
	if err != nil {
		return err
	}
	f.newConsole()
	opts := opening(f.base.cfg)
	opts.Proxies, opts.TLS, opts.Profiles = f.proxies, cfg.TLS.Configured(), cfg.Pprof
	opts.Tokens, opts.Extra, opts.Audit, opts.Reloader = f.tokens, f.extraRoutes(), f.audit, &f.reloads
	opts.Settings = func() any { return f.base.cfg.Describe() }
	if f.base.telemetry.metrics != nil {
		opts.Metrics = f.base.telemetry.metrics
	}
	if f.base.telemetry.traces != nil {
		opts.Tracer = f.base.telemetry.traces
	}
	f.api, err = httpapi.New(f.gate, opts)
	return err
}

// newConsole makes the console, if there is one.
func (f *front) newConsole() {
	cfg := f.base.cfg.Server
	if !cfg.Console {
		return
	}
	f.console = console.New(console.Options{
		TokensAskedFor: f.base.cfg.Auth.Enforced(), Tokens: f.tokens,
		TLS: cfg.TLS.Configured(), Proxies: f.proxies,
		Store: f.store, Build: f.base.opts.build(), Session: cfg.ConsoleSession,
		Now: f.base.opts.now, Clock: f.clock, Log: f.base.log,
	})
}

// clock returns the time that all nodes have in common, that of this node until the service is ready.
func (f *front) clock() time.Time {
	if r, err := f.gate.Running(); err == nil {
		return r.Clock()
	}
	return f.base.opts.now()
}

// handler returns what answers requests.
func (f *front) handler() http.Handler {
	if f.console == nil {
		return f.api
	}
	return f.console.Handler(f.api)
}

// store returns the documents of the store and the ID of this node, nothing until the service is
// ready.
func (f *front) store() (documents persist.Documents, node string) {
	if r, err := f.gate.Running(); err == nil {
		return r.Documents, r.Node
	}
	return nil, ""
}

// extraRoutes returns the routes for clients of other services, and those of the console.
func (f *front) extraRoutes() []httpapi.Extra {
	cfg := f.base.cfg.Compat
	routes := compat.Routes(compat.Options{
		Leaf: cfg.Leaf, LeafSnowflake: cfg.LeafSnowflake, Tinyid: cfg.Tinyid,
		CosID: cfg.CosID != config.CosIDOff, Create: cfg.CosID == config.CosIDCreate, MaxBizTypes: cfg.MaxBizTypes, Token: cfg.Token,
		Named: f.tokens, Gate: f.gate, Now: f.base.opts.now, Log: f.base.log,
	})
	if f.console != nil {
		routes = append(routes, f.console.Routes()...)
	}
	return routes
}

// newHTTP makes the HTTP server.
func (f *front) newHTTP() *http.Server {
	cfg := f.base.cfg.Server
	return &http.Server{
		Handler:                      f.handler(),
		ReadHeaderTimeout:            cfg.ReadHeaderTimeout,
		ReadTimeout:                  cfg.ReadTimeout,
		WriteTimeout:                 cfg.WriteTimeout,
		IdleTimeout:                  cfg.IdleTimeout,
		MaxHeaderBytes:               cfg.MaxHeaderBytes,
		ConnContext:                  httpapi.ConnContext,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(f.base.log.Handler(), slog.LevelDebug),
	}
}

// encryption returns how connections are encrypted, nil if they are not.
func (f *front) encryption(ctx context.Context) (*tls.Config, error) {
	files := f.base.cfg.Server.TLS
	if !files.Configured() {
		return nil, nil
	}
	c, err := certificate.Open(files, f.base.opts.now, f.base.log)
	if err != nil {
		return nil, err
	}
	f.cert = c
	f.base.background.run(ctx, func(ctx context.Context) { c.Watch(ctx, f.base.opts.certLook) })
	return c.Settings(), nil
}

// serve serves in the background.
func (f *front) serve(server *http.Server, listener net.Listener) {
	f.http, f.ended = server, make(chan struct{})
	go func() {
		f.err = server.Serve(listener)
		close(f.ended)
	}()
}

// close closes the listener and waits for running requests, which it cuts off after patience, or
// earlier if the stop is hurried.
func (f *front) close(patience time.Duration) error {
	if f.http == nil {
		return nil
	}
	var known bool // why it no longer serves
	select {
	case <-f.ended:
		known = true
	default:
	}
	ctx, cancel := f.base.opts.patient(patience)
	defer cancel()
	respClosed := make(chan error, 1)
	go func() { respClosed <- f.resp.close(ctx) }()
	err := f.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests were still running after stopTimeout %s, or a second signal: %w", patience, err), f.http.Close())
	}
	err = errors.Join(err, <-respClosed)
	if <-f.ended; !known && !errors.Is(f.err, http.ErrServerClosed) {
		err = errors.Join(err, f.err)
	}
	return err
}
