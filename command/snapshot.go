package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// snapshot saves and restores the store.
func (s *settings) snapshot(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Save and restore all that the store has", GroupID: clitool.GroupService,
		Long: `Save all that the store has to a file, and restore it into an empty store of any kind. A restore
skips numbers above each counter. None is issued again if fewer were issued since the snapshot.`,
		Example: "  seqd snapshot save seqd.snapshot --config seqd.yaml\n  seqd snapshot status seqd.snapshot",
	}
	cmd.AddCommand(s.saveSnapshot(env), s.showSnapshot(env), s.restoreSnapshot(env), s.confirmSnapshot(env))
	return cmd
}

// refusal returns an error of package ops as a mistake on the command line, if it is one.
func refusal(what string, err error) error {
	switch {
	case errors.Is(err, clitool.ErrUsage):
		return err
	case errors.Is(err, ops.ErrSnapshot), errors.Is(err, ops.ErrRaise):
		return clitool.AsUsage(err)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (s *settings) saveSnapshot(env *clitool.Env) *cobra.Command {
	local := func(cmd *cobra.Command, cfg *config.Config, args []string) error {
		return ops.Save(cmd.Context(), cfg, args[0])
	}
	cmd := &cobra.Command{
		Use: "save FILE [--config FILE | --addr URL]", Short: "Save all that the store has to a file",
		Long: `Save all that the store has to FILE: definitions, counters, ledgers, machine IDs, tokens, jobs and
history. With --addr a node does that, for a token with the scope admin. Otherwise this command
opens the store of the configuration: nodes may run, except with a bolt file, which only one process
can open. Answers for Idempotency-Keys that are in Redis, or in the folder of a bolt store, are not
in it.

FILE has the secrets of definitions: only its owner may read it. If this is interrupted, or the disk
is full, a FILE that was there stays as it is.`,
		Example: "  seqd snapshot save seqd.snapshot --addr http://127.0.0.1:8080\n  seqd snapshot save seqd.snapshot --config seqd.yaml",
		Args:    clitool.Operands("FILE"), ValidArgsFunction: anyFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if cmd.Flags().Changed("addr") {
				err = saveFrom(cmd.Context(), env, args[0])
			} else {
				err = s.withConfig(local)(cmd, args)
			}
			if err != nil {
				return refusal("save", err)
			}
			if err := os.Remove(args[0] + restoredNote); err != nil && !errors.Is(err, os.ErrNotExist) { // of another snapshot
				return err
			}
			c, err := ops.Status(args[0])
			if err != nil {
				return refusal("save", err)
			}
			return env.ShowText(shown(c), args[0]+": "+counted(c))
		},
	}
	env.AddConnection(cmd)
	return s.addTo(cmd)
}

// anyFile completes the names of files.
func anyFile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// saveFrom lets a node save a snapshot.
func saveFrom(ctx context.Context, env *clitool.Env, path string) error {
	c, err := env.Client()
	if err != nil {
		return err
	}
	return ops.Keep(path, func(w io.Writer) error { return env.Explain(admin.New(c).Snapshot(ctx, w)) })
}

// counted says what a snapshot has.
func counted(c ops.Contents) string {
	return fmt.Sprintf("%d records (%d counters, %d gapless), cluster %s, begun %s, SHA-256 %s", c.Records, c.Counters, c.Ledgers, c.Cluster, moment(c.Began), c.SHA256)
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// shownSnapshot is the JSON of status.
type shownSnapshot struct {
	Seqd       string        `json:"version"`
	Cluster    string        `json:"cluster"`
	Began      string        `json:"startedAt"`
	Ended      string        `json:"endedAt"`
	SHA256     string        `json:"sha256"`
	Counters   int64         `json:"counters"`
	Gapless    int64         `json:"gapless"`
	Documents  int64         `json:"documents"`
	Registries int64         `json:"registries"`
	History    int64         `json:"history"`
	BizTypes   []ops.Highest `json:"bizTypes"`
}

func shown(c ops.Contents) shownSnapshot {
	return shownSnapshot{c.Seqd, c.Cluster, moment(c.Began), moment(c.Ended), c.SHA256, c.Counters, c.Ledgers, c.Documents, c.Registries, c.History, c.BizTypes}
}

func (s *settings) showSnapshot(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status FILE", Short: "Check a snapshot, and show what it has",
		Long: "Read all of a snapshot, check that nothing of it is missing or was changed, and show when it was\nmade, of which cluster, and the highest number of each biz type.",
		Example: `  seqd snapshot status seqd.snapshot
  seqd snapshot status seqd.snapshot --json`,
		Args: clitool.Operands("FILE"), ValidArgsFunction: anyFile,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := ops.Status(args[0])
			if err != nil {
				return refusal("status", err)
			}
			return env.Show(shown(c), func(w io.Writer) error {
				fmt.Fprintf(w, "%s: %s\n", args[0], counted(c))
				table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				for _, h := range c.BizTypes {
					fmt.Fprintf(table, "%s\t%d counters\thighest %d\n", h.BizType, h.Counters, h.Highest)
				}
				return table.Flush()
			})
		},
	}
	env.AddJSON(cmd)
	return s.addIgnored(cmd)
}

