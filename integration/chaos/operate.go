package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/integration/chaos/record"
)

const (
	// allKnow is how long it takes at most until every node knows of a change, where nothing keeps
	// it from the store (docs/API.md "Biz types at run time": 5 s).
	allKnow = 6 * time.Second
	// allSettle is how long nodes may take to notice that there was another cursor.
	allSettle = 6 * time.Second
)

// otherEnv is how a node is configured for a Redis that is not the one that is meant.
func (l *laboratory) otherEnv(n *seqd, way string) []string {
	switch way {
	case "another server":
		return []string{"SEQD_REDIS_ADDRS=" + l.world.second.addr()}
	case "another keyPrefix":
		return append(slices.Clone(n.home), "SEQD_REDIS_KEYPREFIX=other:")
	case "another db":
		return append(slices.Clone(n.home), "SEQD_REDIS_DB=1")
	}
	panic("no other Redis is " + way)
}

// onAll does something to all nodes at once.
func (l *laboratory) onAll(do func(*seqd) error) error {
	failures := make([]error, len(l.world.seqds))
	var all sync.WaitGroup
	for i, n := range l.world.seqds {
		all.Go(func() { failures[i] = do(n) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// moveRedis is what OPERATIONS.md says of another Redis: stop all nodes, change it, start.
func moveRedis(l *laboratory, t *trouble) error {
	l.stopNodes()
	return l.onAll(func(n *seqd) error {
		n.configure(l.otherEnv(n, t.way))
		return n.start()
	})
}

func moveRedisBack(l *laboratory, _ *trouble) error {
	l.stopNodes()
	return l.onAll(func(n *seqd) error {
		n.configure(n.home)
		return n.start()
	})
}

// misconfigure starts a node anew with another Redis than the others have.
func misconfigure(l *laboratory, t *trouble) error {
	n := l.seqd(t.target)
	n.configure(l.otherEnv(n, t.way))
	return restartSeqd(l, t)
}

// configure sets that right, and gives the nodes the time to notice.
func configure(l *laboratory, t *trouble) error {
	n := l.seqd(t.target)
	n.configure(n.home)
	err := restartSeqd(l, t)
	time.Sleep(allSettle)
	return err
}

func toPerNode(l *laboratory, t *trouble) error { return l.order(t, record.PerNode) }

// rolled says that nobody asks from before the ordering is strict again until all nodes have been
// restarted: none of them remembers then what it issued on its own.
const rolled = "nodes are restarted while nobody asks"

// toStrict ends when all nodes know that numbers are to be in order again.
func toStrict(l *laboratory, t *trouble) error {
	if t.way != rolled {
		return inOrder(func() error { return l.order(t, record.Strict) }, sleep(allKnow))
	}
	l.quiet.Store(true)
	defer l.quiet.Store(false)
	return inOrder(sleep(usualPatience), func() error { return l.order(t, record.Strict) }, l.roll, sleep(allKnow))
}

// roll restarts one node after the other.
func (l *laboratory) roll() error {
	for _, n := range l.world.seqds {
		l.stop(n)
		if err := inOrder(n.start, sleep(short)); err != nil {
			return err
		}
	}
	return nil
}

// sleep is a step that only takes time.
func sleep(d time.Duration) func() error {
	return func() error { time.Sleep(d); return nil }
}

// patience is how long what an operator does is tried, while other faults keep it from being done.
const patience = 40 * time.Second

// order changes the ordering of a biz type.
func (l *laboratory) order(t *trouble, ordering string) error {
	return l.insistOn(t, switchedName, http.MethodPatch, fmt.Sprintf(`{"ordering":%q}`, ordering))
}

// insistOn asks one node after the other for a change until one has made it.
func (l *laboratory) insistOn(t *trouble, name, method, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l.untilDone(ctx, rand.New(rand.NewPCG(uint64(l.Seed), uint64(t.ID))), name, method, "", body)
	return named(fmt.Sprintf("%s %s %s", method, name, body), ctx.Err())
}

// makeLate makes the biz type that the configuration lacks.
func (l *laboratory) makeLate(ctx context.Context) {
	l.untilDone(ctx, rand.New(rand.NewPCG(uint64(l.Seed), 0)), lateName, http.MethodPut, "", l.definition(lateName, nil))
}
