package remote

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/sheet"
)

func gapsCommand(env *clitool.Env) *cobra.Command {
	var of admin.Counter
	asCSV := false
	cmd := &cobra.Command{
		Use: "gaps BIZTYPE", Short: "Show the account of a gapless biz type",
		Long: `Show which numbers of a gapless biz type are not issued, and why: they are reserved, released, which
means that the next caller gets them, or void for a reason. All others are issued. With tokens it
needs the scope read. --csv prints all numbers, also those that are issued, for auditors and their
spreadsheets: what a spreadsheet would change, such as a number of more than 15 digits, has an
apostrophe before it.`,
		Example: `  seqd gaps invoice
  seqd gaps invoice --period 2026 --csv >invoices-2026.csv
  seqd gaps invoice --key tenant-42 --json`,
		Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if asCSV && env.JSON {
				return clitool.Usage("use only one of --csv and --json")
			}
			var p accountPrinter = &accountText{out: env.Out}
			switch {
			case asCSV:
				p = newAccountCSV(env.Out)
			case env.JSON:
				p = &accountJSON{out: env.Out}
			}
			return printAccount(cmd.Context(), env, a, args[0], of, p)
		}),
	}
	addCounter(cmd, &of)
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print a table of all numbers as CSV")
	return cmd
}

// addCounter adds the flags that name a counter.
func addCounter(cmd *cobra.Command, of *admin.Counter) {
	cmd.Flags().StringVar(&of.Key, "key", "", "`KEY` of a keyed biz type")
	cmd.Flags().StringVar(&of.Period, "period", "", "`PERIOD` such as 2026, 2026-11 or 2026-11-23, if it resets (default: the present one)")
}

// accountPrinter prints an account page by page: there may be a million gaps.
type accountPrinter interface {
	page(admin.Account) error
	// end prints what follows the last page.
	end(last admin.Account) error
}

func printAccount(ctx context.Context, env *clitool.Env, a *admin.Admin, bizType string, of admin.Counter, p accountPrinter) error {
	var last admin.Account
	begun := false
	err := a.EachPage(ctx, bizType, of, func(page admin.Account) error {
		last, begun = page, true
		return p.page(page)
	})
	if err != nil {
		return breakOff(env, begun, err)
	}
	return p.end(last)
}

// accountText prints a table of gaps, and then the totals. It has the IDs of gaps if the first has.
type accountText struct {
	out     io.Writer
	ids     bool
	gaps    int
	numbers int64
}

func (t *accountText) page(a admin.Account) error {
	if len(a.Gaps) == 0 {
		return nil
	}
	var rows [][]string
	add := func(from, to, fromID, toID string, more ...string) {
		row := []string{from, to}
		if t.ids {
			row = append(row, fromID, toID)
		}
		rows = append(rows, append(row, more...))
	}
	if t.gaps == 0 {
		t.ids = a.Gaps[0].FromID != ""
		add("FROM", "TO", "FROM ID", "TO ID", "STATE", "SINCE", "REMARK")
	}
	for _, g := range a.Gaps {
		add(fmt.Sprint(g.From), fmt.Sprint(g.To), dash(g.FromID), dash(g.ToID), g.State, brief(g.At, "-"), dash(remark(g)))
		t.numbers += g.To - g.From + 1
	}
	t.gaps += len(a.Gaps)
	return table(t.out, rows)
}

// remark says what else is known of a gap.
func remark(g admin.Gap) string {
	switch {
	case g.Reservation != "":
		return "reservation " + g.Reservation + " until " + brief(g.ExpiresAt, "-")
	case g.Caller != "":
		return g.Reason + " (" + g.Caller + ")"
	}
	return g.Reason
}

func (t *accountText) end(a admin.Account) error {
	var err error
	switch {
	case a.Last < a.First:
		_, err = fmt.Fprintf(t.out, "no number was handed out; the first one will be %d\n", a.First)
	case t.gaps == 0:
		_, err = fmt.Fprintf(t.out, "%d to %d: %d issued, no gaps\n", a.First, a.Last, a.Issued)
	default:
		_, err = fmt.Fprintf(t.out, "%d to %d: %d issued, %d not\n", a.First, a.Last, a.Issued, t.numbers)
	}
	return err
}

// accountJSON prints one document, with a gap on each line and the totals behind them.
type accountJSON struct {
	out  io.Writer
	open bool
	gaps int
}

func (j *accountJSON) page(a admin.Account) error {
	var b bytes.Buffer
	if !j.open {
		j.open = true
		b.WriteString(`{"bizType":` + quoted(a.BizType))
		if a.Key != "" {
			b.WriteString(`,"key":` + quoted(a.Key))
		}
		b.WriteString(`,"gaps":[`)
	}
	for _, g := range a.Gaps {
		text, err := json.Marshal(g)
		if err != nil {
			return err
		}
		if j.gaps > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		b.Write(text)
		j.gaps++
	}
	_, err := j.out.Write(b.Bytes())
	return err
}

