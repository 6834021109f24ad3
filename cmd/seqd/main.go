// Command seqd issues numbers over HTTP. See the README for its configuration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// version and revision are set by the linker: -ldflags "-X main.version=v1.2.3 -X main.revision=0a1b2c". Without, they are what Go knows.
var version, revision = "", ""

const usage = `seqd issues numbers over HTTP: GET /seq/{bizType}

Usage:
  seqd [serve] --config FILE [--KEY VALUE ...]   run the service
  seqd check-config --config FILE                check the configuration and exit
  seqd doctor --config FILE                      look at the configuration and at all that it names (files, stores, Redis, clocks), and say what to change.
                                                 It changes nothing. It ends with 1 where something keeps seqd from working.
  seqd raise BIZTYPE NUMBER --config FILE        after restoring a backup of the store: let BIZTYPE go on above NUMBER.
                                                 Every seqd must be stopped from before the restore until it has returned.
                                                 It never lowers anything. What waits in Redis counts as issued.
  seqd restored --config FILE                    after restoring a backup of the store, or of the Redis that holds machine IDs: let every lease of
                                                 a machine ID but those that stand begin above all that may have been granted
  seqd compact --config FILE                     with store.driver bolt: write the store's files anew without the space that is free in them. seqd must
                                                 be stopped. Whenever it is ended, the files are whole.
  seqd healthcheck --config FILE                 ask the node that runs with this configuration whether it is alive (0) or not (1), for 2 s at most, and
                                                 print what it says of its readiness; opens neither store nor Redis
  seqd token                                     make a secret, and the token that the configuration needs for it
  seqd version                                   print the version and exit

Every key of the configuration is a flag (--server.addr 127.0.0.1:9000) and an environment variable
(SEQD_SERVER_ADDR); flags win over the environment, the environment over the file. The keys are:
`

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // what lives is small: collecting it at every doubling costs a twelfth of all requests
	}
	// Who reads the log may end. Go ends a program that goes on writing to it, unless told otherwise.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends the process at once: whoever sends it does not want to wait.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

func run(ctx context.Context, args, env []string, out, errs io.Writer) int {
	command := "serve"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	if !slices.Contains([]string{"serve", "check-config", "doctor", "raise", "restored", "compact", "healthcheck", "token", "version", "help"}, command) {
		fmt.Fprintf(errs, "seqd: there is no command %q; see seqd help\n", command)
		return exitUsage
	}
	src, operands, err := parseFlags(command, args, env)
	switch {
	case errors.Is(err, flag.ErrHelp), err == nil && command == "help":
		printUsage(out)
		return exitOK
	case err != nil:
		fmt.Fprintf(errs, "seqd: %v; see seqd help\n", err)
		return exitUsage
	case command == "version":
		fmt.Fprintln(out, versionLine())
		return exitOK
	case command == "token":
		printToken(out)
		return exitOK
	}
	cfg, err := config.Load(src)
	if err != nil {
		fmt.Fprintf(errs, "seqd: the configuration is wrong:\n%v\n", err)
		return exitUsage
	}
	switch command {
	case "check-config":
		fmt.Fprintf(out, "the configuration is good: %d biz types, store %s, address %s\n", len(cfg.BizTypes), cfg.Store.Driver, cfg.Server.Addr)
		return exitOK
	case "doctor":
		if server.Doctor(ctx, cfg, out) {
			return exitFailed
		}
		return exitOK
	case "raise":
		return raise(ctx, cfg, operands, out, errs)
	case "restored":
		return restored(ctx, cfg, out, errs)
	case "compact":
		return compact(cfg, out, errs)
	case "healthcheck":
		return healthcheck(ctx, cfg, out, errs)
	}
	if err := server.Run(ctx, cfg, server.WithLogOutput(errs), server.WithVersion(version), server.WithRevision(revision)); err != nil {
		sayInTime(errs, fmt.Sprintf("seqd: %v\n", err))
		return exitFailed
	}
	return exitOK
}

// sayInTime writes the last words of a service, unless the output takes nothing: the process must end all the same.
func sayInTime(errs io.Writer, text string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.WriteString(errs, text) // there is nowhere to tell its error
	}()
	select {
	case <-said:
	case <-time.After(time.Second):
	}
}

