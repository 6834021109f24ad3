// Package clitool is what the commands of seqd share: the streams, the flags of commands that talk
// to a running service, output as text or JSON, and the errors that decide the exit code. Package
// command makes one [Env] for each command line, and each command gets it when it is made.
package clitool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The groups of commands in the help of seqd: values of GroupID of a cobra.Command.
const (
	// GroupService has the commands that read the configuration of the service.
	GroupService = "service"
	// GroupClient has the commands that talk to a running service.
	GroupClient = "client"
	// GroupOther has the commands that need neither.
	GroupOther = "other"
)

// Env is what one command line works with. It is for one goroutine, except that Out and Errs may be
// used by several if the streams may.
type Env struct {
	In io.Reader
	// Out takes results. After its first error it takes nothing more, and package command reports
	// that error. A reader that has closed the pipe is none.
	Out io.Writer
	// Errs takes messages, questions and progress.
	Errs io.Writer
	// Environ are NAME=value pairs, as os.Environ returns them.
	Environ []string
	// JSON is true if the command line has --json. See [Env.Show].
	JSON bool

	connection connectionFlags
	terminal   func(stream any) (fd int, ok bool)
}

// New returns the Env of a command line.
func New(in io.Reader, out, errs io.Writer, environ []string) *Env {
	return &Env{In: in, Out: out, Errs: errs, Environ: environ, terminal: terminalOf}
}

// Getenv returns the value of an environment variable, "" if it is not set. The last of several
// counts.
func (e *Env) Getenv(name string) (value string) {
	for _, pair := range e.Environ {
		if n, v, _ := strings.Cut(pair, "="); n == name {
			value = v
		}
	}
	return value
}

// AddJSON adds the flag --json to a command and its sub-commands.
func (e *Env) AddJSON(cmd *cobra.Command) {
	cmd.PersistentFlags().BoolVar(&e.JSON, "json", false, "print JSON")
}

// Show writes value as indented JSON if the command line has --json, and else what text writes.
func (e *Env) Show(value any, text func(w io.Writer) error) error {
	if !e.JSON {
		return text(e.Out)
	}
	return e.ShowJSON(value)
}

// ShowText is Show for a text that is there already, without the end of its last line.
func (e *Env) ShowText(value any, text string) error {
	return e.Show(value, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	})
}

// ShowJSON writes value as indented JSON.
func (e *Env) ShowJSON(value any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		return err
	}
	_, err := e.Out.Write(b.Bytes())
	return err
}

// Printf writes to Out.
func (e *Env) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(e.Out, format, args...)
	return err
}

// Terminal returns whether a stream of e is a terminal: e.In, e.Out or e.Errs.
func (e *Env) Terminal(stream any) bool {
	_, ok := e.terminal(stream)
	return ok
}

// Descriptor returns the file descriptor of a stream that is a terminal.
func (e *Env) Descriptor(stream any) (fd int, ok bool) { return e.terminal(stream) }

// Size returns the columns and lines of a terminal. ok is false if the stream is none.
func (e *Env) Size(stream any) (columns, lines int, ok bool) {
	fd, ok := e.terminal(stream)
	if !ok {
		return 0, 0, false
	}
	columns, lines, err := term.GetSize(fd)
	return columns, lines, err == nil
}

// terminalOf returns the descriptor of a stream that is a terminal.
func terminalOf(stream any) (fd int, ok bool) {
	for w, wrapped := stream.(interface{ Unwrap() io.Writer }); wrapped; w, wrapped = stream.(interface{ Unwrap() io.Writer }) {
		stream = w.Unwrap()
	}
	file, ok := stream.(*os.File)
	if !ok {
		return 0, false
	}
	fd = int(file.Fd())
	return fd, term.IsTerminal(fd)
}
