package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/plugin/history"
)

// counter is a strategy that counts from 1.
type counter struct{ last int64 }

func (c *counter) Init(context.Context, bool) error { return nil }
func (c *counter) Close(context.Context) error      { return nil }

func (c *counter) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	seq.Add(c.last+1, n, 1)
	c.last += int64(n)
	return nil
}

func Example() {
	now := func() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) }
	env := plugin.Env{Store: memory.New(now), Now: now, Log: slog.Default()}
	settings := history.DefaultSettings()
	order := seqd.BizType{Name: "order"}
	h, err := history.New(env, order, seqd.PluginBinding{Name: "history", Order: 900, Settings: &settings})
	if err != nil {
		fmt.Println(err)
		return
	}
	issuer, err := issuer.New([]issuer.Definition{{
		BizType: order, Strategy: &counter{}, Plugins: []seqd.BoundPlugin{{Name: "history", Order: 900, Quick: true, Plugin: h}},
	}}, issuer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	call := &seqd.Call{BizType: "order", Count: 3, Caller: seqd.Caller{Name: "shop", Addr: "192.0.2.1", RequestID: "r1"}}
	if err := issuer.Issue(ctx, call); err != nil {
		fmt.Println(err)
		return
	}
	_ = issuer.Close(ctx) // writes what is queued

	shown, err := issuer.Resource(ctx, "order", "history", url.Values{"limit": {"10"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, _ := json.Marshal(shown)
	fmt.Println(string(text))
	// Output:
	// {"bizType":"order","records":[{"at":"2026-01-31T12:00:00.000Z","first":"1","last":"3","count":3,"caller":"shop","addr":"192.0.2.1","requestId":"r1"}]}
}
