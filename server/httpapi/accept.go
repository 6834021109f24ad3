package httpapi

import (
	"slices"
	"strconv"
	"strings"
)

// Prefers reports whether the Accept header prefers a type of text, such as text/plain, to JSON.
// Without a preference, or if the header is malformed, it returns false.
func Prefers(accept []string, textType string) bool {
	if len(accept) == 0 || len(accept) == 1 && accept[0] == "*/*" {
		return false
	}
	return accepted(accept, textType, "text/*", "*/*") > accepted(accept, "application/json", "application/*", "*/*")
}

// AcceptsGzip reports whether the Accept-Encoding header names gzip, or all encodings.
func AcceptsGzip(accept []string) bool { return accepted(accept, "gzip", "*") > 0 }

// The media types of metrics besides text/plain. Only the last one has native histograms.
const (
	OpenMetrics = "application/openmetrics-text"
	Protobuf    = "application/vnd.google.protobuf"
)

// metricsForm returns the media type of metrics that the Accept header prefers. Without a preference it
// is text/plain.
func metricsForm(accept []string) string {
	form, best := "text/plain", accepted(accept, "text/plain")
	for _, other := range []string{OpenMetrics, Protobuf} {
		if q := accepted(accept, other); q > 0 && (q > best || q == best && form == "text/plain") {
			form, best = other, q
		}
	}
	return form
}

// accepted returns the quality that a header gives to something that has one of several names, the
// most specific first: that of the most specific name in the header (RFC 9110, section 12.5.1), and
// 0 if the header has none of them. If a name is there more than once, the highest quality counts.
func accepted(lines []string, names ...string) (q float64) {
	best := len(names)
	for _, line := range lines {
		for entry := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(entry, ";")
			switch i := slices.Index(names, strings.ToLower(strings.TrimSpace(name))); {
			case i < 0 || i > best:
			case i < best:
				best, q = i, quality(params)
			default:
				q = max(q, quality(params))
			}
		}
	}
	return q
}

// quality returns q=… of the parameters of a media type: 1 if there is none, 0 if it is malformed.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(q >= 0 && q <= 1) { // NaN fails this too
				return 0
			}
			return q
		}
	}
	return 1
}
