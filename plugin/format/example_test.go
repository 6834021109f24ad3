package format_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin/format"
)

func Example() {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		panic(err)
	}
	p, err := format.New(format.Settings{Template: "INV-{date:20060102}-{seq:06}{check}", Check: "luhn"},
		seqd.Calendar{Reset: seqd.ResetDaily, Zone: shanghai}, 0, time.Now)
	if err != nil {
		panic(err)
	}
	call := seqd.Call{Count: 2}
	call.Sequence.Add(42, 2, 1)
	call.Sequence.In(20261121)
	if err := p.After(context.Background(), &call); err != nil {
		panic(err)
	}
	for _, id := range call.Sequence.IDs() {
		reading, err := p.Read(context.Background(), id, seqd.Counter{})
		fmt.Println(id, "is", reading.Shown, "of", reading.Period, err)
	}
	reading, err := p.Read(context.Background(), "INV-20261121-0000248", seqd.Counter{}) // two digits swapped
	fmt.Println(reading.Invalid, err)
	// Output:
	// INV-20261121-0000428 is 42 of 2026-11-21 <nil>
	// INV-20261121-0000436 is 43 of 2026-11-21 <nil>
	// true <nil>
}
