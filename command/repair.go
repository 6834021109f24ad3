package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// raise makes a biz type continue above a number.
func (s *settings) raise(env *clitool.Env) *cobra.Command {
	return s.addTo(&cobra.Command{
		Use: "raise BIZTYPE NUMBER --config FILE", Short: "Make a biz type continue above a number", GroupID: clitool.GroupService,
		Long: `After restoring a backup of the store: make BIZTYPE continue above NUMBER. Stop every seqd before
the restore, and start them after this command has returned. It never lowers a counter. Numbers
reserved in Redis count as issued. BIZTYPE@PERIOD names one period of a biz type that resets.`,
		Example: `  seqd raise order 1000000 --config seqd.yaml
  seqd raise invoice@2026 5000 --config seqd.yaml`,
		Args: clitool.Operands("BIZTYPE", "NUMBER"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			return raise(cmd.Context(), cfg, args[0], args[1], env)
		},
	})
}

func raise(ctx context.Context, cfg *config.Config, bizType, text string, env *clitool.Env) error {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return clitool.Usage("%q is not a whole number from 1 to 9007199254740991", text)
	}
	raised, err := ops.Raise(ctx, cfg, bizType, number)
	switch {
	case errors.Is(err, ops.ErrRaise):
		return clitool.AsUsage(err)
	case err != nil:
		return fmt.Errorf("raise %s: %w", bizType, err)
	}
	return env.Printf("%s: %s\n", bizType, raised)
}

// restored does what is needed after restoring a backup, for the biz types that have no counter to
// raise.
func (s *settings) restored(env *clitool.Env) *cobra.Command {
	return s.addTo(&cobra.Command{
		Use: "restored --config FILE", Short: "Keep machine IDs apart after restoring a backup", GroupID: clitool.GroupService,
		Long: `After restoring a backup of the store, or of the Redis that holds machine IDs: make every new lease
of a machine ID begin above all that may have been granted. Current leases stay.`,
		Example: "  seqd restored --config seqd.yaml",
		Args:    clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			return restored(cmd.Context(), cfg, env)
		},
	})
}

func restored(ctx context.Context, cfg *config.Config, env *clitool.Env) error {
	any := false
	err := ops.Restored(ctx, cfg, func(bizType, done string) {
		any = true
		_ = env.Printf("%s: %s\n", bizType, done) // Out keeps its error
	})
	switch {
	case errors.Is(err, ops.ErrRaise):
		return clitool.AsUsage(err)
	case err != nil:
		return fmt.Errorf("restored: %w", err)
	case !any:
		return env.Printf("no biz type leases machine IDs; for biz types with counters see seqd raise\n")
	}
	return nil
}

// failover shows or confirms a failover of the store.
func (s *settings) failover(env *clitool.Env) *cobra.Command {
	confirm := false
	cmd := &cobra.Command{
		Use: "failover [--confirm] --config FILE", Short: "Show or confirm a failover of the store", GroupID: clitool.GroupService,
		Long: `Show whether the server of the store has failed over and may have lost what it acknowledged last,
which biz types that may concern, and what to do. It exits with 1 while a failover is not confirmed.`,
		Example: `  seqd failover --config seqd.yaml
  seqd failover --confirm --config seqd.yaml`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			failedOver, err := ops.Failover(cmd.Context(), cfg, confirm, env.Out)
			switch {
			case errors.Is(err, ops.ErrFailover):
				return clitool.AsUsage(err)
			case err != nil:
				return fmt.Errorf("failover: %w", err)
			case failedOver:
				return clitool.ErrSaid
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&confirm, "confirm", false, "let nodes create counters again. Before that, raise (seqd raise) each biz type and period that began shortly before the failover, because a counter that was lost looks new")
	return s.addTo(cmd)
}

// compact rewrites the files of the store.
func (s *settings) compact(env *clitool.Env) *cobra.Command {
	return s.addTo(&cobra.Command{
		Use: "compact --config FILE", Short: "Rewrite the files of a bolt store without free space", GroupID: clitool.GroupService,
		Long: `With store.driver bolt: rewrite the files of the store without their free space. Stop seqd first. If
this command is interrupted, the files stay intact.`,
		Example: "  seqd compact --config seqd.yaml",
		Args:    clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			if err = ops.Compact(cfg, env.Out); errors.Is(err, ops.ErrCompact) {
				return clitool.AsUsage(err)
			}
			return err
		},
	})
}