func (j *accountJSON) end(a admin.Account) error {
	totals, err := json.Marshal(struct {
		Period string `json:"period,omitempty"`
		First  int64  `json:"first,string"`
		Last   int64  `json:"last,string"`
		Issued int64  `json:"issued"`
	}{a.Period, a.First, a.Last, a.Issued})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(j.out, "\n],%s\n", totals[1:])
	return err
}

// accountCSV prints the table that the service answers to Accept: text/csv: each number is in
// exactly one row.
type accountCSV struct {
	w    *csv.Writer
	next int64 // the first number that is in no row yet; 0 before the first page
	// begin are the first cells of each row. If it is not nil, there are no titles.
	begin []string
}

func newAccountCSV(out io.Writer) *accountCSV {
	c := &accountCSV{w: csv.NewWriter(out)}
	c.w.UseCRLF = true
	return c
}

func (c *accountCSV) page(a admin.Account) error {
	if c.next == 0 {
		c.next = a.First
		if c.begin == nil {
			c.row(sheet.Mark+"from", "to", "fromId", "toId", "state", "at", "reason", "caller", "reservation", "expiresAt")
		}
	}
	for _, g := range a.Gaps {
		c.issued(g.From - 1)
		c.row(sheet.Number(g.From), sheet.Number(g.To), sheet.ID(g.FromID), sheet.ID(g.ToID), g.State, exact(g.At),
			sheet.Text(g.Reason), sheet.Text(g.Caller), g.Reservation, exact(g.ExpiresAt))
		c.next = g.To + 1
	}
	c.w.Flush()
	return c.w.Error()
}

func (c *accountCSV) end(a admin.Account) error {
	c.issued(a.Last)
	c.w.Flush()
	return c.w.Error()
}

// issued writes the row of the issued numbers up to last, if there are any.
func (c *accountCSV) issued(last int64) {
	if c.next <= last {
		c.row(sheet.Number(c.next), sheet.Number(last), "", "", "issued", "", "", "", "", "")
	}
}

// row writes a row. The writer keeps its error.
func (c *accountCSV) row(cells ...string) { _ = c.w.Write(append(slices.Clip(c.begin), cells...)) }

// exact returns a time as the service writes it, "" for none.
func exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

func voidCommand(env *clitool.Env) *cobra.Command {
	var v admin.Void
	yes := false
	cmd := &cobra.Command{
		Use: "void BIZTYPE ID --reason TEXT [--yes]", Short: "Take a number of a gapless biz type out of use",
		Long: `Make a reserved, released or issued number of a gapless biz type void: it is never issued again. The
account keeps the reason, who said so and when. With tokens it needs the scope admin. On a terminal
it asks first. --key and --period are needed only if the ID does not show them.`,
		Example: `  seqd void invoice INV-2026-000017 --reason misprint
  seqd void invoice 17 --key tenant-42 --reason duplicate --yes`,
		Args: clitool.Operands("BIZTYPE", "ID"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			v.ID = args[1]
			if strings.TrimSpace(v.Reason) == "" {
				return clitool.Usage("--reason is empty; say why the number is void")
			}
			if err := agreed(env, yes, "Make "+v.ID+" of "+args[0]+" void? That cannot be undone."); err != nil {
				return err
			}
			if err := a.Void(cmd.Context(), args[0], v); err != nil {
				return err
			}
			done := struct {
				BizType string `json:"bizType"`
				ID      string `json:"id"`
				State   string `json:"state"`
			}{args[0], v.ID, "void"}
			return env.ShowText(done, v.ID+": void")
		}),
	}
	cmd.Flags().StringVar(&v.Reason, "reason", "", "why, in 1 to 200 characters: `TEXT` for auditors")
	_ = cmd.MarkFlagRequired("reason") // there is such a flag
	addCounter(cmd, &v.Counter)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func keysCommand(env *clitool.Env) *cobra.Command {
	return &cobra.Command{
		Use: "keys BIZTYPE", Short: "List the keys of a keyed biz type",
		Long: `List the keys of a keyed biz type for which a number was issued, one on each line. With tokens it
needs the scope read.`,
		Example: `  seqd keys invoice
  seqd keys invoice --json`,
		Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			l := list[string]{env: env, field: "keys", row: func(key string) []string { return []string{key} }}
			return l.run(cmd.Context(), func(ctx context.Context, page admin.Page) ([]string, string, error) {
				return a.Keys(ctx, args[0], page)
			})
		}),
	}
}
