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

	"github.com/seqd/seqd/bench/openloop"
)

// document is the outcome of a run.
type document struct {
	Began    time.Time         `json:"began"`
	Took     string            `json:"took"`
	Commit   string            `json:"commit"`
	Machine  machine           `json:"machine"`
	Versions map[string]string `json:"versions"`
	Rounds   int               `json:"rounds"`
	Duration string            `json:"duration"`
	Figures  []line            `json:"figures"`
	Short    []string          `json:"fallShort"` // results that miss their targets
	Failed   []string          `json:"failed"`    // figures that could not be measured, and why
	Loads    []loadLine        `json:"percentiles"`
	Growth   []chart           `json:"growth"`

	results   []result
	latencies []latency
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
	Ratios         []float64 `json:"ratios,omitempty"`
	Ratio          *float64  `json:"ratio,omitempty"`
	Target         string    `json:"target,omitempty"`
	Reached        *bool     `json:"reached,omitempty"`
}

// loadLine is a latency as JSON.
type loadLine struct {
	Way    string            `json:"way"`
	Who    string            `json:"who"`
	Share  float64           `json:"share"`
	Rate   float64           `json:"rate"`
	Rounds []openloop.Report `json:"rounds"`
}

func newDocument(ctx context.Context, o options) *document {
	return &document{
		Began: time.Now().UTC().Truncate(time.Second), Commit: o.commit, Machine: thisMachine(), Versions: versions(ctx), Rounds: o.rounds, Duration: o.duration.String(),
		Short: []string{}, Failed: []string{},
	}
}

func (d *document) add(figure string, out outcome) {
	for _, r := range out.results {
		l := line{Figure: figure, What: r.what, Unit: r.unit.name, Values: r.values, Median: median(r.values), Baseline: r.baseline, BaselineValues: r.base, Target: r.target}
		if len(r.base) > 0 {
			p := pairs{r.base, r.values}
			base, ratio := median(p.base), median(p.ratios())
			l.Ratios, l.BaselineMedian, l.Ratio = p.ratios(), &base, &ratio
		}
		if r.target != "" {
			l.Reached = &r.reached
		}
		if r.missed() {
			d.Short = append(d.Short, r.what)
		}
		d.Figures = append(d.Figures, l)
	}
	for _, l := range out.latencies {
		d.Loads = append(d.Loads, loadLine{l.way, l.who, l.share, l.rate, l.rounds})
	}
	d.Growth = append(d.Growth, out.charts...)
	d.results, d.latencies = append(d.results, out.results...), append(d.latencies, out.latencies...)
}

// fail notes a figure that could not be measured.
func (d *document) fail(figure string, err error) {
	reason, _, _ := strings.Cut(err.Error(), "\n")
	d.Failed = append(d.Failed, figure+": "+reason)
}

// write prints the run as Markdown, and writes it to the files in the options.
func (d *document) write(o options) error {
	took := time.Since(d.Began).Round(time.Second)
	d.Took = took.String()
	text := d.markdown()
	_, err := io.WriteString(os.Stdout, text)
	if o.json != "" {
		data, jsonErr := json.MarshalIndent(d, "", " ")
		err = errors.Join(err, jsonErr, os.WriteFile(o.json, append(data, '\n'), 0o644))
	}
	if o.write != "" {
		err = errors.Join(err, replaceTable(o.write, text), d.draw(filepath.Dir(o.write)))
	}
	return err
}

// draw writes the charts to the paths in the text.
func (d *document) draw(dir string) error {
	if len(d.Growth) == 0 {
		return nil
	}
	err := os.MkdirAll(filepath.Join(dir, chartFolder), 0o755)
	for _, c := range d.Growth {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, c.path()), c.svg(), 0o644))
	}
	return err
}

func (d *document) markdown() string {
	var out strings.Builder
	m := d.Machine
	fmt.Fprintf(&out, "%d cores (%s), %d MiB, Linux %s, %s, Redis %s, PostgreSQL %s; commit %s, %s UTC; %d rounds, %s each, %s in all. Medians; a ratio is the median of the rounds' ratios.\n",
		m.Cores, m.Processor, m.MemoryMiB, m.Kernel, d.Versions["go"], d.Versions["redis"], d.Versions["postgres"], d.Commit, d.Began.Format("2006-01-02 15:04"), d.Rounds, d.Duration, d.Took)
	d.shortfalls(&out)
	if len(d.results) > 0 {
		fmt.Fprint(&out, "\n## All figures\n\n")
		table(&out, d.results)
	}
	d.percentiles(&out)
	d.growth(&out)
	return out.String()
}

