package remote

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

// nodeList is the JSON of seqd nodes: the answer of GET /nodes.
type nodeList struct {
	Nodes    []admin.Node `json:"nodes"`
	Complete bool         `json:"complete"`
}

func nodesCommand(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "nodes", Short: "List the nodes of the service",
		Long: `List the nodes of the service: where they listen, what they run, and the state of their back ends.
* marks the one that answered. FROM is where its definitions of biz types come from, CHANGE the
newest change of biz types and tokens that a node knows, and CONFIG the version of the configuration
that it has read: the same at nodes whose configurations say the same, secrets aside.`,
		Example: `  seqd nodes
  seqd nodes --json`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, _ []string) error {
			nodes, complete, err := a.Nodes(cmd.Context())
			if err != nil {
				return err
			}
			if err := env.Show(nodeList{nodes, complete}, func(w io.Writer) error { return printNodes(w, nodes) }); err != nil {
				return err
			}
			if !complete {
				fmt.Fprintln(env.Errs, "seqd: only the node that answered is known: its store is away")
			}
			return nil
		}),
	}
}

func printNodes(w io.Writer, nodes []admin.Node) error {
	rows := [][]string{{"", "ID", "ADDRESS", "HOST", "VERSION", "STARTED", "BIZ TYPES", "FROM", "CHANGE", "CONFIG", "STORE", "REDIS"}}
	for _, n := range nodes {
		mark := ""
		if n.Self {
			mark = "*"
		}
		rows = append(rows, []string{
			mark, fmt.Sprintf("%.8s", n.ID), n.Addr, n.Host, n.Build, brief(n.StartedAt, "-"),
			fmt.Sprint(n.BizTypes), dash(n.BizTypesFrom), fmt.Sprint(n.Catalogue), configOf(n.Config), dash(n.Backends["store"].State), dash(n.Backends["redis"].State),
		})
	}
	return table(w, rows)
}

// configOf says which configuration a node has read.
func configOf(c *admin.NodeConfig) string {
	switch {
	case c == nil:
		return "-"
	case c.Failed:
		return c.Version + " (reload failed)"
	case c.Restart:
		return c.Version + " (needs a restart)"
	}
	return c.Version
}
