package figures

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/httpapi"
)

// crowd is an issuer of so many biz types, which measure what a segment does.
type crowd []string

func newCrowd(n int) crowd {
	c := make(crowd, n)
	for i := range c {
		c[i] = fmt.Sprint("order-", i)
	}
	return c
}

func (c crowd) States(tell func(seqd.State)) {
	for _, name := range c {
		tell(seqd.State{BizType: name})
	}
}

func (c crowd) Measure(tell func(bizType, plugin string, m seqd.Measurement)) {
	for i, name := range c {
		for g, v := range map[seqd.Gauge]float64{
			seqd.GaugeInHand: float64(i), seqd.GaugeRate: 3, seqd.GaugeStep: 1000, seqd.GaugeFill: 0.5,
			seqd.GaugeHighest: float64(i), seqd.GaugeLimit: 1e15,
		} {
			tell(name, "", seqd.Measurement{Gauge: g, Value: v})
		}
	}
}

// BenchmarkLook looks at many biz types. What is measured includes the making of the measurements.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newCrowd(n)
			b.ReportAllocs()
			for b.Loop() {
				lookAt(c, func(string) {})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/bizType")
		})
	}
}

// busyWindow returns a full window of so many biz types, all of which are busy.
func busyWindow(bizTypes int) *window {
	w, c := begun()
	for range slots {
		c.pass(slotLength)
		w.move(c.now, c.elapsed)
		for i := range bizTypes {
			w.add(fmt.Sprint("order-", i), int64(i), 0)
		}
		for i := range 8 {
			w.calls[w.at][i+3] = uint32(1000 * i)
		}
	}
	return w
}

// BenchmarkSample adds a slot in which all of many biz types were busy.
func BenchmarkSample(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			names, w, c := newCrowd(n), newWindow(), &clocks{now: 1 << 40}
			w.move(c.now, c.elapsed)
			b.ReportAllocs()
			for b.Loop() {
				c.pass(slotLength)
				w.move(c.now, c.elapsed)
				for i, name := range names {
					w.add(name, int64(i), 0)
				}
			}
		})
	}
}

func busyReport(id string) *report {
	w := busyWindow(1000)
	r := &report{Version: version, ID: id, Bounds: make([]float64, 22), Host: id}
	for i := range r.Bounds {
		r.Bounds[i] = float64(i+1) * 1e-3
	}
	found := lookAt(newCrowd(1000), func(string) {})
	r.InHand, r.RunsOut, r.BizTypes = found.inHand, found.runsOut, found.bizTypes
	r.fill(w)
	return r
}

// BenchmarkWrite makes the document of a busy node.
func BenchmarkWrite(b *testing.B) {
	r, w := busyReport("a"), busyWindow(1000)
	b.ReportAllocs()
	for b.Loop() {
		r.fill(w)
		if _, err := r.write(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOverview answers once, of three busy nodes with 1,000 biz types: it reads two documents,
// merges and encodes.
func BenchmarkOverview(b *testing.B) {
	here := busyReport("a")
	k := known{here: here, complete: true, at: time.UnixMilli(endOf(here.Last))}
	var bodies []string
	for _, id := range []string{"b", "c"} {
		body, err := busyReport(id).write()
		if err != nil {
			b.Fatal(err)
		}
		bodies = append(bodies, body)
		k.nodes = append(k.nodes, httpapi.Node{ID: id})
	}
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		k.reports = []*report{here}
		for i, body := range bodies {
			r, err := readReport(fmt.Sprint(i), body)
			if err != nil {
				b.Fatal(err)
			}
			k.reports = append(k.reports, r)
		}
		text, err := json.Marshal(merge(k))
		if err != nil {
			b.Fatal(err)
		}
		size = len(text)
	}
	b.ReportMetric(float64(size), "bytes")
}

// A full window takes a bounded amount of memory.
func TestMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	w := busyWindow(1000)
	for i := range 42 {
		w.addCode(seqd.Code(fmt.Sprint("code", i)), 1)
	}
	after := heap()
	runtime.KeepAlive(w)
	t.Logf("a full window takes %d KB", (after-before)>>10)
	if after-before > 300<<10 {
		t.Errorf("a full window takes %d bytes", after-before)
	}
}
