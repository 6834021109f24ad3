package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/literal"
)

// The functions of this file say what is wrong with flags, as the other errors of commands do.
// cobra finds the mistakes.

// wanted says which values flags of a type take.
var wanted = map[string]string{
	"int": "a whole number", "int64": "a whole number", "duration": "a duration such as 10s", "bool": "true or false",
}

// strict are the checks of flags by their type: pflag alone takes 010 for 8 and 1_000 for 1000,
// which the service refuses.
var strict = map[string]func(text string) bool{
	"int":      func(text string) bool { _, ok := literal.Int(text); return ok },
	"int64":    func(text string) bool { _, ok := literal.Int(text); return ok },
	"duration": func(text string) bool { _, ok := literal.Duration(text); return ok },
	"bool":     func(text string) bool { _, ok := literal.Bool(text); return ok },
}

// strictValue is the value of a flag that is checked before it is set.
type strictValue struct {
	pflag.Value
	ok func(text string) bool
}

func (v strictValue) Set(text string) error {
	if !v.ok(text) {
		return errors.New("not " + wanted[v.Type()])
	}
	return v.Value.Set(text)
}

// strictly lets flags take only what the service takes too.
func strictly(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		_, already := f.Value.(strictValue)
		if ok := strict[f.Value.Type()]; ok != nil && !already {
			f.Value = strictValue{f.Value, ok}
			f.DefValue = strings.TrimPrefix(f.DefValue, "0s") // which help would show
		}
	})
}

// flagError returns the error for flags that cannot be read.
func flagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if want := wanted[invalid.GetFlag().Value.Type()]; want != "" {
			return fmt.Errorf("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
		}
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if ok && strings.ContainsAny(unknown.GetSpecifiedShortnames(), "0123456789") {
		return fmt.Errorf("there is no flag -%s, and numbers are not negative; -- goes before an argument that begins with -", unknown.GetSpecifiedShortnames())
	}
	if ok && cmd.Flag("addr") != nil && cmd.Root().Flags().Lookup(unknown.GetSpecifiedName()) != nil {
		return fmt.Errorf("%w; this command reads no configuration: --addr says where the service is", err)
	}
	return err
}

// checkFlags returns an error if a flag is missing, or if two exclude each other.
func checkFlags(cmd *cobra.Command, _ []string) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	if len(missing) > 0 {
		return clitool.Usage("%s needs %s", cmd.Name(), strings.Join(missing, " and "))
	}
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	_, set, _ := strings.Cut(err.Error(), "; [") // …; [apply dry-run] were all set
	set, _, found := strings.Cut(set, "]")
	if !found {
		return err
	}
	return clitool.Usage("use only one of --%s", strings.ReplaceAll(set, " ", " and --"))
}
