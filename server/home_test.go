package server

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/idempotency"
)

// A node without Redis says that Redis is away if other nodes keep answers in one.
func TestOthersUseRedis(t *testing.T) {
	documents := memory.New(time.Now).Documents()
	b := &back{home: idempotency.NewHome(documents, nil, "", time.Now)}
	if used, trouble := b.usesRedis(); used || trouble != "" {
		t.Errorf("before it looked: %v, %q", used, trouble)
	}
	must.Do(t, documents.Create(t.Context(), persist.Document{Kind: "answerhome", Key: "redis", Revision: 1, Body: "another", Timestamp: 1}))
	b.home.Look(t.Context())
	if used, trouble := b.usesRedis(); !used || trouble != idempotency.ErrNotHome.Error() {
		t.Errorf("%v, %q", used, trouble)
	}
	told := make(map[string]bool)
	b.tellRedis(func(name string, up bool) { told[name] = up })
	if up, ok := told["redis"]; up || !ok {
		t.Errorf("metrics show %v", told)
	}
}
