package remote

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

func subscriptionsCommand(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "subscriptions", Short: "Send events to receivers",
		Long: `Send the events of biz types to receivers, as signed POST requests. With tokens this needs the scope
admin.`,
		Example: `  seqd subscriptions put shop https://shop.example/hooks --biz-type invoice
  seqd subscriptions get shop`,
		Args: clitool.Operands(),
	}
	cmd.AddCommand(listSubscriptions(env), getSubscription(env), putSubscription(env), deleteSubscription(env), listDeliveries(env), replay(env))
	return cmd
}

var subscriptionTitles = []string{"NAME", "VERSION", "ENABLED", "BIZ TYPES", "TYPES", "URL", "CHANGED"}

func subscriptionRow(s admin.Subscription) []string {
	types := strings.Join(s.Types, ",")
	return []string{s.Name, fmt.Sprint(s.Version), fmt.Sprint(s.Enabled), strings.Join(s.BizTypes, ","), dash(types), s.URL, brief(s.UpdatedAt, "-")}
}

func listSubscriptions(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the subscriptions",
		Example: "  seqd subscriptions list",
		Args:    clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, _ []string) error {
			l := list[admin.Subscription]{env: env, field: "subscriptions", titles: subscriptionTitles, row: subscriptionRow}
			return l.run(cmd.Context(), a.Subscriptions)
		}),
	}
}

func getSubscription(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a subscription, and how far it is",
		Long: `Show a subscription: up to which position its events are sent, how many the receiver does not have
yet, and why the last attempt failed.`,
		Example: "  seqd subscriptions get shop --json",
		Args:    clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteSubscriptions),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			s, err := a.Subscription(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return env.Show(s, func(w io.Writer) error { return describeSubscription(w, s) })
		}),
	}
}

// describeSubscription prints a subscription, and how far it is if the answer says so.
func describeSubscription(w io.Writer, s admin.Subscription) error {
	if err := table(w, [][]string{subscriptionTitles, subscriptionRow(s)}); err != nil || s.State == nil {
		return err
	}
	rows := [][]string{{"BIZ TYPE", "POSITION"}}
	for _, b := range slices.Sorted(maps.Keys(s.State.Positions)) {
		rows = append(rows, []string{b, fmt.Sprint(s.State.Positions[b])})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d pending, %d dead, %d missed; node %s\n", s.State.Pending, s.State.Dead, s.State.Missed, clitool.Escape(dash(s.State.Node)))
	for _, why := range []string{s.Reason, s.State.Error} {
		if why != "" {
			fmt.Fprintln(w, clitool.Escape(why))
		}
	}
	return nil
}

func putSubscription(env *clitool.Env) *cobra.Command {
	var want admin.SubscriptionRequest
	var c condition
	cmd := &cobra.Command{
		Use: "put NAME URL --biz-type BIZTYPE", Short: "Make or replace a subscription",
		Long: `Make or replace a subscription, which posts the events of biz types to a URL. It prints the secret
that signs them, once. The present one stays unless --secret is given: new draws another one, and
then both sign for a day.`,
		Example: `  seqd subscriptions put shop https://shop.example/hooks --biz-type invoice
  seqd subscriptions put shop https://shop.example/hooks --biz-type invoice,receipt --secret new`,
		Args: clitool.Operands("NAME", "URL"), ValidArgsFunction: first(env.CompleteSubscriptions),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if err := c.check(cmd); err != nil {
				return err
			}
			if len(want.BizTypes) == 0 {
				return clitool.Usage("there is no --biz-type: name those whose events are to be sent")
			}
			want.URL = args[1]
			s, _, err := a.PutSubscription(cmd.Context(), args[0], want, admin.Change{IfMatch: c.version})
			if err != nil {
				return err
			}
			return env.Show(s, func(w io.Writer) error {
				if err := describeSubscription(w, s); err != nil || s.Secret == "" {
					return err
				}
				_, err := fmt.Fprintln(w, clitool.Escape(s.Secret))
				return err
			})
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&want.BizTypes, "biz-type", nil, "a `BIZTYPE` whose events are sent; repeatable")
	f.StringSliceVar(&want.Types, "type", nil, "a `TYPE` of events that are sent (default: all); repeatable")
	f.StringVar(&want.From, "from", "now", "where a new biz type begins: `WHERE` is now or oldest")
	f.BoolVar(&want.Disabled, "disabled", false, "send nothing for now")
	f.StringVar(&want.Secret, "secret", "", "another `SECRET`: new, or one that begins with whsec_")
	c.addTo(cmd)
	return cmd
}

func deleteSubscription(env *clitool.Env) *cobra.Command {
	var c condition
	yes := false
	cmd := &cobra.Command{
		Use: "delete NAME [--yes]", Short: "Delete a subscription",
		Long:    "Delete a subscription, and what its receiver does not have yet. On a terminal it asks first.",
		Example: "  seqd subscriptions delete shop",
		Args:    clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteSubscriptions),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if err := c.check(cmd); err != nil {
				return err
			}
			if err := agreed(env, yes, "Delete the subscription "+args[0]+"? What its receiver does not have yet is not sent."); err != nil {
				return err
			}
			if err := a.DeleteSubscription(cmd.Context(), args[0], admin.Change{IfMatch: c.version}); err != nil {
				return err
			}
			return showDeletion(env, args[0], false)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.addTo(cmd)
	return cmd
}

func listDeliveries(env *clitool.Env) *cobra.Command {
	state := ""
	cmd := &cobra.Command{
		Use: "deliveries NAME", Short: "List what a receiver does not have yet",
		Long:    "List the events that the receiver of a subscription does not have yet, and why.",
		Example: "  seqd subscriptions deliveries shop --state dead",
		Args:    clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteSubscriptions),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			l := list[admin.Delivery]{env: env, field: "deliveries", titles: []string{"KEY", "STATE", "ATTEMPTS", "NEXT", "ERROR"}}
			l.row = func(d admin.Delivery) []string {
				return []string{d.Key, d.State, fmt.Sprint(d.Attempts), brief(d.NextAt, "-"), dash(d.Error)}
			}
			return l.run(cmd.Context(), func(ctx context.Context, p admin.Page) ([]admin.Delivery, string, error) {
				return a.Deliveries(ctx, args[0], state, p)
			})
		}),
	}
	cmd.Flags().StringVar(&state, "state", "", "only those of this `STATE`: pending or dead")
	return cmd
}

func replay(env *clitool.Env) *cobra.Command {
	var r admin.Replay
	cmd := &cobra.Command{
		Use: "replay NAME", Short: "Send events again",
		Long: `Send again what was given up, or the events of a biz type from a position on. The receiver gets them
under the same webhook-id.`,
		Example: `  seqd subscriptions replay shop --dead
  seqd subscriptions replay shop --biz-type invoice --from 17`,
		Args: clitool.Operands("NAME"), ValidArgsFunction: first(env.CompleteSubscriptions),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			s, err := a.Replay(cmd.Context(), args[0], r)
			if err != nil {
				return err
			}
			return env.ShowText(s, args[0]+": they are sent again")
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&r.Dead, "dead", false, "all that was given up")
	f.StringVar(&r.BizType, "biz-type", "", "the `BIZTYPE` whose events are sent again")
	f.Int64Var(&r.From, "from", 0, "the `POSITION` of the first of them")
	cmd.MarkFlagsOneRequired("dead", "from")
	cmd.MarkFlagsMutuallyExclusive("dead", "from")
	cmd.MarkFlagsRequiredTogether("biz-type", "from")
	return cmd
}
