package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// booking is a reservation that a caller has.
type booking struct {
	shape *Shape
	of    string
	id    string
	count int
}

// mostBookings is how many reservations a loop remembers, open ones and ended ones.
const mostBookings = 12

// books reserves numbers of gapless biz types, and confirms, releases or forgets them, each through
// any node.
func (l *Load) books(ctx context.Context, d *Dice) {
	var shapes []*Shape
	for i := range l.Shapes {
		if l.Shapes[i].Booked {
			shapes = append(shapes, &l.Shapes[i])
		}
	}
	var known []booking
	for ctx.Err() == nil {
		r := d.Next()
		pause := UpTo(r, 40*time.Millisecond)
		switch roll := r.IntN(100); {
		case roll < 40 || len(known) == 0:
			if b, got := l.reserve(ctx, r, d, Pick(r, shapes)); got {
				known = append(known, b)
			}
		case roll < 62:
			l.settle(ctx, r, known[r.IntN(len(known))], record.Confirm)
		case roll < 80:
			l.settle(ctx, r, known[r.IntN(len(known))], record.Release)
		case roll < 88:
			l.settle(ctx, r, known[r.IntN(len(known))], record.Find)
		case roll < 92:
			l.void(ctx, r, d, Pick(r, shapes))
		default:
			known = known[1:] // it expires
		}
		if len(known) > mostBookings {
			known = known[1:]
		}
		l.rest(ctx, pause)
	}
}

// reserve reserves numbers, mostly under a key, so that it can insist on an answer.
func (l *Load) reserve(ctx context.Context, r *rand.Rand, d *Dice, s *Shape) (b booking, got bool) {
	q := Question{Count: Pick(r, s.counts), Of: s.key(r)}
	ttl := ""
	if r.IntN(4) == 0 {
		ttl = Pick(r, []string{"1s", "2s", "30s"})
	}
	times := 1
	if r.IntN(10) < 7 {
		q.Key, times = fmt.Sprintf("book-%d-%d-%d", d.seed, d.loop, d.round), attempts
	}
	nodes := r.Perm(len(l.Nodes))
	for i := range times {
		c := l.book(ctx, l.Nodes[nodes[i%len(nodes)]], s, q, ttl)
		if c.Status == http.StatusCreated && c.Reservation != "" {
			return booking{shape: s, of: q.Of, id: c.Reservation, count: q.Count}, true
		}
		if c.Status >= 400 && c.Status < 500 || ctx.Err() != nil {
			break
		}
		Rest(ctx, 20*time.Millisecond+UpTo(r, 200*time.Millisecond))
	}
	return booking{}, false
}

// book asks a node to reserve numbers. A ttl of "" is that of the definition.
func (l *Load) book(ctx context.Context, n Node, s *Shape, q Question, ttl string) *record.Call {
	query := url.Values{"count": {strconv.Itoa(max(1, q.Count))}}
	if q.Of != "" {
		query.Set("key", q.Of)
	}
	if ttl != "" {
		query.Set("ttl", ttl)
	}
	c := &record.Call{BizType: s.Name, Of: q.Of, Kind: record.Reserve, Asked: max(1, q.Count), Key: q.Key}
	l.ask(ctx, n, s, c, http.MethodPost, "/seq/"+s.Name+"/reservations?"+query.Encode(), "")
	return c
}

// settle asks for a reservation, through several nodes until one answers.
func (l *Load) settle(ctx context.Context, r *rand.Rand, b booking, kind string) {
	nodes := r.Perm(len(l.Nodes))
	times := Pick(r, []int{1, attempts, attempts})
	for i := range times {
		if kind == record.Confirm && !l.mayConfirm(b.id) {
			return
		}
		c := l.end(ctx, l.Nodes[nodes[i%len(nodes)]], b, kind)
		if c.Status >= 200 && c.Status < 500 || ctx.Err() != nil {
			return
		}
		Rest(ctx, 20*time.Millisecond+UpTo(r, 200*time.Millisecond))
	}
}

// mayConfirm reports whether a caller may confirm a reservation. It must not if it has asked for the
// release and the store may have lost that: see docs/GAPLESS.md "Failover and restore". Before any such
// loss it does, because the node must refuse it.
func (l *Load) mayConfirm(reservation string) bool {
	_, asked := l.released.Load(reservation)
	return !asked || !l.Journal.storeLost()
}

