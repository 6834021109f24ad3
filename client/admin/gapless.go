package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/seqd/seqd/client"
)

// Counter names one counter of a biz type.
type Counter struct {
	// Key is the key of a keyed biz type; empty for any other.
	Key string
	// Period is 2026, 2026-11 or 2026-11-23, for a biz type that resets. Empty means the present
	// one.
	Period string
}

func (c Counter) addTo(q url.Values) {
	for name, value := range map[string]string{"key": c.Key, "period": c.Period} {
		if value != "" {
			q.Set(name, value)
		}
	}
}

// Void is a number that is to become void.
type Void struct {
	// ID is the number as callers see it.
	ID string
	// Reason is 1 to 200 characters, for auditors.
	Reason string
	// Counter is needed only if the ID does not show the key or the period.
	Counter
}

// Void makes a reserved, released or issued number of a gapless biz type void. It is never handed
// out again. Doing it twice is the same as once; the first reason stays.
func (a *Admin) Void(ctx context.Context, bizType string, v Void) error {
	body := struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
	}{v.ID, v.Reason}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r := client.Request{Op: "void", Method: http.MethodPost, Path: named("/biz-types/", bizType) + "/voids", Query: url.Values{}, Header: http.Header{}, Body: text, Repeat: true}
	v.Counter.addTo(r.Query)
	r.Header.Set("Content-Type", "application/json")
	_, err = a.ask(ctx, r, nil)
	return err
}

// Account says what became of the numbers of one counter, as of one moment.
type Account struct {
	BizType string `json:"bizType"`
	Key     string `json:"key,omitempty"`
	Period  string `json:"period,omitempty"`
	// First to Last are the numbers that were handed out. If there is none, Last is First − 1.
	First int64 `json:"first,string"`
	Last  int64 `json:"last,string"`
	// Issued is how many of them are issued.
	Issued int64 `json:"issued"`
	// Gaps are all the others, lowest first: those of this page.
	Gaps []Gap `json:"gaps"`
	// Next is the After of the next page, "" on the last one.
	Next string `json:"next,omitempty"`
}

// Gap is consecutive numbers that are not issued, and why.
type Gap struct {
	From int64 `json:"from,string"`
	To   int64 `json:"to,string"`
	// FromID and ToID are how callers see From and To, "" if that is the number itself or shows a day
	// that the account does not keep.
	FromID string `json:"fromId,omitempty"`
	ToID   string `json:"toId,omitempty"`
	// State is released, void or reserved.
	State string `json:"state"`
	// At is since when the numbers are released or void.
	At time.Time `json:"at,omitzero"`
	// Reason and Caller say why the numbers are void, and which token said so, "" for the service.
	Reason string `json:"reason,omitempty"`
	Caller string `json:"caller,omitempty"`
	// Reservation and ExpiresAt are those of reserved numbers.
	Reservation string    `json:"reservation,omitempty"`
	ExpiresAt   time.Time `json:"expiresAt,omitzero"`
}

// Account returns a page of the account of a gapless biz type. p.After is a number.
func (a *Admin) Account(ctx context.Context, bizType string, of Counter, p Page) (got Account, err error) {
	q := p.query()
	of.addTo(q)
	_, err = a.ask(ctx, client.Request{Op: "account", Path: named("/biz-types/", bizType) + "/gaps", Query: q}, &got)
	switch {
	case err != nil:
		return Account{}, err
	case got.Gaps == nil || got.BizType != bizType:
		return Account{}, errNoList
	}
	return got, nil
}

// EachPage calls f with each page of the account of a counter, lowest numbers first, until f returns
// an error. While numbers are handed out, pages are of different moments; the totals of the last one
// are the newest.
func (a *Admin) EachPage(ctx context.Context, bizType string, of Counter, f func(Account) error) error {
	p := Page{Limit: 1000}
	after := int64(0)
	for {
		got, err := a.Account(ctx, bizType, of, p)
		if err != nil {
			return err
		}
		for _, gap := range got.Gaps {
			if gap.From <= after || gap.To < gap.From {
				return badAccount("the gap " + decimal(gap.From) + " to " + decimal(gap.To) + " follows the one up to " + decimal(after))
			}
			after = gap.To
		}
		if err := f(got); err != nil || got.Next == "" {
			return err
		}
		// Otherwise the pages might have no end.
		if next, err := strconv.ParseInt(got.Next, 10, 64); err != nil || next < after || len(got.Gaps) == 0 {
			return badAccount("the page after " + decimal(after) + " is called " + strconv.Quote(got.Next))
		}
		p.After = got.Next
		of.Period = got.Period // the present one may end meanwhile
	}
}

func badAccount(detail string) error {
	return &client.Error{Code: client.ErrBadAnswer, Detail: "the account is not in order: " + detail}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// Keys returns a page of the keys of a keyed biz type that have a counter, in byte order. next is the
// key to continue after, "" on the last page.
func (a *Admin) Keys(ctx context.Context, bizType string, p Page) (keys []string, next string, err error) {
	var page struct {
		Keys []string `json:"keys"`
		Next string   `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "list keys", Path: named("/biz-types/", bizType) + "/keys", Query: p.query()}, &page)
	if err == nil && page.Keys == nil {
		err = errNoList
	}
	return page.Keys, page.Next, err
}
