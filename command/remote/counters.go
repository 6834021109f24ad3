package remote

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/sheet"
)

// CounterForms are how [PrintCounters] prints: as CSV, or as what seqd raise --file reads. Otherwise
// it is a table, or JSON with --json.
type CounterForms struct{ CSV, Marks bool }

// PrintCounters prints the counters that get returns, page by page.
func PrintCounters(ctx context.Context, env *clitool.Env, as CounterForms, get func(context.Context, admin.Page) ([]admin.Standing, string, error)) error {
	l := list[admin.Standing]{
		env: env, field: "counters",
		titles: []string{"COUNTER", "HIGHEST", "KEY", "PERIOD", "STRATEGY", "SEQUENCER", "CHANGED"},
		row: func(s admin.Standing) []string {
			return []string{s.Counter, fmt.Sprint(s.Highest), dash(s.Key), dash(s.Period), dash(s.Strategy), sequencer(s), brief(s.UpdatedAt, "-")}
		},
	}
	switch {
	case as.CSV:
		l.titles = []string{"counter", "highest", "bizType", "key", "period", "strategy", "sequencer", "updatedAt"}
		l.row = func(s admin.Standing) []string {
			return []string{
				sheet.ID(s.Counter), sheet.Number(s.Highest), sheet.ID(s.BizType), sheet.ID(s.Key), sheet.ID(s.Period), s.Strategy, sequencer(s), exact(s.UpdatedAt),
			}
		}
		l.write = writeCSV
	case as.Marks:
		l.titles = []string{"# counter", "highest"}
		l.row = func(s admin.Standing) []string {
			if s.Highest == 0 { // nothing to raise it above
				return nil
			}
			return []string{s.Counter, fmt.Sprint(s.Highest)}
		}
		l.write = writeMarks
	}
	return l.run(ctx, get)
}

// sequencer says who gives out the next number, and whether the highest one may be too low.
func sequencer(s admin.Standing) string {
	if s.FailedOver {
		return s.Sequencer + " (failed over)"
	}
	return s.Sequencer
}

// writeCSV writes rows as CSV. The first row of a file has the titles.
func writeCSV(out io.Writer, rows [][]string, begins bool) error {
	if begins {
		rows[0][0] = sheet.Mark + rows[0][0]
	}
	w := csv.NewWriter(out)
	w.UseCRLF = true
	return w.WriteAll(rows)
}

// writeMarks writes what seqd raise --file reads.
func writeMarks(out io.Writer, rows [][]string, _ bool) error {
	var b bytes.Buffer
	for _, row := range rows {
		if row != nil {
			fmt.Fprintf(&b, "%s,%s\n", row[0], row[1])
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}
