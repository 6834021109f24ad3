package strategy_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/strategy"
)

// even is a strategy that issues even numbers and forgets them with the process. One that must
// continue after a restart takes them from a counter of Env.Store.
type even struct {
	last   atomic.Int64
	closed atomic.Bool
}

func (*even) Init(context.Context, bool) error { return nil }

func (e *even) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	if e.closed.Load() {
		return seqd.Errorf(seqd.CodeStopping, "closed")
	}
	seq.Add(e.last.Add(2*int64(n))-2*int64(n-1), n, 2)
	return nil
}

func (e *even) Close(context.Context) error { e.closed.Store(true); return nil }

// A program registers its strategies in init functions. A biz type names one, or an Issuer gets it
// in a definition.
func ExampleRegister() {
	strategy.Register(strategy.Factory{
		Name:     "even",
		Settings: func() any { return &struct{}{} },
		New:      func(strategy.Env, seqd.BizType) (seqd.Strategy, error) { return new(even), nil },
		Shape:    func(seqd.BizType) string { return "even" },
	})

	factory, err := strategy.Lookup("even")
	if err != nil {
		fmt.Println(err)
		return
	}
	bizType := seqd.BizType{Name: "order", Strategy: factory.Name, Settings: factory.Settings()}
	s, err := factory.New(strategy.Env{}, bizType)
	if err != nil {
		fmt.Println(err)
		return
	}
	issuer, err := issuer.New([]issuer.Definition{{BizType: bizType, Strategy: s}}, issuer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer func() { _ = issuer.Close(ctx) }()
	for range 2 {
		numbers, err := issuer.Next(ctx, "order", 3)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(numbers.IDs())
	}
	// Output:
	// [2 4 6]
	// [8 10 12]
}