// printToken makes a token. It reads no configuration and changes nothing: what it prints is yours to put into place.
func printToken(w io.Writer) {
	secret, digest := access.NewSecret()
	fmt.Fprintf(w, `The caller gets the secret, which is kept nowhere and shown only now:

  %s

The configuration gets its SHA-256; change name and scopes (issue:<biz type> with * for any characters, read, admin):

auth:
  tokens:
    - {name: shop, sha256: "%s", scopes: ["issue:*"]}
`, secret, digest.Hex())
}

// raise lets a biz type go on above a number.
func raise(ctx context.Context, cfg *config.Config, operands []string, out, errs io.Writer) int {
	number, err := strconv.ParseInt(operands[1], 10, 64)
	if err != nil {
		fmt.Fprintf(errs, "seqd: %q is not a whole number from 1 to 9007199254740991\n", operands[1])
		return exitUsage
	}
	raised, err := server.Raise(ctx, cfg, operands[0], number)
	switch {
	case errors.Is(err, server.ErrRaise):
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return exitUsage
	case err != nil:
		fmt.Fprintf(errs, "seqd: raise %s: %v\n", operands[0], err)
		return exitFailed
	}
	fmt.Fprintf(out, "%s: %s\n", operands[0], raised)
	return exitOK
}

// restored does what follows the restoring of a backup for the biz types that have no counter to raise.
func restored(ctx context.Context, cfg *config.Config, out, errs io.Writer) int {
	any := false
	err := server.Restored(ctx, cfg, func(bizType, done string) {
		any = true
		fmt.Fprintf(out, "%s: %s\n", bizType, done)
	})
	switch {
	case errors.Is(err, server.ErrRaise):
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return exitUsage
	case err != nil:
		fmt.Fprintf(errs, "seqd: restored: %v\n", err)
		return exitFailed
	case !any:
		fmt.Fprintln(out, "no biz type leases machine IDs; for those with counters see seqd raise")
	}
	return exitOK
}

// compact writes the files of the store anew.
func compact(cfg *config.Config, out, errs io.Writer) int {
	err := server.Compact(cfg, out)
	switch {
	case errors.Is(err, server.ErrCompact):
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return exitUsage
	case err != nil:
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// healthcheck asks the node that runs with this configuration.
func healthcheck(ctx context.Context, cfg *config.Config, out, errs io.Writer) int {
	said, err := server.Healthcheck(ctx, cfg)
	switch {
	case errors.Is(err, server.ErrHealthcheck):
		fmt.Fprintf(errs, "seqd: %v\n", err)
		return exitUsage
	case err != nil:
		fmt.Fprintf(errs, "seqd: not alive: %v\n", err)
		return exitFailed
	}
	fmt.Fprintln(out, said)
	return exitOK
}

// operandsOf says what stands beside the flags of a command, where anything does.
var operandsOf = map[string][]string{"raise": {"BIZTYPE", "NUMBER"}}

// parseFlags reads --config and a flag for each key, and the operands that stand before, between and behind them.
func parseFlags(command string, args, env []string) (src config.Sources, operands []string, err error) {
	src = config.Sources{Env: env, Flags: make(map[string]string)}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.StringVar(&src.File, "config", "", "")
	for _, k := range config.Keys() {
		flags.Func(k.Path, "", func(text string) error { src.Flags[k.Path] = text; return nil })
	}
	wanted := operandsOf[command]
	for {
		if err := flags.Parse(args); err != nil {
			return src, nil, err
		}
		if flags.NArg() == 0 {
			break
		}
		if len(operands) == len(wanted) {
			return src, nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
		}
		operands, args = append(operands, flags.Arg(0)), flags.Args()[1:]
	}
	if len(operands) < len(wanted) {
		return src, nil, fmt.Errorf("%s needs %s", command, strings.Join(wanted, " and "))
	}
	return src, operands, nil
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, usage)
	for _, k := range config.Keys() {
		fmt.Fprintf(w, "  %-28s default %s\n", k.Path, k.Text())
	}
}

// versionLine says what was built from what.
func versionLine() string {
	v := version
	info, ok := debug.ReadBuildInfo()
	if v == "" && ok {
		v = info.Main.Version
	}
	if v == "" || v == "(devel)" {
		v = "development build"
	}
	return fmt.Sprintf("seqd %s (%s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
