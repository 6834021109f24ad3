package stats_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin/stats"
)

// Example shows what the plugin counted, as GET /biz-types/order/stats does.
func Example() {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := stats.New("order", func() time.Time { return now })

	ctx := context.Background()
	_ = s.After(ctx, &seqd.Call{BizType: "order", Count: 100})
	s.Rejected(ctx, &seqd.Call{BizType: "order", Count: 1}, seqd.Errorf(seqd.CodeRateLimited, "slowly"))
	now = now.Add(10 * time.Second)

	shown, err := s.Show(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	report := shown.(stats.Report)
	fmt.Println("issued:", report.Issued, "in requests:", report.Requests)
	fmt.Println("refused:", report.Refused)
	fmt.Println("per second over the last minute:", report.Rates.OneMinute.Issued)
	// Output:
	// issued: 100 in requests: 1
	// refused: map[rate_limited:1]
	// per second over the last minute: 10
}
