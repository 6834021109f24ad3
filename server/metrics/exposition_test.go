package metrics

import (
	"bytes"
	"compress/gzip"
	dto "github.com/prometheus/client_model/go"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/seqd/seqd/internal/testing/must"
)

const openMetrics, protobuf = "application/openmetrics-text", "application/vnd.google.protobuf"

// checkNative checks that protocol buffers have native histograms, and buckets as well.
func checkNative(t *testing.T, contentType string, body []byte) {
	t.Helper()
	decoder := expfmt.NewDecoder(bytes.NewReader(body), expfmt.Format(contentType))
	for {
		var family dto.MetricFamily
		if err := decoder.Decode(&family); err != nil {
			t.Fatalf("no seqd_store_operation_seconds: %v", err)
		}
		if family.GetName() == "seqd_store_operation_seconds" {
			h := family.Metric[0].GetHistogram()
			if h.Schema == nil || len(h.GetPositiveSpan()) == 0 || len(h.GetBucket()) != len(coarse) {
				t.Errorf("the histogram is %v", h)
			}
			return
		}
	}
}

// TestForms checks that every form is readable and has the same values.
func TestForms(t *testing.T) {
	m := driven(t)
	m.shown.pause = time.Hour
	for _, f := range []form{{"", false}, {"", true}, {openMetrics, false}, {openMetrics, true}, {protobuf, true}} {
		body, contentType, err := m.Exposition(f.media, f.compressed)
		must.Do(t, err)
		if f.compressed {
			z := must.Get(gzip.NewReader(bytes.NewReader(body)))(t)
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if f.media == protobuf {
			checkNative(t, contentType, body)
			continue
		}
		if f.media == openMetrics {
			if !strings.HasPrefix(contentType, "application/openmetrics-text; version=1.0.0") || !bytes.HasSuffix(body, []byte("# EOF\n")) {
				t.Errorf("OpenMetrics comes as %s and ends with %q", contentType, body[max(0, len(body)-20):])
			}
			continue
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
		if err != nil || contentType[:len("text/plain; version=0.0.4")] != "text/plain; version=0.0.4" {
			t.Fatal(contentType, err)
		}
		for _, f := range Families() {
			if families[f.Name] == nil {
				t.Errorf("%s is missing", f.Name)
			}
		}
	}
}

// slow counts its collections and blocks each until it is released.
type slow struct {
	collected int
	release   chan struct{}
}

func (s *slow) Describe(chan<- *prometheus.Desc) {}
func (s *slow) Collect(chan<- prometheus.Metric) {
	s.collected++ // the race detector reports two collections at once
	<-s.release
}

// TestCollectedOnce checks that many scrapes at once, and those within the pause, share one
// collection.
func TestCollectedOnce(t *testing.T) {
	m := newMetrics(1)
	m.shown.pause = time.Hour
	s := &slow{release: make(chan struct{})}
	m.registry.MustRegister(s)
	bodies := make([][]byte, 20)
	var asking sync.WaitGroup
	for i := range bodies {
		asking.Go(func() { bodies[i], _, _ = m.Exposition("", false) })
	}
	close(s.release)
	asking.Wait()
	m.Issued("order", 1)
	again, _, _ := m.Exposition("", false)
	must.Equal(t, s.collected, 1, "the times that it was collected")
	for _, body := range bodies {
		if &body[0] != &again[0] {
			t.Fatal("the bytes were made more than once")
		}
	}
	m.shown.until = time.Time{}
	if _, _, err := m.Exposition("", false); err != nil || s.collected != 2 {
		t.Errorf("after the pause: collected %d times, %v", s.collected, err)
	}
}
