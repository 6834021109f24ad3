package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/bench/openloop"
)

// sample returns a run that missed one of two targets and in which one figure failed.
func sample() *document {
	d := newDocument(context.Background(), options{rounds: 2})
	d.add("a", outcome{results: []result{
		within("kept", []float64{5, 7}, microseconds, 10),
		pairs{base: []float64{100, 200}, value: []float64{50, 120}}.result("missed", "that", perSecond, true, 0.9),
	}})
	d.fail("b", errors.New("no server\nand more"))
	d.add("c", outcome{latencies: []latency{{way: "w", who: "seqd", share: 0.5, rate: 1000, rounds: []openloop.Report{
		{Sent: 10, Status: map[int]int{200: 9}, Unanswered: 1, Rate: 500, Took: openloop.Percentiles{P50: 1000, Most: 9000}},
	}}}})
	x := []float64{1, 10}
	p := newPanel("time <&>", milliseconds, true, x, "one", "two")
	for i := range x {
		for line := range p.Series {
			p.note(line, i, float64(1000*(i+1)))
			p.note(line, i, float64(3000*(i+1)))
		}
	}
	d.add("d", outcome{charts: []chart{{Name: "chart", Title: "How", Axis: "things", X: x, LogX: true, Panels: []panel{p}}}})
	return d
}

func TestWhatFallsShortComesFirst(t *testing.T) {
	text := sample().markdown()
	last := -1
	for _, want := range []string{
		"## Not measured\n\n- b: no server\n",
		"## Short of the target in this run: 1 of 2\n",
		"| missed | that 0.1 k/s | 0.1 k/s | 0.1 k/s–0.1 k/s | 0.55 | ≥ 0.90 | **missed** |",
		"## All figures",
		"| kept |  | 6 µs | 5 µs–7 µs |  | ≤ 10 µs | reached |",
		"| 50 %, 1.0 k/s | seqd | 1.00 ms (1.00 ms–1.00 ms) |",
		"only 0.5 k/s answered; 1 not answered with a number |",
		"| 10 | 4.00 ms (2.00 ms–6.00 ms) | 4.00 ms (2.00 ms–6.00 ms) |",
	} {
		at := strings.Index(text, want)
		if at <= last {
			t.Errorf("%q is at %d; want it after %d, in\n%s", want, at, last, text)
		}
		last = at
	}
}

func TestDocumentIsReplacedBetweenItsComments(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "P.md")
	if err := os.WriteFile(path, []byte("before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := sample()
	if err := errors.Join(replaceTable(path, "new\n"), d.draw(dir)); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "before\n<!-- bench -->\nnew\n<!-- /bench -->\nafter\n" {
		t.Errorf("the document is %s", text)
	}
	f, err := os.Open(filepath.Join(dir, "performance", "chart.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for decoder := xml.NewDecoder(f); err == nil; {
		_, err = decoder.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the chart is not XML: %v", err)
	}
	if err := replaceTable(filepath.Join(dir, "performance", "chart.svg"), ""); err == nil {
		t.Error("a document without the comments was changed")
	}
}

func TestOnly(t *testing.T) {
	if list, err := chosen("single,growth"); err != nil || len(list) != 6 {
		t.Errorf("%d figures, %v", len(list), err)
	}
	if _, err := chosen("singel"); err == nil {
		t.Error("an unknown figure is accepted")
	}
}
