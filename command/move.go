package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

const (
	undoUsage       = "let nodes use the former store again, as long as no other one was opened"
	leaveRedisUsage = "leave behind what the former Redis has: the rest of the numbers in cursors, answers to Idempotency-Keys, the state of rate limits"
)

// move moves everything to another store.
func (s *settings) move(env *clitool.Env) *cobra.Command {
	var from, to string
	undo, how := false, ops.Moving{}
	cmd := &cobra.Command{
		Use: "move --from FILE --to FILE", Short: "Move everything to another store", GroupID: clitool.GroupService,
		Long: `Move all that the store of the configuration --from has to the store of the configuration --to,
which must be empty: definitions, counters, ledgers with their reservations, history, tokens, jobs,
events, machine IDs, answers to Idempotency-Keys. No number is skipped, and each biz type goes on
with the same next number.

Stop every seqd first. Then the former store is shut: a node that starts with it is refused, and one
that was forgotten or suspended gets no number from it any more. Everything is copied and compared,
and at last the new store is opened. Start seqd with the configuration of --to then, and with the
Redis that it had.

If this is interrupted, repeat it: it goes on. As long as the new store was not opened, --undo opens
the former one again; afterwards there is no way back.

Variables of the environment override both files, as they do for every command.`,
		Example: `  seqd move --from seqd.yaml --to new.yaml
  seqd move --undo --from seqd.yaml`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" || (to == "") != undo {
				return clitool.Usage("say --from FILE and --to FILE, or --undo and --from FILE")
			}
			cfg, err := s.configOf("--from", from)
			if err != nil {
				return err
			}
			if undo {
				return undoMove(cmd, env, cfg)
			}
			target, err := s.configOf("--to", to)
			if err != nil {
				return err
			}
			p := &moveProgress{env: env, now: time.Now}
			how.Waits, how.Progress = p.waits, p.show
			err = ops.Move(cmd.Context(), cfg, target, how, p.tell)
			p.end()
			if err != nil {
				return refusal("move", err)
			}
			return env.Printf("moved to %s, %s: start seqd with %s\n", target.Store.Driver, target.Store.Place(), to)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&from, "from", "", "configuration `FILE` with the former store")
	fl.StringVar(&to, "to", "", "configuration `FILE` with the new store")
	fl.BoolVar(&undo, "undo", false, undoUsage)
	fl.BoolVar(&how.LeaveRedis, "leave-redis", false, leaveRedisUsage)
	return cmd
}

// configOf reads one of two configurations.
func (s *settings) configOf(flag, file string) (*config.Config, error) {
	cfg, err := config.Load(config.Sources{File: file, Env: s.src.Env})
	if err != nil {
		return nil, clitool.Usage("the configuration of %s is wrong:\n%w", flag, err)
	}
	return cfg, nil
}

func undoMove(cmd *cobra.Command, env *clitool.Env, cfg *config.Config) error {
	m, err := ops.UndoMove(cmd.Context(), cfg)
	if err != nil {
		return refusal("undo", err)
	}
	if m.File != "" {
		return env.Printf("nodes can use the store again. %s and its copies must not be imported\n", m.File)
	}
	return env.Printf("nodes can use the store again. What %s has must not be used: empty it before the next move\n", m.To)
}

// export is the first half of a move.
func (s *settings) export(env *clitool.Env) *cobra.Command {
	undo, how := false, ops.Moving{}
	cmd := &cobra.Command{
		Use: "export FILE --config FILE", Short: "Move everything out of a store, to a file", GroupID: clitool.GroupService,
		Long: `Write all that the store of the configuration has to FILE, and shut the store: this is the first
half of seqd move, and seqd import --from FILE the second one. Stop every seqd first. No node can
use the store afterwards, because numbers go on in the store that FILE is imported into.

FILE has the secrets of definitions: only its owner may read it. If this is interrupted, repeat it.
If FILE cannot be written, nothing is changed. As long as FILE was not imported, --undo opens the
store again; then FILE and its copies must not be imported. For a copy beside running nodes see
seqd snapshot save.`,
		Example: "  seqd export seqd.export --config seqd.yaml\n  seqd export --undo --config seqd.yaml",
		Args:    clitool.Operands("[FILE]"), ValidArgsFunction: anyFile,
		RunE: s.withConfig(func(cmd *cobra.Command, cfg *config.Config, args []string) error {
			if (len(args) == 0) != undo {
				return clitool.Usage("say the FILE to write, or --undo")
			}
			if undo {
				return undoMove(cmd, env, cfg)
			}
			p := &moveProgress{env: env, now: time.Now}
			how.Waits = p.waits
			c, err := ops.Export(cmd.Context(), cfg, args[0], how)
			if err != nil {
				return refusal("export", err)
			}
			return env.Printf("%s: %s. The store is shut: import the file (seqd import --from)\n", args[0], counted(c))
		}),
	}
	cmd.Flags().BoolVar(&undo, "undo", false, undoUsage)
	return s.addTo(cmd)
}

