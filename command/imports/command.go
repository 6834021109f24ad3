package imports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/folder"
)

const long = `Read the tables of %[1]s, and make biz types that begin above all that it has issued.

Stop the servers of %[1]s first, then import, then let callers use seqd: what their servers
allocate after the tables were read is not known here. --margin leaves numbers free for servers that
cannot be stopped. The tables are read again at the end, and the command fails if they have changed.

Without --apply, --dry-run and -o it shows what it would do, and needs no service. It never lowers a
counter, and can be repeated.`

// flags are those of one command line.
type flags struct {
	source        string
	dsn, output   string
	dryRun, apply bool
	raise, force  bool
	margin        int64
	rename        []string
	recheck       time.Duration
	renamed       map[string]string
}

// New returns the command seqd import.
func New(env *clitool.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Take over the numbers of Leaf or Tinyid", GroupID: clitool.GroupClient,
		Example: "  seqd import leaf --dsn 'leaf:secret@tcp(db:3306)/leaf'\n  seqd help import leaf",
	}
	cmd.AddCommand(
		newSource(env, leaf, "Leaf", "leaf_alloc", ""),
		newSource(env, tinyid, "Tinyid", "tiny_id_info and tiny_id_token",
			"\n\nTokens are written by -o only, with the SHA-256 of their secrets, which stay valid."))
	return cmd
}

