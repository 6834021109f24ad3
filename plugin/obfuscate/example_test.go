package obfuscate_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/plugin/obfuscate"
)

// Example does what the server does for a biz type with
//
//	plugins: [{name: obfuscate, digits: 8, key: "correct horse battery staple"}]
func Example() {
	bizType := seqd.BizType{Name: "invite"}
	binding := seqd.PluginBinding{Name: obfuscate.Name, Settings: &obfuscate.Settings{Digits: 8, Key: "correct horse battery staple"}}
	p, err := obfuscate.New(plugin.Env{Now: time.Now, Log: slog.Default(), Observer: seqd.NopObserver{}}, bizType, binding)
	if err != nil {
		fmt.Println(err)
		return
	}
	call := &seqd.Call{BizType: "invite", Count: 3}
	call.Sequence.Add(1, 3, 1)
	if err := p.After(context.Background(), call); err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range call.Sequence.IDs() {
		reading, err := p.Read(context.Background(), id, seqd.Counter{})
		fmt.Println(id, reading.Shown, err)
	}
	// Output:
	// 07039247 1 <nil>
	// 99995021 2 <nil>
	// 81094084 3 <nil>
}