// end asks a node to confirm, release or find a reservation.
func (l *Load) end(ctx context.Context, n Node, b booking, kind string) *record.Call {
	method, path := http.MethodGet, "/seq/"+b.shape.Name+"/reservations/"+b.id
	switch kind {
	case record.Confirm:
		method, path = http.MethodPost, path+"/confirm"
	case record.Release:
		method = http.MethodDelete
		l.released.Store(b.id, true)
	}
	c := &record.Call{BizType: b.shape.Name, Of: b.of, Kind: kind, Asked: b.count, Reservation: b.id}
	l.ask(ctx, n, b.shape, c, method, path, "")
	return c
}

// void makes a number void that was issued for that purpose: a caller whose invoice is cancelled.
func (l *Load) void(ctx context.Context, r *rand.Rand, d *Dice, s *Shape) {
	q := request{node: Pick(r, l.Nodes), shape: s, of: s.key(r), kind: record.Single, count: 1, timeout: UsualPatience}
	got := l.send(ctx, q)
	if len(got.Texts) != 1 && len(got.Runs) != 1 {
		return
	}
	reason := fmt.Sprintf("cancelled %d-%d", d.loop, d.round)
	for range attempts {
		c := l.cancel(ctx, Pick(r, l.Nodes), s, got, reason)
		if c.Status >= 200 && c.Status < 500 || ctx.Err() != nil {
			return
		}
		Rest(ctx, 50*time.Millisecond)
	}
}

// cancel asks a node to make the first number of an answer void.
func (l *Load) cancel(ctx context.Context, n Node, s *Shape, got *record.Call, reason string) *record.Call {
	c := &record.Call{BizType: s.Name, Of: got.Of, Kind: record.VoidOne, Asked: 1, Key: reason}
	if s.Display == "" {
		c.Runs = record.Runs{{First: got.Runs[0].First, Count: 1, Step: 1}}
		c.Texts = []string{strconv.FormatInt(c.Runs[0].First, 10)}
	} else {
		c.Texts = got.Texts[:1]
	}
	query := ""
	if c.Of != "" {
		query = "?key=" + c.Of
	}
	body, _ := json.Marshal(map[string]string{"id": c.Texts[0], "reason": reason}) // two texts never fail
	l.ask(ctx, n, s, c, http.MethodPost, "/biz-types/"+s.Name+"/voids"+query, string(body))
	return c
}

// ask makes a call about a reservation, and records it with its answer.
func (l *Load) ask(ctx context.Context, n Node, s *Shape, c *record.Call, method, path, body string) {
	ctx, cancel := context.WithTimeout(ctx, UsualPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.URL()+path, strings.NewReader(body))
	if err != nil {
		panic(err) // cannot fail: it is built from constants
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Kind == record.Reserve && c.Key != "" {
		req.Header.Set("Idempotency-Key", c.Key)
	}
	by(ctx, c)
	l.Sending.RLock()
	defer l.Sending.RUnlock()
	life := n.Life()
	c.Node, c.Start = n.Name(), l.Journal.Now()
	status, header, answer, err := l.exchange(req)
	c.End = l.Journal.Now()
	if life == n.Life() {
		c.Life = life
	}
	if err != nil {
		c.Code = Complaint(err)
	} else {
		c.Status, c.Replayed = status, header.Get("Idempotent-Replayed") != ""
		readBooking(s, c, answer)
	}
	l.Journal.Call(c)
}

// readBooking reads an answer about a reservation into the call.
func readBooking(s *Shape, c *record.Call, body []byte) {
	if c.Status >= 400 {
		var problem struct{ Code string }
		_ = json.Unmarshal(body, &problem) // the checker reports an answer without a code
		c.Code = problem.Code
		return
	}
	if c.Kind == record.Release || c.Kind == record.VoidOne {
		return
	}
	var answer struct {
		BizType, Reservation, State string
		IDs                         []string
		ExpiresAt                   time.Time
	}
	if json.Unmarshal(body, &answer) != nil || answer.BizType != s.Name || c.Reservation != "" && c.Reservation != answer.Reservation {
		c.Code = unreadable
	}
	c.Reservation, c.State, c.Expires = answer.Reservation, answer.State, answer.ExpiresAt.UnixMilli()
	read := record.Call{}
	r := request{shape: s, count: c.Asked}
	r.readIDs(&read, answer.IDs)
	c.Runs, c.Texts = read.Runs, read.Texts
	if read.Code != "" {
		c.Code = read.Code
	}
}