func newSource(env *clitool.Env, source, name, tables, more string) *cobra.Command {
	f := flags{source: source}
	cmd := &cobra.Command{
		Use: source + " --dsn DSN", Short: "Take over the numbers of " + name + " out of " + tables,
		Long: fmt.Sprintf(long, name) + more,
		Example: fmt.Sprintf(`  seqd import %[1]s --dsn '%[1]s:secret@tcp(db:3306)/%[1]s'
  seqd import %[1]s --dsn '%[1]s:secret@tcp(db:3306)/%[1]s' --dry-run
  seqd import %[1]s --dsn '%[1]s:secret@tcp(db:3306)/%[1]s' --apply
  seqd import %[1]s --dsn '%[1]s:secret@tcp(db:3306)/%[1]s' -o %[1]s.yaml`, source),
		Args: clitool.Operands(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	env.AddConnection(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.dsn, "dsn", "", "`DSN` of the database: user:password@tcp(host:3306)/database (environment: "+clitool.EnvDSN+")")
	fl.BoolVar(&f.dryRun, "dry-run", false, "let the service check what --apply would do, and change nothing")
	fl.BoolVar(&f.apply, "apply", false, "create the biz types in the running service")
	fl.StringVarP(&f.output, "output", "o", "", "write a part of a configuration to `FILE`, or to - for the standard output")
	fl.BoolVar(&f.force, "force", false, "replace the file of -o if it exists")
	fl.BoolVar(&f.raise, "raise", false, "raise the start of biz types that exist and are below")
	fl.Int64Var(&f.margin, "margin", 0, "`NUMBERS` that are left free above those issued")
	fl.StringArrayVar(&f.rename, "rename", nil, "`OLD=NEW` gives a biz type another name; repeat it for several")
	fl.DurationVar(&f.recheck, "recheck", time.Second, "how long after the first reading the tables are read again")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "apply", "output")
	return cmd
}

// report is the JSON of the command.
type report struct {
	Source   string   `json:"source"`
	BizTypes []entry  `json:"bizTypes"`
	Tokens   []token  `json:"tokens,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Moved says which biz types were allocated from while this ran.
	Moved []string `json:"moved,omitempty"`
}

func (f *flags) run(ctx context.Context, env *clitool.Env) error {
	service, err := f.check(env)
	if err != nil {
		return err
	}
	began := time.Now()
	db, err := open(f.source, f.dsn)
	if err != nil {
		return clitool.AsUsage(err)
	}
	defer db.Close()
	tables, err := db.Read(ctx)
	if err != nil {
		return err
	}
	if len(tables.Rows) == 0 {
		return fmt.Errorf("the table of %s has no rows", f.source)
	}
	r := report{Source: f.source, BizTypes: plan(tables.Rows, options{Margin: f.margin, Rename: f.renamed}), Warnings: tables.Warnings}
	for old := range f.renamed {
		if !has(tables.Rows, old) {
			return clitool.Usage("--rename %s=%s: the table has no %q", old, f.renamed[old], old)
		}
	}
	var refused []string
	r.Tokens, refused = tokensOf(tables.Grants, r.BizTypes)
	r.Warnings = append(r.Warnings, refused...)
	if service != nil {
		applyAll(ctx, service, r.BizTypes, applying{Raise: f.raise, DryRun: f.dryRun, Explain: env.Explain})
	}
	unsure := f.readAgain(ctx, db, began, tables.Rows, &r)
	if unsure == nil && f.output != "" {
		if err := f.write(env, &r); err != nil {
			return err
		}
	}
	if err := f.show(env, &r); err != nil && unsure == nil {
		return err
	}
	return unsure
}

// check checks the flags, and returns the service, nil if none is asked.
func (f *flags) check(env *clitool.Env) (*admin.Admin, error) {
	if f.dsn == "" {
		f.dsn = env.Getenv(clitool.EnvDSN)
	}
	var err error
	switch f.renamed, err = parseRename(f.rename); {
	case err != nil:
		return nil, clitool.AsUsage(err)
	case f.dsn == "":
		return nil, clitool.Usage("--dsn or %s is missing: user:password@tcp(host:3306)/database", clitool.EnvDSN)
	case f.margin < 0 || f.margin > mostMargin:
		return nil, clitool.Usage("--margin %d: want 0 to %d", f.margin, int64(mostMargin))
	case f.recheck < 0:
		return nil, clitool.Usage("--recheck %s: it must not be negative", f.recheck)
	case f.raise && !f.apply && !f.dryRun:
		return nil, clitool.Usage("--raise needs --apply or --dry-run")
	case f.output == "-" && env.JSON:
		return nil, clitool.Usage("the standard output takes -o - or --json, not both")
	case !f.apply && !f.dryRun:
		return nil, nil
	}
	c, err := env.Client()
	if err != nil {
		return nil, err
	}
	return admin.New(c), nil
}

// mostMargin leaves numbers to issue.
const mostMargin = 1_000_000_000_000_000

// readAgain reads the tables a second time and compares.
func (f *flags) readAgain(ctx context.Context, db *database, began time.Time, before []counterRow, r *report) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(began.Add(f.recheck))):
	}
	again, err := db.Read(ctx)
	if err != nil {
		return err
	}
	r.Moved = moved(before, again.Rows)
	return nil
}

// write writes the fragment. It has digests of secrets, so only its owner can read a file.
func (f *flags) write(env *clitool.Env, r *report) error {
	if f.output == "-" {
		return fragment(env.Out, f.source, r.BizTypes, r.Tokens)
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if f.force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(f.output, mode, 0o600)
	if errors.Is(err, os.ErrExist) {
		return clitool.Usage("%s exists: replace it with --force, or name another file", f.output)
	}
	if err != nil {
		return err
	}
	if info, _ := file.Stat(); info != nil && info.Mode().IsRegular() { // it may have been there, for everybody
		err = file.Chmod(0o600)
	}
	if err == nil {
		err = fragment(file, f.source, r.BizTypes, r.Tokens)
	}
	return errors.Join(err, file.Sync(), file.Close(), folder.Sync(filepath.Dir(f.output)))
}

// show prints the report. The error is ErrSaid if something is left to do.
func (f *flags) show(env *clitool.Env, r *report) error {
	bad := len(r.Moved) > 0
	for _, item := range r.BizTypes {
		bad = bad || item.Result == unfit || item.Result == failed
	}
	if f.output != "-" {
		if err := env.Show(r, func(w io.Writer) error { return f.table(w, r) }); err != nil {
			return err
		}
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(env.Errs, "seqd: warning: %s\n", oneLine(text))
	}
	for _, text := range r.Moved {
		fmt.Fprintf(env.Errs, "seqd: %s\n", oneLine(text))
	}
	if len(r.Moved) > 0 {
		fmt.Fprintf(env.Errs, "seqd: the servers of %s still allocate numbers: stop them, and import again%s\n", f.source, map[bool]string{true: " with --raise"}[f.apply])
	}
	if bad {
		return clitool.ErrSaid
	}
	return nil
}

// table prints a line for each biz type.
func (f *flags) table(w io.Writer, r *report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "BIZ TYPE\tMAX_ID\tSTART\tSTEP\tRESULT")
	for _, i := range r.BizTypes {
		name := oneLine(i.From)
		if i.Name != i.From {
			name += " as " + i.Name
		}
		result := string(i.Result)
		if f.dryRun && (i.Result == created || i.Result == raised) {
			result = "would be " + result
		}
		if i.Detail != "" {
			result += ": " + oneLine(i.Detail)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", name, i.MaxID, orDash(i.Start), orDash(i.Step), result)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	switch n := len(r.Tokens); {
	case n > 0 && f.output != "":
		_, err := fmt.Fprintf(w, "%d tokens are in %s\n", n, f.output)
		return err
	case n > 0:
		_, err := fmt.Fprintf(w, "%d tokens: -o writes them for the configuration\n", n)
		return err
	}
	return nil
}

func orDash(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func has(rows []counterRow, name string) bool {
	for _, row := range rows {
		if row.Name == name {
			return true
		}
	}
	return false
}
