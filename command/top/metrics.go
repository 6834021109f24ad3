package top

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics is what is used of /metrics. A map without an entry means 0, or none.
type metrics struct {
	issued      map[string]float64            // by biz type
	rejected    map[string]map[string]float64 // by biz type and reason
	lasts       map[string]float64            // milliseconds, by biz type
	left        map[string]float64            // milliseconds, by biz type
	step        map[string]float64            // by biz type
	highest     map[string]float64            // by biz type
	requests    float64                       // for numbers, of every protocol
	refused     float64                       // of them
	inFlight    float64
	connections float64
	started     float64 // seconds since 1970
	buckets     []bucket
}

// bucket is how many calls took at most a time, in seconds.
type bucket struct{ most, count float64 }

// readMetrics reads the text format of Prometheus.
func readMetrics(text []byte) (*metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil || families["seqd_start_time_seconds"] == nil {
		return nil, fmt.Errorf("the answer to /metrics is not one of seqd")
	}
	m := &metrics{
		issued: byBizType(families["seqd_ids_issued_total"]), lasts: milliseconds(families["seqd_segment_in_hand_seconds"]),
		left: milliseconds(families["seqd_segment_exhaustion_seconds"]), step: byBizType(families["seqd_segment_step"]), highest: byBizType(families["seqd_segment_highest"]),
		rejected:    make(map[string]map[string]float64),
		inFlight:    sum(families["seqd_http_requests_in_flight"]),
		connections: sum(families["seqd_http_connections"]) + sum(families["seqd_resp_connections"]),
		started:     sum(families["seqd_start_time_seconds"]), buckets: bucketsOf(families["seqd_issue_seconds"]),
	}
	for _, of := range families["seqd_ids_rejected_total"].GetMetric() {
		name, reason := label(of, "biz_type"), label(of, "reason")
		if m.rejected[name] == nil {
			m.rejected[name] = make(map[string]float64)
		}
		m.rejected[name][reason] += value(of)
	}
	m.addRequests(families)
	return m, nil
}

// numberRoutes begin the routes that hand out numbers, and numberCommands are the commands.
var (
	numberRoutes   = []string{"/tinyid/id/", "/api/segment/get/", "/api/snowflake/get/", "/segments/"}
	numberCommands = []string{"INCR", "INCRBY", "SEQ.NEXT"}
)

// addRequests counts the requests for numbers of every protocol.
func (m *metrics) addRequests(families map[string]*dto.MetricFamily) {
	for _, of := range families["seqd_http_requests_total"].GetMetric() {
		route, code := label(of, "route"), label(of, "code")
		begins := func(begin string) bool { return strings.HasPrefix(route, begin) }
		if route == "/seq/{bizType}" || slices.ContainsFunc(numberRoutes, begins) && !begins("/segments/distributor/") {
			m.add(value(of), strings.HasPrefix(code, "4") || strings.HasPrefix(code, "5"))
		}
	}
	for _, of := range families["seqd_resp_commands_total"].GetMetric() {
		if slices.Contains(numberCommands, label(of, "command")) {
			m.add(value(of), label(of, "code") != "ok")
		}
	}
}

func (m *metrics) add(requests float64, refused bool) {
	m.requests += requests
	if refused {
		m.refused += requests
	}
}

func label(of *dto.Metric, name string) string {
	for _, l := range of.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// value returns the value of a counter or gauge.
func value(of *dto.Metric) float64 {
	return of.GetCounter().GetValue() + of.GetGauge().GetValue() + of.GetUntyped().GetValue()
}

func sum(family *dto.MetricFamily) (total float64) {
	for _, of := range family.GetMetric() {
		total += value(of)
	}
	return total
}

func byBizType(family *dto.MetricFamily) map[string]float64 {
	m := make(map[string]float64, len(family.GetMetric()))
	for _, of := range family.GetMetric() {
		m[label(of, "biz_type")] += value(of)
	}
	return m
}

// milliseconds is byBizType of a family of seconds.
func milliseconds(family *dto.MetricFamily) map[string]float64 {
	m := byBizType(family)
	for name := range m {
		m[name] *= 1000
	}
	return m
}

// bucketsOf adds up the histograms of all strategies.
func bucketsOf(family *dto.MetricFamily) (list []bucket) {
	counts := make(map[float64]float64)
	for _, of := range family.GetMetric() {
		for _, b := range of.GetHistogram().GetBucket() {
			counts[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
	for most, count := range counts {
		list = append(list, bucket{most, count})
	}
	slices.SortFunc(list, func(a, b bucket) int {
		if a.most < b.most {
			return -1
		}
		return 1
	})
	return list
}

// quantile returns the time that a share of the calls between two samples took at most, in seconds.
// It is NaN if there were none. Both samples have the same buckets.
func quantile(share float64, before, after []bucket) float64 {
	total := between(before, after, len(after)-1)
	if total <= 0 {
		return math.NaN()
	}
	low, below := 0.0, 0.0
	for i, b := range after {
		count := between(before, after, i)
		if count >= share*total && count > below {
			if math.IsInf(b.most, 1) {
				return low
			}
			return low + (b.most-low)*(share*total-below)/(count-below)
		}
		low, below = b.most, count
	}
	return low
}

// between returns how many calls of a bucket there were between two samples.
func between(before, after []bucket, i int) float64 {
	switch {
	case i < 0 || i >= len(after):
		return 0
	case i < len(before) && before[i].most == after[i].most:
		return after[i].count - before[i].count
	}
	return after[i].count
}
