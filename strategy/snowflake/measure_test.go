package snowflake

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

var missing = math.NaN()

// wantGauges compares what a strategy reports. NaN means that it must not report a value.
func wantGauges(t *testing.T, s *Strategy, want map[seqd.Gauge]float64) {
	t.Helper()
	got := make(map[seqd.Gauge]float64)
	s.Measure(func(m seqd.Measurement) {
		must.Equal(t, m.Of, "store "+s.layout.text(), "%s is of", m.Gauge)
		got[m.Gauge] = m.Value
	})
	for gauge, value := range want {
		if v, told := got[gauge]; told == math.IsNaN(value) || told && math.Abs(v-value) > 1e-9*math.Abs(value) {
			t.Errorf("%s is %v (told: %t), want %v", gauge, v, told, value)
		}
	}
}

func TestMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		first, second := instance(t, r, "1", nil), instance(t, r, "2", nil)
		left := time.Until(first.layout.overflow()).Seconds()
		unknown := map[seqd.Gauge]float64{
			seqd.GaugeMachineID: missing, seqd.GaugeLeaseLeft: missing, seqd.GaugeMachineIDsFree: missing, seqd.GaugeMachineIDsUsed: missing,
			seqd.GaugeClockOffset: missing, seqd.GaugeTimeLeft: left,
		}
		wantGauges(t, first, unknown)
		ready(t, first)
		wantGauges(t, first, map[seqd.Gauge]float64{seqd.GaugeMachineID: float64(first.machineID()), seqd.GaugeLeaseLeft: 5, seqd.GaugeClockOffset: 0})
		time.Sleep(time.Second + time.Millisecond) // the first renewal counts them
		wantGauges(t, first, map[seqd.Gauge]float64{seqd.GaugeMachineIDsFree: 1023, seqd.GaugeMachineIDsUsed: 1, seqd.GaugeLeaseLeft: 4.999})
		ready(t, second)
		r.skew.Store(-1500) // the node is ahead
		time.Sleep(time.Minute + time.Second)
		wantGauges(t, first, map[seqd.Gauge]float64{
			seqd.GaugeMachineIDsFree: 1022, seqd.GaugeMachineIDsUsed: 2, seqd.GaugeClockOffset: 1.5, seqd.GaugeTimeLeft: left - 62.001,
		})
		r.away.Store(true)
		time.Sleep(time.Minute)
		wantGauges(t, first, map[seqd.Gauge]float64{seqd.GaugeMachineIDsUsed: 2, seqd.GaugeLeaseLeft: 0})
		r.away.Store(false)
		r.skew.Store(5000) // more than maxSkew; it is reported anyway
		time.Sleep(2 * time.Second)
		wantGauges(t, first, map[seqd.Gauge]float64{seqd.GaugeClockOffset: -5})
		r.skew.Store(0)
		time.Sleep(2 * time.Second)
		must.Do(t, first.Close(t.Context()))
		wantGauges(t, first, map[seqd.Gauge]float64{seqd.GaugeMachineID: missing, seqd.GaugeLeaseLeft: missing})
		time.Sleep(time.Minute + time.Second)
		wantGauges(t, second, map[seqd.Gauge]float64{seqd.GaugeMachineIDsUsed: 1})
	})
}

// TestMeasureOfStandby checks that a node without a machine ID keeps counting, and counts only
// those that it may hold.
func TestMeasureOfStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		in := func(rack Plain) func(*Settings) {
			return func(s *Settings) { s.BitsMachine, s.BitsRack, s.Rack = 2, 1, rack }
		}
		first, second, third, other := instance(t, r, "1", in("1")), instance(t, r, "2", in("1")), instance(t, r, "3", in("1")), instance(t, r, "4", in("0"))
		ready(t, first)
		ready(t, second)
		ready(t, other)
		closes(t, third)
		if err := third.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeNoMachineID {
			t.Fatal(err)
		}
		wantGauges(t, third, map[seqd.Gauge]float64{
			seqd.GaugeMachineID: missing, seqd.GaugeLeaseLeft: 0, seqd.GaugeMachineIDsFree: 0, seqd.GaugeMachineIDsUsed: 2,
		})
		time.Sleep(2 * time.Second)
		wantGauges(t, other, map[seqd.Gauge]float64{seqd.GaugeMachineIDsFree: 1, seqd.GaugeMachineIDsUsed: 1})
	})
}

// hears keeps the kinds of events.
type hears struct {
	seqd.NopObserver
	kinds chan seqd.EventKind
}

func (o hears) Event(e seqd.Event) { o.kinds <- e.Kind }

// wants compares the events since the last call.
func (o hears) wants(t *testing.T, want ...seqd.EventKind) {
	t.Helper()
	var got []seqd.EventKind
	for len(o.kinds) > 0 {
		got = append(got, <-o.kinds)
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := newRegistry(false), hears{kinds: make(chan seqd.EventKind, 10)}
		var back atomic.Int64 // how far the clock was set back
		s := instanceWith(t, r, func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }, "1", nil)
		s.held().env.Observer = o
		ready(t, s)
		one(t, s)
		change := func(f func(*persist.Slot)) {
			table := slots(t, s, r)
			changed := table.Slots[0]
			f(&changed)
			if ok, err := r.Swap(t.Context(), s.held().registry.name, persist.SlotSwap{OldSet: table.Set, OldSlot: &table.Slots[0], NewSlot: &changed}); err != nil || !ok {
				t.Fatal(ok, err)
			}
			time.Sleep(time.Second + time.Millisecond)
		}
		o.wants(t)
		change(func(slot *persist.Slot) { slot.Until -= 1000 }) // as in an older copy
		o.wants(t, seqd.EventStoreBehind)
		one(t, s)
		back.Store(int64(100 * time.Millisecond))
		for range 3 {
			must.Code(t, s.Generate(t.Context(), 1, new(seqd.Sequence)), seqd.CodeClockRollback)
		}
		back.Store(0)
		o.wants(t, seqd.EventClockRollback)
		change(func(slot *persist.Slot) { slot.Token, slot.Until = "another", slot.Until+60_000 })
		o.wants(t, seqd.EventMachineIDLost)
	})
}
