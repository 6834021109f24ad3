package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

// eachNode calls ask for each node of --addr, also after an error. The errors name the nodes if there are
// several.
func eachNode(env *clitool.Env, ask func(addr string, a *admin.Admin) error) error {
	conn, err := env.Connection()
	if err != nil {
		return err
	}
	for _, addr := range conn.Addrs {
		c, failed := env.Client(func(cfg *client.Config) { cfg.Addrs = []string{addr} })
		if failed == nil {
			failed = ask(addr, admin.New(c))
		}
		if failed != nil && len(conn.Addrs) > 1 {
			failed = fmt.Errorf("%s: %v", addr, env.Explain(failed)) // which would be explained once more
		}
		err = errors.Join(err, failed)
	}
	return err
}

// shortID returns the beginning of the ID of a node.
func shortID(id string) string { return dash(fmt.Sprintf("%.8s", id)) }

// reloadedNode is the JSON of what seqd reload did at a node.
type reloadedNode struct {
	Addr string `json:"addr"`
	admin.Reloaded
}

func reloadCommand(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Let nodes read their configuration again",
		Long: `Let each node of --addr read its configuration again, as SIGHUP does, and say which keys it has
applied, and which need a restart. docs/CONFIGURATION.md says that of each key. If anything is
wrong, a node changes nothing. Behind a balancer only one node reloads: name all of them.`,
		Example: `  seqd reload
  seqd reload --addr http://node-1:8080,http://node-2:8080
  seqd reload --json`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, rows := []reloadedNode{}, [][]string{{"NODE", "ADDRESS", "CONFIG", "APPLIED", "NEEDS A RESTART"}}
			err := eachNode(env, func(addr string, a *admin.Admin) error {
				n, err := a.Reload(cmd.Context())
				if err == nil {
					nodes = append(nodes, reloadedNode{addr, n})
					rows = append(rows, []string{shortID(n.Node), addr, n.Version, dash(strings.Join(n.Applied, ", ")), dash(strings.Join(n.Restart, ", "))})
				}
				return err
			})
			return showAnswers(env, nodes, rows, err)
		},
	}
}

// showAnswers shows what nodes have answered, if any has, and returns err.
func showAnswers(env *clitool.Env, nodes any, rows [][]string, err error) error {
	if len(rows) == 1 {
		return err
	}
	return errors.Join(env.Show(nodes, func(w io.Writer) error { return table(w, rows) }), err)
}

// levels are those of a log.
var levels = []string{"debug", "info", "warn", "error"}

// nodeLevel is the JSON of the level of the log of a node.
type nodeLevel struct {
	Addr string `json:"addr"`
	admin.LogLevel
}

func logLevelCommand(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "log-level [LEVEL]", Short: "Show or set the level of the log of nodes",
		Long: `Show the level of the log of each node of --addr, or set it: debug, info, warn or error. It lasts
until the next reload or restart of the node: then log.level of its configuration counts.`,
		Example: `  seqd log-level
  seqd log-level debug
  seqd log-level debug --addr http://node-1:8080,http://node-2:8080`,
		Args: clitool.Operands("[LEVEL]"),
		ValidArgsFunction: first(func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return levels, cobra.ShellCompDirectiveNoFileComp
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !slices.Contains(levels, args[0]) {
				return clitool.Usage("the level %q is not one of %s", args[0], strings.Join(levels, ", "))
			}
			nodes, rows := []nodeLevel{}, [][]string{{"NODE", "ADDRESS", "LEVEL", "AFTER A RELOAD"}}
			err := eachNode(env, func(addr string, a *admin.Admin) error {
				ask := a.LogLevel
				if len(args) == 1 {
					ask = func(ctx context.Context) (admin.LogLevel, error) { return a.SetLogLevel(ctx, args[0]) }
				}
				n, err := ask(cmd.Context())
				if err == nil {
					nodes = append(nodes, nodeLevel{addr, n})
					rows = append(rows, []string{shortID(n.Node), addr, n.Level, n.Configured})
				}
				return err
			})
			return showAnswers(env, nodes, rows, err)
		},
	}
}
