package issuer_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment"
)

// orderOf returns a biz type that takes ranges of numbers from a store in memory. Over another
// store, such as persist/bolt, the numbers continue after a restart.
func orderOf(start int64) (issuer.Definition, error) {
	env := strategy.Env{Store: memory.New(time.Now), Now: time.Now, Log: slog.Default(), Observer: seqd.NopObserver{}}
	settings := segment.DefaultSettings()
	settings.Start = start
	bizType := seqd.BizType{Name: "order", Strategy: segment.Name, Settings: &settings}
	s, err := segment.New(env, bizType)
	if err != nil {
		return issuer.Definition{}, err
	}
	claim, err := strategy.NewClaim(env, bizType, s)
	return issuer.Definition{BizType: bizType, Strategy: s, Claim: claim}, err
}

// An Issuer needs no server: it issues inside any program.
func ExampleIssuer() {
	ctx := context.Background()
	order, err := orderOf(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	issuer, err := issuer.New([]issuer.Definition{order}, issuer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = issuer.Close(ctx) }()

	one, err := issuer.Next(ctx, "order", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one:", one.First())

	batch, err := issuer.Next(ctx, "order", 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	for number := range batch.Numbers() {
		fmt.Println("of a batch:", number)
	}

	_, err = issuer.Next(ctx, "invoice", 1)
	fmt.Println(seqd.CodeOf(err))
	// Output:
	// one: 1
	// of a batch: 2
	// of a batch: 3
	// of a batch: 4
	// unknown_biz_type
}

// Biz types come and go while an Issuer serves others.
func ExampleIssuer_Put() {
	ctx := context.Background()
	is, err := issuer.New(nil, issuer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = is.Close(ctx) }()

	if err := is.Put(ctx, "order", func() (issuer.Definition, error) { return orderOf(500) }); err != nil {
		fmt.Println(err)
	}
	numbers, err := is.Next(ctx, "order", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(numbers.IDs())

	if err := is.Disable(ctx, "order", seqd.Errorf(seqd.CodeDisabled, "order is disabled")); err != nil {
		fmt.Println(err)
	}
	_, err = is.Next(ctx, "order", 1)
	fmt.Println(err)
	// Output:
	// [500 501]
	// disabled: order is disabled
}

// A Sequence holds numbers as runs, and how each is shown.
func ExampleSequence() {
	var seq seqd.Sequence
	seq.Add(41, 2, 1)
	seq.Add(43, 1, 1)
	fmt.Println(seq.Len(), seq.Runs())
	seq.Show(func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, "A-"...), shown...) })
	fmt.Println(seq.IDs())
	// Output:
	// 3 [{41 1 3}]
	// [A-41 A-42 A-43]
}
