package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// raising is the flags of raise.
type raising struct {
	file    string
	all     bool
	by      int64
	stopped bool
	how     ops.How
}

// raise makes counters continue above a number.
func (s *settings) raise(env *clitool.Env) *cobra.Command {
	flags := raising{}
	cmd := &cobra.Command{
		Use: "raise [BIZTYPE [NUMBER]] [--all] [--dry-run] [--yes] --config FILE", Short: "Make a biz type continue above a number", GroupID: clitool.GroupService,
		Long: `After restoring a backup of the store: make BIZTYPE continue above NUMBER. Stop every seqd before
the restore, and start them after this command has returned. It never lowers a counter. Numbers
reserved in Redis count as issued. BIZTYPE@PERIOD names one period of a biz type that resets,
BIZTYPE/KEY and BIZTYPE/KEY@PERIOD one key of a keyed biz type.

A gapless counter skips nothing silently: the numbers up to NUMBER that the store does not know
become void. After a failover of the store it stands still until it is raised; nodes may run then.
Otherwise nothing is raised while nodes run. A period that refuses requests with an
Idempotency-Key, because a clock was ahead, takes them again.

With --file many counters are raised, each as far as its line says. With --by all counters that the
store has of BIZTYPE are raised, those of all keys, or those of BIZTYPE@PERIOD; with --all those of
all biz types. seqd counters --marks writes what --file reads.

--dry-run shows where each of them stands and would stand, and changes nothing. Nodes may run,
except with a bolt file. Without NUMBER it shows the counters of BIZTYPE, and without BIZTYPE all.

What looks like a slip needs --yes: to skip more than 1,000,000 numbers (of a gapless counter
1,000), and more than the counter has come to; a NUMBER above the last one; the first NUMBER of a
counter that has issued nothing; a counter that BIZTYPE has only after another change of keyed,
reset or the strategy.`,
		Example: `  seqd raise --dry-run --config seqd.yaml
  seqd raise order 1000000 --config seqd.yaml
  seqd raise invoice@2026 5000 --config seqd.yaml
  seqd raise invoice/tenant-42@2026 5000 --config seqd.yaml
  seqd raise --file highest.csv --config seqd.yaml
  seqd raise --by 1000 invoice@2026 --config seqd.yaml
  seqd raise --all --by 100000 --config seqd.yaml`,
		Args: flags.operands, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.withConfig(func(cmd *cobra.Command, cfg *config.Config, args []string) error {
			flags.how.Waits = func(nodes string) {
				_, _ = fmt.Fprintf(env.Errs, "looking for up to 20 s whether seqd still runs: %s\n", nodes)
			}
			flags.how.Left = func(bizTypes []string) {
				more := ""
				if len(bizTypes) > 10 {
					bizTypes, more = bizTypes[:10], fmt.Sprintf(" and %d others", len(bizTypes)-10)
				}
				_, _ = fmt.Fprintf(env.Errs, "not raised: the store has counters of %s%s, which are not defined, or have another strategy. Define and raise them before they issue again\n", strings.Join(bizTypes, ", "), more)
			}
			switch {
			case flags.file != "":
				return flags.raiseFile(cmd.Context(), cfg, env)
			case cmd.Flags().Changed("by") || len(args) < 2:
				by := ops.By{Gap: flags.by, Stopped: flags.stopped, All: flags.all}
				if len(args) > 0 {
					by.BizType = args[0]
				}
				return flags.raiseMany(env, func(tell func(string, ops.Raised)) error {
					return ops.RaiseBy(cmd.Context(), cfg, by, flags.how, tell)
				})
			}
			return flags.raise(cmd.Context(), cfg, args[0], args[1], env)
		}),
	}
	cmd.Flags().StringVar(&flags.file, "file", "", "raise each counter that a line of this `FILE` names, above the number in it, as in: invoice/tenant-42,5000. - is standard input")
	cmd.Flags().Int64Var(&flags.by, "by", 0, "raise all counters of BIZTYPE by this `GAP` above what the store knows, 0 or more. A repeat adds the gap again")
	cmd.Flags().BoolVar(&flags.all, "all", false, "with --by, in place of BIZTYPE: all counters of all biz types")
	cmd.Flags().BoolVar(&flags.stopped, "stopped", false, "with --by: only gapless counters that stand still after a failover. A repeat finds none and changes nothing")
	cmd.Flags().BoolVar(&flags.how.DryRun, "dry-run", false, "show where counters stand and would stand, and change nothing")
	cmd.Flags().BoolVar(&flags.how.Sure, "yes", false, "raise also what looks like a slip")
	return s.addTo(cmd)
}