// shortfalls lists the results that miss their targets.
func (d *document) shortfalls(out io.Writer) {
	var missed []result
	with := 0
	for _, r := range d.results {
		if r.target != "" {
			with++
		}
		if r.missed() {
			missed = append(missed, r)
		}
	}
	if len(d.Failed) > 0 {
		fmt.Fprintf(out, "\n## Not measured\n\n- %s\n", strings.Join(d.Failed, "\n- "))
	}
	fmt.Fprintf(out, "\n## Short of the target in this run: %d of %d\n\n", len(missed), with)
	if len(missed) == 0 {
		fmt.Fprintln(out, "Nothing.")
		return
	}
	table(out, missed)
}

func table(out io.Writer, results []result) {
	fmt.Fprintln(out, "| figure | baseline | seqd | lowest–highest | ratio | target | |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	for _, r := range results {
		fmt.Fprintln(out, r.row())
	}
}

func (r result) missed() bool { return r.target != "" && !r.reached }

// row is the result as a line of a Markdown table.
func (r result) row() string {
	mark, baseline, ratio := "", "", ""
	switch {
	case r.missed():
		mark = "**missed**"
	case r.target != "":
		mark = "reached"
	}
	if len(r.base) > 0 {
		baseline, ratio = r.baseline+" "+r.unit.text(median(r.base)), fmt.Sprintf("%.2f", median(pairs{r.base, r.values}.ratios()))
	}
	return "| " + strings.Join([]string{r.what, baseline, r.unit.text(median(r.values)), spread(r.values, r.unit), ratio, r.target, mark}, " | ") + " |"
}

func (d *document) percentiles(out io.Writer) {
	if len(d.latencies) == 0 {
		return
	}
	fmt.Fprintf(out, "\n## Percentiles at fixed rates\n\nOpen loop, %d connections, times from when a request was due; lowest–highest of the rounds in brackets.\n", openConnections)
	for i, l := range d.latencies {
		if i == 0 || d.latencies[i-1].way != l.way {
			fmt.Fprintf(out, "\n**%s**\n\n| load | who | p50 | p90 | p99 | p99.9 | slowest | |\n|---|---|---|---|---|---|---|---|\n", l.way)
		}
		fmt.Fprintln(out, l.row())
	}
}

// row is the latency as a line of a Markdown table.
func (l latency) row() string {
	cells := []string{fmt.Sprintf("%.0f %%, %s", l.share*100, perSecond.text(l.rate)), l.who}
	for _, of := range []func(openloop.Percentiles) float64{
		func(p openloop.Percentiles) float64 { return p.P50 }, func(p openloop.Percentiles) float64 { return p.P90 },
		func(p openloop.Percentiles) float64 { return p.P99 }, func(p openloop.Percentiles) float64 { return p.P999 },
		func(p openloop.Percentiles) float64 { return p.Most },
	} {
		values := l.column(func(r openloop.Report) float64 { return of(r.Took) })
		cells = append(cells, fmt.Sprintf("%s (%s)", milliseconds.text(median(values)), spread(values, milliseconds)))
	}
	return "| " + strings.Join(append(cells, l.remark()), " | ") + " |"
}

// remark says how a load differed from the plan.
func (l latency) remark() string {
	var remarks []string
	reached := median(l.column(func(r openloop.Report) float64 { return r.Rate }))
	if reached < 0.98*l.rate {
		remarks = append(remarks, "only "+perSecond.text(reached)+" answered")
	}
	if late := median(l.column(func(r openloop.Report) float64 { return r.Late.P99 })); late > 1000 {
		remarks = append(remarks, "p99 of the generator's own lateness "+milliseconds.text(late))
	}
	bad := 0
	for _, r := range l.rounds {
		bad += r.Sent - r.Good()
	}
	if bad > 0 {
		remarks = append(remarks, fmt.Sprintf("%d not answered with a number", bad))
	}
	return strings.Join(remarks, "; ")
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
