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
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seqd/seqd/internal/gcpace"
	"github.com/seqd/seqd/internal/version"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

const usage = `seqd issues numbers over HTTP: GET /seq/{bizType}

Usage:
  seqd [serve] --config FILE [--KEY VALUE ...]
        Run the service.
  seqd check-config --config FILE
        Check the configuration.
  seqd doctor --config FILE
        Check the configuration and everything that it names (files, stores, Redis, hosts, clocks),
        and suggest changes. It changes nothing. It exits with 1 if something keeps seqd from working.
  seqd raise BIZTYPE NUMBER --config FILE
        After restoring a backup of the store: make BIZTYPE continue above NUMBER. Stop every seqd
        before the restore, and start them after this command has returned. It never lowers a
        counter. Numbers reserved in Redis count as issued.
  seqd restored --config FILE
        After restoring a backup of the store, or of the Redis that holds machine IDs: make every new
        lease of a machine ID begin above all that may have been granted. Current leases stay.
  seqd failover [--confirm] --config FILE
        Show whether the server of the store has failed over and may have lost what it acknowledged
        last, which biz types that may concern, and what to do. With --confirm: let nodes create
        counters again. Before that, raise (seqd raise) each biz type and period that began shortly
        before the failover, because a counter that was lost looks new. It exits with 1 while a
        failover is not confirmed.
  seqd compact --config FILE
        With store.driver bolt: rewrite the files of the store without their free space. Stop seqd
        first. If this command is interrupted, the files stay intact.
  seqd healthcheck --config FILE
        Ask the node that runs with this configuration whether it is alive, for at most 2 s, and
        print its readiness. It exits with 0 or 1. It opens neither the store nor Redis.
  seqd token
        Generate a secret, and the token for the configuration that belongs to it.
  seqd version
        Print the version; also seqd --version.

Every key of the configuration is a flag (--server.addr 127.0.0.1:9000) and an environment variable
(SEQD_SERVER_ADDR). Flags override the environment, and the environment overrides the file.

Exit codes: 0 done; 1 failed, 78 a mistake in the configuration or on the command line (EX_CONFIG).
docs/CONFIGURATION.md explains the keys:
`

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
	serve             []server.Option
}

// WithVersion sets the version and the commit of the program, in place of those that Go recorded in
// the binary. "" sets nothing.
func WithVersion(version, revision string) Option {
	return func(p *program) { p.version, p.revision = version, revision }
}

// WithEnv replaces the environment, as [os.Environ] returns it.
func WithEnv(env []string) Option { return func(p *program) { p.env = env } }

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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(Run(ctx, os.Args[1:], os.Stdout, os.Stderr, opts...))
}

// Run runs one command line, without the name of the program, and returns its exit code. It writes
// results to out, and errors and the log to errs. The service stops cleanly when ctx ends.
func Run(ctx context.Context, args []string, out, errs io.Writer, opts ...Option) int {
	p := program{env: os.Environ()}
	for _, opt := range opts {
		opt(&p)
	}
	return p.run(ctx, args, out, errs)
}

func (p *program) run(ctx context.Context, args []string, out, errs io.Writer) int {
	command := "serve"
	if len(args) == 1 && args[0] == "--version" {
		args[0] = "version"
	}
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	if !slices.Contains([]string{"serve", "check-config", "doctor", "raise", "restored", "failover", "compact", "healthcheck", "token", "version", "help"}, command) {
		fmt.Fprintf(errs, "seqd: no command %q; see seqd help\n", command)
		return ExitConfig
	}
	src, operands, confirm, err := parseFlags(command, args, p.env)
	switch {
	case errors.Is(err, flag.ErrHelp), err == nil && command == "help":
		printUsage(out)
		return ExitOK
	case err != nil:
		fmt.Fprintf(errs, "seqd: %v; see seqd help\n", err)
		return ExitConfig
	case command == "version":
		fmt.Fprintln(out, p.versionLine())
		return ExitOK
	case command == "token":
		printToken(out)
		return ExitOK
	}
	cfg, err := config.Load(src)
	if err != nil {
		fmt.Fprintf(errs, "seqd: the configuration is wrong:\n%v\n", err)
		return ExitConfig
	}
	switch command {
	case "check-config":
		fmt.Fprintf(out, "the configuration is good: %d biz types, store %s, address %s\n", len(cfg.BizTypes), cfg.Store.Driver, cfg.Server.Addr)
		return ExitOK
	case "doctor":
		if ops.Doctor(ctx, cfg, out) {
			return ExitFailed
		}
		return ExitOK
	case "raise":
		return raise(ctx, cfg, operands, out, errs)
	case "restored":
		return restored(ctx, cfg, out, errs)
	case "failover":
		return failover(ctx, cfg, confirm, out, errs)
	case "compact":
		return compact(cfg, out, errs)
	case "healthcheck":
		return healthcheck(ctx, cfg, out, errs)
	}
	serve := append([]server.Option{server.WithLogOutput(errs), server.WithVersion(p.version), server.WithRevision(p.revision)}, p.serve...)
	if err := server.Run(ctx, cfg, serve...); err != nil {
		sayInTime(errs, fmt.Sprintf("seqd: %v\n", err))
		return ExitFailed
	}
	return ExitOK
}

