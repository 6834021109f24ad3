package remote

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/sheet"
)

func reportCommand(env *clitool.Env) *cobra.Command {
	year, folder := 0, ""
	cmd := &cobra.Command{
		Use: "report BIZTYPE [--year YEAR] [--to FOLDER]", Short: "Write the account of a gapless biz type for an auditor",
		Long: `Write the account of all keys and periods of a gapless biz type, or of those of a year, as CSV and
as JSON: which numbers are issued, reserved, released or void, and why. Both have the same content.
A third file has the SHA-256 of both, as sha256sum -c reads it. No file is overwritten. With tokens
it needs the scope read. Numbers that never reset belong to no year.`,
		Example: `  seqd report invoice --year 2026
  seqd report invoice --year 2026 --to audit`,
		Args: clitool.Operands("BIZTYPE"), ValidArgsFunction: first(env.CompleteBizTypes),
		RunE: withAdmin(env, func(cmd *cobra.Command, a *admin.Admin, args []string) error {
			if cmd.Flags().Changed("year") && (year < 1971 || year > 9999) {
				return clitool.Usage("--year %d is outside 1971 to 9999", year)
			}
			name := args[0]
			if year != 0 {
				name += fmt.Sprintf("-%d", year)
			}
			r, err := newReport(filepath.Join(folder, name), args[0], year)
			if err != nil {
				return err
			}
			err = r.write(cmd.Context(), a)
			if err = errors.Join(err, r.end(err == nil)); err != nil {
				return err
			}
			return env.Show(r.totals, func(out io.Writer) error {
				_, err := fmt.Fprintf(out, "%d counters: %d numbers handed out, %d issued, %d not\n%s", r.totals.Counters, r.totals.HandedOut, r.totals.Issued, r.totals.HandedOut-r.totals.Issued, r.sums)
				return err
			})
		}),
	}
	cmd.Flags().IntVar(&year, "year", 0, "only the periods of this `YEAR`")
	cmd.Flags().StringVar(&folder, "to", ".", "`FOLDER` to write to")
	return cmd
}

// report writes the account of all counters, one after the other: there may be a million.
type report struct {
	path    string // without the ends of the names
	bizType string
	year    int
	csv     *sealed
	json    *sealed
	rows    *csv.Writer
	totals  reportTotals
	sums    string // lines of sha256sum
}

// reportTotals are what an auditor looks at first.
type reportTotals struct {
	BizType string    `json:"bizType"`
	At      time.Time `json:"at"`
	// Counters is how many there are, HandedOut how many numbers left them, and Issued how many of these
	// are issued.
	Counters  int   `json:"counters"`
	HandedOut int64 `json:"numbers,string"`
	Issued    int64 `json:"issued"`
}

// sealed is a file that gets its name when it is whole, and what is known of its bytes.
type sealed struct {
	file *os.File // not embedded: its other methods that write would leave the sum out
	sum  hash.Hash
}

func (s *sealed) Write(b []byte) (int, error) {
	s.sum.Write(b)
	return s.file.Write(b)
}

// Ends of the names of the files.
const endCSV, endJSON, endSums = ".csv", ".json", ".sha256"

func newReport(path, bizType string, year int) (r *report, err error) {
	r = &report{path: path, bizType: bizType, year: year, totals: reportTotals{BizType: bizType, At: time.Now().UTC().Truncate(time.Second)}}
	for _, end := range []string{endCSV, endJSON, endSums} {
		if _, err := os.Lstat(path + end); err == nil {
			return nil, clitool.Usage("%s is there already: choose another folder (--to), or move it away", path+end)
		}
	}
	if r.csv, err = newSealed(path + endCSV); err != nil {
		return nil, clitool.AsUsage(err)
	}
	if r.json, err = newSealed(path + endJSON); err != nil {
		return nil, errors.Join(err, r.end(false))
	}
	r.rows = csv.NewWriter(r.csv)
	r.rows.UseCRLF = true
	return r, nil
}

