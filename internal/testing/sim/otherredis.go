package sim

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// The other Redis that nodes are configured with, on purpose or by mistake.
const (
	otherServer = "another server"
	otherPrefix = "another keyPrefix"
	notAny      = "no Redis"
)

// allSettle is the longest time until nodes notice that there was another cursor.
const allSettle = 15 * time.Second

var otherRedises = []string{otherServer, otherPrefix}

var otherRedisKinds = []kind{
	// each Redis has its own keys
	{name: "redis-moved", weight: 2, needs: withRedis, holds: "seqd@all pause@all settings@", ways: otherRedises, least: some, most: long, after: 30 * time.Second, marks: record.Fault{LosesKeys: true},
		begin: moveRedis, end: moveRedisBack},
	{name: "two-redises", weight: 2, needs: withRedis, holds: "seqd pause@all link@all store@ partition@all settings@", targets: nodeNames, ways: otherRedises, least: some, most: long, after: 30 * time.Second,
		marks: record.Fault{LosesKeys: true, Unordered: record.Every}, begin: misconfigure, end: correct},
}

// useRedis configures a node with the Redis that a way names, or with the usual one.
func (n *node) useRedis(way string) {
	n.configure("SEQD_REDIS_ADDRS", map[string]string{otherServer: otherHost + ":6379"}[way])
	n.configure("SEQD_REDIS_KEYPREFIX", map[string]string{otherPrefix: "other:"}[way])
	n.turn.Lock()
	defer n.turn.Unlock()
	n.noRedis = way == notAny
}

// moveRedis follows docs/operations/changes.md for another Redis: stop all nodes, change it, start. If it holds the
// registry of machine IDs, the operator says so in between (docs/SNOWFLAKE.md).
func moveRedis(w *World, f *fault) {
	w.onAll((*node).stop)
	w.onAll(func(n *node) { n.useRedis(f.way) })
	if w.options.Registry {
		w.sayRestored(f)
	}
	w.onAll((*node).start)
}

func moveRedisBack(w *World, f *fault) {
	f.way = ""
	moveRedis(w, f)
}

// misconfigure restarts a node with another Redis than the others have.
func misconfigure(w *World, f *fault) {
	n := w.node(f)
	n.stop()
	n.useRedis(f.way)
	n.start()
}

// correct corrects that, and lets the nodes notice. A node that takes from a cursor for the first
// time since then asks the store which one counts, but goes on with the one that it knows if no
// answer comes within a second (docs/adr/0020-sequencer-epochs.md, 7). So each takes of each
// counter here, while order is not promised.
func correct(w *World, f *fault) {
	n := w.node(f)
	n.stop()
	n.useRedis("")
	n.start()
	for end := time.Now().Add(allSettle); time.Now().Before(end); time.Sleep(allSettle / 3) {
		w.takeOfAll()
	}
}

// takeOfAll takes a number of each counter of Redis at each node, once.
func (w *World) takeOfAll() {
	ctx, cancel := context.WithTimeout(context.Background(), load.UsualPatience)
	defer cancel()
	var all sync.WaitGroup
	for i := range w.load.Shapes {
		s := &w.load.Shapes[i]
		if s.Ordering != record.Strict || s.Sequencer == record.Store || s.Late && w.lateDefinition() == "" {
			continue
		}
		for _, n := range w.nodes {
			for _, counter := range s.Counters() {
				_, key, _ := strings.Cut(counter, "/")
				all.Go(func() { w.load.Ask(ctx, n, load.Question{BizType: s.Name, Of: key}) })
			}
		}
	}
	all.Wait()
}
