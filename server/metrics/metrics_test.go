package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

func (m *Metrics) watch(s Source) { m.opts.Source = func() Source { return s } }

// newMetrics returns metrics that are collected at each scrape.
func newMetrics(maxBizTypes int) *Metrics {
	m := New(Options{MaxBizTypes: maxBizTypes, Version: "v1", Revision: "abc", Log: slog.New(slog.DiscardHandler)})
	m.shown.pause = 0
	return m
}

// gathered returns the values of this package's metrics by name and label values, as in
// "seqd_ids_issued_total order". For a histogram it returns the count.
func gathered(t testing.TB, m *Metrics) map[string]float64 {
	t.Helper()
	families := must.Get(m.registry.Gather())(t)
	values := make(map[string]float64)
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "seqd_") {
			continue
		}
		for _, metric := range family.Metric {
			values[seriesName(family, metric)] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// seriesName leaves out the names of the labels, which are sorted.
func seriesName(family *dto.MetricFamily, metric *dto.Metric) string {
	name := family.GetName()
	for _, l := range metric.Label {
		name += " " + l.GetValue()
	}
	return name
}

// want compares some values.
func want(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if there, ok := got[name]; !ok || there != v {
			t.Errorf("%s is %v (there: %v), want %v", name, there, ok, v)
		}
	}
}

// fake is a strategy or plugin that reports what it was given, or panics if that is nil.
type fake struct {
	seqd.NopPlugin
	values   []seqd.Measurement
	health   error
	degraded *seqd.Error
}

func (f *fake) Init(context.Context, bool) error { return nil }
func (f *fake) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	seq.Add(1, n, 1)
	return nil
}
func (f *fake) Close(context.Context) error { return nil }
func (f *fake) Health() error {
	if f.values == nil {
		panic("health")
	}
	return f.health
}
func (f *fake) Degraded() *seqd.Error   { return f.degraded }
func (f *fake) Details() map[string]any { return nil }
func (f *fake) Measure(tell func(seqd.Measurement)) {
	for _, v := range f.values {
		tell(v)
	}
}

// measures returns a fake with measurements made of pairs of a gauge and a value.
func measures(pairs ...any) *fake {
	f := &fake{values: []seqd.Measurement{}}
	for i := 0; i < len(pairs); i += 2 {
		f.values = append(f.values, seqd.Measurement{Gauge: pairs[i].(seqd.Gauge), Value: pairs[i+1].(float64)})
	}
	return f
}

// of sets the registry of the measurements.
func (f *fake) of(registry string) *fake {
	for i := range f.values {
		f.values[i].Of = registry
	}
	return f
}

func define(name string, s *fake, plugins ...*fake) issuer.Definition {
	d := issuer.Definition{BizType: seqd.BizType{Name: name, Strategy: "fake"}, Strategy: s}
	for i, p := range plugins {
		d.Plugins = append(d.Plugins, seqd.BoundPlugin{Name: fmt.Sprintf("p%d", i), Order: i, Plugin: p})
	}
	return d
}

func newIssuer(t testing.TB, observer seqd.Observer, definitions ...issuer.Definition) *issuer.Issuer {
	t.Helper()
	is := must.Get(issuer.New(definitions, issuer.Options{Log: slog.New(slog.DiscardHandler), Observer: observer}))(t)
	is.Init(t.Context())
	return is
}

