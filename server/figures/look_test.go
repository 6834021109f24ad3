package figures

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// measured is an issuer that tells states and measurements.
type measured struct {
	states []issuer.State
	told   []told
}

type told struct {
	bizType, plugin string
	m               seqd.Measurement
}

func (m *measured) Serves() bool { return true }

func (m *measured) States(tell func(issuer.State)) {
	for _, s := range m.states {
		tell(s)
	}
}

func (m *measured) Measure(tell func(bizType, plugin string, m seqd.Measurement)) {
	for _, t := range m.told {
		tell(t.bizType, t.plugin, t.m)
	}
}

func (m *measured) put(bizType, plugin string, values ...any) {
	for i := 0; i < len(values); i += 2 {
		m.told = append(m.told, told{bizType, plugin, seqd.Measurement{Gauge: values[i].(seqd.Gauge), Value: values[i+1].(float64)}})
	}
}

func (m *measured) registry(bizType, registry string, values ...any) {
	for i := 0; i < len(values); i += 2 {
		m.told = append(m.told, told{bizType, "", seqd.Measurement{Gauge: values[i].(seqd.Gauge), Of: registry, Value: values[i+1].(float64)}})
	}
}

// ends shows what runs out, one thing in each line.
func ends(list []runsOut) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%s %s%s%s %s %s", e.BizType, e.What, e.Plugin, e.Registry, e.LastsMS.append(nil), e.Share.append(nil))
		if e.Resets {
			b.WriteString(" resets")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestLook(t *testing.T) {
	m := &measured{states: []issuer.State{
		{BizType: "z", Unready: seqd.Errorf(seqd.CodeStoreUnavailable, "no store")}, {BizType: "off", Disabled: true}, {BizType: "order"},
		{BizType: "b", Degraded: seqd.Errorf(seqd.CodeRedisUnavailable, "no Redis")}, {BizType: "a", Degraded: seqd.Errorf("foreign", "own plugin")},
	}}
	m.put("order", "", seqd.GaugeInHand, 200.0, seqd.GaugeStep, 1000.0, seqd.GaugeRate, 10.0, seqd.GaugeHighest, 500.0, seqd.GaugeLimit, 1000.0)
	m.put("order", "format", seqd.GaugeLimit, 600.0)
	m.put("spaced", "", seqd.GaugeInHand, 30.0, seqd.GaugeStep, 10.0, seqd.GaugeRate, 1.0, seqd.GaugeHighest, 900.0, seqd.GaugeLimit, 1000.0, seqd.GaugeIncrement, 10.0)
	m.put("daily", "", seqd.GaugeInHand, 0.0, seqd.GaugeStep, 0.0, seqd.GaugeRate, 1.0, seqd.GaugeHighest, 990.0, seqd.GaugeLimit, 1000.0, seqd.GaugePeriodLeft, 5.0)
	m.put("full", "", seqd.GaugeRate, 0.0, seqd.GaugeHighest, 1000.0, seqd.GaugeLimit, 1000.0)
	m.put("fresh", "", seqd.GaugeRate, 0.0, seqd.GaugeLimit, 1000.0, seqd.GaugeInHand, 10.0, seqd.GaugeStep, 10.0)
	m.put("keyed", "", seqd.GaugeKeys, 90.0, seqd.GaugeMaxKeys, 100.0)
	m.put("bill", "", seqd.GaugeReservedShare, 0.99)
	m.put("unused", "", seqd.GaugeReservedShare, 0.0, seqd.GaugeKeys, 0.0, seqd.GaugeMaxKeys, 100.0)
	for _, name := range []string{"user", "event"} { // they share a registry
		m.registry(name, "r", seqd.GaugeMachineIDsUsed, 3.0, seqd.GaugeMachineIDsFree, 1.0, seqd.GaugeTimeLeft, 1e9, seqd.GaugeClockOffset, -0.25)
	}
	exists := 0
	l := lookAt(m, func(string) { exists++ })
	got := ends(l.runsOut)
	for _, line := range []string{
		"order displayformat 10000 0.8333\n", "order numbers 50000 0.5\n", "spaced numbers 10000 0.9\n", "daily numbers null 0.99 resets\n", "full numbers 0 1\n",
		"keyed keys null 0.9\n", "bill reservations null 0.99\n", "event timestampsr 1000000000000 null\n", "event machineIdsr null 0.75\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("it does not say %q but\n%s", line, got)
		}
	}
	if strings.Contains(got, "unused") || strings.Contains(got, "fresh") || strings.Contains(got, "user") || !strings.HasPrefix(got, "full ") {
		t.Errorf("it says\n%s", got)
	}
	must.Equal(t, fmt.Sprint(l.inHand), "[{order 200 20000 1000} {spaced 30 30000 10} {fresh 10 +Inf 10}]", "in hand")
	if got, want := fmt.Sprint(l.bizTypes, exists, l.unready, l.degraded, *l.offset),
		"{5 1 2 1 1} 5 [{z store_unavailable no store}] [{a internal own plugin} {b redis_unavailable no Redis}] "+(-250*time.Millisecond).String(); got != want {
		t.Errorf("the states are %s, want %s", got, want)
	}
}

// What is far away is only told if there is almost nothing else.
func TestWorthKnowing(t *testing.T) {
	for _, tt := range []struct {
		seconds []amount
		want    int
	}{
		{nil, 0}, {[]amount{5}, 1}, {[]amount{far * 2}, 1}, {[]amount{5, far * 2, far * 3, far * 4}, 3}, {[]amount{1, 2, 3, 4, far * 2}, 4},
		{[]amount{far * 2, far * 3, far * 4, far * 5}, 3},
	} {
		var list []runsOut
		for _, s := range tt.seconds {
			list = append(list, runsOut{LastsMS: s, Share: 0.1})
		}
		must.Equal(t, len(worthKnowing(list)), tt.want, "of %v are told", tt.seconds)
	}
}

// A short list has the first of all, in their order.
func TestShortlist(t *testing.T) {
	s := shortlist[inHand]{most: 3, order: shorter}
	for _, n := range []amount{5, 9, 1, 7, 1, 8, 3} {
		s.add(inHand{LastsMS: n})
	}
	must.Equal(t, fmt.Sprint(s.list), "[{ 0 1 0} { 0 1 0} { 0 3 0}]", "the list")
}
