package command

import (
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/testing/must"
)

var update = flag.Bool("update", false, "write testdata anew")

// newTree returns the commands of one command line.
func newTree(env []string) *line {
	p := &program{in: strings.NewReader(""), env: env}
	return newLine(p, clitool.New(p.in, io.Discard, io.Discard, env))
}

// eachCommand calls f for every command.
func eachCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, f)
	}
}

// Every command says what it does, with an example, and its help fits a terminal.
func TestEveryCommandIsDescribed(t *testing.T) {
	tree, seen := newTree(nil), 0
	eachCommand(tree.root, func(cmd *cobra.Command) {
		seen++
		path := cmd.CommandPath()
		if cmd.Short == "" || cmd.Example == "" || strings.HasSuffix(cmd.Short, ".") || !unicode.IsUpper(rune(cmd.Short[0])) {
			t.Errorf("%s: Short is %q, Example is %q", path, cmd.Short, cmd.Example)
		}
		if cmd.HasParent() && cmd.Parent() == tree.root && cmd.GroupID == "" {
			t.Errorf("%s is in no group", path)
		}
		if cmd.Runnable() && !cmd.HasSubCommands() && cmd.HasParent() && cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
			t.Errorf("%s has no completion of operands: files would be offered", path)
		}
		var help strings.Builder
		writeHelp(&help, cmd)
		for text := range strings.Lines(help.String()) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(text, "\n")); width > helpWidth {
				t.Errorf("%s: %d columns: %s", path, width, text)
			}
			if strings.HasSuffix(text, " \n") || strings.Contains(text, "\t") {
				t.Errorf("%s: spaces at the end, or a tab: %q", path, text)
			}
		}
	})
	if seen < 30 {
		t.Errorf("only %d commands were seen", seen)
	}
}

// Every flag has a description that begins in lower case, and no command has a flag twice.
func TestEveryFlagIsDescribed(t *testing.T) {
	eachCommand(newTree(nil).root, func(cmd *cobra.Command) {
		own := make(map[string]bool)
		short := make(map[string]string)
		check := func(f *pflag.Flag) {
			if name, usage := pflag.UnquoteUsage(f); usage == "" || strings.HasSuffix(usage, ".") || strings.HasPrefix(usage, "The ") || name == "stringSlice" || name == "strings" {
				t.Errorf("%s --%s: %q, %q", cmd.CommandPath(), f.Name, name, usage)
			}
			if f.Shorthand != "" {
				if other := short[f.Shorthand]; other != "" && other != f.Name {
					t.Errorf("%s: -%s is --%s and --%s", cmd.CommandPath(), f.Shorthand, f.Name, other)
				}
				short[f.Shorthand] = f.Name
			}
		}
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { own[f.Name] = true; check(f) })
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if own[f.Name] {
				t.Errorf("%s has --%s and inherits it", cmd.CommandPath(), f.Name)
			}
			check(f)
		})
	})
}

// The command lines of examples name commands and flags that exist, with the operands they need.
func TestExamplesOfHelp(t *testing.T) {
	tried := 0
	eachCommand(newTree(nil).root, func(cmd *cobra.Command) {
		for text := range strings.Lines(cmd.Example) {
			if !strings.HasPrefix(text, "  ") {
				t.Errorf("%s: %q is not indented", cmd.CommandPath(), text)
			}
			_, after, found := strings.Cut(text, "seqd ")
			if !found {
				continue
			}
			tried++
			var args []string
			for _, word := range strings.Fields(after) {
				if strings.HasPrefix(word, ">") || word == "|" || word == "#" {
					break
				}
				args = append(args, strings.Trim(word, "')"))
			}
			tree := newTree(nil)
			found2, rest, err := tree.root.Find(args)
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			if err := found2.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", text, err)
			} else if err := found2.ValidateArgs(found2.Flags().Args()); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
	if tried < 60 {
		t.Errorf("only %d examples were tried", tried)
	}
}

// The help of seqd is the first thing that a user sees.
func TestHelpOfTheProgram(t *testing.T) {
	got := runWith(t, nil, "help")
	const file = "testdata/help.txt"
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got.out), 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	must.Equal(t, got.out, string(want), "go test ./command -run HelpOfTheProgram -update writes %s anew; it is now", file)
}
