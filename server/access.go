package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
)

// mayListen refuses an address that others can reach if nobody asks them for tokens. The
// configuration knows only the name of the address.
func mayListen(cfg *config.Config, key, configured string, addr net.Addr) error {
	if cfg.Auth.Mode != "auto" || cfg.Auth.Enforced() || config.IsLoopback(addr.String()) {
		return nil
	}
	return fmt.Errorf("%s: %s is %s, which %s", key, configured, addr, config.NotLoopback)
}

// warnOfAccess warns of what an operator may not have meant. addrs are listened on.
func warnOfAccess(cfg *config.Config, log *slog.Logger, addrs ...string) {
	auth := cfg.Auth
	switch {
	case auth.Mode == "none" && len(auth.Tokens) > 0:
		log.Warn("auth.mode is none: anyone who reaches the address can take numbers, change biz types and create tokens; auth.tokens is ignored")
	case auth.Mode == "none":
		log.Warn("auth.mode is none: anyone who reaches the address can take numbers, change biz types and create tokens")
	case auth.Mode == "token" && len(auth.Tokens) == 0:
		log.Warn("auth.mode is token and auth.tokens is empty: only tokens that the store has already let anybody in")
	}
	if auth.Enforced() && !cfg.Server.TLS.Configured() && slices.ContainsFunc(addrs, reachable) {
		log.Warn("tokens cross the network in the clear: set server.tls.certFile and server.tls.keyFile, or put a proxy in front that encrypts")
	}
}

// reachable reports whether other machines can reach an address.
func reachable(addr string) bool { return !config.IsLoopback(addr) }

// followTokens reads the tokens of the store whenever that is wanted, until it works or ctx ends.
func (f *front) followTokens(ctx context.Context) {
	for {
		select {
		case <-f.freed:
		case <-ctx.Done():
			return
		}
		failed := retry.OnChange(backends.LogWaiting(f.base.log, "the tokens of the store cannot be read yet"))
		// its only error is the end of ctx
		_ = retry.Do(ctx, retry.Policy{First: backends.RetryPause, Failed: failed}, f.tokens.Reload)
	}
}
