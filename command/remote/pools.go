package remote

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

func poolsCommand(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "worker-pools", Short: "Read and change the pools of worker IDs",
		Long: `Read and change the pools of worker IDs of a running service, which other programs lease: see seqd
lease. With tokens changes need the scope admin, and reading needs read.`,
		Example: `  seqd worker-pools list
  seqd worker-pools put shop --create
  seqd worker-pools get shop`,
	}
	cmd.AddCommand(listPools(env), getPool(env), putPool(env), patchPool(env), deletePool(env))
	return cmd
}

func listPools(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the pools",
		Example: `  seqd worker-pools list
  seqd worker-pools list --json`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, _ []string) error {
			l := list[admin.WorkerPool]{env: env, field: "pools", titles: []string{"NAME", "VERSION", "TTL", "BITSMACHINE", "BITSSEQUENCE", "EPOCH", "CHANGED"}}
			l.row = func(p admin.WorkerPool) []string {
				return []string{p.Pool, fmt.Sprint(p.Version), p.TTL, fmt.Sprint(p.BitsMachine), fmt.Sprint(p.BitsSequence), shownEpoch(p), brief(p.UpdatedAt, "-")}
			}
			return l.run(cmd.Context(), a.WorkerPools)
		}),
	}
}

func shownEpoch(p admin.WorkerPool) string { return p.Epoch.UTC().Format(time.RFC3339Nano) }

func getPool(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "get POOL", Short: "Show a pool and who holds its worker IDs",
		Long: `Show a pool, and which programs hold its worker IDs until when: at most 1,000 of them. Standing by
are those that wait for one at the node that answers.`,
		Example: `  seqd worker-pools get shop
  seqd worker-pools get shop --json`,
		Args: clitool.Operands("POOL"), ValidArgsFunction: first(env.CompletePools),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			p, err := a.WorkerPool(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return env.Show(p, func(w io.Writer) error {
				fmt.Fprintf(w, "%s\n%d held, %d free, %d standing by\n", describePool(p), p.Held, p.Free, p.StandingBy)
				if len(p.Holders) == 0 {
					return nil
				}
				rows := [][]string{{"WORKER", "INSTANCE", "UNTIL"}}
				for _, h := range p.Holders {
					rows = append(rows, []string{fmt.Sprint(h.WorkerID), h.Instance, brief(h.Until, "-")})
				}
				return table(w, rows)
			})
		}),
	}
}

func describePool(p admin.WorkerPool) string {
	return clitool.Escape(fmt.Sprintf("%s: version %d, ttl %s, bitsMachine %d, bitsSequence %d, epoch %s", p.Pool, p.Version, p.TTL, p.BitsMachine, p.BitsSequence, shownEpoch(p)))
}

// poolChange is a change of a pool on the command line.
type poolChange struct {
	condition
	set []string
}

func (c *poolChange) addTo(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&c.set, "set", nil, "`KEY=VALUE`: bitsMachine, bitsSequence, epoch or ttl; repeatable")
	c.condition.addTo(cmd)
}

// make makes the change and shows what came of it.
func (c *poolChange) make(cmd *cobra.Command, env *clitool.Env, do func(settings []byte, how admin.Change) (admin.WorkerPool, error)) error {
	if err := c.check(cmd); err != nil {
		return err
	}
	settings, err := patchOf(c.set)
	if err != nil {
		return err
	}
	p, err := do(settings, admin.Change{IfMatch: c.version})
	if err != nil {
		return err
	}
	return env.ShowText(p, describePool(p))
}

func putPool(env *clitool.Env) *cobra.Command {
	var c poolChange
	create := false
	cmd := &cobra.Command{
		Use: "put POOL [--set KEY=VALUE]", Short: "Create or replace a pool",
		Long: `Create or replace a pool. What --set does not name has its default. Once a pool is made, only its
ttl can change.`,
		Example: `  seqd worker-pools put shop --create
  seqd worker-pools put cosid --create --set ttl=5m --set epoch=2019-12-24T16:00:00Z`,
		Args: clitool.Operands("POOL"), ValidArgsFunction: first(env.CompletePools),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			return c.make(cmd, env, func(settings []byte, how admin.Change) (admin.WorkerPool, error) {
				how.IfNoneMatch = create
				p, _, err := a.PutWorkerPool(cmd.Context(), args[0], settings, how)
				if create && errors.Is(err, client.ErrPreconditionFailed) {
					err = fmt.Errorf("%s: the pool exists; without --create it is replaced", client.ErrPreconditionFailed)
				}
				return p, err
			})
		}),
	}
	c.addTo(cmd)
	cmd.Flags().BoolVar(&create, "create", false, "change nothing if it exists")
	cmd.MarkFlagsMutuallyExclusive("if-match", "create")
	return cmd
}

func patchPool(env *clitool.Env) *cobra.Command {
	var c poolChange
	cmd := &cobra.Command{
		Use: "patch POOL --set KEY=VALUE", Short: "Change a pool",
		Long: "Change the ttl of a pool. Programs have it from the next renewal of their leases on.",
		Example: `  seqd worker-pools patch shop --set ttl=1m
  seqd worker-pools patch shop --set ttl=1m --if-match 2`,
		Args: clitool.Operands("POOL"), ValidArgsFunction: first(env.CompletePools),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if len(c.set) == 0 {
				return clitool.Usage("there is nothing to change: want --set, such as --set ttl=1m")
			}
			return c.make(cmd, env, func(settings []byte, how admin.Change) (admin.WorkerPool, error) {
				return a.PatchWorkerPool(cmd.Context(), args[0], settings, how)
			})
		}),
	}
	c.addTo(cmd)
	return cmd
}

func deletePool(env *clitool.Env) *cobra.Command {
	var c condition
	var force, yes bool
	cmd := &cobra.Command{
		Use: "delete POOL [--force] [--yes]", Short: "Delete a pool",
		Long: `Delete a pool: none of its worker IDs can be leased or renewed any more. That is refused while some
are held, unless --force is given. On a terminal it asks first.`,
		Example: `  seqd worker-pools delete shop
  seqd worker-pools delete shop --force --yes`,
		Args: clitool.Operands("POOL"), ValidArgsFunction: first(env.CompletePools),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if err := c.check(cmd); err != nil {
				return err
			}
			if err := agreed(env, yes, "Delete the pool "+args[0]+"? Its programs will be refused."); err != nil {
				return err
			}
			if err := a.DeleteWorkerPool(cmd.Context(), args[0], admin.Change{IfMatch: c.version, Force: force}); err != nil {
				return err
			}
			return showDeletion(env, args[0], false)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also if worker IDs are held: their leases end at their time")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.addTo(cmd)
	return cmd
}
