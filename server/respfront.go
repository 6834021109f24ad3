package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/resp"
)

// respFront is what Redis clients reach. It does nothing if resp.addr is empty.
type respFront struct {
	server *resp.Server  // nil until it serves
	ended  chan struct{} // closed when it no longer serves
}

// openPort listens on an address of the configuration.
func (b *base) openPort(ctx context.Context, key, addr string) (net.Listener, error) {
	listen := seams.Of(ctx).Listen
	if listen == nil {
		listen = func(ctx context.Context, addr string) (net.Listener, error) {
			return (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		}
	}
	l, err := listen(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if err := mayListen(b.cfg, key, addr, l.Addr()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// openResp listens for Redis clients. The listener is nil if resp.addr is empty.
func (f *front) openResp(ctx context.Context) (net.Listener, error) {
	cfg := f.base.cfg.Resp
	if !cfg.Configured() {
		return nil, nil
	}
	return f.base.openPort(ctx, "resp.addr", cfg.Addr)
}

// serveResp serves Redis clients in the background.
func (f *front) serveResp(l net.Listener, encryption *tls.Config) {
	if l == nil {
		return
	}
	cfg, addr := f.base.cfg.Server, l.Addr()
	version, _ := f.base.opts.built()
	opts := resp.Options{
		Gate: f.gate, Refused: f.refusedCommand, TLS: encryption, IdleTimeout: cfg.IdleTimeout, ReadTimeout: cfg.ReadTimeout, WriteTimeout: cfg.WriteTimeout, Version: version,
		LargeIntegers: f.base.cfg.Resp.LargeIntegers,
	}
	if f.base.telemetry.metrics != nil {
		opts.Metrics = f.base.telemetry.metrics
	}
	if f.base.telemetry.traces != nil {
		opts.Tracer = f.base.telemetry.traces
	}
	server, ended := resp.New(opts), make(chan struct{})
	f.resp.server, f.resp.ended = server, ended
	f.base.log.Info("listening for Redis clients", "addr", addr.String(), "tls", encryption != nil)
	if f.base.opts.onListenResp != nil {
		f.base.opts.onListenResp(addr)
	}
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, resp.ErrClosed) {
			select {
			case f.base.failed <- fmt.Errorf("serve the Redis protocol: %w", err):
			default: // the service ends already
			}
		}
	}()
}

// refusedCommand writes the audit line of a command whose client has no right to it.
func (f *front) refusedCommand(command, caller, addr, requestID string, code seqd.Code) {
	status := http.StatusForbidden
	if code == seqd.CodeUnauthorized {
		status = http.StatusUnauthorized
	}
	f.audit.Write(context.Background(), admin.Attempt{Caller: caller, Addr: addr, RequestID: requestID, Method: command, Status: status})
}

// close closes the listener and the connections, and cuts off those that are busy when ctx ends.
func (r *respFront) close(ctx context.Context) error {
	if r.server == nil {
		return nil
	}
	err := r.server.Shutdown(ctx)
	<-r.ended
	return err
}

// connections returns how many connections are open; nil if there is no port.
func (r *respFront) connections() func() int64 {
	if r.server == nil {
		return nil
	}
	return r.server.Connections
}

// addrs returns the addresses of listeners; nil ones have none.
func addrs(listeners ...net.Listener) (list []string) {
	for _, l := range listeners {
		if l != nil {
			list = append(list, l.Addr().String())
		}
	}
	return list
}
