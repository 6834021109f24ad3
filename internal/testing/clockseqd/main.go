// Command clockseqd is seqd with a clock that a test can change while it runs. The environment
// variable SEQD_TEST_CLOCK names a file with the offset of the clock in ns, as 8 bytes in
// little-endian order. All settings come from the environment. The command is in the main module, and
// not next to its tests, so that it is built from the same versions of all dependencies as seqd.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/logging"
	"github.com/seqd/seqd/server/ops"
	_ "github.com/seqd/seqd/standard"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves, or does what `seqd restored`, `seqd raise --yes` and `seqd failover --confirm` do.
func run(ctx context.Context, args, env []string, out, errs io.Writer) error {
	cfg, err := config.Load(config.Sources{Env: env})
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "restored":
		return ops.Restored(ctx, cfg, func(bizType, done string) { fmt.Fprintf(out, "%s: %s\n", bizType, done) })
	case len(args) == 4 && args[0] == "raise" && args[3] == "--yes":
		return raise(ctx, cfg, args[1], args[2], out)
	case len(args) == 2 && args[0] == "failover" && args[1] == "--confirm":
		_, err := ops.Failover(ctx, cfg, true, out)
		return err
	case len(args) > 0:
		return errors.New("the only commands are restored, raise BIZTYPE NUMBER --yes and failover --confirm")
	}
	now, err := clock(os.Getenv("SEQD_TEST_CLOCK"))
	if err != nil {
		return err
	}
	return server.Run(ctx, cfg, server.WithLogger(logging.New(logging.Options(cfg.Log), errs)), server.WithClock(now))
}

// raise does what `seqd raise --yes` does, also beside nodes.
func raise(ctx context.Context, cfg *config.Config, bizType, text string, out io.Writer) error {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	raised, err := ops.Raise(ctx, cfg, bizType, number, ops.How{Sure: true, Beside: true})
	if err == nil {
		fmt.Fprintf(out, "%s: %s\n", bizType, raised)
	}
	return err
}

// clock returns a clock that adds the current offset in the file to the time. The file stays open.
func clock(path string) (now func() time.Time, err error) {
	if path == "" {
		return time.Now, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return func() time.Time {
		var raw [8]byte
		if _, err := file.ReadAt(raw[:], 0); err != nil {
			panic(fmt.Sprintf("the clock's file: %v", err)) // the test has ended
		}
		return time.Now().Add(time.Duration(binary.LittleEndian.Uint64(raw[:])))
	}, nil
}
