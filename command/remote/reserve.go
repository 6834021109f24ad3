package remote

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/command/clitool"
)

func reserveCommand(env *clitool.Env) *cobra.Command {
	opts := client.ReserveOptions{Count: 1}
	cmd := &cobra.Command{
		Use: "reserve BIZTYPE [-n COUNT]", Short: "Reserve numbers of a gapless biz type",
		Long: `Reserve numbers of a gapless biz type. Confirm them by seqd confirm once they were used, or give
them back by seqd release. What is neither confirmed nor released in time goes back by itself.`,
		Example: `  seqd reserve invoice
  seqd reserve invoice -n 3 --ttl 1h --json
  seqd reserve invoice --key tenant-42 --idempotency-key payment-4711`,
		Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withClient(env, func(cmd *cobra.Command, c *client.Client, args []string) error {
			switch {
			case opts.Count < 1:
				return clitool.Usage("-n %d: at least 1 is needed", opts.Count)
			case cmd.Flags().Changed("ttl") && (opts.TTL < time.Second || opts.TTL > 24*time.Hour):
				return clitool.Usage("--ttl %s: want 1s to 24h", opts.TTL)
			}
			for _, name := range []string{"key", "idempotency-key"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
					return clitool.Usage("--%s is empty", name)
				}
			}
			r, err := c.Reserve(cmd.Context(), args[0], opts)
			if err != nil {
				return err
			}
			return showReservation(env, r)
		}),
	}
	cmd.Flags().IntVarP(&opts.Count, "count", "n", 1, "how many numbers")
	cmd.Flags().DurationVar(&opts.TTL, "ttl", 0, "how long, 1s to 24h (default: the biz type's reservationTTL)")
	cmd.Flags().StringVar(&opts.Key, "key", "", "`KEY` of a keyed biz type")
	cmd.Flags().StringVar(&opts.IdempotencyKey, "idempotency-key", "", "name of what needs the numbers: the same `KEY` gives the same reservation again")
	return cmd
}

func confirmCommand(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "confirm BIZTYPE RESERVATION", Short: "Make reserved numbers issued",
		Long:    `Make the numbers of a reservation issued. Doing it twice is the same as once.`,
		Example: `  seqd confirm invoice 4f1c09d2ab7e63581d20`,
		Args:    clitool.Operands("BIZTYPE", "RESERVATION"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withClient(env, func(cmd *cobra.Command, c *client.Client, args []string) error {
			r, err := c.Confirm(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return showReservation(env, r)
		}),
	}
}

func releaseCommand(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "release BIZTYPE RESERVATION", Short: "Give reserved numbers back",
		Long:    `Give the numbers of a reservation back. Doing it twice is the same as once.`,
		Example: `  seqd release invoice 4f1c09d2ab7e63581d20`,
		Args:    clitool.Operands("BIZTYPE", "RESERVATION"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withClient(env, func(cmd *cobra.Command, c *client.Client, args []string) error {
			if err := c.Release(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			released := struct {
				BizType     string `json:"bizType"`
				Reservation string `json:"reservation"`
				State       string `json:"state"`
			}{args[0], args[1], "released"}
			return env.ShowText(released, args[1]+": released")
		}),
	}
}

// showReservation prints a reservation: one line for each thing that it says.
func showReservation(env *clitool.Env, r *client.Reservation) error {
	return env.ShowText(r, fmt.Sprintf("biz type     %s\nreservation  %s\nIDs          %s\nstate        %s\nexpires at   %s",
		clitool.Escape(r.BizType), clitool.Escape(r.ID), clitool.Escape(strings.Join(r.IDs, " ")), clitool.Escape(string(r.State)), brief(r.ExpiresAt, "-")))
}
