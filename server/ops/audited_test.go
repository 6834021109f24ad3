package ops

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/audit"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/subscriptions"
	"github.com/seqd/seqd/server/workers"
)

// What the log says was changed, and a store that was restored lacks, is named.
func TestLacking(t *testing.T) {
	store := memory.New(time.Now)
	for key, revision := range map[string]int64{
		"token shop": 1, "token till": 2, "token kept": 2, "token again": 1, "token two words": 1,
		"definition order": 2, "definition old": 1, "definition same": 3, "pool same": 2, "pool old": 1, "pool again": 3, "subscriber same": 2, "subscriber old": 1,
	} {
		kind, name, _ := strings.Cut(key, " ")
		kind = map[string]string{"token": access.Kind, "definition": definitions.Kind, "pool": workers.Kind, "subscriber": subscriptions.Kind}[kind]
		doc := persist.Document{Kind: kind, Key: name, Body: "{}", Timestamp: 1}
		for doc.Revision = 1; doc.Revision <= revision; doc.Revision++ {
			err := store.Documents().Update(t.Context(), doc)
			if doc.Revision == 1 {
				err = store.Documents().Create(t.Context(), doc)
			}
			must.Do(t, err)
		}
	}
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 1, Step: 1}))
	must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: persist.LedgerKind, Key: "order@202611", Revision: 1, Body: "{}", Timestamp: 1}))
	for name, made := range map[string]time.Time{"stolen": time.Now().Add(-time.Hour), "since": time.Now().Add(time.Hour)} {
		tokens := access.New(access.Options{Now: func() time.Time { return made }})
		tokens.Use(access.Backing{Documents: store.Documents()})
		for _, by := range []string{"boss", "shop"} {
			_, _, err := tokens.Create(t.Context(), access.Token{Name: name + "-by-" + by, Scopes: []string{access.ScopeAdmin}, Enabled: true}, by)
			must.Do(t, err)
		}
	}
	lines := []admin.Attempt{
		{Method: "PUT", Path: "/biz-types/order", Query: "force=true", Target: "order", Status: 200, Version: 4},
		{Method: "PUT", Path: "/biz-types/order", Query: "force=true", Target: "order", Status: 200, Version: 2},
		{Method: "PATCH", Path: "/biz-types/order", Query: "force=true&dryRun=true", Target: "order", Status: 200, Version: 9},
		{Method: "PATCH", Path: "/biz-types/order", Query: "a=b&force=true", Target: "order", Status: 200, Version: 3},
		{Method: "DELETE", Path: "/tokens/shop", Target: "shop", Status: 204, Version: 1, Caller: "root"},
		{Method: "PATCH", Path: "/tokens/till", Target: "till", Status: 200, Version: 4},
		{Method: "DELETE", Path: "/tokens/till/secrets/0123", Target: "till", Status: 204, Version: 5},
		{Method: "PATCH", Path: "/tokens/kept", Target: "kept", Status: 200, Version: 2},
		{Method: "DELETE", Path: "/tokens/gone", Target: "gone", Status: 204, Version: 7},
		{Method: "POST", Path: "/tokens", Target: "made", Status: 201, Version: 1},
		{Method: "PATCH", Path: "/tokens/made", Target: "made", Status: 200, Version: 2},
		{Method: "DELETE", Path: "/tokens/boss/made", Target: "boss", Status: 200},
		{Method: "GET", Path: "/tokens/shop/made", Target: "shop", Status: 200, Read: true},
		{Method: "DELETE", Path: "/tokens/again", Target: "again", Status: 204, Version: 3},
		{Method: "POST", Path: "/tokens", Target: "again", Status: 201, Version: 1},
		{Method: "DELETE", Path: "/biz-types/old", Target: "old", Status: 204, Version: 2},
		{Method: "PUT", Path: "/biz-types/same", Target: "same", Status: 200, Version: 3},
		{Method: "PUT", Path: "/biz-types/same", Target: "same", Status: 412},
		{Method: "PUT", Path: "/biz-types/same", Target: "same", Query: "dryRun=true", Status: 200, Version: 4},
		{Method: "POST", Path: "/biz-types/same/voids", Target: "same", Status: 204},
		{Method: "PATCH", Path: "/worker-pools/same", Target: "same", Status: 200, Version: 2}, // pools may be called as biz types are
		{Method: "PUT", Path: "/worker-pools/order", Target: "order", Status: 201, Version: 1},
		{Method: "DELETE", Path: "/worker-pools/old", Query: "force=true", Target: "old", Status: 204, Version: 1},
		{Method: "PUT", Path: "/worker-pools/again", Target: "again", Status: 201, Version: 1},
		{Method: "POST", Path: "/subscriptions/same/replay", Target: "same", Status: 202, Version: 2}, // so may subscriptions
		{Method: "PUT", Path: "/subscriptions/order", Target: "order", Status: 201, Version: 1},
		{Method: "DELETE", Path: "/subscriptions/old", Target: "old", Status: 204, Version: 1},
	}
	for name, form := range map[string]func(io.Writer) slog.Handler{
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
	} {
		for _, before := range []string{"", "Nov 20 10:00:00 host seqd[12]: "} {
			var written bytes.Buffer
			log := audit.New(slog.New(form(&written)), time.Now)
			for _, line := range lines {
				written.WriteString(before)
				log.Write(t.Context(), line)
			}
			written.WriteString("something else, with a = and a \"\n{\n")
			found := must.Get(lacking(&written, now)(t.Context(), store))(t)
			var got []string
			for _, f := range found {
				got = append(got, fmt.Sprint(f.Subject, ": ", f.Change))
			}
			want := []string{
				"old: change it again before callers reach seqd", "order: change it again before callers reach seqd",
				"order: before callers reach seqd, force the last one again: otherwise numbers may repeat, and a repeated Idempotency-Key may get other ones; " +
					"before that, raise with --yes those of order@20261120, order@2026 in which it counted, and of other periods and keys since",
				"token stolen-by-boss: revoke again what boss has made before callers reach seqd",
				"subscription old: delete it again before callers reach seqd", "subscription order: make it again before callers reach seqd",
				"token again: delete it, and make it again before callers reach seqd",
				"token made: make it again before callers reach seqd", "token shop: delete it again before callers reach seqd",
				"token till: change it again before callers reach seqd",
				"worker pool again: delete it, and make it again before callers reach seqd",
				"worker pool old: delete it again before callers reach seqd",
				"worker pool order: make it again before callers reach seqd", "changes: ",
			}
			forced := "forced since the backup, in the log: PATCH /biz-types/order at "
			if !slices.Equal(got, want) || !strings.HasPrefix(found[2].Found, forced) || strings.Count(found[2].Found, "version") != 2 || !strings.Contains(found[7].Found, "PATCH /tokens/made") {
				t.Errorf("%s behind %q: %q\n%+v", name, before, got, found)
			}
		}
	}
	if found, err := lacking(strings.NewReader("{}\n"), now)(t.Context(), store); err != nil || len(found) != 1 || !strings.Contains(found[0].Found, "no lines") {
		t.Errorf("%+v, %v", found, err)
	}
}
