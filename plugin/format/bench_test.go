package format

import (
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// example returns the settings of the documentation's example.
func example() Settings {
	return Settings{Template: "INV-{date:20060102}-{seq:06}{check}", Check: "luhn"}
}

// benchmarkAfter displays n numbers and builds their ID strings.
func benchmarkAfter(b *testing.B, s Settings, c seqd.Calendar, period seqd.Period, n int) {
	b.Helper()
	p := must.Get(New(s, c, 0, time.Now))(b)
	call := seqd.Call{Count: n}
	var dst []byte
	b.ReportAllocs()
	for i := int64(1); b.Loop(); i++ {
		call.Sequence.Reset()
		call.Sequence.Add(i, n, 1)
		call.Sequence.In(period)
		must.Do(b, p.After(b.Context(), &call))
		if n > 1 {
			dst = call.Sequence.AppendIDs(dst[:0], `"`, `"`, ",")
			continue
		}
		for shown := range call.Sequence.Displays() {
			kept = string(shown)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/ID")
}

var kept string

// BenchmarkFormat displays one ID of the example, with its string. The target is 250 ns and one
// allocation.
func BenchmarkFormat(b *testing.B) {
	b.Run("period", func(b *testing.B) {
		benchmarkAfter(b, example(), calendar(b, seqd.ResetDaily, "Asia/Shanghai"), 20261121, 1)
	})
	b.Run("issuing", func(b *testing.B) { benchmarkAfter(b, example(), calendar(b, seqd.ResetNever, "Asia/Shanghai"), 0, 1) })
}

// BenchmarkFormats measures other templates and batches.
func BenchmarkFormats(b *testing.B) {
	for _, s := range []Settings{
		{"{seq}", ""}, {"{seq:08r32}", ""}, {"{seq:012r62}{check}", "mod97"}, {"{date:060102}{seq:08}{check}", "damm"},
	} {
		b.Run(s.Template, func(b *testing.B) { benchmarkAfter(b, s, never(), 0, 1) })
	}
	b.Run("batch of 1000", func(b *testing.B) { benchmarkAfter(b, example(), never(), 0, 1000) })
}

func BenchmarkRead(b *testing.B) {
	p := mustPlugin(b, example(), calendar(b, seqd.ResetDaily, "UTC"), 0)
	id := show(b, p, 20261121, 1234)
	b.ReportAllocs()
	for b.Loop() {
		must.Get(p.Read(b.Context(), id, seqd.Counter{}))(b)
	}
}

// BenchmarkProve measures what a new template costs when it is loaded.
func BenchmarkProve(b *testing.B) {
	for _, reset := range []seqd.Reset{seqd.ResetDaily, seqd.ResetNever} {
		b.Run(string(reset), func(b *testing.B) {
			for b.Loop() {
				d := &dates{layouts: []string{"20060102"}, joined: "20060102", calendar: calendar(b, reset, "Asia/Shanghai")}
				must.Do(b, d.prove())
			}
		})
	}
}
