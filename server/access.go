package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
)

// mayListen refuses an address that others can reach if nobody asks them for tokens. The
// configuration knows only the name of the address.
func mayListen(cfg *config.Config, addr net.Addr) error {
	if cfg.Auth.Mode != "auto" || cfg.Auth.Enforced() || config.IsLoopback(addr.String()) {
		return nil
	}
	return fmt.Errorf("server.addr: %s is %s, which %s", cfg.Server.Addr, addr, config.NotLoopback)
}

// warnOfAccess warns of what an operator may not have meant.
func warnOfAccess(cfg *config.Config, addr string, log *slog.Logger) {
	auth := cfg.Auth
	switch {
	case auth.Mode == "none" && len(auth.Tokens) > 0:
		log.Warn("auth.mode is none: anyone who reaches the address can take numbers, change biz types and create tokens; auth.tokens is ignored")
	case auth.Mode == "none":
		log.Warn("auth.mode is none: anyone who reaches the address can take numbers, change biz types and create tokens")
	case auth.Mode == "token" && len(auth.Tokens) == 0:
		log.Warn("auth.mode is token and auth.tokens is empty: only tokens that the store has already let anybody in")
	}
	if auth.Enforced() && !cfg.Server.TLS.Configured() && !config.IsLoopback(addr) {
		log.Warn("tokens cross the network in the clear: set server.tls.certFile and server.tls.keyFile, or put a proxy in front that encrypts")
	}
}

// loadTokens reads the tokens of the store until that works or ctx ends.
func loadTokens(ctx context.Context, tokens *access.Tokens, log *slog.Logger) {
	failed := retry.OnChange(func(err error) { log.Error("the tokens of the store cannot be read yet", "error", err) })
	// its only error is the end of ctx
	_ = retry.Do(ctx, retry.Policy{First: backends.RetryPause, Failed: failed}, tokens.Reload)
}