func newSealed(path string) (*sealed, error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, err
	}
	return &sealed{file, sha256.New()}, nil
}

// write writes all counters of the biz type.
func (r *report) write(ctx context.Context, a *admin.Admin) error {
	_ = r.rows.Write([]string{sheet.Mark + "key", "period", "from", "to", "fromId", "toId", "state", "at", "reason", "caller", "reservation", "expiresAt"}) // see Error in end
	if _, err := fmt.Fprintf(r.json, `{"bizType":%s,"at":%s,"counters":[`, quoted(r.bizType), quoted(r.totals.At.Format(time.RFC3339))); err != nil {
		return err
	}
	others := 0
	for p := (admin.Page{Limit: pageSize}); ; {
		list, next, err := a.Counters(ctx, r.bizType, p)
		if err != nil {
			return err
		}
		for _, s := range list {
			switch {
			case s.Strategy != "gapless":
				return clitool.Usage("%s is not gapless: its strategy is %s, which accounts for no number", r.bizType, dash(s.Strategy))
			case s.Sequencer != "ledger" || r.year != 0 && !strings.HasPrefix(s.Period, fmt.Sprint(r.year)):
				others++
				continue
			}
			if err := r.counter(ctx, a, s); err != nil {
				return err
			}
		}
		if next == "" {
			break
		}
		if next <= p.After {
			return fmt.Errorf("the list of counters does not end: after %q comes %q", p.After, next)
		}
		p.After = next
	}
	if r.totals.Counters == 0 && r.year == 0 {
		return clitool.Usage("%s has no gapless counter: nothing was issued, or it is no gapless biz type", r.bizType)
	}
	if r.totals.Counters == 0 {
		return clitool.Usage("%s has no gapless counter of this year, and %d others: numbers that never reset belong to no year", r.bizType, others)
	}
	totals, err := json.Marshal(r.totals)
	if err == nil {
		_, err = fmt.Fprintf(r.json, "\n],\"totals\":%s}\n", totals)
	}
	return err
}

// counter writes the account of one counter.
func (r *report) counter(ctx context.Context, a *admin.Admin, s admin.Standing) error {
	account := &accountJSON{out: r.json}
	rows := &accountCSV{w: r.rows, begin: []string{sheet.ID(s.Key), sheet.ID(s.Period)}}
	if r.totals.Counters > 0 {
		if _, err := io.WriteString(r.json, ","); err != nil {
			return err
		}
	}
	r.totals.Counters++
	if _, err := io.WriteString(r.json, "\n"); err != nil {
		return err
	}
	var last admin.Account
	err := a.EachPage(ctx, r.bizType, admin.Counter{Key: s.Key, Period: s.Period}, func(page admin.Account) error {
		last = page
		return errors.Join(rows.page(page), account.page(page))
	})
	if err != nil {
		return err
	}
	r.totals.HandedOut += max(0, last.Last-last.First+1)
	r.totals.Issued += last.Issued
	return errors.Join(rows.end(last), account.end(last))
}

// end gives the files their names if they are good, and removes them otherwise.
func (r *report) end(good bool) (err error) {
	for _, f := range []struct {
		*sealed
		end string
	}{{r.csv, endCSV}, {r.json, endJSON}} {
		if f.sealed == nil {
			continue
		}
		if good && err == nil {
			err = errors.Join(f.file.Chmod(0o644), f.file.Sync())
		}
		err = errors.Join(err, f.file.Close())
		if _, there := os.Lstat(r.path + f.end); good && err == nil && there == nil { // since the report began
			err = fmt.Errorf("%s: %w", r.path+f.end, os.ErrExist)
		}
		if good && err == nil {
			err = os.Rename(f.file.Name(), r.path+f.end)
		}
		_ = os.Remove(f.file.Name()) // there is none if it got its name
		r.sums += fmt.Sprintf("%x  %s\n", f.sum.Sum(nil), filepath.Base(r.path)+f.end)
	}
	if !good || err != nil {
		return err
	}
	return os.WriteFile(r.path+endSums, []byte(r.sums), 0o644)
}
