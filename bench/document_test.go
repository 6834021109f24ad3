package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// example returns a run with a figure that reached its targets and missed or left open others, one that
// failed, one with plots and one on a machine that was not quiet.
func example() *document {
	d := newDocument(context.Background(), options{rounds: 6, commit: "c0ffee", old: "v1"})
	d.add(measurement{Figure: "a", Noise: noise{Steal: 1, Other: 2}}, outcome{results: []result{
		report("kept", []float64{5, 7, 6}, microseconds).atMost(10),
		pairs{base: []float64{100e3, 200e3}, value: []float64{50e3, 120e3}}.report("missed", "that", perSecond).atLeast(0.9),
		pairs{base: []float64{100, 100}, value: []float64{50, 120}}.report("left open", "that", ofCPU).atMost(1),
	}}, nil)
	d.add(measurement{Figure: "b"}, outcome{}, errors.New("no server\nand more"))
	a := axis{name: "things", x: []float64{1, 10}, log: true}
	p := a.panel("time <&>", milliseconds, true, "one", "two")
	for i := range a.x {
		for line := range p.Series {
			p.note(line, i, float64(1000*(i+1)))
			p.note(line, i, float64(3000*(i+1)))
		}
	}
	d.add(measurement{Figure: "growth.x"}, outcome{panels: []panel{p}}, nil)
	d.add(measurement{Figure: "loud", Noise: noise{Steal: 10, Other: 20}}, outcome{results: []result{report("size", []float64{2000}, kilobytes)}}, nil)
	return d
}

func TestWhatFallsShortComesFirst(t *testing.T) {
	text := example().markdown()
	last := -1
	for _, want := range []string{
		"commit c0ffee",
		"\"the old binary\" is commit v1.",
		"**The machine was not quiet** (more than 5 % of it was used by others) during: loud.",
		"**Not measured:**\n\n- b: no server\n",
		"## What falls short: 2 of 3\n",
		"| missed | that: 150.0 k/s | 85.0 k/s | 0.550 (0.500–0.600) | ≥ 0.9 | **missed** | 3 % |",
		"| left open | that: 100.00 µs | 85.00 µs | 0.850 (0.500–1.200) | ≤ 1 | **not decided** | 3 % |",
		"## All other figures",
		"| **How late** | | | | | | |\n| kept |  | 6 µs | 5 µs–7 µs | ≤ 10 µs | reached | 3 % |",
		"| **How much memory** | | | | | | |\n| size |  | 2 KB |  |  |  | **30 %** |",
		"![How costs grow](performance/growth.svg)",
	} {
		at := strings.Index(text[max(last, 0):], want)
		if at < 0 {
			t.Fatalf("%q does not come next in\n%s", want, text)
		}
		last = max(last, 0) + at
	}
}

func TestDocumentIsReplacedBetweenItsComments(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "P.md")
	must.Do(t, os.WriteFile(path, []byte("before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n"), 0o600))
	d := example()
	must.Do(t, d.write(options{write: path}))
	if text, _ := os.ReadFile(path); string(text) != "before\n<!-- bench -->\n"+d.markdown()+"<!-- /bench -->\nafter\n" {
		t.Errorf("the document is %s", text)
	}
	data, err := os.ReadFile(filepath.Join(dir, "performance", "data.json"))
	var raw document
	if err := errors.Join(err, json.Unmarshal(data, &raw)); err != nil || len(raw.Lines) != 4 || raw.Lines[1].Verdict != missed || len(raw.Charts[1].Panels) != 1 {
		t.Errorf("the raw data is %s, %v", data, err)
	}
	f, err := os.Open(filepath.Join(dir, "performance", "growth.svg"))
	must.Do(t, err)
	defer f.Close()
	for decoder := xml.NewDecoder(f); err == nil; {
		_, err = decoder.Token()
	}
	must.Is(t, err, io.EOF, "the chart is not XML")
	if err := replaceTable(filepath.Join(dir, "performance", "growth.svg"), ""); err == nil {
		t.Error("a document without the comments was changed")
	}
}

func TestFiguresFitTheTime(t *testing.T) {
	var sum time.Duration
	seen := make(map[string]bool)
	for _, f := range figures {
		if f.name == "" || f.about == "" || f.budget <= 0 || f.run == nil || seen[f.name] {
			t.Errorf("the figure %q is incomplete, or there are two", f.name)
		}
		seen[f.name] = true
		sum += f.budget
	}
	if sum > mostTime {
		t.Errorf("the budgets are %s together", sum)
	}
}
