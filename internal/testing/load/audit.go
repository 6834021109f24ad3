package load

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

	"github.com/seqd/seqd/internal/testing/record"
)

// book is a counter of a gapless biz type.
type book struct {
	shape      *Shape
	of, period string // the period as in its name in the store
}

// allBooks returns the gapless counters of which callers have seen numbers.
func (l *Load) allBooks() (all []book) {
	for _, name := range slices.Sorted(maps.Keys(l.Journal.Highest())) {
		rest, period, _ := strings.Cut(name, "@")
		bizType, key, _ := strings.Cut(rest, "/")
		i := slices.IndexFunc(l.Shapes, func(s Shape) bool { return s.Name == bizType && s.Booked })
		if i >= 0 {
			all = append(all, book{&l.Shapes[i], key, period})
		}
	}
	return all
}

// audit reads accounts while everything goes wrong.
func (l *Load) audit(ctx context.Context, d *Dice) {
	for ctx.Err() == nil {
		r := d.Next()
		if books := l.allBooks(); len(books) > 0 {
			_, _ = l.readPage(ctx, Pick(r, l.Nodes), Pick(r, books), 0, Pick(r, []int{5, 100, 1000}), false) // a node may be away
		}
		l.rest(ctx, 100*time.Millisecond+UpTo(r, 300*time.Millisecond))
	}
}

// CloseBooks reads the whole account of every counter, after all calls.
func (l *Load) CloseBooks(ctx context.Context) {
	for i, b := range l.allBooks() {
		n := l.Nodes[i%len(l.Nodes)]
		if err := l.readAll(ctx, n, b); err != nil && ctx.Err() == nil {
			l.Journal.Find("the account of %s %s %s: %v", b.shape.Name, b.of, b.period, err)
		}
	}
}

func (l *Load) readAll(ctx context.Context, n Node, b book) error {
	for after := int64(0); ; {
		var next int64
		err := insist(func() (err error) {
			next, err = l.readPage(ctx, n, b, after, 1000, true)
			return err
		})
		if err != nil || next == 0 {
			return err
		}
		after = next
	}
}

// insist calls try until it succeeds, for a minute at most.
func insist(try func() error) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err := try(); err == nil || time.Now().After(deadline) {
			return err
		}
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
func (l *Load) readPage(ctx context.Context, n Node, b book, after int64, limit int, final bool) (next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, LongPatience)
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/biz-types/"+b.shape.Name+"/gaps?"+query.Encode(), nil)
	if err != nil {
		return 0, err
	}
	a := &record.Account{Node: n.Name(), BizType: b.shape.Name, Of: b.of, Period: b.period, After: after, Final: final}
	a.Start = l.Journal.Now()
	status, _, body, err := l.exchange(req)
	a.End = l.Journal.Now()
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
	l.Journal.Write(record.Entry{Account: a})
	return a.Next, nil
}

// into copies an answer into the record.
func (answer *accountAnswer) into(a *record.Account) (err error) {
	number := func(text string) int64 {
		n, ok := Decimal(text)
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