// operands checks the arguments of raise.
func (r *raising) operands(cmd *cobra.Command, args []string) error {
	switch by := cmd.Flags().Changed("by"); {
	case r.file != "" && (by || r.stopped || r.all):
		return clitool.Usage("--file says which counters are raised, and how far: leave --by, --all and --stopped out")
	case by && r.by < 0:
		return clitool.Usage("--by %d is below 0", r.by)
	case r.all && !by && !r.how.DryRun:
		return clitool.Usage("--all needs --by")
	case r.stopped && !by:
		return clitool.Usage("--stopped needs --by")
	case r.file != "" || r.all:
		return clitool.Operands()(cmd, args)
	case by:
		return clitool.Operands("BIZTYPE")(cmd, args)
	case r.how.DryRun:
		return clitool.Operands("[BIZTYPE]", "[NUMBER]")(cmd, args)
	}
	return clitool.Operands("BIZTYPE", "NUMBER")(cmd, args)
}

func (r *raising) raise(ctx context.Context, cfg *config.Config, counter, text string, env *clitool.Env) error {
	number, ok := literal.Int(text)
	if !ok {
		return clitool.Usage("%q is not a whole number from 1 to 9007199254740991", text)
	}
	raised, err := ops.Raise(ctx, cfg, counter, number, r.how)
	switch {
	case errors.Is(err, ops.ErrRaise):
		return clitool.AsUsage(err)
	case err != nil:
		return fmt.Errorf("raise %s: %w", counter, err)
	}
	return env.Printf("%s: %s\n", counter, raised)
}

// raiseFile raises what the lines of a file say.
func (r *raising) raiseFile(ctx context.Context, cfg *config.Config, env *clitool.Env) error {
	marks, err := readMarks(r.file, env)
	if err != nil {
		return refusal("raise", err)
	}
	return r.raiseMany(env, func(tell func(string, ops.Raised)) error { return ops.RaiseAll(ctx, cfg, marks, r.how, tell) })
}

// readMarks reads a file that says how far counters had come. - is standard input.
func readMarks(file string, env *clitool.Env) ([]ops.Mark, error) {
	from := env.In
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, clitool.AsUsage(err)
		}
		defer opened.Close()
		from = opened
	}
	marks, err := ops.ReadMarks(from)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return marks, err
}

// raiseMany prints a line for each counter that do raises, and how many there were.
func (r *raising) raiseMany(env *clitool.Env, do func(tell func(counter string, r ops.Raised)) error) error {
	raised, same := 0, 0
	err := do(func(counter string, result ops.Raised) {
		if result.Changed() {
			raised++
		} else {
			same++
		}
		_ = env.Printf("%s: %s\n", counter, result) // Out keeps its error
	})
	switch {
	case errors.Is(err, ops.ErrRaise):
		return clitool.AsUsage(err)
	case errors.Is(err, ops.ErrRefused):
		return fmt.Errorf("raise: %w", err)
	case err != nil:
		return fmt.Errorf("raise: %d counters were raised, %d were high enough, and then: %w", raised, same, err)
	}
	switch {
	case r.how.DryRun:
		return env.Printf("%d counters would be raised, %d are high enough; nothing was changed\n", raised, same)
	case r.stopped && raised+same == 0:
		return env.Printf("no counter stands still: nothing was changed\n")
	}
	return env.Printf("%d counters were raised, %d were high enough\n", raised, same)
}

