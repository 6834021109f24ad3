package remote_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// A pool is made, changed, shown and deleted in the service itself.
func TestPools(t *testing.T) {
	l := serving(t, "store: {driver: memory}\nbizTypes: [{name: order}]\n")
	must.Equal(t, l.until("worker-pools", "list"), outcome{0, "NAME  VERSION  TTL  BITSMACHINE  BITSSEQUENCE  EPOCH  CHANGED\n", ""})
	const cosid = "cosid: version 1, ttl 5m, bitsMachine 10, bitsSequence 12, epoch 2019-12-24T16:00:00Z\n"
	put := []string{"worker-pools", "put", "cosid", "--set", "ttl=5m", "--set", "epoch=2019-12-24T16:00:00Z", "--create"}
	l.want(cosid, put...)
	l.wantError(1, "the pool exists; without --create it is replaced", put...)
	l.want(strings.NewReplacer("version 1", "version 2", "5m", "10m").Replace(cosid), "worker-pools", "patch", "cosid", "--set", "ttl=10m", "--if-match", "1")
	l.wantError(1, "precondition_failed", "worker-pools", "patch", "cosid", "--set", "ttl=1m", "--if-match", "1")
	l.wantError(1, "conflict: ", "worker-pools", "patch", "cosid", "--set", "bitsMachine=8")
	l.wantError(78, "want --set", "worker-pools", "patch", "cosid")
	l.wantError(78, "versions begin at 1", "worker-pools", "put", "cosid", "--if-match", "0")
	l.want("shop: version 1, ttl 30s, bitsMachine 10, bitsSequence 12, epoch 2025-01-01T00:00:00Z\n", "worker-pools", "put", "shop")
	if got := l.run("worker-pools", "list"); strings.Count(got.out, "\n") != 3 || !strings.Contains(got.out, "\nshop   1        30s  10           12            2025-01-01T00:00:00Z  20") {
		t.Errorf("%+v", got)
	}
	l.want("shop: version 1, ttl 30s, bitsMachine 10, bitsSequence 12, epoch 2025-01-01T00:00:00Z\n0 held, 1024 free, 0 standing by\n", "worker-pools", "get", "shop")
	var shown struct{ Free int }
	must.Do(t, json.Unmarshal([]byte(l.run("worker-pools", "get", "shop", "--json").out), &shown))
	must.Equal(t, shown.Free, 1024)
	l.wantError(1, "unknown_pool: there is no pool shoe of worker IDs; seqd worker-pools list shows what there is", "worker-pools", "get", "shoe")
	l.want("shop: deleted\n", "worker-pools", "delete", "shop", "--yes")
	l.wantError(1, "unknown_pool", "worker-pools", "delete", "shop", "--yes")
	must.Equal(t, l.run("__complete", "worker-pools", "get", "c").out, "cosid\n:4\n")
}

// Who holds worker IDs is shown, and a pool that is in use is deleted by force only.
func TestPoolInUse(t *testing.T) {
	f := answering(t, answerJSON(200, `{"pool":"shop","bitsMachine":10,"bitsSequence":12,"epoch":"2025-01-01T00:00:00.000Z","ttl":"30s","version":1,"held":1,"free":1023,
		"standingBy":2,"holders":[{"workerId":7,"instance":"a\u001b[2J","until":"2026-11-21T12:00:34.000Z"}]}`))
	l := f.line(t)
	l.want("shop: version 1, ttl 30s, bitsMachine 10, bitsSequence 12, epoch 2025-01-01T00:00:00Z\n1 held, 1023 free, 2 standing by\n"+
		"WORKER  INSTANCE    UNTIL\n7       a\\u001b[2J  2026-11-21T12:00:34Z\n", "worker-pools", "get", "shop")
	l.run("worker-pools", "delete", "shop", "--force", "--yes", "--if-match", "3")
	must.Equal(t, f.last().method+" "+f.last().target+" "+f.last().match, `DELETE /worker-pools/shop?force=true "3"`)
}
