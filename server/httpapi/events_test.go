package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/events"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/terms"
)

// newEvents returns the events of a store in which only invoice has some.
func newEvents(docs persist.Documents) *events.Streams {
	log := slog.New(slog.DiscardHandler)
	return events.New(events.Options{
		Documents: docs, Terms: terms.New(terms.Options{Documents: docs, Now: time.Now, Log: log}), Now: time.Now, Keep: time.Hour, Log: log,
		Left: func(context.Context) error { return nil }, Stopping: func() bool { return false },
		Has: func(_ context.Context, bizType string) error {
			if bizType != "invoice" {
				return seqd.Errorf(seqd.CodeUnknownBizType, "no biz type is called %q", bizType)
			}
			return nil
		},
	})
}

// Events are read in pages, and what is not kept any more is gone.
func TestEvents(t *testing.T) {
	docs := memory.New(time.Now).Documents()
	all := newEvents(docs)
	api := newStarting(t)
	api.Gate().Ready(&gate.Running{Events: all})
	get := func(query string, status int, want string) {
		t.Helper()
		w := do(t, api, http.MethodGet, "/events?"+query)
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %d with %s", query, w.Code, w.Body, status, want)
		}
	}
	get("bizType=invoice", 200, `{"events":[],"next":0,"last":0}`)
	get("bizType=invoice&wait=10ms&after=0", 200, `{"events":[],"next":0,"last":0}`)
	get("bizType=order", 404, "unknown_biz_type")
	get("", 400, "invalid_biz_type")
	get("bizType=invoice&after=-1", 400, "after is")
	get("bizType=invoice&after=x", 400, "after is")
	get("bizType=invoice&after=7", 400, "has position 0")
	get("bizType=invoice&wait=2m", 400, "wait: ")
	get("bizType=invoice&limit=0", 400, "limit is")
	get("bizType=invoice&x=1", 400, "invalid_request")

	batch := persist.EventBatch{BizType: "invoice", Source: "invoice@b", First: 1}
	for range 100 {
		batch.Events = append(batch.Events, persist.SourceEvent{Type: persist.EventIssued, At: 1, Data: json.RawMessage("{}")})
	}
	for range 3 {
		must.Do(t, docs.Keep(t.Context(), []persist.Document{must.Get(batch.Document())(t)}))
		batch.First += 100
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all.Run(ctx)
	}()
	await.True(t, "an event is published", func() bool {
		return strings.Contains(do(t, api, http.MethodGet, "/events?bizType=invoice&after=0&limit=1&wait=1m").Body.String(), `"next":1,"last":`)
	})
	get("bizType=invoice&after=0&limit=1&wait=1m", 200, `{"events":[{"position":1,"id":"invoice@b/1","type":"range.issued","bizType":"invoice",`+
		`"at":"1970-01-01T00:00:00.001Z","source":"invoice@b","seq":1,"data":{}}],"next":1,"last":`)
	await.True(t, "all are published", func() bool { return must.Get(all.Last(t.Context(), "invoice"))(t) == 300 })
	get("bizType=invoice&after=299&wait=1m", 200, `"next":300,"last":300}`)
	cancel()
	<-ended
	must.Get(docs.Purge(t.Context(), "streampage", time.Now().Add(2*time.Hour).UnixMilli(), 1))(t)
	get("bizType=invoice&after=0", 410, "go on with after=128")
	get("bizType=invoice", 200, `"position":129`)
}