// TestSeconds checks derived values for each case of rate, limit and period.
func TestSeconds(t *testing.T) {
	forever := math.Inf(1)
	m := newMetrics(10)
	m.watch(Source{Issuer: newIssuer(t, m,
		define("steady", measures(seqd.GaugeInHand, 500.0, seqd.GaugeFill, 0.25, seqd.GaugeStep, 1000.0, seqd.GaugeRate, 10.0, seqd.GaugeHighest, 1000.0, seqd.GaugeLimit, 2000.0),
			measures(seqd.GaugeLimit, 1500.0, seqd.GaugeRate, 7.0)),
		define("idle", measures(seqd.GaugeInHand, 0.0, seqd.GaugeStep, 10.0, seqd.GaugeRate, 0.0, seqd.GaugeHighest, 1000.0, seqd.GaugeLimit, 2000.0)),
		define("stored", measures(seqd.GaugeInHand, 0.0, seqd.GaugeStep, 0.0, seqd.GaugeRate, 10.0)), // sequencer: store
		define("over", measures(seqd.GaugeRate, 0.0, seqd.GaugeHighest, 2000.0, seqd.GaugeLimit, 2000.0), measures(seqd.GaugeLimit, 99.0)),
		define("short", measures(seqd.GaugeRate, 10.0, seqd.GaugeHighest, 1000.0, seqd.GaugeLimit, 2000.0, seqd.GaugePeriodLeft, 99.0), measures(seqd.GaugeLimit, 1500.0)),
		define("long", measures(seqd.GaugePeriodLeft, 101.0, seqd.GaugeRate, 10.0, seqd.GaugeHighest, 1000.0, seqd.GaugeLimit, 2000.0)),
		define("unrated", measures(seqd.GaugeInHand, 5.0, seqd.GaugeHighest, 1000.0, seqd.GaugeLimit, 2000.0)),
	)})
	got := gathered(t, m)
	want(t, got, map[string]float64{
		"seqd_segment_numbers_in_hand steady": 500, "seqd_segment_in_hand_seconds steady": 50, "seqd_segment_buffer_fill_ratio steady": 0.25,
		"seqd_segment_step steady": 1000, "seqd_segment_rate steady": 10, "seqd_segment_highest steady": 1000,
		"seqd_segment_exhaustion_seconds steady": 100, "seqd_serial_exhaustion_seconds steady p0": 50,
		"seqd_segment_in_hand_seconds idle": forever, "seqd_segment_exhaustion_seconds idle": forever,
		"seqd_segment_exhaustion_seconds over": 0, "seqd_serial_exhaustion_seconds over p0": 0,
		"seqd_segment_exhaustion_seconds short": forever, "seqd_serial_exhaustion_seconds short p0": 50,
		"seqd_numbers_left_ratio steady": 1.0 / 3, "seqd_numbers_left_ratio idle": 0.5, "seqd_numbers_left_ratio over": 0, "seqd_numbers_left_ratio unrated": 0.5,
		"seqd_segment_exhaustion_seconds long": 100, "seqd_segment_numbers_in_hand unrated": 5,
	})
	for _, name := range []string{"seqd_segment_in_hand_seconds stored", "seqd_segment_in_hand_seconds unrated", "seqd_segment_exhaustion_seconds unrated", "seqd_segment_in_hand_seconds over"} {
		if v, there := got[name]; there {
			t.Errorf("%s is %v, of what was not measured", name, v)
		}
	}
}

