package plugin_test

import (
	"context"
	"fmt"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

// branch is a plugin that shows each number behind the code of a branch.
type branch struct {
	seqd.NopPlugin // Before and OnError do nothing
	code           string
}

// After runs when the numbers are made. It changes how they are shown, never the numbers.
func (b branch) After(_ context.Context, call *seqd.Call) error {
	call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, b.code...), shown...) })
	return nil
}

// branchSettings are the settings of a binding: {name: branch, code: "N"}.
type branchSettings struct {
	Code string `config:"code"`
}

// A program registers its plugins in init functions. A biz type that binds one gets it from its
// factory.
func ExampleRegister() {
	plugin.Register(plugin.Factory{
		Name:     "branch",
		Order:    300,
		Quick:    true,
		Settings: func() any { return &branchSettings{Code: "N"} },
		New: func(_ plugin.Env, _ seqd.BizType, binding seqd.PluginBinding) (seqd.Plugin, error) {
			return branch{code: binding.Settings.(*branchSettings).Code}, nil
		},
		// The code is a part of each ID: another one is another shape.
		Shape: func(_ seqd.BizType, binding seqd.PluginBinding) (string, error) {
			return binding.Settings.(*branchSettings).Code, nil
		},
	})

	factory, err := plugin.Lookup("branch")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := factory.New(plugin.Env{}, seqd.BizType{Name: "order"}, seqd.PluginBinding{Name: "branch", Settings: factory.Settings()})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := &seqd.Call{BizType: "order", Count: 2}
	call.Sequence.Add(41, 2, 1) // as a strategy does
	if err := p.After(context.Background(), call); err != nil {
		fmt.Println(err)
	}
	fmt.Println(call.Sequence.IDs())
	// Output:
	// [N41 N42]
}
