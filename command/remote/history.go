package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/internal/sheet"
)

func historyCommand(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "history", Short: "Show or remove what was issued to whom", Long: `Show or remove what the plugin history keeps.`,
		Example: "  seqd history show invoice --id INV-2026-000042\n  seqd history purge --caller till-7 --yes", Args: clitool.Operands()}
	cmd.AddCommand(showHistoryCommand(env), purgeHistoryCommand(env))
	return cmd
}

func showHistoryCommand(env *clitool.Env) *cobra.Command {
	var of admin.HistoryOf
	var when span
	asCSV := false
	cmd := &cobra.Command{
		Use: "show BIZTYPE", Short: "Show who got which numbers of a biz type",
		Long: `Show what was issued of a biz type that has the plugin history, to whom and when, the newest first.
With several flags it shows what fits all of them. With tokens it needs the scope read. No index
helps to find an ID, a key, a caller or a request: --from and --to make that fast.`,
		Example: `  seqd history show invoice --id INV-2026-000042
  seqd history show order --caller shop --from 2026-11-01T00:00:00Z --csv >shop.csv`,
		Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) (err error) {
			if asCSV && env.JSON {
				return clitool.Usage("use only one of --csv and --json")
			}
			if err := noneEmpty(cmd, "id", "key", "caller", "request-id"); err != nil {
				return err
			}
			if of.From, of.To, err = when.read(); err != nil {
				return err
			}
			l := list[admin.HistoryRecord]{
				env: env, field: "records", falling: true,
				titles: []string{"AT", "KEY", "NUMBERS", "COUNT", "SHOWN AS", "CALLER", "ADDRESS", "REQUEST ID"},
				row: func(r admin.HistoryRecord) []string {
					return []string{brief(r.At, "-"), dash(r.Key), numbersOf(r), fmt.Sprint(r.Count), dash(strings.Join(r.IDs, " ")), dash(r.Caller), dash(r.Addr), dash(r.RequestID)}
				},
			}
			if asCSV {
				l.titles = []string{"at", "key", "first", "last", "count", "runs", "ids", "caller", "addr", "requestId"}
				l.write, l.row = writeCSV, func(r admin.HistoryRecord) []string {
					var runs []string
					for _, run := range r.Runs {
						runs = append(runs, fmt.Sprintf("%d+%d×%d", run.First, run.Stride, run.Count))
					}
					return []string{
						exact(r.At), sheet.ID(r.Key), sheet.Number(r.First), sheet.Number(r.Last), sheet.Number(int64(r.Count)), sheet.ID(strings.Join(runs, " ")),
						sheet.ID(strings.Join(r.IDs, " ")), sheet.ID(r.Caller), sheet.Text(r.Addr), sheet.ID(r.RequestID),
					}
				}
			}
			return l.run(cmd.Context(), func(ctx context.Context, p admin.Page) ([]admin.HistoryRecord, string, error) {
				return a.History(ctx, args[0], of, p)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&of.ID, "id", "", "who got this `ID`")
	f.StringVar(&of.Key, "key", "", "`KEY` of a keyed biz type")
	f.StringVar(&of.Caller, "caller", "", "`NAME` of the token that asked")
	f.StringVar(&of.RequestID, "request-id", "", "`ID` of the request, as its answer says in X-Request-Id")
	when.addTo(cmd)
	f.BoolVar(&asCSV, "csv", false, "print a table as CSV, for a spreadsheet")
	return cmd
}

func purgeHistoryCommand(env *clitool.Env) *cobra.Command {
	bizType, caller, before, yes := "", "", "", false
	cmd := &cobra.Command{
		Use: "purge [--biz-type NAME] [--caller NAME] [--before TIME] [--yes]", Short: "Remove records of the history for good",
		Long: `Remove the records of the history that fit all flags: of a biz type or of all, of a caller or of
all, from before a time or until now. The audit log says who did it. What a node has not written yet
stays: a record is written within a second or so. A history in files is that of one node: --addr
names all nodes, separated by commas, and each removes its own. With tokens it needs the scope
admin. If it fails, repeat it.`,
		Example: `  seqd history purge --caller till-7 --yes
  seqd history purge --biz-type order --before 2026-01-01T00:00:00Z --yes`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, _ []string) error {
			var of *string
			if cmd.Flags().Changed("caller") {
				of = &caller
			}
			at, ok := literal.Time(before)
			switch {
			case cmd.Flags().Changed("biz-type") && bizType == "":
				return clitool.Usage("--biz-type is empty")
			case bizType == "" && of == nil && before == "":
				return clitool.Usage("say which records: --biz-type, --caller, --before, or several of them")
			case cmd.Flags().Changed("before") && !ok:
				return clitool.Usage("--before %q is not a time such as 2026-01-31T23:59:59Z", before)
			case before == "" && of == nil:
				at = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) // whatever the clocks say
			}
			if err := agreed(env, yes, "Remove these records of the history for good?"); err != nil {
				return err
			}
			l := list[admin.Purged]{
				env: env, field: "bizTypes", titles: []string{"BIZ TYPE", "REMOVED"},
				row: func(p admin.Purged) []string { return []string{p.BizType, fmt.Sprint(p.Count)} },
			}
			u := &purge{env: env, admin: a, before: at, caller: of}
			if bizType != "" {
				p, err := u.run(cmd.Context(), bizType)
				if err != nil {
					return err
				}
				return errors.Join(l.print([]admin.Purged{p}, true), u.warn(cmd.Context()))
			}
			err := l.run(cmd.Context(), func(ctx context.Context, p admin.Page) (done []admin.Purged, next string, err error) {
				p.Limit = 100
				names, next, err := a.BizTypes(ctx, p)
				for _, b := range names {
					p, err := u.run(ctx, b.Name)
					if errors.Is(err, client.ErrNotFound) {
						continue // it keeps no history
					}
					if err != nil {
						return done, "", fmt.Errorf("%s: %w", b.Name, err)
					}
					done = append(done, p)
				}
				return done, next, err
			})
			return errors.Join(err, u.warn(cmd.Context()))
		}),
	}
	f := cmd.Flags()
	f.StringVar(&bizType, "biz-type", "", "only those of the biz type of this `NAME`")
	f.StringVar(&caller, "caller", "", "only those of the token of this `NAME`; empty: of those without a token")
	f.StringVar(&before, "before", "", "only those from before this `TIME`, such as 2026-01-31T00:00:00Z")
	f.BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// purge removes records of biz types, on each node that --addr names if they are in files.
