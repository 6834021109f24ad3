package metrics

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

const (
	// pause is the shortest time between two collections. A scrape within it gets the previous
	// result.
	pause = time.Second
	// share is the ratio of the pause to the time that collecting takes, up to longestPause: with
	// very many biz types, collecting takes at most a fiftieth of one processor.
	share        = 50
	longestPause = 10 * time.Second
)

// shown is the last collection, in the forms that were requested.
type shown struct {
	pause time.Duration

	mu       sync.Mutex // guards what follows; held during a collection, so that others wait for it
	at       time.Time  // when it was collected, zero for never
	until    time.Time  // when it expires
	families []*dto.MetricFamily
	forms    map[form][]byte
}

// form is a format of metrics.
type form struct {
	media      string
	compressed bool
}

// Exposition returns all metrics in the text format of Prometheus, or in the form with that media type:
// OpenMetrics or protocol buffers, which alone have native histograms. With or without gzip. They are
// collected at most once per second, by one caller for all; the others get the same bytes, which must
// not be modified.
func (m *Metrics) Exposition(media string, compressed bool) (body []byte, contentType string, err error) {
	s, f := &m.shown, form{media, compressed}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.at.IsZero() || !now.Before(s.until) {
		m.collectAll(now)
	}
	body, made := s.forms[f]
	if !made {
		if body, err = f.write(s.families); err != nil {
			return nil, "", err
		}
		s.forms[f] = body
	}
	return body, string(f.format()), nil
}

// collectAll collects again. If something cannot be collected, the rest still is.
func (m *Metrics) collectAll(now time.Time) {
	s := &m.shown
	families, err := m.registry.Gather()
	if err != nil {
		m.opts.Log.Error("some metrics cannot be collected", "error", err)
	}
	s.families, s.forms, s.at = families, make(map[form][]byte), now
	s.until = now.Add(max(s.pause, min(share*time.Since(now), longestPause)))
}

func (f form) format() expfmt.Format {
	switch f.media {
	case expfmt.OpenMetricsType:
		return expfmt.NewFormat(expfmt.TypeOpenMetrics)
	case expfmt.ProtoType:
		return expfmt.NewFormat(expfmt.TypeProtoDelim)
	}
	return expfmt.NewFormat(expfmt.TypeTextPlain)
}

// write encodes metrics.
func (f form) write(families []*dto.MetricFamily) ([]byte, error) {
	var all bytes.Buffer
	if !f.compressed {
		err := f.encode(&all, families)
		return all.Bytes(), err
	}
	z, err := gzip.NewWriterLevel(&all, gzip.BestSpeed)
	if err == nil {
		err = f.encode(z, families)
	}
	if err == nil {
		err = z.Close()
	}
	return all.Bytes(), err
}

func (f form) encode(w io.Writer, families []*dto.MetricFamily) error {
	encoder := expfmt.NewEncoder(w, f.format())
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return err
		}
	}
	if c, ok := encoder.(expfmt.Closer); ok { // OpenMetrics needs an end marker
		return c.Close()
	}
	return nil
}
