package ratelimit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin/ratelimit"
)

// Example lets two requests at once pass. The third is told when to try again.
func Example() {
	settings := ratelimit.DefaultSettings()
	settings.Rate, settings.Burst = 4, 2
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	limiter := ratelimit.New(settings, func() time.Time { return now })

	for range 3 {
		call := &seqd.Call{BizType: "order", Count: 1, Caller: seqd.Caller{Name: "shop"}}
		if err := limiter.Before(context.Background(), call); err != nil {
			refusal := seqd.AsError(err)
			fmt.Println(refusal, "retry after", refusal.RetryAfter)
			continue
		}
		fmt.Println("passed,", call.Limit.Remaining, "left")
	}
	// Output:
	// passed, 1 left
	// passed, 0 left
	// rate_limited: the rate limit of order is 4 requests per second, and at most 2 at once retry after 250ms
}
