package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// document is the outcome of a run, and the raw data as JSON.
type document struct {
	Began    time.Time         `json:"began"`
	Took     string            `json:"took"`
	Commit   string            `json:"commit"`
	Old      string            `json:"old,omitempty"` // the revision that it is compared with
	Machine  machine           `json:"machine"`
	Versions map[string]string `json:"versions"`
	Rounds   int               `json:"rounds"`
	Duration string            `json:"duration"`
	Measured []measurement     `json:"measured"`
	Lines    []line            `json:"lines"`
	Failed   []string          `json:"failed"` // figures that could not be measured, and why
	Charts   []chart           `json:"charts"`
}

// measurement is how a figure was measured.
type measurement struct {
	Figure string  `json:"figure"`
	Rounds int     `json:"rounds"`
	Took   float64 `json:"took"` // seconds
	Budget float64 `json:"budget"`
	Noise  noise   `json:"noise"`
}

func (m measurement) String() string {
	text := fmt.Sprintf("%-18s %5.1f s of %3.0f s, other load %s", m.Figure, m.Took, m.Budget, m.Noise)
	if m.Took > m.Budget {
		text += ", over its budget"
	}
	return text
}

// String is the noise as it stands beside a figure.
func (n noise) String() string {
	text := fmt.Sprintf("%.0f %%", n.Steal+n.Other)
	if !n.quiet() {
		text = "**" + text + "**"
	}
	return text
}

// line is a result as JSON.
type line struct {
	Figure         string    `json:"figure"`
	What           string    `json:"what"`
	Unit           string    `json:"unit"`
	Values         []float64 `json:"values"`
	Median         float64   `json:"median"`
	Baseline       string    `json:"baseline,omitempty"`
	BaselineValues []float64 `json:"baselineValues,omitempty"`
	BaselineMedian *float64  `json:"baselineMedian,omitempty"`
	Ratio          *float64  `json:"ratio,omitempty"`
	Interval       interval  `json:"interval"` // of the ratio, or of the values if there is no baseline
	Target         string    `json:"target,omitempty"`
	Verdict        verdict   `json:"verdict,omitempty"`

	result result
	noise  noise
}

func newDocument(ctx context.Context, o options) *document {
	return &document{
		Began: time.Now().UTC().Truncate(time.Second), Commit: o.commit, Old: o.old, Machine: thisMachine(), Versions: versions(ctx),
		Rounds: o.rounds, Duration: o.duration.String(), Failed: []string{},
		Charts: []chart{
			{
				Name: "percentiles", Title: "How late: percentiles", OneScale: true,
				Caption: "Full load is what the constant route gets through in a closed loop. At 15 % and 40 % of it, all have the same fixed rate.",
			},
			{Name: "growth", Title: "How costs grow", Caption: "A bar spans the rounds from the lowest to the highest value. Nodes share the two cores with the load."},
		},
	}
}

// add adds a figure that was measured, or that failed.
func (d *document) add(m measurement, out outcome, failed error) {
	d.Measured = append(d.Measured, m)
	if failed != nil {
		reason, _, _ := strings.Cut(failed.Error(), "\n")
		d.Failed = append(d.Failed, m.Figure+": "+reason)
		return
	}
	for _, r := range out.results {
		l := line{
			Figure: m.Figure, What: r.what, Unit: r.unit.name, Values: r.values, Median: median(r.values),
			Baseline: r.baseline, BaselineValues: r.base, Interval: r.interval(), Target: r.target(), Verdict: r.verdict(), result: r, noise: m.Noise,
		}
		if len(r.base) > 0 {
			base, ratio := median(r.base), median(r.judged())
			l.BaselineMedian, l.Ratio = &base, &ratio
		}
		d.Lines = append(d.Lines, l)
	}
	group, _, _ := strings.Cut(m.Figure, ".")
	for i := range d.Charts {
		if c := &d.Charts[i]; c.Name == group {
			for _, p := range out.panels {
				p.Figure = m.Figure
				c.Panels = append(c.Panels, p)
			}
		}
	}
}

// write prints the run as Markdown, and writes it to the files in the options.
func (d *document) write(o options) error {
	d.Took = time.Since(d.Began).Round(time.Second).String()
	text := d.markdown()
	_, err := io.WriteString(os.Stdout, text)
	data, jsonErr := json.MarshalIndent(d, "", " ")
	err = errors.Join(err, jsonErr)
	data = append(data, '\n')
	if o.json != "" {
		err = errors.Join(err, os.WriteFile(o.json, data, 0o644))
	}
	if o.write != "" {
		folder := filepath.Join(filepath.Dir(o.write), dataFolder)
		err = errors.Join(err, os.MkdirAll(folder, 0o755), replaceTable(o.write, text), d.draw(filepath.Dir(o.write)),
			os.WriteFile(filepath.Join(folder, "data.json"), data, 0o644))
	}
	return err
}

