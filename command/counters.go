package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/command/remote"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// counters lists counters, of a service or of a store.
func (s *settings) counters(env *clitool.Env) *cobra.Command {
	as := remote.CounterForms{}
	cmd := &cobra.Command{
		Use: "counters [BIZTYPE] [--csv|--json|--marks] [--config FILE]", Short: "Show how far counters have come", GroupID: clitool.GroupClient,
		Long: `Show each counter, of all biz types or of BIZTYPE, with the highest number that has left the store,
and change nothing. It asks a running service, for which it needs the scope read, or, with --config,
the store itself: nodes may run, except with a bolt file.

HIGHEST is the last number that was handed out if the biz type is gapless. Otherwise nodes may have
some numbers below it in hand. SEQUENCER is who gives out the next number: ledger (gapless), store
or redis (in strict order), or node. CHANGED is when a gapless counter changed, or when a node last
took a range of numbers.

--marks writes what seqd raise --file reads. It is as of now: numbers that are issued later are
above it, and a raise to it after a restore is not enough for those.`,
		Example: `  seqd counters
  seqd counters invoice --csv >invoice.csv
  seqd counters --marks --config seqd.yaml >highest.csv`,
		Args: clitool.Operands("[BIZTYPE]"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if as.CSV && as.Marks || env.JSON && (as.CSV || as.Marks) {
				return clitool.Usage("use only one of --csv, --marks and --json")
			}
			bizType := strings.Join(args, "")
			if s.asked(cmd) {
				if cmd.Flags().Changed("addr") {
					return clitool.Usage("--addr asks a service, and --config the store: use one of them")
				}
				return s.withConfig(func(cmd *cobra.Command, cfg *config.Config, _ []string) error {
					return printStored(cmd.Context(), env, as, cfg, bizType)
				})(cmd, args)
			}
			c, err := env.Client()
			if err != nil {
				return err
			}
			return remote.PrintCounters(cmd.Context(), env, as, func(ctx context.Context, p admin.Page) ([]admin.Standing, string, error) {
				return admin.New(c).Counters(ctx, bizType, p)
			})
		},
	}
	cmd.Flags().BoolVar(&as.CSV, "csv", false, "print a table as CSV, for a spreadsheet")
	cmd.Flags().BoolVar(&as.Marks, "marks", false, "print lines for seqd raise --file, as in: invoice/tenant-42@2026,5000")
	env.AddConnection(cmd)
	return s.addTo(cmd)
}

// asked reports whether --config or the flag of a key is given.
func (s *settings) asked(cmd *cobra.Command) (given bool) {
	cmd.Flags().Visit(func(f *pflag.Flag) { given = given || s.flags.Lookup(f.Name) != nil })
	return given
}

// printStored prints the counters of a store.
func printStored(ctx context.Context, env *clitool.Env, as remote.CounterForms, cfg *config.Config, bizType string) error {
	err := ops.Counters(ctx, cfg, func(list ops.ListCounters) error {
		return remote.PrintCounters(ctx, env, as, func(ctx context.Context, p admin.Page) (page []admin.Standing, next string, err error) {
			stored, next, err := list(ctx, bizType, p.After, p.Limit)
			for _, s := range stored {
				at, _ := time.Parse(time.RFC3339, s.UpdatedAt) // "" is none
				page = append(page, admin.Standing{
					Counter: s.Counter, BizType: s.BizType, Key: s.Key, Period: s.Period, Highest: s.Highest, Strategy: s.Strategy, Sequencer: s.Sequencer, UpdatedAt: at, FailedOver: s.FailedOver,
				})
			}
			return page, next, err
		})
	})
	switch {
	case errors.Is(err, ops.ErrSnapshot):
		return clitool.AsUsage(err)
	case err != nil:
		return fmt.Errorf("counters: %w", err)
	}
	return nil
}
