package server

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/httpapi"
)

// guard is what asks callers for tokens, nil where everybody may call.
func (r *runtime) guard() httpapi.Guard {
	if !r.cfg.Auth.Enforced() {
		return nil
	}
	return r.tokens
}

// mayOpen refuses an address that others can reach while nobody asks them for tokens; the
// configuration knows only its name.
func (r *runtime) mayOpen(addr net.Addr) error {
	if r.cfg.Auth.Mode != "auto" || r.cfg.Auth.Enforced() || config.IsLoopback(addr.String()) {
		return nil
	}
	return fmt.Errorf("server.addr: %s is %s, which %s", r.cfg.Server.Addr, addr, config.NotLoopback)
}

// warnOfAccess says what an operator may not have meant.
func (r *runtime) warnOfAccess() {
	auth := r.cfg.Auth
	switch {
	case auth.Mode == "none" && len(auth.Tokens) > 0:
		r.log.Warn("auth.mode is none: whoever reaches the address can take numbers, change biz types and make tokens, and auth.tokens are not asked for")
	case auth.Mode == "none":
		r.log.Warn("auth.mode is none: whoever reaches the address can take numbers, change biz types and make tokens")
	case auth.Mode == "token" && len(auth.Tokens) == 0:
		r.log.Warn("auth.mode is token and auth.tokens is empty: only tokens that the store has already let anybody in")
	}
	if auth.Enforced() && !r.cfg.Server.TLS.Configured() && !config.IsLoopback(r.addr) {
		r.log.Warn("tokens cross the network in the clear: set server.tls.certFile and server.tls.keyFile, or put a proxy in front that encrypts")
	}
}

// loadTokens reads the tokens of the store, again and again until that worked or ctx ends. A reason
// is logged once, not at every attempt.
func (r *runtime) loadTokens(ctx context.Context) {
	logged := ""
	for {
		err := r.tokens.Reload(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if reason := err.Error(); reason != logged {
			r.log.Error("the tokens of the store cannot be read yet", "error", err)
			logged = reason
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(openRetry):
		}
	}
}