func (s *settings) restoreSnapshot(env *clitool.Env) *cobra.Command {
	how := ops.Restoring{}
	var by, gapless int64
	file := ""
	cmd := &cobra.Command{
		Use: "restore FILE --config FILE", Short: "Restore a snapshot into an empty store",
		Long: `Fill the store of the configuration, which must be empty, from the snapshot FILE, and raise
everything. Stop every seqd first, also one with the former store: all that was issued of a counter
since the snapshot must be fewer numbers than are skipped here. Leave Redis as it is.

A gap counts from the snapshot, so a second restore of FILE would begin where the first one did.
FILE.restored says that there was one, also one that did not end: a seqd that was not stopped may
have issued numbers from its store. Then another store needs a larger --by, and a --highest or
--gapless that covers what was issued since.

Each counter continues above a gap: restoreGap of its biz type, ten steps, or 1,000,000 numbers,
whatever is most, or --by. A counter that --highest names continues above the number there. Numbers
in the cursors of Redis count as issued. Of gapless counters no number is skipped silently: if there
are any that --highest does not name, say with --gapless how many numbers become void. Jobs that had
not ended fail. New leases of machine and worker IDs begin above all that may have been granted.

What looks like a slip needs --yes, by the rule of seqd raise: a number of --highest that skips more
than 1,000,000 numbers (of a gapless counter 1,000) and more than the counter has come to, or a gap
that is more than these and more than any counter has come to.

A counter that the snapshot lacks, as that of a new key, may have issued since. So a new one begins
a gap higher, and a gapless one refuses, until you have named them and say seqd snapshot confirm.

No node can use the store before this has succeeded. If it is interrupted, repeat it with the same
FILE and flags.`,
		Example: `  seqd snapshot restore seqd.snapshot --config seqd.yaml
  seqd snapshot restore seqd.snapshot --highest highest.csv --gapless 0 --config seqd.yaml`,
		Args: clitool.Operands("FILE"), ValidArgsFunction: anyFile,
		RunE: s.withConfig(func(cmd *cobra.Command, cfg *config.Config, args []string) error {
			if cmd.Flags().Changed("by") {
				how.By = &by
			}
			if cmd.Flags().Changed("gapless") {
				how.Gapless = &gapless
			}
			if file != "" {
				var err error
				if how.Highest, err = readMarks(file, env); err != nil {
					return refusal("restore", err)
				}
			}
			place := cfg.Store.Place()
			former, err := restoredBefore(args[0])
			if err == nil && former != nil {
				if former.Done || former.Into != place {
					err = former.mayRestore(args[0], how)
				}
				how.Fresh = func() error { return former.mayRestore(args[0], how) }
			}
			if err != nil {
				return clitool.AsUsage(err)
			}
			note := formerRestore{Into: place, Gapless: how.Gapless, Highest: hashOf(how.Highest)}
			how.Marked = func(gap int64) {
				note.At, note.By = time.Now().UTC(), &gap
				if err := note.write(args[0]); err != nil {
					_ = env.Printf("%v: this file must not be restored into another store without larger gaps\n", err)
				}
			}
			err = ops.Restore(cmd.Context(), cfg, args[0], how, func(what, done string) {
				_ = env.Printf("%s: %s\n", what, done) // Out keeps its error
			})
			if err != nil {
				return refusal("restore", err)
			}
			if note.Done = true; note.By != nil {
				if err := note.write(args[0]); err != nil {
					_ = env.Printf("%v: this file must not be restored again without larger gaps\n", err)
				}
			}
			return env.Printf("restored: start seqd, and name the counters that began after the snapshot (seqd raise) before you say seqd snapshot confirm\n")
		}),
	}
	cmd.Flags().Int64Var(&by, "by", 0, "skip this many numbers, the `GAP`, above each counter that is not gapless; 0 only if nothing was issued since the snapshot")
	cmd.Flags().Int64Var(&gapless, "gapless", 0, "let this many numbers, the `GAP`, of each gapless counter become void; 0 only if none was issued since the snapshot")
	cmd.Flags().StringVar(&file, "highest", "", "let each counter that a line of this `FILE` names continue above the number in it, as in: invoice/tenant-42,5000. - is standard input")
	cmd.Flags().BoolVar(&how.Sure, "yes", false, "restore also with what looks like a slip")
	cmd.Flags().BoolVar(&how.ShutTokens, "shut-tokens", false, "disable the tokens of the store")
	return s.addTo(cmd)
}

