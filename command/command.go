// Package command is the command line of seqd: the service and every sub-command. To build seqd
// with more plugins and strategies, write a program that imports them, package standard and this
// package, and calls [Main]. They are then available in every sub-command.
//
//	import (
//		_ "example.com/acme/numbers" // registers plugins and strategies in init functions
//
//		"github.com/seqd/seqd/command"
//		_ "github.com/seqd/seqd/standard"
//	)
//
//	func main() { command.Main() }
package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/seqd/seqd/internal/gcpace"
	"github.com/seqd/seqd/server"
)

// The exit codes. None of them is 2, because a Go program exits with 2 if it panics, and a
// supervisor must restart it then.
const (
	// ExitOK is the code of a command that succeeded, and of a service that stopped on a signal.
	ExitOK = 0
	// ExitFailed is the code of every other failure. Another try may succeed.
	ExitFailed = 1
	// ExitConfig is the code for a mistake in the configuration or on the command line. It is
	// EX_CONFIG of sysexits.h. Another try cannot succeed, so deploy/seqd.service does not restart
	// a service that exits with it.
	ExitConfig = 78
)

// Option changes what [Main] and [Run] do.
type Option func(*program)

// program is a command line with its options.
type program struct {
	version, revision string
	env               []string
	in                io.Reader
	serve             []server.Option
}

// WithVersion sets the version and the commit of the program, in place of those that Go recorded in
// the binary. "" sets nothing.
func WithVersion(version, revision string) Option {
	return func(p *program) { p.version, p.revision = version, revision }
}

// WithEnv replaces the environment, as [os.Environ] returns it.
func WithEnv(env []string) Option { return func(p *program) { p.env = env } }

// WithInput replaces the standard input, which commands read definitions and answers from.
func WithInput(in io.Reader) Option { return func(p *program) { p.in = in } }

// WithServer adds options for the service that serve runs.
func WithServer(opts ...server.Option) Option {
	return func(p *program) { p.serve = append(p.serve, opts...) }
}

// Main runs the command line of this process until it is done or stopped by SIGINT or SIGTERM, and
// exits with its exit code.
func Main(opts ...Option) {
	gcpace.Start()
	// The reader of the log may end. By default Go ends a program that writes to a broken standard
	// output.
	signal.Ignore(syscall.SIGPIPE)
	ctx, hurry := signalled()
	os.Exit(Run(ctx, os.Args[1:], os.Stdout, os.Stderr, append(opts, WithServer(server.WithHurry(hurry)))...))
}

// signalled returns two contexts: the first SIGINT or SIGTERM ends the first context, the second
// signal ends the second context. A third signal ends the process at once.
func signalled() (stopped, hurried context.Context) {
	stopped, stop := context.WithCancel(context.Background())
	hurried, hurry := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals
		signal.Stop(signals) // a command can have its own handler
		hurry()
	}()
	return stopped, hurried
}

// Run runs one command line, without the name of the program, and returns its exit code. It writes
// results to out, and errors and the log to errs. The service stops cleanly when ctx ends.
func Run(ctx context.Context, args []string, out, errs io.Writer, opts ...Option) int {
	p := program{env: os.Environ(), in: os.Stdin}
	for _, opt := range opts {
		opt(&p)
	}
	return p.run(ctx, args, out, errs)
}
