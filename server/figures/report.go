package figures

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
)

const (
	// version is the version of reports. A newer version has more fields, which this one ignores; a
	// field that changes its meaning gets another name.
	version = 1
	// The bounds of the lists of a report and of an overview.
	mostBusyReported = 15
	mostListed       = 10
	mostRefusals     = 20
	// longestDetail is how many bytes of a reason a report has.
	longestDetail = 200
	// longestWritten is the size of a body, in bytes, from which on its lists are cut.
	longestWritten = 12_000
	// longestReport is the size of the body from which on a report is ignored.
	longestReport = 64 << 10
)

// report is what a node tells the others.
type report struct {
	Version int    `json:"v"`
	ID      string `json:"-"` // the key of the document
	// What is known of the node when it is gone.
	Addr      string `json:"node"`
	Host      string `json:"host"`
	Build     string `json:"build"`
	StartedAt string `json:"startedAt"`
	// Left is true if the node has stopped.
	Left bool `json:"left,omitempty"`
	// Last is the newest interval. Points end there, those of wide intervals at wideBefore(Last).
	Last    int64  `json:"last"`
	Numbers points `json:"numbers"`
	Refused points `json:"refused"`
	// Bounds are the upper bounds of Calls.
	Bounds      []float64      `json:"bounds"`
	Calls       histogram      `json:"calls"`
	Refusals    []refusal      `json:"refusals"`
	Busiest     []busyHere     `json:"busiest"`
	InHand      []inHand       `json:"inHand"`
	RunsOut     []runsOut      `json:"runsOut"`
	BizTypes    census         `json:"bizTypes"`
	State       state          `json:"state"`
	Reasons     []admin.Reason `json:"reasons"`
	InFlight    int64          `json:"inFlight"`
	Connections int64          `json:"connections"`
}

// busyHere is what happened to a biz type on one node.
type busyHere struct {
	BizType          string `json:"bizType"`
	NumbersPerSecond amount `json:"numbersPerSecond"`
	RefusedPerSecond amount `json:"refusedPerSecond"`
	// Points are counts of wide intervals.
	Points points `json:"points"`
}

// fill fills in what happened.
func (r *report) fill(w *window) {
	r.Last = w.last
	r.Numbers, r.Refused, r.Calls = w.points(&w.numbers), w.points(&w.refused), w.histogram()
	r.Refusals, r.Busiest = w.refusals(), w.busiest()
}

// refusals returns the refusals by code, the most frequent first.
func (w *window) refusals() []refusal {
	list := []refusal{}
	for code, s := range w.codes {
		lately, _, known := w.lately(&tracked{numbers: *s})
		total := int64(0)
		for _, n := range s {
			total += n
		}
		list = append(list, refusal{code, perSecond(lately, known), total})
	}
	slices.SortFunc(list, moreRefusals)
	return list[:min(len(list), mostRefusals)]
}

func moreRefusals(a, b refusal) int {
	return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Code, b.Code))
}

// perSecond returns the rate of a sum over so many intervals.
func perSecond(sum int64, known int) amount {
	return amount(float64(sum) * 1000 / float64(intervalLength*max(known, 1)))
}

// busiest returns the busiest biz types of this node.
func (w *window) busiest() []busyHere {
	list := []busyHere{}
	for name, t := range w.bizTypes {
		numbers, refused, known := w.lately(t)
		list = append(list, busyHere{name, perSecond(numbers, known), perSecond(refused, known), w.widePoints(&t.numbers)})
	}
	slices.SortFunc(list, func(a, b busyHere) int {
		return busier(a.NumbersPerSecond+a.RefusedPerSecond, b.NumbersPerSecond+b.RefusedPerSecond, a.Points.sum(), b.Points.sum(), a.BizType, b.BizType)
	})
	return list[:min(len(list), mostBusyReported)]
}

// busier orders biz types: the one that was busier in the last minute first, or else in all
// intervals.
func busier(rateA, rateB amount, sumA, sumB float64, nameA, nameB string) int {
	return cmp.Or(cmp.Compare(rateB, rateA), cmp.Compare(sumB, sumA), strings.Compare(nameA, nameB))
}

func (p points) sum() (sum float64) {
	for _, v := range p {
		sum += float64(max(v, 0))
	}
	return sum
}

// write returns the body of a document. If it is too long, all lists are cut.
func (r *report) write() (string, error) {
	short := *r
	short.Reasons = slices.Clone(r.Reasons)
	for i := range short.Reasons {
		short.Reasons[i].Detail = shortened(short.Reasons[i].Detail)
	}
	for most := mostRefusals; ; most /= 2 {
		short.Refusals, short.Busiest = begin(short.Refusals, most), begin(short.Busiest, most)
		short.InHand, short.RunsOut = begin(short.InHand, most), begin(short.RunsOut, most)
		short.Reasons = begin(short.Reasons, most)
		body, err := json.Marshal(&short)
		if err != nil || len(body) <= longestWritten || most == 0 {
			return string(body), err
		}
	}
}

// begin returns the first elements of a list.
func begin[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// shortened returns the begin of a text.
func shortened(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= longestDetail {
		return text
	}
	end := longestDetail
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// readReport returns the report in a document, or an error if it is none.
func readReport(id, body string) (*report, error) {
	if len(body) > longestReport {
		return nil, errDamaged
	}
	r := &report{ID: id}
	if err := json.Unmarshal([]byte(body), r); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	for i := range r.InHand {
		r.InHand[i].LastsMS = forEver(r.InHand[i].LastsMS)
	}
	for i := range r.RunsOut {
		r.RunsOut[i].LastsMS = forEver(r.RunsOut[i].LastsMS)
	}
	return r, nil
}

// forEver returns the seconds that null stands for.
func forEver(seconds amount) amount {
	if math.IsNaN(float64(seconds)) {
		return amount(math.Inf(1))
	}
	return seconds
}

// errNoReport is returned for a document that is no report.
var errNoReport = errors.New("this is no report of a node")

// check returns an error if a report is not one that a node has written.
func (r *report) check() error {
	lists := []struct{ got, most int }{
		{len(r.Refusals), 10 * mostRefusals}, {len(r.Busiest), 10 * mostBusyReported}, {len(r.InHand), 10 * mostListed},
		{len(r.RunsOut), 10 * mostListed}, {len(r.Reasons), 10 * mostListed}, {len(r.Bounds), mostBuckets - 1},
	}
	for _, l := range lists {
		if l.got > l.most {
			return errNoReport
		}
	}
	if r.Version < version || r.Last < 0 || r.Last > math.MaxInt64/intervalLength-intervals {
		return errNoReport
	}
	for _, b := range r.Busiest {
		if !nameOfBusy(b.BizType) {
			return errNoReport
		}
	}
	return nil
}

// others is the name that stands for the biz types that are not counted one by one.
const others = "_other"

func nameOfBusy(name string) bool { return name == others || seqd.CheckName(name) == nil }
