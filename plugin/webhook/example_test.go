package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin/webhook"
)

// Example shows what a receiver gets.
func Example() {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var post webhook.Post
		if err := json.NewDecoder(r.Body).Decode(&post); err != nil {
			fmt.Println(err)
			return
		}
		for _, refusal := range post.Refused {
			fmt.Println(refusal.BizType, refusal.Code, refusal.Detail)
		}
	}))
	defer receiver.Close()

	settings := webhook.DefaultSettings()
	settings.URL = receiver.URL
	hook, err := webhook.New(settings, time.Now, slog.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	hook.Rejected(ctx, &seqd.Call{BizType: "order", Count: 1}, seqd.Errorf(seqd.CodeRateLimited, "slowly"))
	if err := hook.Close(ctx); err != nil { // posts what is queued
		fmt.Println(err)
	}
	// Output: order rate_limited slowly
}