type purge struct {
	env    *clitool.Env
	admin  *admin.Admin
	before time.Time
	caller *string
	files  string // a biz type whose history is in files, "" for none
	asked  int    // how many nodes were
}

func (u *purge) run(ctx context.Context, bizType string) (p admin.Purged, err error) {
	p, err = u.admin.PurgeHistory(ctx, bizType, u.before, u.caller)
	if err != nil || !p.Files {
		return p, err
	}
	conn, err := u.env.Connection()
	if err != nil {
		return p, err
	}
	if u.files, u.asked = bizType, len(conn.Addrs); u.asked == 1 {
		return p, nil
	}
	for _, addr := range conn.Addrs {
		c, err := u.env.Client(func(cfg *client.Config) { cfg.Addrs = []string{addr} })
		if err != nil {
			return p, err
		}
		more, err := admin.New(c).PurgeHistory(ctx, bizType, u.before, u.caller) // nothing is left on the first one
		if p.Count += more.Count; err != nil {
			return p, fmt.Errorf("%s: %w", addr, err)
		}
	}
	return p, nil
}

// warn says that there are files of nodes that were not asked.
func (u *purge) warn(ctx context.Context) error {
	if u.files == "" {
		return nil
	}
	nodes, complete, err := u.admin.Nodes(ctx)
	if err == nil && complete && len(nodes) <= u.asked {
		return nil
	}
	_, err = fmt.Fprintf(u.env.Errs, "seqd: %s keeps its history in files of each node, and --addr names %d: files of other nodes, also of those that do not run, are not changed\n", u.files, u.asked)
	return err
}

// numbersOf returns the numbers of a record in a few words.
func numbersOf(r admin.HistoryRecord) string {
	switch {
	case r.Count == 1:
		return fmt.Sprint(r.First)
	case len(r.Runs) > 0:
		return fmt.Sprintf("%d … %d in %d runs", r.First, r.Last, len(r.Runs))
	}
	return fmt.Sprintf("%d to %d", r.First, r.Last)
}

