package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/doctor"
	"github.com/seqd/seqd/server/ops"
)

// serve is the service.
func (s *settings) serve(p *program, env *clitool.Env) *cobra.Command {
	return s.addTo(&cobra.Command{
		Use: "serve --config FILE [--KEY VALUE ...]", Short: "Run the service", GroupID: clitool.GroupService,
		Long: `Run the service until SIGINT or SIGTERM. Then it finishes the requests that have arrived, and gives
unused numbers back. A second signal shortens the wait, a third ends the service at once. After
SIGHUP, as after seqd reload, it reads its configuration again, and logs which keys it has applied
and which need a restart. Renewed certificates are read by themselves. The log goes to the error
output.`,
		Example: `  seqd serve --config seqd.yaml
  seqd --config seqd.yaml --server.addr 127.0.0.1:9000
  SEQD_LOG_LEVEL=debug seqd --config seqd.yaml`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.withConfig(func(cmd *cobra.Command, cfg *config.Config, _ []string) error {
			asked := make(chan os.Signal, 1)
			signal.Notify(asked, syscall.SIGHUP) // by default it would end the process without a clean stop
			load := func() (*config.Config, error) { return config.Load(s.src) }
			opts := append([]server.Option{server.WithReload(asked, load), server.WithLogOutput(env.Errs), server.WithVersion(p.version), server.WithRevision(p.revision)}, p.serve...)
			return server.Run(cmd.Context(), cfg, opts...)
		}),
	})
}

// checked is the JSON of check-config.
type checked struct {
	BizTypes int    `json:"bizTypes"`
	Store    string `json:"store"`
	Addr     string `json:"addr"`
}

func (s *settings) checkConfig(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check-config --config FILE", Short: "Check the configuration", GroupID: clitool.GroupService,
		Long: "Check the configuration alone. It opens nothing but the file, and names everything that is wrong.",
		Example: `  seqd check-config --config seqd.yaml
  seqd check-config --config seqd.yaml --json`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.withConfig(func(_ *cobra.Command, cfg *config.Config, _ []string) error {
			c := checked{len(cfg.BizTypes), cfg.Store.Driver, cfg.Server.Addr}
			return env.ShowText(c, fmt.Sprintf("the configuration is good: %d biz types, store %s, address %s", c.BizTypes, c.Store, c.Addr))
		}),
	}
	env.AddJSON(cmd)
	return s.addTo(cmd)
}

// examined is the JSON of doctor.
type examined struct {
	Failed   bool             `json:"failed"`
	Sections []doctor.Section `json:"sections"`
}

func (s *settings) doctor(env *clitool.Env) *cobra.Command {
	log := ""
	cmd := &cobra.Command{
		Use: "doctor [--log FILE] --config FILE", Short: "Check everything that the configuration names", GroupID: clitool.GroupService,
		Long: `Check the configuration and everything that it names (files, stores, Redis, hosts, clocks), and
suggest changes. It changes nothing, and nodes may be running. It exits with 1 if something keeps
seqd from working.

After a backup was restored, --log names the tokens, biz types, worker pools and subscriptions that
were changed since the backup: the store has lost those changes.`,
		Example: `  seqd doctor --config seqd.yaml
  seqd doctor --config seqd.yaml --json | jq '.sections[].findings[] | select(.level == "warn")'
  seqd doctor --log seqd.log --config seqd.yaml`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.withConfig(func(cmd *cobra.Command, cfg *config.Config, _ []string) error {
			changes, err := openLog(log, env)
			if err != nil {
				return err
			}
			if changes != nil {
				defer func() { _ = changes.Close() }()
			}
			sections := ops.Doctor(cmd.Context(), cfg, changes)
			failed := doctor.Failed(sections)
			err = env.Show(examined{failed, sections}, func(w io.Writer) error {
				doctor.Print(w, sections) // Out keeps its error
				return nil
			})
			if err == nil && failed {
				return clitool.ErrSaid
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&log, "log", "", "compare the store with the changes in the log of nodes: `FILE`, or - for standard input")
	env.AddJSON(cmd)
	return s.addTo(cmd)
}

// openLog opens the log that doctor reads, nil if there is none.
func openLog(name string, env *clitool.Env) (io.ReadCloser, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return io.NopCloser(env.In), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, clitool.AsUsage(err)
	}
	return file, nil
}

func (s *settings) healthcheck(env *clitool.Env) *cobra.Command {
	return s.addTo(&cobra.Command{
		Use: "healthcheck --config FILE", Short: "Ask the node of this configuration whether it is alive", GroupID: clitool.GroupService,
		Long: `Ask the node that runs with this configuration whether it is alive, for at most 2 s, and print its
readiness. It exits with 0 or 1. It opens neither the store nor Redis.`,
		Example: "  seqd healthcheck --config seqd.yaml",
		Args:    clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.withConfig(func(cmd *cobra.Command, cfg *config.Config, _ []string) error {
			said, err := ops.Healthcheck(cmd.Context(), cfg)
			switch {
			case errors.Is(err, ops.ErrHealthcheck):
				return clitool.AsUsage(err)
			case err != nil:
				return fmt.Errorf("not alive: %w", err)
			}
			return env.Printf("%s\n", said)
		}),
	})
}
