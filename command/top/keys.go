package top

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/seqd/seqd/command/clitool"
)

// untilQuit returns a context that also ends when the user types q, or the terminal hangs up. It
// clears the modes of the terminal that would keep a key from being read at once; stop restores
// them. Ctrl-C stays a signal.
func untilQuit(ctx context.Context, env *clitool.Env) (quit context.Context, stop func()) {
	// By default these two end the process with the modes as they are.
	ctx, ignore := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	fd, ok := env.Descriptor(env.In)
	if !ok {
		return ctx, ignore
	}
	restore, err := readKeys(fd)
	if err != nil { // Ctrl-C is left
		return ctx, ignore
	}
	quit, cancel := context.WithCancel(ctx)
	go func() { // it waits for a key until the process ends
		key := make([]byte, 1)
		for {
			if n, err := env.In.Read(key); err != nil || n == 1 && (key[0] == 'q' || key[0] == 'Q') {
				cancel()
				return
			}
		}
	}()
	return quit, func() { cancel(); restore(); ignore() }
}
