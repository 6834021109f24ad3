package clitool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Exit is returned by a command that has said what there is to say: it is the exit code, and
// nothing is added.
type Exit int

// Error implements [error].
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ErrSaid is returned by a command that has failed and has said why.
const ErrSaid = Exit(1)

// ErrUsage is wrapped by every error about a mistake on the command line or in the configuration:
// the exit code is 78. Any other error of a command is a failure: the exit code is 1.
var ErrUsage = errors.New("a mistake on the command line or in the configuration")

// usage is an error that wraps [ErrUsage] and has the text of err alone.
type usage struct{ err error }

func (u usage) Error() string   { return u.err.Error() }
func (u usage) Unwrap() []error { return []error{u.err, ErrUsage} }

// Usage returns an error for a mistake on the command line. Its text begins with what is wrong, and
// says what to do.
func Usage(format string, args ...any) error { return usage{fmt.Errorf(format, args...)} }

// AsUsage returns an error with the text of err that wraps [ErrUsage]. nil stays nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return usage{err}
}

// Operands checks that a command has the named operands, all of them and no more. A name in
// brackets is optional, and one that ends with ... takes any number.
func Operands(names ...string) cobra.PositionalArgs {
	required := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name[0] == '[' })
	endless := len(names) > 0 && strings.Contains(names[len(names)-1], "...")
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > len(names) && !endless:
			return Usage("unexpected argument %q", args[len(names)])
		case len(args) < len(required):
			_, name, _ := strings.Cut(cmd.CommandPath(), " ")
			return Usage("%s needs %s", name, strings.Join(required, " and "))
		}
		return nil
	}
}
