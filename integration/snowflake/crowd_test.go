package snowflake

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// A hundred nodes register at once, and each gets its own machine ID. The nodes run in one process,
// and share nothing else. No test runs beside it: the nodes are a load that a slow machine can just
// bear.
func TestHundredNodes(t *testing.T) {
	longtest.Only(t)
	const nodes = 100
	crowd := func(s system) {
		began := time.Now()
		process := node.Launch(s.t, s.t.TempDir(), append(s.env, fmt.Sprintf("SEQD_TEST_NODES=%d", nodes), long, "SEQD_SNOWFLAKE_RENEWINTERVAL=10s", "SEQD_SNOWFLAKE_POLLINTERVAL=1s",
			"SEQD_STORE_MONGO_TIMEOUT=10s", "SEQD_REDIS_TIMEOUT=5s", "SEQD_SNOWFLAKE_MAXSKEW=500ms")...)
		var urls []string
		await.True(s.t, "all listen", func() bool { urls = listening(process.Log()); return len(urls) == nodes })
		had := make(map[int64]bool)
		for i, url := range urls {
			l := &life{Node: process.At(url), f: s.fleet, name: fmt.Sprint("node ", i), history: ordercheck.New(), watched: make(chan struct{})}
			close(l.watched) // watching a hundred nodes would be too slow
			s.lives = append(s.lives, l)
			// A busy machine needs longer than AwaitReadiness waits.
			for deadline := began.Add(4 * time.Minute); time.Now().Before(deadline) && l.Readiness().Status != 200; {
				time.Sleep(100 * time.Millisecond)
			}
			l.AwaitReadiness(200, "")
			had[l.machine()] = true
			numbers, err := l.Take("order", 50)
			if err != nil {
				s.t.Fatal(err)
			}
			l.history.Add(l.history.Now(), l.name, numbers)
			_, _ = l.held()
		}
		s.t.Logf("%d nodes were ready after %v", nodes, time.Since(began))
		held := 0
		for _, slot := range s.slots() {
			if slot.Token != "" {
				held++
			}
		}
		if len(had) != nodes || held != nodes {
			s.t.Errorf("%d nodes have %d machine IDs, on record are %d", nodes, len(had), held)
		}
		s.finish()
	}
	t.Run("mongo", func(t *testing.T) { onMongoAlone(t, 10, crowd) })
	t.Run("redis", func(t *testing.T) { onRedisAlone(t, 10, crowd) })
}

// listening returns the addresses in the log of a process.
func listening(log string) (urls []string) {
	for line := range strings.SplitSeq(log, "\n") {
		var entry struct{ Msg, Addr string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			urls = append(urls, "http://"+entry.Addr)
		}
	}
	return urls
}
