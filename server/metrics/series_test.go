package metrics

import (
	"fmt"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// TestSeries says what 1,600 busy biz types cost: each has a series for each gauge, and for each counter
// that is not 0. A counter that all of them have from the start needs a reason.
func TestSeries(t *testing.T) {
	const bizTypes = 1600
	m := newMetrics(bizTypes)
	definitions := make([]issuer.Definition, bizTypes)
	for i := range definitions {
		name := fmt.Sprint("b", i)
		definitions[i] = define(name, measures(seqd.GaugeInHand, 1.0, seqd.GaugeFill, 1.0, seqd.GaugeStep, 1.0, seqd.GaugeRate, 1.0, seqd.GaugeHighest, 1.0, seqd.GaugeLimit, 1.0))
		m.Issued(name, 1)
		m.Event(seqd.Event{BizType: name, Kind: seqd.EventRefilled, Numbers: 1})
	}
	m.watch(Source{Issuer: newIssuer(t, m, definitions...)})
	series := 0
	for _, family := range must.Get(m.registry.Gather())(t) {
		series += len(family.Metric)
	}
	if each := series / bizTypes; each != 11 {
		t.Errorf("a biz type costs %d series, %d in all", each, series)
	}
}
