package persist_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// Counters hand out ranges. No number leaves a counter twice.
func ExampleCounters() {
	ctx := context.Background()
	var store persist.Store = memory.New(time.Now)
	defer func() { _ = store.Close() }()
	counters := store.Counters()

	if err := counters.Create(ctx, persist.Counter{BizTag: "order", Step: 100}); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		r, err := counters.Allocate(ctx, persist.Request{BizTag: "order", Size: 100})
		fmt.Println(r.First, "to", r.Last, err)
	}
	_, err := counters.Allocate(ctx, persist.Request{BizTag: "invoice", Size: 100})
	fmt.Println(errors.Is(err, persist.ErrNotFound))
	// Output:
	// 1 to 100 <nil>
	// 101 to 200 <nil>
	// true
}
