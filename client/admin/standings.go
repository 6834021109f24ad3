package admin

import (
	"context"
	"net/url"
	"time"

	"github.com/seqd/seqd/client"
)

// Standing is how far a counter has come, as the store knows it.
type Standing struct {
	// Counter is its name, such as invoice/tenant-42@2026, which seqd raise takes.
	Counter string `json:"counter"`
	BizType string `json:"bizType"`
	// Key and Period are those of the counter, "" for none.
	Key    string `json:"key,omitempty"`
	Period string `json:"period,omitempty"`
	// Highest is the highest number that has left the store, 0 if none has. Of a gapless counter it
	// is the last one that was handed out. Otherwise nodes may still have some below it in hand.
	Highest int64 `json:"highest,string"`
	// Strategy is that of the biz type, "" if it is not defined.
	Strategy string `json:"strategy,omitempty"`
	// Sequencer is who gives out its next number: ledger, store, redis or node.
	Sequencer string `json:"sequencer"`
	// UpdatedAt is when a gapless counter changed. Of another counter it is when a node last took a
	// range of numbers from it. Zero if that is not known.
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
	// FailedOver is true if the store has failed over since, and may have lost what was taken last:
	// then numbers above Highest may have been issued. The next one begins above a gap.
	FailedOver bool `json:"failedOver,omitempty"`
}

// Counters returns a page of the counters of a biz type, or of all if bizType is "", in byte order of
// their names. next is what to continue after, "" on the last page.
func (a *Admin) Counters(ctx context.Context, bizType string, p Page) (list []Standing, next string, err error) {
	q := p.query()
	if bizType != "" {
		q.Set("bizType", bizType)
	}
	var page struct {
		Counters []Standing `json:"counters"`
		Next     string     `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "list counters", Path: "/counters", Query: q}, &page)
	if err == nil && page.Counters == nil {
		err = errNoList
	}
	return page.Counters, page.Next, err
}

// Standing returns how far one counter of a biz type has come.
func (a *Admin) Standing(ctx context.Context, bizType string, of Counter) (s Standing, err error) {
	q := url.Values{}
	of.addTo(q)
	_, err = a.ask(ctx, client.Request{Op: "show counter", Path: named("/biz-types/", bizType) + "/counter", Query: q}, &s)
	return s, err
}