// TestOther checks the sums and worst values of biz types without a label of their own, and the
// number of biz types in each state.
func TestOther(t *testing.T) {
	m := newMetrics(1)
	sick, poor := measures(), measures()
	sick.health, poor.degraded = seqd.Errorf(seqd.CodeStoreUnavailable, "no"), seqd.Errorf(seqd.CodeRedisUnavailable, "no")
	is := newIssuer(t, m,
		define("first", measures(seqd.GaugeInHand, 1.0)),
		define("a", measures(seqd.GaugeInHand, 500.0, seqd.GaugeStep, 10.0, seqd.GaugeRate, 10.0, seqd.GaugeFill, 0.5), measures(seqd.GaugeQueued, 3.0, seqd.GaugeQueueSize, 9.0, seqd.GaugeDropped, 2.0)),
		define("b", measures(seqd.GaugeInHand, 300.0, seqd.GaugeStep, 70.0, seqd.GaugeRate, 1.0, seqd.GaugeFill, 0.75), measures(seqd.GaugeQueued, 4.0, seqd.GaugeQueueSize, 8.0, seqd.GaugeDropped, 5.0)),
		define("sick", sick), define("poor", poor),
	)
	m.watch(Source{Issuer: is})
	for _, bizType := range []string{"first", "a", "b"} {
		must.Get(is.Next(t.Context(), bizType, 2))(t)
		m.Event(seqd.Event{BizType: bizType, Kind: seqd.EventRefilled, Numbers: 10})
		m.Rejected(bizType, "made up")
	}
	want(t, gathered(t, m), map[string]float64{
		"seqd_ids_issued_total first": 2, "seqd_ids_issued_total _other": 4, "seqd_refills_total first": 1, "seqd_refills_total _other": 2,
		"seqd_refilled_numbers_total _other": 20, "seqd_ids_rejected_total _other internal": 2, "seqd_segment_numbers_in_hand first": 1,
		"seqd_segment_numbers_in_hand _other": 300, "seqd_segment_in_hand_seconds _other": 50, "seqd_segment_step _other": 70, "seqd_segment_rate _other": 10,
		"seqd_segment_buffer_fill_ratio _other": 0.5, "seqd_queue_depth _other p0": 4, "seqd_queue_size _other p0": 8, "seqd_queue_dropped_total _other p0": 7,
		"seqd_biz_type_unready _other": 1, "seqd_biz_type_degraded _other": 1, "seqd_biz_types ready": 3, "seqd_biz_types unready": 1, "seqd_biz_types degraded": 1,
		"seqd_issue_seconds fake": 3,
	})
	must.Do(t, is.Remove(t.Context(), "b", nil))
	// A counter does not go down because one that shares its label is gone.
	want(t, gathered(t, m), map[string]float64{"seqd_queue_depth _other p0": 3, "seqd_queue_dropped_total _other p0": 7})
}

// TestSeriesAreBounded checks that the number of series has a limit, however many biz types and
// registries there are.
func TestSeriesAreBounded(t *testing.T) {
	const labels, many = 10, 2000
	m := newMetrics(labels)
	var definitions []issuer.Definition
	for i := range many {
		registry := measures(seqd.GaugeMachineID, 1.0, seqd.GaugeLeaseLeft, 1.0).of(fmt.Sprint("r", i))
		registry.values = append(registry.values, measures(seqd.GaugeInHand, 1.0, seqd.GaugeRate, 1.0, seqd.GaugeHighest, 1.0, seqd.GaugeLimit, 1.0).values...)
		definitions = append(definitions, define(fmt.Sprint("b", i), registry, measures(seqd.GaugeLimit, 1.0)))
	}
	is := newIssuer(t, m, definitions...)
	m.watch(Source{Issuer: is})
	for i := range many {
		must.Get(is.Next(t.Context(), fmt.Sprint("b", i), 1))(t)
		for _, reason := range reasons {
			m.Rejected(fmt.Sprint("b", i), reason.Code)
		}
	}
	const perBizType, ofNode = 1 + len(reasons) + 2*len(events) + 8 + 2 + 6, 30
	got := gathered(t, m)
	if most := (labels+1)*perBizType + ofNode; len(got) > most {
		t.Errorf("%d biz types make %d series, want at most %d", many, len(got), most)
	}
	want(t, got, map[string]float64{"seqd_ids_issued_total _other": many - labels, "seqd_machine_id _other": 1})
}

// TestGone checks that a biz type that is gone gives its label to another, and that a disabled one
// keeps it.
func TestGone(t *testing.T) {
	m := newMetrics(2)
	is := newIssuer(t, m, define("gone", measures()), define("disabled", measures()), define("next", measures()))
	m.watch(Source{Issuer: is})
	for _, bizType := range []string{"gone", "disabled", "next"} {
		m.Issued(bizType, 1)
	}
	must.Do(t, is.Remove(t.Context(), "gone", nil))
	must.Do(t, is.Remove(t.Context(), "disabled", seqd.Errorf(seqd.CodeDisabled, "no")))
	for range forgetAfter {
		m.Issued("next", 1)
		want(t, gathered(t, m), map[string]float64{"seqd_biz_types disabled": 1, "seqd_biz_types ready": 1})
	}
	m.Issued("next", 1)
	m.Issued("gone", 1) // it has lost its label
	got := gathered(t, m)
	want(t, got, map[string]float64{"seqd_ids_issued_total disabled": 1, "seqd_ids_issued_total next": 1, "seqd_ids_issued_total _other": 4})
	if _, there := got["seqd_ids_issued_total gone"]; there {
		t.Error("a biz type that is gone still has series")
	}
}

