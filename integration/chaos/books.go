package chaos

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

	"github.com/seqd/seqd/integration/chaos/record"
)

// booking is a reservation that a caller has.
type booking struct {
	shape *shape
	of    string
	id    string
	count int
}

// mostBookings is how many reservations a loop remembers, open ones and ended ones.
const mostBookings = 12

// books reserves numbers of gapless biz types, and confirms, releases or forgets them, each through
// any node.
func (l *laboratory) books(ctx context.Context, d *dice) {
	var shapes []*shape
	for i := range l.shapes {
		if l.shapes[i].booked {
			shapes = append(shapes, &l.shapes[i])
		}
	}
	var known []booking
	for ctx.Err() == nil {
		r := d.next()
		pause := upTo(r, 40*time.Millisecond)
		switch roll := r.IntN(100); {
		case roll < 40 || len(known) == 0:
			if b, got := l.reserve(ctx, r, d, pick(r, shapes)); got {
				known = append(known, b)
			}
		case roll < 62:
			l.settle(ctx, r, known[r.IntN(len(known))], record.Confirm)
		case roll < 80:
			l.settle(ctx, r, known[r.IntN(len(known))], record.Release)
		case roll < 88:
			l.settle(ctx, r, known[r.IntN(len(known))], record.Find)
		case roll < 92:
			l.void(ctx, r, d, pick(r, shapes))
		default:
			known = known[1:] // it expires
		}
		if len(known) > mostBookings {
			known = known[1:]
		}
		rest(ctx, pause)
	}
}

// reserve reserves numbers, mostly under a key, so that it can insist on an answer.
func (l *laboratory) reserve(ctx context.Context, r *rand.Rand, d *dice, s *shape) (b booking, got bool) {
	count := pick(r, s.counts)
	query := url.Values{"count": {strconv.Itoa(count)}}
	b = booking{shape: s, of: s.key(r), count: count}
	if b.of != "" {
		query.Set("key", b.of)
	}
	if r.IntN(4) == 0 {
		query.Set("ttl", pick(r, []string{"1s", "2s", "30s"}))
	}
	key, times := "", 1
	if r.IntN(10) < 7 {
		key, times = fmt.Sprintf("book-%d-%d-%d", d.seed, d.loop, d.round), attempts
	}
	nodes := r.Perm(len(l.world.seqds))
	for i := range times {
		c := &record.Call{BizType: s.Name, Of: b.of, Kind: record.Reserve, Asked: count, Key: key}
		l.ask(ctx, l.world.seqds[nodes[i%len(nodes)]], s, c, http.MethodPost, "/seq/"+s.Name+"/reservations?"+query.Encode(), "")
		if c.Status == http.StatusCreated && c.Reservation != "" {
			b.id = c.Reservation
			return b, true
		}
		if c.Status >= 400 && c.Status < 500 || ctx.Err() != nil {
			break
		}
		rest(ctx, 20*time.Millisecond+upTo(r, 200*time.Millisecond))
	}
	return b, false
}

// settle asks for a reservation, through several nodes until one answers.
func (l *laboratory) settle(ctx context.Context, r *rand.Rand, b booking, kind string) {
	method, path := http.MethodGet, "/seq/"+b.shape.Name+"/reservations/"+b.id
	switch kind {
	case record.Confirm:
		method, path = http.MethodPost, path+"/confirm"
	case record.Release:
		method = http.MethodDelete
	}
	nodes := r.Perm(len(l.world.seqds))
	times := pick(r, []int{1, attempts, attempts})
	for i := range times {
		c := &record.Call{BizType: b.shape.Name, Of: b.of, Kind: kind, Asked: b.count, Reservation: b.id}
		l.ask(ctx, l.world.seqds[nodes[i%len(nodes)]], b.shape, c, method, path, "")
		if c.Status >= 200 && c.Status < 500 || ctx.Err() != nil {
			return
		}
		rest(ctx, 20*time.Millisecond+upTo(r, 200*time.Millisecond))
	}
}

// void makes a number void that was issued for that purpose: a caller whose invoice is cancelled.
func (l *laboratory) void(ctx context.Context, r *rand.Rand, d *dice, s *shape) {
	q := request{node: pick(r, l.world.seqds), shape: s, of: s.key(r), kind: record.Single, count: 1, timeout: usualPatience}
	c := l.send(ctx, q)
	id := ""
	switch {
	case len(c.Texts) == 1:
		id = c.Texts[0]
	case len(c.Runs) == 1:
		id = strconv.FormatInt(c.Runs[0].First, 10)
	default:
		return
	}
	reason := fmt.Sprintf("cancelled %d-%d", d.loop, d.round)
	v := &record.Call{BizType: s.Name, Of: q.of, Kind: record.VoidOne, Asked: 1, Key: reason, Texts: []string{id}}
	if s.Display == "" {
		v.Runs = c.Runs
	}
	query := ""
	if q.of != "" {
		query = "?key=" + q.of
	}
	body, _ := json.Marshal(map[string]string{"id": id, "reason": reason}) // two texts never fail
	for range attempts {
		one := *v
		l.ask(ctx, pick(r, l.world.seqds), s, &one, http.MethodPost, "/biz-types/"+s.Name+"/voids"+query, string(body))
		if one.Status >= 200 && one.Status < 500 || ctx.Err() != nil {
			return
		}
		rest(ctx, 50*time.Millisecond)
	}
}

// ask makes a call about a reservation, and records it with its answer.
func (l *laboratory) ask(ctx context.Context, n *seqd, s *shape, c *record.Call, method, path, body string) {
	ctx, cancel := context.WithTimeout(ctx, usualPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.url()+path, strings.NewReader(body))
	if err != nil {
		panic(err) // cannot fail: it is built from constants
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Kind == record.Reserve && c.Key != "" {
		req.Header.Set("Idempotency-Key", c.Key)
	}
	l.sending.RLock()
	defer l.sending.RUnlock()
	life := n.life.Load()
	c.Node, c.Start = n.name(), l.journal.now()
	status, header, answer, err := l.exchange(req)
	c.End = l.journal.now()
	if life == n.life.Load() {
		c.Life = int(life)
	}
	if err != nil {
		c.Code = complaint(err)
	} else {
		c.Status, c.Replayed = status, header.Get("Idempotent-Replayed") != ""
		readBooking(s, c, answer)
	}
	l.journal.call(c)
}

// readBooking reads an answer about a reservation into the call.
func readBooking(s *shape, c *record.Call, body []byte) {
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
