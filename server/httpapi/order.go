package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// order is what the query of a request for numbers asks for.
type order struct {
	want  seqd.Want
	count int
	batch bool   // count is given
	key   string // valid, or "" if it is not given
	ttl   time.Duration
}

// status returns the status of the answer.
func (o *order) status() int {
	if o.want == seqd.ReservedNumbers {
		return http.StatusCreated
	}
	return http.StatusOK
}

// readOrder reads ?count= and ?key=, and for a reservation ?ttl=. Any other parameter is an error.
// most is the largest count. readOrder does not allocate if nothing is escaped.
func readOrder(query string, want seqd.Want, most int) (o order, err error) {
	o.want, o.count = want, 1
	var count, key, ttl param
	p := params{rest: query}
	for p.next() {
		switch {
		case p.name == "count":
			count.add(p.value)
		case p.name == "key":
			key.add(p.value)
		case p.name == "ttl" && want == seqd.ReservedNumbers:
			ttl.add(p.value)
		default:
			return o, noParam(p.name, want)
		}
	}
	if p.err != nil {
		return o, p.err
	}
	o.batch = count.times > 0
	if o.count, err = count.count(most); err != nil {
		return o, err
	}
	if o.key, err = key.key(); err != nil {
		return o, err
	}
	o.ttl, err = ttl.ttl()
	return o, err
}

func noParam(name string, want seqd.Want) error {
	known := "count and key"
	if want == seqd.ReservedNumbers {
		known = "count, key and ttl"
	}
	return seqd.Errorf(seqd.CodeInvalidRequest, "there is no query parameter %.40q; there is %s", name, known)
}

// keyIn returns the key that a request for numbers names, or "" if it names none or is refused for
// how it names one. It agrees with readOrder, because the scope check relies on it.
func keyIn(query string) string {
	var key param
	p := params{rest: query}
	for p.next() {
		if p.name == "key" {
			key.add(p.value)
		}
	}
	named, err := key.key()
	if err != nil || p.err != nil {
		return ""
	}
	return named
}

// params reads a query pair by pair, as [url.ParseQuery] does, without a map.
type params struct {
	rest        string
	name, value string
	err         error
}

// next reads the next pair. It returns false at the end, and if the query cannot be read.
func (p *params) next() bool {
	for p.rest != "" && p.err == nil {
		var pair string
		if pair, p.rest, _ = strings.Cut(p.rest, "&"); pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		var err1, err2 error
		p.name, err1 = url.QueryUnescape(name)
		p.value, err2 = url.QueryUnescape(value)
		if err1 == nil && err2 == nil && !strings.Contains(pair, ";") {
			return true
		}
		p.err = seqd.Errorf(seqd.CodeInvalidRequest, "the query cannot be read")
	}
	return false
}

// param is a parameter that may be given once.
type param struct {
	value string
	times int
}

func (p *param) add(value string) { p.value, p.times = value, p.times+1 }

// count returns the count, 1 if it is not given.
func (p param) count(most int) (int, error) {
	switch {
	case p.times == 0:
		return 1, nil
	case p.times > 1:
		return 0, seqd.Errorf(seqd.CodeInvalidCount, "count is given %d times", p.times)
	}
	n, ok := literal.Int(p.value)
	if !ok || n < 1 || n > int64(most) {
		return 0, seqd.Errorf(seqd.CodeInvalidCount, "count is %.40q and must be a whole number from 1 to %d", p.value, most)
	}
	return int(n), nil
}

// key returns the key, "" if it is not given.
func (p param) key() (string, error) {
	switch {
	case p.times == 0:
		return "", nil
	case p.times > 1:
		return "", seqd.Errorf(seqd.CodeInvalidKey, "key is given %d times", p.times)
	}
	return p.value, seqd.CheckKey(p.value)
}

// The bounds of ttl.
const (
	leastTTL = time.Second
	mostTTL  = 24 * time.Hour
)

// ttl returns the ttl, 0 if it is not given.
func (p param) ttl() (time.Duration, error) {
	switch {
	case p.times == 0:
		return 0, nil
	case p.times > 1:
		return 0, seqd.Errorf(seqd.CodeInvalidTTL, "ttl is given %d times", p.times)
	}
	ttl, ok := literal.Duration(p.value)
	if !ok || ttl < leastTTL || ttl > mostTTL {
		return 0, seqd.Errorf(seqd.CodeInvalidTTL, "ttl is %.40q and must be a time from 1s to 24h, such as 90s or 10m", p.value)
	}
	return ttl, nil
}
