// Command customplugin is seqd with a plugin, a rejection handler and a strategy of one's own. What registers them stands in region.go, shout.go and
// ticket.go; nothing of seqd was changed for it. docs/PLUGINS.md walks through it.
//
//	go run ./examples/customplugin examples/customplugin/seqd.yaml
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard" // everything that comes with seqd
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // whoever reads the log may end
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, opts ...server.Option) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: customplugin FILE")
	}
	cfg, err := config.Load(config.Sources{File: args[0], Env: os.Environ()})
	if err != nil {
		return err
	}
	return server.Run(ctx, cfg, opts...)
}
