package admin

import (
	"context"

	"github.com/seqd/seqd"
)

// Standing is how far a counter has come, as the store knows it.
type Standing struct {
	// Counter is its name, such as invoice/tenant-42@2026.
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
	// range of numbers from it. "" if that is not known.
	UpdatedAt string `json:"updatedAt,omitempty"`
	// FailedOver is true if the store has failed over since, and may have lost what was taken last:
	// then numbers above Highest may have been issued. The next one begins above a gap.
	FailedOver bool `json:"failedOver,omitempty"`
}

// Standings shows how far counters have come, and changes nothing. It is safe for concurrent use. Its
// errors are of type [*seqd.Error].
type Standings interface {
	// List returns at most limit counters of a biz type, or of all if bizType is "", in byte order of
	// their names. To get the next page, pass next as after; next is "" on the last page.
	List(ctx context.Context, bizType, after string, limit int) (list []Standing, next string, err error)
	// Show returns one counter of a biz type. Period 0 is the present one, if the numbers reset.
	Show(ctx context.Context, bizType, key string, period seqd.Period) (Standing, error)
}
