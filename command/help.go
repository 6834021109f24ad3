package command

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seqd/seqd/command/clitool"
)

// helpWidth is the widest line of a help, in columns.
const helpWidth = 100

// afterFlags is the annotation of a command with text for the end of its help.
const afterFlags = "seqd_after_flags"

// helpCommand is seqd help.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show the help of a command", GroupID: clitool.GroupOther,
		Example: "  seqd help raise\n  seqd help biz-types put\n  seqd help config",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return noCommand(found, rest[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begin string) (names []string, _ cobra.ShellCompDirective) {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, sub := range found.Commands() {
				if strings.HasPrefix(sub.Name(), begin) {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// printHelp writes the help of a command.
func printHelp(cmd *cobra.Command, _ []string) {
	var b bytes.Buffer
	writeHelp(&b, cmd)
	_, _ = cmd.OutOrStdout().Write(b.Bytes()) // the output keeps its error
}

func writeHelp(w io.Writer, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintln(w, text)
	switch {
	case !cmd.HasParent():
		fmt.Fprintf(w, "\nUsage:\n  %s [serve] --config FILE\n  %[1]s COMMAND\n", cmd.Name())
	case cmd.Runnable() && !cmd.HasSubCommands():
		fmt.Fprintf(w, "\nUsage:\n  %s\n", cmd.UseLine())
	case cmd.HasSubCommands():
		fmt.Fprintf(w, "\nUsage:\n  %s COMMAND\n", cmd.CommandPath())
	}
	writeCommands(w, cmd)
	writeFlags(w, cmd)
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if text := cmd.Annotations[afterFlags]; text != "" {
		fmt.Fprintf(w, "\n%s\n", text)
	}
}

// writeCommands lists the sub-commands by group.
func writeCommands(w io.Writer, cmd *cobra.Command) {
	groups := cmd.Groups()
	if len(groups) == 0 {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	commands := inOrder(cmd)
	for _, group := range groups {
		title := "\n" + group.Title + "\n"
		for _, sub := range commands {
			if sub.GroupID == group.ID && !sub.Hidden {
				fmt.Fprintf(w, "%s  %-14s %s\n", title, sub.Name(), sub.Short)
				title = ""
			}
		}
	}
}

// whereTitle is above the flags of a connection.
const whereTitle = "Where the service is:"

// writeFlags lists the flags, except those of keys.
func writeFlags(w io.Writer, cmd *cobra.Command) {
	own, connection, keys := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError), false
	add := func(f *pflag.Flag) {
		switch {
		case f.Hidden || f.Name == "help":
		case f.Annotations[ofKey] != nil:
			keys = true
		case f.Annotations[clitool.OfConnection] != nil:
			connection.AddFlag(f)
		default:
			own.AddFlag(f)
		}
	}
	cmd.NonInheritedFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if own.HasFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", own.FlagUsagesWrapped(helpWidth))
	}
	if connection.HasFlags() {
		fmt.Fprintf(w, "\n%s\n%s", whereTitle, connection.FlagUsagesWrapped(helpWidth))
	}
	if keys && cmd.HasParent() {
		fmt.Fprintf(w, "\nEvery key of the configuration is a flag too, such as --server.addr: see seqd help config.\n")
	}
}

// order is that of commands in the help: what is used first comes first.
var order = []string{
	"serve", "check-config", "doctor", "healthcheck", "raise", "restored", "failover", "snapshot", "move", "export", "compact",
	"save", "status", "restore",
	"next", "parse", "generate", "lease", "reserve", "confirm", "release", "gaps", "report", "void", "keys", "counters", "history", "audit",
	"top", "nodes", "biz-types", "tokens", "worker-pools", "subscriptions", "import",
	"list", "get", "create", "put", "patch", "change", "enable", "disable", "delete",
	"token", "completion", "version", "help", "config",
}

// inOrder returns the sub-commands in the order of the help.
func inOrder(cmd *cobra.Command) []*cobra.Command {
	commands := slices.Clone(cmd.Commands())
	slices.SortStableFunc(commands, func(a, b *cobra.Command) int { return rankOf(a) - rankOf(b) })
	return commands
}

func rankOf(cmd *cobra.Command) int {
	if i := slices.Index(order, cmd.Name()); i >= 0 {
		return i
	}
	return len(order)
}
