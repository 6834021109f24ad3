package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/command/generate"
	"github.com/seqd/seqd/command/imports"
	"github.com/seqd/seqd/command/lease"
	"github.com/seqd/seqd/command/remote"
	"github.com/seqd/seqd/command/top"
)

const about = `seqd issues numbers: GET /seq/{bizType} over HTTP, INCR bizType over the Redis protocol.

Without a command seqd runs the service, as seqd serve does.`

const more = `For commands of a node every key of the configuration is a flag (--server.addr 127.0.0.1:9000) and
an environment variable (SEQD_SERVER_ADDR): see seqd help config. Commands for a running service
need no configuration: --addr or SEQD_CLIENT_ADDR says where it is.

With --json a command that fails prints {"error": "..."}; "problems" names the keys of a wrong
configuration.

Exit codes: 0 done; 1 failed; 78 a mistake in the configuration or on the command line (EX_CONFIG).
seqd lease has others.`

// newLine makes the tree of commands for one command line.
func newLine(p *program, env *clitool.Env) *line {
	s := newSettings(p.env)
	l := &line{root: s.serve(p, env)}
	l.root.Use, l.root.Short, l.root.Long = "seqd", "Issue numbers", about
	l.root.Annotations = map[string]string{afterFlags: more}
	l.root.Example = `  seqd --config seqd.yaml
  seqd next order --addr http://127.0.0.1:8080
  seqd help biz-types put`
	l.root.GroupID = ""
	l.root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && args[0] != "" && cmd.ArgsLenAtDash() < 0 {
			return l.noCommand(cmd, args[0])
		}
		return clitool.Operands()(cmd, args)
	}
	l.root.SilenceErrors, l.root.SilenceUsage = true, true
	l.root.CompletionOptions.DisableDefaultCmd = true
	l.root.Version = p.versionText()
	l.root.SetVersionTemplate("{{.Version}}\n")
	l.root.Flags().Bool("version", false, "print the version")
	l.root.SetIn(env.In)
	l.root.SetOut(env.Out)
	l.root.SetErr(env.Errs)
	l.root.AddGroup(
		&cobra.Group{ID: clitool.GroupService, Title: "Commands of a node, which read the configuration (--config):"},
		&cobra.Group{ID: clitool.GroupClient, Title: "Commands for a running service (--addr):"},
		&cobra.Group{ID: clitool.GroupOther, Title: "Other commands:"},
	)
	commands := slices.Concat(
		[]*cobra.Command{
			s.serve(p, env), s.checkConfig(env), s.doctor(env), s.healthcheck(env),
			s.raise(env), s.restored(env), s.failover(env), s.snapshot(env), s.move(env), s.export(env), s.compact(env),
		},
		remote.Commands(env),
		[]*cobra.Command{s.counters(env), generate.New(env), s.importFrom(env, imports.New(env)), lease.New(env), top.New(env)},
		others(p, s, env),
	)
	l.root.AddCommand(commands...)
	l.root.AddCommand(s.topic())
	l.root.SetHelpCommand(helpCommand())
	l.root.InitDefaultHelpCmd()
	l.root.SetHelpFunc(printHelp)
	l.root.SetFlagErrorFunc(flagError)
	l.wrap(l.root)
	return l
}

// wrap lets each command say that it has begun and read its flags strictly, and lets those that
// only have sub-commands refuse to be called without one.
func (l *line) wrap(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		l.wrap(sub)
	}
	cmd.DisableFlagsInUseLine = true
	strictly(cmd.Flags())
	strictly(cmd.PersistentFlags())
	if run := cmd.RunE; run != nil {
		cmd.PreRunE = checkFlags
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			l.begun = true
			return run(cmd, args)
		}
		return
	}
	if cmd.HasSubCommands() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return l.noCommand(cmd, args[0])
			}
			var names []string
			for _, sub := range inOrder(cmd) {
				names = append(names, sub.Name())
			}
			_, name, _ := strings.Cut(cmd.CommandPath(), " ")
			return clitool.Usage("%s needs a command: %s", name, strings.Join(names, ", "))
		}
		cmd.RunE = func(*cobra.Command, []string) error { return nil } // Args refuses first
	}
}