// sayInTime writes the final message of a service. It gives up after a second, so that the process
// ends even if nobody reads the output.
func sayInTime(errs io.Writer, text string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.WriteString(errs, text) // an error cannot be reported anywhere
	}()
	select {
	case <-said:
	case <-time.After(time.Second):
	}
}

// printToken prints a new token. It reads no configuration and changes nothing.
func printToken(w io.Writer) {
	secret, digest := access.NewSecret()
	fmt.Fprintf(w, `The secret is for the caller. It is shown only now and stored nowhere:

  %s

Its SHA-256 is for the configuration. Change name and scopes (issue:<biz type> with * for any characters, read, admin):

auth:
  tokens:
    - {name: shop, sha256: "%s", scopes: ["issue:*"]}
`, secret, digest.Hex())
}

// raise makes a biz type continue above a number.
func raise(ctx context.Context, cfg *config.Config, operands []string, out, errs io.Writer) int {
	number, err := strconv.ParseInt(operands[1], 10, 64)
	if err != nil {
		fmt.Fprintf(errs, "seqd: %q is not a whole number from 1 to 9007199254740991\n", operands[1])
		return ExitConfig
	}
	raised, err := ops.Raise(ctx, cfg, operands[0], number)
	switch {
	case errors.Is(err, ops.ErrRaise):
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return ExitConfig
	case err != nil:
		fmt.Fprintf(errs, "seqd: raise %s: %v\n", operands[0], err)
		return ExitFailed
	}
	fmt.Fprintf(out, "%s: %s\n", operands[0], raised)
	return ExitOK
}

// restored does what is needed after restoring a backup, for the biz types that have no counter to
// raise.
func restored(ctx context.Context, cfg *config.Config, out, errs io.Writer) int {
	any := false
	err := ops.Restored(ctx, cfg, func(bizType, done string) {
		any = true
		fmt.Fprintf(out, "%s: %s\n", bizType, done)
	})
	switch {
	case errors.Is(err, ops.ErrRaise):
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return ExitConfig
	case err != nil:
		fmt.Fprintf(errs, "seqd: restored: %v\n", err)
		return ExitFailed
	case !any:
		fmt.Fprintln(out, "no biz type leases machine IDs; for biz types with counters see seqd raise")
	}
	return ExitOK
}

// failover shows or confirms a failover of the store.
func failover(ctx context.Context, cfg *config.Config, confirm bool, out, errs io.Writer) int {
	failedOver, err := ops.Failover(ctx, cfg, confirm, out)
	switch {
	case errors.Is(err, ops.ErrFailover):
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return ExitConfig
	case err != nil:
		fmt.Fprintf(errs, "seqd: failover: %v\n", err)
		return ExitFailed
	case failedOver:
		return ExitFailed
	}
	return ExitOK
}

// compact rewrites the files of the store.
func compact(cfg *config.Config, out, errs io.Writer) int {
	err := ops.Compact(cfg, out)
	switch {
	case errors.Is(err, ops.ErrCompact):
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return ExitConfig
	case err != nil:
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return ExitFailed
	}
	return ExitOK
}

// healthcheck asks the node that runs with this configuration whether it is alive.
func healthcheck(ctx context.Context, cfg *config.Config, out, errs io.Writer) int {
	said, err := ops.Healthcheck(ctx, cfg)
	switch {
	case errors.Is(err, ops.ErrHealthcheck):
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return ExitConfig
	case err != nil:
		fmt.Fprintf(errs, "seqd: not alive: %v\n", err)
		return ExitFailed
	}
	fmt.Fprintln(out, said)
	return ExitOK
}

// operandsOf has the operands of the commands that take any.
var operandsOf = map[string][]string{"raise": {"BIZTYPE", "NUMBER"}}

// parseFlags parses --config, a flag for each key, --confirm of failover, and the operands before,
// between and after them.
func parseFlags(command string, args, env []string) (src config.Sources, operands []string, confirm bool, err error) {
	src = config.Sources{Env: env, Flags: make(map[string]string)}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.StringVar(&src.File, "config", "", "")
	if command == "failover" {
		flags.BoolVar(&confirm, "confirm", false, "")
	}
	for _, k := range config.Keys() {
		flags.Func(k.Path, "", func(text string) error { src.Flags[k.Path] = text; return nil })
	}
	wanted := operandsOf[command]
	for {
		if err := flags.Parse(args); err != nil {
			return src, nil, false, err
		}
		if flags.NArg() == 0 {
			break
		}
		if len(operands) == len(wanted) {
			return src, nil, false, fmt.Errorf("unexpected argument %q", flags.Arg(0))
		}
		operands, args = append(operands, flags.Arg(0)), flags.Args()[1:]
	}
	if len(operands) < len(wanted) {
		return src, nil, false, fmt.Errorf("%s needs %s", command, strings.Join(wanted, " and "))
	}
	return src, operands, confirm, nil
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, usage)
	for _, k := range config.Keys() {
		fmt.Fprintf(w, "  %-28s default %s\n", k.Path, k.Text())
	}
}

// versionLine returns the output of seqd version.
func (p *program) versionLine() string {
	return fmt.Sprintf("seqd %s (%s, %s/%s)", version.Of(p.version), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