// noneEmpty returns an error if a flag is given without a value.
func noneEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return clitool.Usage("--%s is empty", name)
		}
	}
	return nil
}

// span are the flags --from and --to.
type span struct{ from, to string }

func (s *span) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.from, "from", "", "from this `TIME` on, such as 2026-01-31T00:00:00Z")
	cmd.Flags().StringVar(&s.to, "to", "", "before this `TIME`")
}

// read returns the times, the zero time for what is not given.
func (s *span) read() (from, to time.Time, err error) {
	for _, f := range []struct {
		name, text string
		t          *time.Time
	}{{"from", s.from, &from}, {"to", s.to, &to}} {
		var ok bool
		if *f.t, ok = literal.Time(f.text); f.text != "" && !ok {
			return from, to, clitool.Usage("--%s %q is not a time such as 2026-01-31T23:59:59Z", f.name, f.text)
		}
	}
	if s.from != "" && s.to != "" && !from.Before(to) {
		return from, to, clitool.Usage("--from is not before --to")
	}
	return from, to, nil
}

func auditCommand(env *clitool.Env) *cobra.Command {
	var of admin.AuditOf
	caller := ""
	var when span
	asCSV := false
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who changed what",
		Long: `Show who changed biz types, tokens and the like, or tried to, on any node, the newest first. The
service keeps these lines for 30 days; the logs of the nodes have all of them. With tokens it needs
the scope admin. STATUS is that of the answer: from 400 on nothing was changed, except that after
503 it may have been.`,
		Example: `  seqd audit --biz-type invoice
  seqd audit --action DELETE --from 2026-11-01T00:00:00Z
  seqd audit --caller ops --from 2026-11-01T00:00:00Z --csv >audit.csv`,
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, _ []string) (err error) {
			if asCSV && env.JSON {
				return clitool.Usage("use only one of --csv and --json")
			}
			if err := noneEmpty(cmd, "action", "biz-type", "target", "request-id"); err != nil {
				return err
			}
			if cmd.Flags().Changed("caller") {
				of.Caller = &caller
			}
			if of.From, of.To, err = when.read(); err != nil {
				return err
			}
			l := list[admin.AuditLine]{
				env: env, field: "lines",
				titles: []string{"AT", "CALLER", "ADDRESS", "METHOD", "PATH", "QUERY", "TARGET", "STATUS", "VERSION", "NODE", "REQUEST ID"},
				row: func(l admin.AuditLine) []string {
					return []string{brief(l.At, "-"), dash(l.Caller), l.Addr, l.Method, l.Path, dash(l.Query), dash(l.Target), fmt.Sprint(l.Status), version(l.Version), dash(l.Host), l.RequestID}
				},
			}
			if asCSV {
				l.titles = []string{"at", "caller", "addr", "method", "path", "query", "target", "status", "version", "leftOut", "host", "nodeId", "requestId"}
				l.write, l.row = writeCSV, func(l admin.AuditLine) []string {
					return []string{
						exact(l.At), sheet.ID(l.Caller), sheet.Text(l.Addr), sheet.Text(l.Method), sheet.Text(l.Path), sheet.Text(l.Query), sheet.ID(l.Target), fmt.Sprint(l.Status),
						sheet.Number(l.Version), sheet.Number(l.LeftOut), sheet.ID(l.Host), sheet.ID(l.NodeID), sheet.ID(l.RequestID),
					}
				}
			}
			return l.run(cmd.Context(), func(ctx context.Context, p admin.Page) ([]admin.AuditLine, string, error) {
				return a.Audit(ctx, of, p)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&caller, "caller", "", "only what the token of this `NAME` did; empty: who had none")
	f.StringVar(&of.Action, "action", "", "only this `ACTION`: a method, a path or both, such as \"DELETE /tokens/*\"")
	f.StringVar(&of.BizType, "biz-type", "", "only what was asked of the biz type of this `NAME`")
	f.StringVar(&of.Target, "target", "", "only what was done to the biz type, token, pool or subscription of this `NAME`")
	f.StringVar(&of.RequestID, "request-id", "", "only the request of this `ID`")
	when.addTo(cmd)
	f.BoolVar(&asCSV, "csv", false, "print a table as CSV, for a spreadsheet")
	return cmd
}

// version returns a version, or - for none.
func version(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
