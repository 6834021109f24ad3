package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// cosIDSteps are the sizes of the ranges that callers of CosId's protocol ask for.
var cosIDSteps = []int64{1, 100, 5000}

// dropIn takes numbers as the clients of Leaf, Tinyid and CosId do.
func (l *Load) dropIn(ctx context.Context, d *Dice) {
	var ranged []*Shape
	for i := range l.Shapes {
		if l.Shapes[i].ranged {
			ranged = append(ranged, &l.Shapes[i])
		}
	}
	at := func(name string) *Shape {
		return ranged[slices.IndexFunc(ranged, func(s *Shape) bool { return s.Name == name })]
	}
	for ctx.Err() == nil {
		r := d.Next()
		n, s, pause := Pick(r, l.Nodes), Pick(r, ranged), UpTo(r, 100*time.Millisecond)
		if s.Name == SwitchedName && l.Quiet.Load() {
			s = at(CosIDName)
		}
		switch r.IntN(3) {
		case 0:
			l.leaf(ctx, n, s)
		case 1:
			l.tinyid(ctx, n, s)
		case 2:
			l.cosid(ctx, r, n, at(CosIDName))
		}
		l.rest(ctx, pause)
	}
}

// foreignCall sends a request of another protocol. Those say little about a refusal, so a call without
// numbers counts as one without an answer.
func (l *Load) foreignCall(ctx context.Context, n Node, c *record.Call, method, path string, read func(status int, header http.Header, body string) bool) {
	ctx, cancel := context.WithTimeout(ctx, UsualPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.URL()+path, http.NoBody)
	if err != nil {
		panic(err) // cannot fail: it is built from constants
	}
	if c.Protocol == record.Tinyid {
		req.Close = true // its client connects for each request
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	l.Sending.RLock()
	defer l.Sending.RUnlock()
	life := n.Life()
	c.Node, c.Start = n.Name(), l.Journal.Now()
	status, header, body, err := l.exchange(req)
	c.End = l.Journal.Now()
	if life == n.Life() {
		c.Life = life
	}
	switch {
	case err != nil:
		c.Code = Complaint(err)
	case read(status, header, string(body)):
		c.Status = http.StatusOK
	case status == http.StatusOK && len(body) > 0:
		c.Status, c.Code = status, unreadable
	default:
		c.Code = fmt.Sprintf("refused by %s", c.Protocol)
	}
	l.Journal.Call(c)
}

// leaf takes a number: its text is the whole body.
func (l *Load) leaf(ctx context.Context, n Node, s *Shape) {
	c := &record.Call{BizType: s.Name, Kind: record.Single, Protocol: record.Leaf, Asked: 1}
	l.foreignCall(ctx, n, c, http.MethodGet, "/api/segment/get/"+s.Name, func(status int, _ http.Header, body string) bool {
		number, ok := Decimal(body)
		if ok = ok && status == http.StatusOK; ok {
			c.Runs = record.Runs{{First: number, Count: 1, Step: 1}}
		}
		return ok
	})
}

// tinyid takes a segment, whose size the node chooses: the numbers in (current, highest].
func (l *Load) tinyid(ctx context.Context, n Node, s *Shape) {
	// as many may be skipped if there is no answer
	c := &record.Call{BizType: s.Name, Kind: record.Range, Protocol: record.Tinyid, Asked: int(s.MaxStep)}
	path := "/tinyid/id/nextSegmentIdSimple?token=" + cmp.Or(l.Token, "none") + "&bizType=" + s.Name
	l.foreignCall(ctx, n, c, http.MethodPost, path, func(status int, _ http.Header, body string) bool {
		var v [5]int64
		parts := strings.Split(body, ",")
		if status != http.StatusOK || len(parts) != len(v) {
			return false
		}
		for i, part := range parts {
			number, ok := Decimal(part)
			if !ok {
				return false
			}
			v[i] = number
		}
		current, loading, highest, delta, remainder := v[0], v[1], v[2], v[3], v[4]
		// A segment of fewer than 5 numbers has its loading ID before the first.
		if loading < current || loading > highest || highest == current || delta != 1 || remainder != 0 {
			return false
		}
		c.Asked = int(highest - current)
		c.Runs = record.Runs{{First: current + 1, Count: highest - current, Step: 1}}
		return true
	})
}

// cosid takes a range of a size of its choice.
func (l *Load) cosid(ctx context.Context, r *rand.Rand, n Node, s *Shape) {
	l.takeRange(ctx, n, s, Pick(r, cosIDSteps))
}

// takeRange takes a range of step numbers as CosId does.
func (l *Load) takeRange(ctx context.Context, n Node, s *Shape, step int64) {
	// the numbers up to the answer
	c := &record.Call{BizType: s.Name, Kind: record.Range, Protocol: record.CosID, Asked: int(step)}
	path := fmt.Sprintf("/segments/%s?step=%d", strings.Replace(s.Name, ".", "/", 1), step)
	l.foreignCall(ctx, n, c, http.MethodPatch, path, func(status int, header http.Header, body string) bool {
		highest, ok := Decimal(body)
		// its client reads a number from JSON only
		if ok = ok && status == http.StatusOK && strings.HasPrefix(header.Get("Content-Type"), "application/json"); ok {
			c.Runs = record.Runs{{First: highest - step + 1, Count: step, Step: 1}}
		}
		return ok
	})
}

// Decimal reads a number that is written without a sign or a superfluous zero.
func Decimal(text string) (number int64, ok bool) {
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil && number >= 0 && strconv.FormatInt(number, 10) == text
}