// draw writes the charts to the paths in the text.
func (d *document) draw(dir string) (err error) {
	for _, c := range d.Charts {
		if len(c.Panels) > 0 {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, c.path()), c.svg(), 0o644))
		}
	}
	return err
}

func (d *document) markdown() string {
	var out strings.Builder
	d.head(&out)
	d.shortfalls(&out)
	d.others(&out)
	for _, c := range d.Charts {
		if len(c.Panels) > 0 {
			fmt.Fprintf(&out, "\n## %s\n\n%s\n\n![%s](%s)\n", c.Title, c.Caption, c.Title, c.path())
		}
	}
	return out.String()
}

func (d *document) head(out io.Writer) {
	m, v := d.Machine, d.Versions
	fmt.Fprintf(out, "%d cores (%s), %d MiB, Linux %s, %s, Redis %s, PostgreSQL %s, MariaDB %s; commit %s, %s UTC;\n%s in all, %d rounds of %s.\n",
		m.Cores, m.Processor, m.MemoryMiB, m.Kernel, v["go"], v["redis"], v["postgres"], v["mariadb"], d.Commit, d.Began.Format("2006-01-02 15:04"), d.Took, d.Rounds, d.Duration)
	if d.Old != "" {
		fmt.Fprintf(out, "%q is commit %s.\n", oldBinary, d.Old)
	}
	var loud []string
	for _, m := range d.Measured {
		if !m.Noise.quiet() {
			loud = append(loud, m.Figure)
		}
	}
	if len(loud) > 0 {
		fmt.Fprintf(out, "\n**The machine was not quiet** (more than %d %% of it was used by others) during: %s.\n", quietLimit, strings.Join(loud, ", "))
	}
	if len(d.Failed) > 0 {
		fmt.Fprintf(out, "\n**Not measured:**\n\n- %s\n", strings.Join(d.Failed, "\n- "))
	}
}

// short says that a line has a target and does not surely reach it.
func (l line) short() bool { return l.Verdict == missed || l.Verdict == undecided }

// shortfalls lists the lines that fall short.
func (d *document) shortfalls(out io.Writer) {
	var rows []string
	with := 0
	for _, l := range d.Lines {
		if l.Verdict != "" {
			with++
		}
		if l.short() {
			rows = append(rows, l.row())
		}
	}
	fmt.Fprintf(out, "\n## What falls short: %d of %d\n\n", len(rows), with)
	if len(rows) == 0 {
		fmt.Fprintln(out, "Nothing.")
		return
	}
	fmt.Fprintf(out, "%s%s\n", tableHead, strings.Join(rows, "\n"))
}

// others lists the other lines by what they answer.
func (d *document) others(out io.Writer) {
	var all []string
	for _, q := range questions {
		var rows []string
		for _, l := range d.Lines {
			if l.result.unit.question == q && !l.short() {
				rows = append(rows, l.row())
			}
		}
		if len(rows) > 0 {
			all = append(append(all, fmt.Sprintf("| **%s** | | | | | | |", q)), rows...)
		}
	}
	if len(all) > 0 {
		fmt.Fprintf(out, "\n## All other figures\n\n%s%s\n", tableHead, strings.Join(all, "\n"))
	}
}

const tableHead = "| figure | baseline | seqd | ratio, or range | target | | others |\n|---|---|---|---|---|---|---|\n"

// row is a line of a Markdown table.
func (l line) row() string {
	baseline, compared := "", ""
	switch {
	case l.Ratio != nil:
		baseline = l.Baseline + ": " + l.result.unit.text(*l.BaselineMedian)
		compared = fmt.Sprintf("%s (%s–%s)", ratioText(*l.Ratio), ratioText(l.Interval.Low), ratioText(l.Interval.High))
	case len(l.Values) > 1:
		compared = l.result.unit.text(l.Interval.Low) + "–" + l.result.unit.text(l.Interval.High)
	}
	mark := string(l.Verdict)
	if l.short() {
		mark = "**" + mark + "**"
	}
	cells := []string{l.What, baseline, l.result.unit.text(l.Median), compared, l.Target, mark, l.noise.String()}
	return "| " + strings.Join(cells, " | ") + " |"
}

// replaceTable replaces the text between the two bench comments of a document.
func replaceTable(path, text string) error {
	const begin, end = "<!-- bench -->\n", "<!-- /bench -->"
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(data), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no comments that mark the place of the table", path)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