// TestStoreAway checks that the report is dropped when the store is back, and when the biz type
// that made it can no longer say so.
func TestStoreAway(t *testing.T) {
	m := newMetrics(2)
	is := newIssuer(t, m, define("a", measures()), define("gone", measures()), define("disabled", measures()))
	m.watch(Source{Issuer: is})
	away := func(bizType string) {
		m.Event(seqd.Event{BizType: bizType, Kind: seqd.EventStoreAway})
		gathered(t, m)
		if !m.StoreAway() {
			t.Errorf("%s says that the store is away, and it is not", bizType)
		}
	}
	back := func(after string) {
		gathered(t, m)
		if m.StoreAway() {
			t.Errorf("after %s the store is still away", after)
		}
	}
	back("nothing")
	for _, kind := range []seqd.EventKind{seqd.EventStoreBack, seqd.EventRefilled} {
		away("a")
		m.Event(seqd.Event{BizType: "a", Kind: kind})
		back(string(kind))
	}
	for bizType, cause := range map[string]*seqd.Error{"gone": nil, "disabled": seqd.Errorf(seqd.CodeDisabled, "no")} {
		away(bizType)
		must.Do(t, is.Remove(t.Context(), bizType, cause))
		back("the end of " + bizType)
	}
}

// TestPanics checks that counters are shown even if a strategy panics when its state is read.
func TestPanics(t *testing.T) {
	m := newMetrics(10)
	m.watch(Source{Issuer: newIssuer(t, m, define("mad", &fake{}))})
	m.Issued("mad", 3)
	want(t, gathered(t, m), map[string]float64{"seqd_ids_issued_total mad": 3})
}

