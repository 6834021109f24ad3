package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/integration/chaos/record"
)

// book is a counter of a gapless biz type.
type book struct {
	shape      *shape
	of, period string // the period as in its name in the store
}

// allBooks returns the gapless counters of which callers have seen numbers.
func (l *laboratory) allBooks() (all []book) {
	for _, name := range slices.Sorted(maps.Keys(l.journal.highest())) {
		rest, period, _ := strings.Cut(name, "@")
		bizType, key, _ := strings.Cut(rest, "/")
		i := slices.IndexFunc(l.shapes, func(s shape) bool { return s.Name == bizType && s.booked })
		if i >= 0 {
			all = append(all, book{&l.shapes[i], key, period})
		}
	}
	return all
}

// audit reads accounts while everything goes wrong.
func (l *laboratory) audit(ctx context.Context, d *dice) {
	for ctx.Err() == nil {
		r := d.next()
		if books := l.allBooks(); len(books) > 0 {
			_, _ = l.readPage(ctx, pick(r, l.world.seqds), pick(r, books), 0, pick(r, []int{5, 100, 1000}), false) // a node may be away
		}
		rest(ctx, 100*time.Millisecond+upTo(r, 300*time.Millisecond))
	}
}

// closeBooks reads the whole account of every counter, after all calls.
func (l *laboratory) closeBooks(ctx context.Context) {
	for i, b := range l.allBooks() {
		n := l.world.seqds[i%len(l.world.seqds)]
		if err := l.readAll(ctx, n, b); err != nil && ctx.Err() == nil {
			l.find("the account of %s %s %s: %v", b.shape.Name, b.of, b.period, err)
		}
	}
}

func (l *laboratory) readAll(ctx context.Context, n *seqd, b book) error {
	for after := int64(0); ; {
		var next int64
		err := within(startPatience, func() (err error) {
			next, err = l.readPage(ctx, n, b, after, 1000, true)
			return err
		})
		if err != nil || next == 0 {
			return err
		}
		after = next
	}
}

// answered by a node that says what became of numbers.
type accountAnswer struct {
	First, Last, Next string
	Issued            int64
	Gaps              []struct {
		From, To                       string
		State, Reason, By, Reservation string
	}
}

// readPage reads a page of an account and records it.
func (l *laboratory) readPage(ctx context.Context, n *seqd, b book, after int64, limit int, final bool) (next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, longPatience)
	defer cancel()
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if after > 0 {
		query.Set("after", strconv.FormatInt(after, 10))
	}
	if b.of != "" {
		query.Set("key", b.of)
	}
	if b.period != "" {
		query.Set("period", b.period[:4]+"-"+b.period[4:6]+"-"+b.period[6:])
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url()+"/biz-types/"+b.shape.Name+"/gaps?"+query.Encode(), nil)
	if err != nil {
		return 0, err
	}
	a := &record.Account{Node: n.name(), BizType: b.shape.Name, Of: b.of, Period: b.period, After: after, Final: final}
	a.Start = l.journal.now()
	status, _, body, err := l.exchange(req)
	a.End = l.journal.now()
	if err != nil {
		return 0, err
	}
	if status != http.StatusOK {
		return 0, fmt.Errorf("status %d: %s", status, body)
	}
	var answer accountAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, err
	}
	if err := answer.into(a); err != nil {
		return 0, err
	}
	l.journal.write(record.Entry{Account: a})
	return a.Next, nil
}

// into copies an answer into the record.
func (answer *accountAnswer) into(a *record.Account) (err error) {
	number := func(text string) int64 {
		n, ok := decimal(text)
		if !ok {
			err = errors.Join(err, fmt.Errorf("%q is no number", text))
		}
		return n
	}
	a.First, a.Last, a.Issued = number(answer.First), number(answer.Last), answer.Issued
	if answer.Next != "" {
		a.Next = number(answer.Next)
	}
	for _, g := range answer.Gaps {
		a.Gaps = append(a.Gaps, record.Gap{From: number(g.From), To: number(g.To), State: g.State, Reason: g.Reason, By: g.By, Reservation: g.Reservation})
	}
	return err
}
