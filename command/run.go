package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/server/config"
)

// run runs one command line and returns its exit code.
func (p *program) run(ctx context.Context, args []string, out, errs io.Writer) int {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	stdout := &output{w: out, failed: cancel}
	env := clitool.New(p.in, clitool.Escaped(stdout), clitool.Escaped(errs), p.env)
	l := newLine(p, env)
	err := l.execute(running, args)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	if stdout.err != nil && (err == nil || errors.Is(err, stdout.err) || errors.Is(err, context.Canceled)) {
		err = fmt.Errorf("write the output: %w", stdout.err)
		if errors.Is(stdout.err, syscall.EPIPE) {
			return ExitOK // the reader has seen enough, as head has
		}
	}
	if err == nil {
		return ExitOK
	}
	if code, said := errors.AsType[clitool.Exit](err); said {
		return int(code)
	}
	err = env.Explain(err)
	if (env.JSON || slices.Contains(args, "--json")) && !stdout.written {
		_ = env.ShowJSON(failureOf(err)) // the error output says the same
	}
	sayInTime(errs, clitool.EscapeLines(fmt.Sprintf("seqd: %v\n", err)))
	if errors.Is(err, clitool.ErrUsage) {
		return ExitConfig
	}
	return ExitFailed
}

// failure is the JSON of a command that fails before it has printed anything.
type failure struct {
	Error    string           `json:"error"`          // the message
	Code     client.Code      `json:"code,omitempty"` // of the answer of the service
	Problems []client.Problem `json:"problems,omitempty"`
}

// failureOf returns the JSON of an error. Problems are those of a configuration or a definition.
func failureOf(err error) failure {
	f := failure{Error: err.Error()}
	if refused, ok := errors.AsType[*client.Error](err); ok {
		f.Code, f.Problems = refused.Code, refused.Problems
	}
	if invalid, ok := errors.AsType[config.Invalid](err); ok {
		for _, p := range invalid {
			f.Problems = append(f.Problems, client.Problem(p))
		}
	}
	return f
}

// sayInTime writes the final message. It gives up after a second, so that the process ends even if
// nobody reads the output.
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

// output takes the results of a command. After its first error it takes nothing more, and the
// command is canceled.
type output struct {
	w       io.Writer
	failed  context.CancelFunc
	err     error
	written bool // something was
}

func (o *output) Write(p []byte) (n int, err error) {
	if o.err != nil {
		return 0, o.err
	}
	o.written = true
	if n, err = o.w.Write(p); err != nil {
		o.err = err
		o.failed()
	}
	return n, err
}

// Unwrap returns the stream, which may be a terminal.
func (o *output) Unwrap() io.Writer { return o.w }

// line is one command line.
type line struct {
	root *cobra.Command
	// begun is true once the command itself runs: its command line was understood.
	begun bool
}

// execute runs the command that args name. An error of the command line wraps [clitool.ErrUsage]
// and says where help is.
func (l *line) execute(ctx context.Context, args []string) error {
	args = twoDashes(l.root, args)
	if err := l.unknownCommand(args); err != nil {
		return err
	}
	l.root.SetArgs(args)
	cmd, err := l.root.ExecuteContextC(ctx)
	if err == nil || l.begun {
		return err
	}
	return clitool.Usage("%w; see %s", err, helpOf(cmd))
}

// unknownCommand returns an error if args name a command that does not exist. cobra would complain
// about its flags first.
func (l *line) unknownCommand(args []string) error {
	cmd, rest, err := l.root.Find(args)
	if err != nil || !cmd.HasSubCommands() || len(rest) == 0 || rest[0] == "" || rest[0][0] == '-' ||
		strings.HasPrefix(rest[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	return noCommand(cmd, rest[0])
}

// noCommand is [noCommand] for a name behind flags. The error says where help is.
func (l *line) noCommand(cmd *cobra.Command, name string) error {
	l.begun = true
	return noCommand(cmd, name)
}

// noCommand returns the error for a sub-command of cmd that does not exist.
func noCommand(cmd *cobra.Command, name string) error {
	of := ""
	if cmd.HasParent() {
		of = " in " + cmd.CommandPath()
	}
	near := ""
	if cmd.SuggestionsMinimumDistance = 2; len(name) <= 4 {
		cmd.SuggestionsMinimumDistance = 1 // else put is near get
	}
	if names := cmd.SuggestionsFor(name); len(names) > 0 {
		near = "; did you mean " + strings.Join(names, " or ") + "?"
	}
	return clitool.Usage("no command %q%s; see %s%s", name, of, helpOf(cmd), near)
}

// helpOf returns the command line that shows the help of a command.
func helpOf(cmd *cobra.Command) string {
	program, path, nested := strings.Cut(cmd.CommandPath(), " ")
	if !nested {
		return program + " help"
	}
	return program + " help " + path
}

// twoDashes rewrites -config and -server.addr, which the flags of Go's standard library allow, as
// --config and --server.addr.
func twoDashes(root *cobra.Command, args []string) []string {
	rewritten := make([]string, len(args))
	for i, arg := range args {
		rewritten[i] = arg
		if arg == "--" {
			copy(rewritten[i:], args[i:])
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) > 1 && arg[0] == '-' && arg[1] != '-' && (root.Flags().Lookup(name) != nil || name == "confirm" || name == "help") {
			rewritten[i] = "-" + arg
		}
	}
	return rewritten
}
