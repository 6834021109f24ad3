package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

func bizTypesCommand(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "biz-types", Short: "Read and change the biz types of the service",
		Long: `Read and change the biz types of a running service. Changes are made on all nodes at once, while
numbers are issued. With tokens they need the scope admin, and reading needs read.`,
		Example: `  seqd biz-types list
  seqd biz-types get order >order.yaml
  seqd biz-types put order order.yaml --dry-run`,
	}
	cmd.AddCommand(
		listBizTypes(env), getBizType(env), putBizType(env), patchBizType(env),
		enableBizType(env, true), enableBizType(env, false), deleteBizType(env),
	)
	return cmd
}

func listBizTypes(env *clitool.Env) *cobra.Command {
	var match string
	cmd := &cobra.Command{
		Use: "list", Short: "List the biz types",
		Example: `  seqd biz-types list
  seqd biz-types list --match 'order*'
  seqd biz-types list --json`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, _ []string) error {
			l := list[admin.BizType]{env: env, field: "bizTypes", titles: []string{"NAME", "VERSION", "STATE", "STRATEGY", "SOURCE", "CHANGED"}}
			l.row = func(b admin.BizType) []string {
				return []string{b.Name, fmt.Sprint(b.Version), stateOf(b.Enabled), strategyOf(b), b.Source, brief(b.UpdatedAt, "-")}
			}
			return l.run(cmd.Context(), func(ctx context.Context, page admin.Page) ([]admin.BizType, string, error) {
				page.Match = match
				return a.BizTypes(ctx, page)
			})
		}),
	}
	cmd.Flags().StringVar(&match, "match", "", "only those whose `NAME` matches; * stands for any characters")
	return cmd
}

// strategyOf returns the strategy that a definition names.
func strategyOf(b admin.BizType) string {
	d := struct{ Strategy string }{"segment"}
	_ = json.Unmarshal(b.Definition, &d) // it stays as it is
	return d.Strategy
}

func getBizType(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "get BIZTYPE", Short: "Show the definition of a biz type",
		Long: `Show the definition of a biz type as YAML, which seqd biz-types put takes. Secrets read (secret);
they stay as they are if they are written back as that.`,
		Example: `  seqd biz-types get order
  seqd biz-types get order >order.yaml
  seqd biz-types get order --json`,
		Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			b, err := a.BizType(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return env.Show(b, func(w io.Writer) error { return printBizType(w, b) })
		}),
	}
}

// printBizType writes the definition, below a comment about the rest.
func printBizType(w io.Writer, b admin.BizType) error {
	text, err := toYAML(b.Definition)
	if err != nil {
		return err
	}
	rest := fmt.Sprintf("# %s: version %d, %s, from %s, changed %s", b.Name, b.Version, stateOf(b.Enabled), b.Source, brief(b.UpdatedAt, "never"))
	_, err = fmt.Fprintf(w, "%s\n%s", clitool.Escape(rest), text)
	return err
}

// change is a change of a biz type on the command line.
type change struct {
	condition
	create, dryRun, force bool
}

func (c *change) addDryRun(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "check everything and change nothing")
}

func (c *change) addForce(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.force, "force", false, "accept a definition whose IDs could repeat earlier ones, or with which results of jobs cannot be shown")
}

// make makes the change and shows what came of it.
func (c *change) make(cmd *cobra.Command, env *clitool.Env, do func(admin.Change) (admin.BizType, error)) error {
	if err := c.check(cmd); err != nil {
		return err
	}
	b, err := do(admin.Change{IfMatch: c.version, IfNoneMatch: c.create, DryRun: c.dryRun, Force: c.force})
	if c.create && errors.Is(err, client.ErrPreconditionFailed) {
		return fmt.Errorf("%s: the biz type exists; without --create it is replaced", client.ErrPreconditionFailed)
	}
	if err != nil {
		return err
	}
	for _, warning := range b.Warnings {
		fmt.Fprintf(env.Errs, "seqd: warning: %s\n", clitool.Escape(warning))
	}
	what := fmt.Sprintf("version %d, %s", b.Version, stateOf(b.Enabled))
	if c.dryRun {
		what = "the definition is good; nothing was changed"
		if b.Example != "" {
			what += "; IDs look like " + b.Example
		}
	}
	return env.ShowText(b, clitool.Escape(b.Name+": "+what))
}