// restored does what is needed after restoring a backup, for the biz types that have no counter to
// raise.
func (s *settings) restored(env *clitool.Env) *cobra.Command {
	shut, fail := false, false
	cmd := &cobra.Command{
		Use: "restored [--shut-tokens] [--fail-jobs] --config FILE", Short: "Keep machine IDs apart after restoring a backup", GroupID: clitool.GroupService,
		Long: `After restoring a backup of the store, or of the Redis that holds machine IDs: make every new lease
of a machine ID, and of a worker ID of each pool, begin above all that may have been granted.
Current leases stay.

Run it also to move machine IDs to another Redis, or from the store to Redis or back: from then on
that place counts, and nodes with the former one get none. Before that, stop every node that uses
the former Redis.

With --shut-tokens it also disables the tokens of the store, because some are valid again that were
deleted, disabled or limited after the backup. Enable those that are right with a token of the
configuration, by 'seqd tokens change NAME --enable'.

With --fail-jobs it also lets the jobs fail that have not ended in the store, because they may have
gone on after the backup, or been cancelled. Without it they go on when seqd starts.`,
		Example: `  seqd restored --config seqd.yaml
  seqd restored --shut-tokens --fail-jobs --config seqd.yaml`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.withConfig(func(cmd *cobra.Command, cfg *config.Config, _ []string) error {
			if shut {
				if err := undo(cmd, cfg, env, ops.ShutTokens, "token %s: disabled", "no token of the store is enabled"); err != nil {
					return err
				}
			}
			if fail {
				if err := undo(cmd, cfg, env, ops.FailJobs, "job %s: failed", "all jobs of the store have ended"); err != nil {
					return err
				}
			}
			return restored(cmd.Context(), cfg, env)
		}),
	}
	cmd.Flags().BoolVar(&shut, "shut-tokens", false, "disable the tokens of the store")
	cmd.Flags().BoolVar(&fail, "fail-jobs", false, "let the jobs fail that have not ended")
	return s.addTo(cmd)
}

// undo does something to all of a kind that a restore may have brought back, and says to which, or
// that there is none.
func undo(cmd *cobra.Command, cfg *config.Config, env *clitool.Env, do func(context.Context, *config.Config) ([]string, error), each, none string) error {
	names, err := do(cmd.Context(), cfg)
	for _, name := range names {
		_ = env.Printf(each+"\n", name) // Out keeps its error
	}
	switch {
	case errors.Is(err, ops.ErrRaise):
		return clitool.AsUsage(err)
	case err != nil:
		return fmt.Errorf("restored: %w", err)
	case len(names) == 0:
		return env.Printf("%s\n", none)
	}
	return nil
}

func restored(ctx context.Context, cfg *config.Config, env *clitool.Env) error {
	any := false
	err := ops.Restored(ctx, cfg, func(what, done string) {
		any = true
		_ = env.Printf("%s: %s\n", what, done) // Out keeps its error
	})
	switch {
	case errors.Is(err, ops.ErrRaise):
		return clitool.AsUsage(err)
	case err != nil:
		return fmt.Errorf("restored: %w", err)
	case !any:
		return env.Printf("no biz type leases machine IDs, and no pool worker IDs; for biz types with counters see seqd raise\n")
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
		RunE: s.withConfig(func(cmd *cobra.Command, cfg *config.Config, _ []string) error {
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
		}),
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
		RunE: s.withConfig(func(_ *cobra.Command, cfg *config.Config, _ []string) error {
			err := ops.Compact(cfg, env.Out)
			if errors.Is(err, ops.ErrCompact) {
				return clitool.AsUsage(err)
			}
			return err
		}),
	})
}