// TestCountingWhileScraping checks that nothing is lost while many count and many scrape, and that
// counters never go down.
func TestCountingWhileScraping(t *testing.T) {
	const each, callers, names = 2000, 4, 8
	m := newMetrics(names / 2)
	route := m.Route("/seq/{bizType}")
	var counting, scraping sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		scraping.Go(func() {
			last := 0.0
			for {
				issued := 0.0
				for name, v := range gathered(t, m) {
					if strings.HasPrefix(name, "seqd_ids_issued_total ") {
						issued += v
					}
				}
				if issued < last {
					t.Errorf("%v numbers were issued after %v", issued, last)
				}
				last = issued
				if _, _, err := m.Exposition("application/openmetrics-text", true); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range callers {
		counting.Go(func() {
			for i := range each {
				bizType := fmt.Sprint("b", i%names)
				m.Issued(bizType, 2)
				m.Rejected(bizType, seqd.CodeExhausted)
				m.Event(seqd.Event{BizType: bizType, Kind: seqd.EventAbandoned, Numbers: 3})
				m.Took("s", 1000)
				route("GET", 200, time.Millisecond)
			}
		})
	}
	counting.Wait()
	close(done)
	scraping.Wait()
	var issued, rejected, times, abandoned float64
	got := gathered(t, m)
	for name, v := range got {
		switch {
		case strings.HasPrefix(name, "seqd_ids_issued_total "):
			issued += v
		case strings.HasPrefix(name, "seqd_ids_rejected_total "):
			rejected += v
		case strings.HasPrefix(name, "seqd_ranges_abandoned_total "):
			times += v
		case strings.HasPrefix(name, "seqd_numbers_abandoned_total "):
			abandoned += v
		}
	}
	const all = each * callers
	if issued != 2*all || rejected != all || times != all || abandoned != 3*all {
		t.Errorf("%v issued, %v rejected, %v abandoned with %v numbers, of %d calls", issued, rejected, times, abandoned, all)
	}
	want(t, got, map[string]float64{"seqd_issue_seconds s": all, "seqd_http_requests_total 200 GET /seq/{bizType}": all})
}

// TestRoutes checks that methods and statuses without a label of their own are counted as other.
func TestRoutes(t *testing.T) {
	m := newMetrics(1)
	route := m.Route("none")
	for _, method := range []string{"GET", "BREW", "get", ""} {
		for _, status := range []int{200, 418, 0, -1, 599, 600, 1000} {
			route(method, status, time.Millisecond)
		}
	}
	want(t, gathered(t, m), map[string]float64{
		"seqd_http_requests_total 200 GET none": 1, "seqd_http_requests_total 200 other none": 3,
		"seqd_http_requests_total other GET none": 6, "seqd_http_requests_total other other none": 18,
	})
}

// driven returns metrics in which every family has a value.
func driven(t *testing.T) *Metrics {
	t.Helper()
	m := newMetrics(10)
	sick, poor := measures(), measures()
	sick.health, poor.degraded = seqd.Errorf(seqd.CodeStoreUnavailable, "no"), seqd.Errorf(seqd.CodeRedisUnavailable, "no")
	one := func() int64 { return 1 }
	m.watch(Source{
		Issuer: newIssuer(t, m, define("sick", sick), define("poor", poor),
			define("gapless", measures(seqd.GaugeReserved, 1.0, seqd.GaugeReleased, 1.0, seqd.GaugeVoids, 1.0, seqd.GaugeReservedShare, 0.5, seqd.GaugeReleasedAge, 1.0)),
			define("segment", measures(seqd.GaugeOpenKeys, 1.0, seqd.GaugeKeys, 1.0, seqd.GaugeMaxKeys, 1.0, seqd.GaugeInHand, 1.0, seqd.GaugeFill, 1.0, seqd.GaugeStep, 1.0, seqd.GaugeRate, 1.0, seqd.GaugeHighest, 1.0, seqd.GaugeLimit, 1.0),
				measures(seqd.GaugeLimit, 1.0, seqd.GaugeQueued, 1.0, seqd.GaugeQueueSize, 1.0, seqd.GaugeDropped, 1.0, seqd.GaugeFallback, 1.0)),
			define("snowflake", measures(seqd.GaugeMachineID, 1.0, seqd.GaugeMachineIDsFree, 1.0, seqd.GaugeMachineIDsUsed, 1.0, seqd.GaugeLeaseLeft, 1.0, seqd.GaugeClockOffset, 1.0,
				seqd.GaugeTimeLeft, 1.0).of("r")),
		),
		HTTP: func() HTTP { return HTTP{InFlight: 1} },

		RESPConnections: func() int64 { return 3 },
		Backends:        func(tell func(string, bool)) { tell("store", true); tell("redis", false) },
		FailedOver:      func() (*seqd.Error, bool) { return seqd.Errorf(seqd.CodeStoreFailedOver, "look"), true },
		StoreCreated:    func() (time.Time, bool) { return time.Unix(1, 0), true },
		Pools: func(tell func(string, ConnPool)) {
			tell("store", ConnPool{InUse: 1, Most: 2, Waits: 3, Waited: time.Second})
		},
		Disks:              func(tell func(string, int64, int64, int64)) { tell("store", 1, 2, 3); tell("snapshots", 0, 2, 3) },
		ClientCertificates: func(tell func(string, int64)) { tell("redis.tls.certFile", 1) },
		Snapshots: func() (Snapshots, bool) {
			return Snapshots{Every: time.Hour, Newest: time.Unix(1, 0), Failures: 1}, true
		},
		Certificate: func() (time.Time, int64, bool) { return time.Unix(1, 0), 1, true },
		Mixed:       func() *seqd.Error { return seqd.Errorf(seqd.CodeConflict, "look") },
		Leading:     func() bool { return true },
		Workers:     func(tell func(string, Pool)) { tell("fleet", Pool{Seen: true}) },
		Jobs:        func() Jobs { return Jobs{Running: 1} },
		Deliveries:  func() Deliveries { return Deliveries{Pending: 1} },
		Handlers: func(tell func(string, seqd.Measurement)) {
			tell("webhook", seqd.Measurement{Gauge: seqd.GaugeQueued, Value: 7})
		},
		Feed:           func() (int64, int64, int64) { return 1, 1, 1 },
		AnswerBytes:    func() (int64, int64) { return 1, 2 },
		Configuration:  func() (time.Time, bool, bool) { return time.Unix(1, 0), true, true },
		ReloadFailures: one, LinesDropped: one, LinesSkipped: one, SpansDropped: one,
	})
	m.Route("/seq/{bizType}")("GET", 200, time.Millisecond)
	m.StoreTook("counters.allocate", time.Millisecond)
	m.Synced(time.Millisecond)
	m.RedisTook("evalsha", time.Millisecond)
	m.Waited("redis", 1)
	m.Command("INCR")("", 2)
	m.Issued("segment", 1)
	m.Rejected("segment", seqd.CodeExhausted)
	m.Took("segment", 1)
	for _, e := range events {
		m.Event(seqd.Event{BizType: "segment", Kind: e.kind, Numbers: 1})
	}
	for _, kind := range []seqd.EventKind{seqd.EventMachineIDLost, seqd.EventClockRollback} {
		m.Event(seqd.Event{Kind: kind})
	}
	return m
}

// As many pools have a label of their own as biz types, and the others are together.
func TestPools(t *testing.T) {
	m := newMetrics(1)
	m.watch(Source{Workers: func(tell func(string, Pool)) {
		tell("a", Pool{Held: 3, Free: 1, Seen: true, StandingBy: 2, Leased: 10, Renewed: 20, Lost: 1})
		tell("b", Pool{Held: 2, Free: 2, Seen: true, Leased: 1, Renewed: 2})
		tell("c", Pool{Held: 9, Leased: 5, Lost: 1})
	}})
	want(t, gathered(t, m), map[string]float64{
		`seqd_worker_ids_held a`: 3, `seqd_worker_ids_held _other`: 2,
		`seqd_worker_ids_free a`: 1, `seqd_worker_ids_free _other`: 2,
		`seqd_worker_requests_standing_by a`: 2, `seqd_worker_leases_total a`: 10, `seqd_worker_leases_total _other`: 6,
		`seqd_worker_renewals_total _other`: 2, `seqd_worker_leases_lost_total a`: 1, `seqd_worker_leases_lost_total _other`: 1,
	})
}

// TestDocument checks that docs/METRICS.md describes exactly the metrics that are shown.
func TestDocument(t *testing.T) {
	document := must.Get(os.ReadFile("../../docs/METRICS.md"))(t)
	var described, rows []string
	for line := range strings.Lines(string(document)) {
		if strings.HasPrefix(line, "| `seqd_") {
			described = append(described, strings.TrimSpace(line))
		}
	}
	for _, f := range Families() {
		labels := ""
		if len(f.Labels) > 0 {
			labels = "`" + strings.Join(f.Labels, "`, `") + "`"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", f.Name, f.Type, labels, f.Help))
	}
	for _, row := range rows {
		if !slices.Contains(described, row) {
			t.Errorf("docs/METRICS.md lacks the line\n%s", row)
		}
	}
	for _, line := range described {
		if !slices.Contains(rows, line) {
			t.Errorf("docs/METRICS.md has the line\n%s", line)
		}
	}
}

// TestNames checks that the listed families, and no others, are shown with their types.
func TestNames(t *testing.T) {
	families := must.Get(driven(t).registry.Gather())(t)
	types := make(map[string]string)
	for _, f := range Families() {
		types[f.Name] = f.Type
	}
	must.Equal(t, len(types), len(Families()), "a name is listed twice")
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "seqd_") {
			continue
		}
		must.Equal(t, types[name], strings.ToLower(family.GetType().String()), "the type of %s in the list", name)
		delete(types, name)
	}
	for name := range types {
		t.Errorf("%s is listed and not shown", name)
	}
}

// TestHandlers checks that handlers that come with seqd report their queues, without a biz type.
func TestHandlers(t *testing.T) {
	want(t, gathered(t, driven(t)), map[string]float64{
		"seqd_queue_depth  webhook": 7, "seqd_backend_up store": 1, "seqd_backend_up redis": 0, "seqd_store_failed_over": 1, "seqd_machine_ids_lost_total": 1, "seqd_clock_rollbacks_total": 1,
	})
}