// restoredNote is what the name of a snapshot is followed by in the name of a file that says that it was
// restored.
const restoredNote = ".restored"

// formerRestore is what that file says.
type formerRestore struct {
	At   time.Time `json:"at"`
	Into string    `json:"store"`
	// By is the largest gap above a counter, and Gapless that of gapless ones.
	By      *int64 `json:"gap,omitempty"`
	Gapless *int64 `json:"gapless,omitempty"`
	Highest string `json:"highest,omitempty"` // a hash of the numbers that were named
	Done    bool   `json:"done"`
}

// restoredBefore returns what is noted beside a snapshot, nil if nothing is.
func restoredBefore(file string) (*formerRestore, error) {
	text, err := os.ReadFile(file + restoredNote)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	before := new(formerRestore)
	if err == nil {
		err = json.Unmarshal(text, before)
	}
	if err != nil {
		return nil, fmt.Errorf("%s%s cannot be read: %w. It says how the snapshot was restored before", file, restoredNote, err)
	}
	return before, nil
}

// mayRestore returns an error if a restore into another store may begin where the former one did: a
// gap counts from the snapshot. A seqd may have issued numbers from the former store, also if that
// restore did not end.
func (before *formerRestore) mayRestore(file string, how ops.Restoring) error {
	usual := int64(ops.LeastGap)
	more := func(gap, former *int64) bool { return gap != nil && former != nil && *gap > *former }
	if more(how.By, cmp.Or(before.By, &usual)) && (how.Gapless == nil || more(how.Gapless, before.Gapless)) &&
		(len(how.Highest) == 0 || hashOf(how.Highest) != before.Highest || how.Sure) {
		return nil
	}
	return fmt.Errorf("%[7]w: %[1]s was restored at %[2]s into %[3]q: what was issued since then would be issued again. Give a --by, and for gapless counters that --highest does not name a --gapless, "+
		"above those of then (%[4]s and %[5]s) plus all that was issued since, and a --highest, if any, that is newer. If no seqd ran on that store, remove %[1]s%[6]s",
		file, before.At.Format(time.RFC3339), before.Into, gapText(before.By), gapText(before.Gapless), restoredNote, ops.ErrSnapshot)
}

func gapText(gap *int64) string {
	if gap == nil {
		return "the usual gap"
	}
	return strconv.FormatInt(*gap, 10)
}

// hashOf returns a hash of numbers that are named, "" for none.
func hashOf(marks []ops.Mark) string {
	if len(marks) == 0 {
		return ""
	}
	text := fmt.Sprint(slices.SortedFunc(slices.Values(marks), func(a, b ops.Mark) int { return cmp.Compare(a.Counter, b.Counter) }))
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

// write notes beside a snapshot when, where and how it was restored.
func (before *formerRestore) write(file string) error {
	text, err := json.Marshal(before)
	if err != nil {
		return err
	}
	return os.WriteFile(file+restoredNote, append(text, '\n'), 0o600)
}

func (s *settings) confirmSnapshot(env *clitool.Env) *cobra.Command {
	return s.addTo(&cobra.Command{
		Use: "confirm --config FILE", Short: "Say that all counters that had issued were raised",
		Long: `After a restore: say that every counter that had issued numbers is in the store, because you have
raised those that were missing (seqd raise). From then on new counters begin at their start.
Nodes may run, except with a bolt file, and learn of it at once.`,
		Example: "  seqd snapshot confirm --config seqd.yaml",
		Args:    clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.withConfig(func(cmd *cobra.Command, cfg *config.Config, _ []string) error {
			done, err := ops.ConfirmRestore(cmd.Context(), cfg)
			switch {
			case err != nil:
				return refusal("confirm", err)
			case !done:
				return env.Printf("there is nothing to confirm: the store was not restored, or that was confirmed\n")
			}
			return env.Printf("confirmed: new counters begin at their start\n")
		}),
	})
}