func putBizType(env *clitool.Env) *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use: "put BIZTYPE [FILE]", Short: "Create or replace a biz type",
		Long: `Create or replace the definition of a biz type by that in FILE, or on standard input without one or
with -: YAML or JSON, as an item of bizTypes in the configuration. A key that it leaves out has the
default of its strategy. With --dry-run it changes nothing and shows an example of an ID, if
there is one.`,
		Example: `  seqd biz-types put refund refund.yaml --dry-run
  seqd biz-types put refund refund.yaml --if-match 3
  echo '{start: 1000, step: 500}' | seqd biz-types put refund --create`,
		Args: clitool.Operands("BIZTYPE", "[FILE]"), ValidArgsFunction: bizTypeAndFile(env),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			text, err := readDefinition(env, args[1:])
			if err != nil {
				return err
			}
			return c.make(cmd, env, func(how admin.Change) (admin.BizType, error) {
				b, _, err := a.PutBizType(cmd.Context(), args[0], text, how)
				return b, err
			})
		}),
	}
	c.addTo(cmd)
	cmd.Flags().BoolVar(&c.create, "create", false, "change nothing if it exists")
	cmd.MarkFlagsMutuallyExclusive("if-match", "create")
	c.addDryRun(cmd)
	c.addForce(cmd)
	return cmd
}

func patchBizType(env *clitool.Env) *cobra.Command {
	var c change
	var set []string
	cmd := &cobra.Command{
		Use: "patch BIZTYPE [FILE] [--set KEY=VALUE]", Short: "Change some keys of a biz type",
		Long: `Change some keys of a definition by a merge patch (RFC 7396) in FILE, on standard input, or given by
--set: null removes a key, and keys that are not named stay.`,
		Example: `  seqd biz-types patch order --set step=5000 --set maxStep=1000000
  seqd biz-types patch order --set start=null --dry-run
  seqd biz-types patch order change.yaml --if-match 7`,
		Args: clitool.Operands("BIZTYPE", "[FILE]"), ValidArgsFunction: bizTypeAndFile(env),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) (err error) {
			var text []byte
			switch {
			case len(set) > 0 && len(args) > 1:
				return clitool.Usage("a FILE and --set cannot be used together")
			case len(set) > 0:
				text, err = patchOf(set)
			default:
				text, err = readDefinition(env, args[1:])
			}
			if err != nil {
				return err
			}
			return c.make(cmd, env, func(how admin.Change) (admin.BizType, error) {
				return a.PatchBizType(cmd.Context(), args[0], text, how)
			})
		}),
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "`KEY=VALUE` to change, with dots for keys in sections; repeatable")
	c.addTo(cmd)
	c.addDryRun(cmd)
	c.addForce(cmd)
	return cmd
}

func enableBizType(env *clitool.Env, enable bool) *cobra.Command {
	verb, short, long := "enable", "Let a biz type issue again", "Let a biz type issue numbers again. Every node tries again what kept it from issuing."
	if !enable {
		verb, short, long = "disable", "Keep a biz type from issuing", "Keep a biz type from issuing: requests for numbers are refused (409 disabled). Its numbers are kept."
	}
	var c change
	cmd := &cobra.Command{
		Use: verb + " BIZTYPE", Short: short, Long: long, Example: "  seqd biz-types " + verb + " order",
		Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			return c.make(cmd, env, func(how admin.Change) (admin.BizType, error) {
				return a.EnableBizType(cmd.Context(), args[0], enable, how)
			})
		}),
	}
	c.addTo(cmd)
	return cmd
}

func deleteBizType(env *clitool.Env) *cobra.Command {
	var c change
	yes := false
	cmd := &cobra.Command{
		Use: "delete BIZTYPE [--yes]", Short: "Delete a biz type",
		Long: `Delete a biz type. Its numbers are never issued again: if the name is created again, it continues
above them. On a terminal it asks first.`,
		Example: `  seqd biz-types delete refund
  seqd biz-types delete refund --yes --if-match 4`,
		Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if err := c.check(cmd); err != nil {
				return err
			}
			if err := agreed(env, yes || c.dryRun, "Delete the biz type "+args[0]+"? Callers will be refused."); err != nil {
				return err
			}
			if err := a.DeleteBizType(cmd.Context(), args[0], admin.Change{IfMatch: c.version, DryRun: c.dryRun, Force: c.force}); err != nil {
				return err
			}
			return showDeletion(env, args[0], c.dryRun)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.addTo(cmd)
	c.addDryRun(cmd)
	cmd.Flags().BoolVar(&c.force, "force", false, "delete it although results of jobs cannot be shown any more")
	return cmd
}