// importFrom lets the command import also do the second half of a move.
func (s *settings) importFrom(env *clitool.Env, cmd *cobra.Command) *cobra.Command {
	file, how := "", ops.Moving{}
	cmd.Use, cmd.Short = "import --from FILE --config FILE", "Import an export, or the numbers of Leaf or Tinyid"
	cmd.Long = `With --from fill the store of the configuration, which must be empty, from the FILE of seqd export:
it is the second half of a move. No number is skipped. FILE.imported says where it was imported: two
stores with the same numbers would issue them twice. If this is interrupted, repeat it.

The commands below take over the numbers of other services.`
	cmd.Example = "  seqd import --from seqd.export --config seqd.yaml\n" + cmd.Example
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 || file == "" {
			var names []string
			for _, sub := range inOrder(cmd) {
				names = append(names, sub.Name())
			}
			return clitool.Usage("import needs --from FILE, or a command: %s", strings.Join(names, ", "))
		}
		return s.withConfig(func(cmd *cobra.Command, cfg *config.Config, _ []string) error {
			p := &moveProgress{env: env, now: time.Now}
			how.Progress = p.show
			err := ops.Import(cmd.Context(), cfg, file, how, p.tell)
			p.end()
			if err != nil {
				return refusal("import", err)
			}
			return env.Printf("imported into %s, %s: start seqd\n", cfg.Store.Driver, cfg.Store.Place())
		})(cmd, args)
	}
	cmd.Flags().StringVar(&file, "from", "", "`FILE` of seqd export")
	cmd.Flags().BoolVar(&how.LeaveRedis, "leave-redis", false, leaveRedisUsage)
	return s.addTo(cmd)
}

// moveProgress shows how far a move is: a line that changes on a terminal, and elsewhere one now and then.
type moveProgress struct {
	env   *clitool.Env
	what  string // is done
	began time.Time
	next  time.Time // of the next line
	shown bool      // on the terminal
	now   func() time.Time
}

func (p *moveProgress) waits(nodes string) {
	fmt.Fprintf(p.env.Errs, "seqd: waiting whether a node still runs: %s\n", nodes)
}

func (p *moveProgress) tell(what, done string) {
	p.end()
	fmt.Fprintf(p.env.Errs, "seqd: %s: %s\n", what, done)
}

// show is called for each record.
func (p *moveProgress) show(what string, done, of int64) {
	now, pause, screen := p.now(), 5*time.Second, p.env.Terminal(p.env.Errs)
	if screen {
		pause = 100 * time.Millisecond
	}
	if p.what != what {
		p.what, p.began, p.next = what, now, now.Add(pause)
	}
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(pause)
	rate := float64(done) / now.Sub(p.began).Seconds()
	line := fmt.Sprintf("%s: %d of %d records, %d %%, %.0f/s, %s left", what, done, of, 100*done/max(done, of),
		rate, time.Duration(float64(max(0, of-done))/rate*float64(time.Second)).Round(time.Second))
	if !screen {
		fmt.Fprintln(p.env.Errs, line)
		return
	}
	p.shown = true
	fmt.Fprintf(clitool.Raw(p.env.Errs), "\r%s\x1b[K", line)
}

// end removes the line.
func (p *moveProgress) end() {
	if p.shown {
		_, _ = io.WriteString(clitool.Raw(p.env.Errs), "\r\x1b[K")
		p.shown = false
	}
}
