package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/integration/chaos/record"
)

// cosIDSteps are the sizes of the ranges that callers of CosId's protocol ask for.
var cosIDSteps = []int64{1, 100, 5000}

// dropIn takes numbers as the clients of Leaf, Tinyid and CosId do.
func (l *laboratory) dropIn(ctx context.Context, d *dice) {
	var ranged []*shape
	for i := range l.shapes {
		if l.shapes[i].ranged {
			ranged = append(ranged, &l.shapes[i])
		}
	}
	at := func(name string) *shape {
		return ranged[slices.IndexFunc(ranged, func(s *shape) bool { return s.Name == name })]
	}
	for ctx.Err() == nil {
		r := d.next()
		n, s, pause := pick(r, l.world.seqds), pick(r, ranged), upTo(r, 100*time.Millisecond)
		if s.Name == switchedName && l.quiet.Load() {
			s = at(cosIDName)
		}
		switch r.IntN(3) {
		case 0:
			l.leaf(ctx, n, s)
		case 1:
			l.tinyid(ctx, n, s)
		case 2:
			l.cosid(ctx, r, n, at(cosIDName))
		}
		rest(ctx, pause)
	}
}

// foreignCall sends a request of another protocol. Those say little about a refusal, so a call without
// numbers counts as one without an answer.
func (l *laboratory) foreignCall(ctx context.Context, n *seqd, c *record.Call, method, path string, read func(status int, header http.Header, body string) bool) {
	ctx, cancel := context.WithTimeout(ctx, usualPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.url()+path, http.NoBody)
	if err != nil {
		panic(err) // cannot fail: it is built from constants
	}
	if c.Protocol == record.Tinyid {
		req.Close = true // its client connects for each request
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	l.sending.RLock()
	defer l.sending.RUnlock()
	life := n.life.Load()
	c.Node, c.Start = n.name(), l.journal.now()
	status, header, body, err := l.exchange(req)
	c.End = l.journal.now()
	if life == n.life.Load() {
		c.Life = int(life)
	}
	switch {
	case err != nil:
		c.Code = complaint(err)
	case read(status, header, string(body)):
		c.Status = http.StatusOK
	case status == http.StatusOK && len(body) > 0:
		c.Status, c.Code = status, unreadable
	default:
		c.Code = fmt.Sprintf("refused by %s", c.Protocol)
	}
	l.journal.call(c)
}

// leaf takes a number: its text is the whole body.
func (l *laboratory) leaf(ctx context.Context, n *seqd, s *shape) {
	c := &record.Call{BizType: s.Name, Kind: record.Single, Protocol: record.Leaf, Asked: 1}
	l.foreignCall(ctx, n, c, http.MethodGet, "/api/segment/get/"+s.Name, func(status int, _ http.Header, body string) bool {
		number, ok := decimal(body)
		if ok = ok && status == http.StatusOK; ok {
			c.Runs = record.Runs{{First: number, Count: 1, Step: 1}}
		}
		return ok
	})
}

// tinyid takes a segment, whose size the node chooses: the numbers in (current, highest].
func (l *laboratory) tinyid(ctx context.Context, n *seqd, s *shape) {
	// as many may be skipped if there is no answer
	c := &record.Call{BizType: s.Name, Kind: record.Range, Protocol: record.Tinyid, Asked: int(s.MaxStep)}
	path := "/tinyid/id/nextSegmentIdSimple?token=none&bizType=" + s.Name
	l.foreignCall(ctx, n, c, http.MethodPost, path, func(status int, _ http.Header, body string) bool {
		var v [5]int64
		parts := strings.Split(body, ",")
		if status != http.StatusOK || len(parts) != len(v) {
			return false
		}
		for i, part := range parts {
			number, ok := decimal(part)
			if !ok {
				return false
			}
			v[i] = number
		}
		current, loading, highest, delta, remainder := v[0], v[1], v[2], v[3], v[4]
		if current >= loading || loading > highest || delta != 1 || remainder != 0 {
			return false
		}
		c.Asked = int(highest - current)
		c.Runs = record.Runs{{First: current + 1, Count: highest - current, Step: 1}}
		return true
	})
}

// cosid takes a range of a size of its choice: the numbers up to the answer.
func (l *laboratory) cosid(ctx context.Context, r *rand.Rand, n *seqd, s *shape) {
	step := pick(r, cosIDSteps)
	c := &record.Call{BizType: s.Name, Kind: record.Range, Protocol: record.CosID, Asked: int(step)}
	path := fmt.Sprintf("/segments/%s?step=%d", strings.Replace(s.Name, ".", "/", 1), step)
	l.foreignCall(ctx, n, c, http.MethodPatch, path, func(status int, header http.Header, body string) bool {
		highest, ok := decimal(body)
		// its client reads a number from JSON only
		if ok = ok && status == http.StatusOK && strings.HasPrefix(header.Get("Content-Type"), "application/json"); ok {
			c.Runs = record.Runs{{First: highest - step + 1, Count: step, Step: 1}}
		}
		return ok
	})
}

// decimal reads a number that is written without a sign or a superfluous zero.
func decimal(text string) (number int64, ok bool) {
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil && number >= 0 && strconv.FormatInt(number, 10) == text
}
