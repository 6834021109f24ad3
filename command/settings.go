package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/server/config"
)

// settings are --config and a flag for each key of the configuration, which several commands share.
type settings struct {
	src   config.Sources
	keys  []config.Key
	flags *pflag.FlagSet
}

// ofKey marks flags that help of commands leaves out. There are more than a hundred of them.
const ofKey = "seqd_key"

func newSettings(env []string) *settings {
	s := &settings{
		src:   config.Sources{Env: env, Flags: make(map[string]string)},
		keys:  config.Keys(),
		flags: pflag.NewFlagSet("", pflag.ContinueOnError),
	}
	s.flags.StringVar(&s.src.File, "config", "", "`FILE` with the configuration, in YAML or JSON")
	for _, k := range s.keys {
		f := s.flags.VarPF(keyFlag{s, k.Path}, k.Path, "", "default "+k.Text())
		f.Annotations = map[string][]string{ofKey: {"true"}}
	}
	return s
}

// keyFlag is the flag of one key.
type keyFlag struct {
	s    *settings
	path string
}

func (f keyFlag) Set(text string) error { f.s.src.Flags[f.path] = text; return nil }
func (f keyFlag) String() string        { return "" }
func (f keyFlag) Type() string          { return "value" }

// addTo gives a command the flags.
func (s *settings) addTo(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().AddFlagSet(s.flags)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json") // it exists
	return cmd
}

// addIgnored gives a command that reads no configuration the same flags, because scripts add them
// to every command. Help does not show them.
func (s *settings) addIgnored(cmd *cobra.Command) *cobra.Command {
	s.flags.VisitAll(func(f *pflag.Flag) {
		hidden := *f
		hidden.Hidden = true
		cmd.Flags().AddFlag(&hidden)
	})
	return cmd
}

// withConfig returns what a command does with the configuration.
func (s *settings) withConfig(do func(cmd *cobra.Command, cfg *config.Config, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := config.Load(s.src)
		if err != nil {
			return clitool.Usage("the configuration is wrong:\n%w", err)
		}
		return do(cmd, cfg, args)
	}
}

// topic is the help about the keys, which is no command.
func (s *settings) topic() *cobra.Command {
	var b strings.Builder
	b.WriteString(`Every key of the configuration is a flag (--server.addr 127.0.0.1:9000) and an environment variable
(SEQD_SERVER_ADDR). Flags override the environment, and the environment overrides the file of
--config. Biz types and tokens are in the file, or in the environment as JSON (SEQD_BIZTYPES,
SEQD_AUTH_TOKENS). docs/CONFIGURATION.md explains the keys:

`)
	for _, k := range s.keys {
		fmt.Fprintf(&b, "  %-34s default %s\n", k.Path, k.Text())
	}
	return &cobra.Command{
		Use: "config", Short: "The keys of the configuration, which are flags (seqd help config)",
		GroupID: clitool.GroupOther, Long: strings.TrimRight(b.String(), "\n"),
		Example: "  seqd help config\n  seqd help config | grep redis",
	}
}
