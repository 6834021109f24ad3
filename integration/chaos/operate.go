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

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

const (
	// allKnow is the longest time until every node has a change, if nothing cuts it off from the
	// store (docs/API.md "Biz types at run time": 5 s).
	allKnow = 6 * time.Second
	// allSettle is the longest time until nodes notice that there was another cursor.
	allSettle = 6 * time.Second
)

// otherEnv returns the settings of a node for the wrong Redis.
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

// onAll calls a function for all nodes at once.
func (l *laboratory) onAll(do func(*seqd) error) error {
	failures := make([]error, len(l.world.seqds))
	var all sync.WaitGroup
	for i, n := range l.world.seqds {
		all.Go(func() { failures[i] = do(n) })
	}
	all.Wait()
	return errors.Join(failures...)
}

// moveRedis follows docs/operations/changes.md for another Redis: stop all nodes, change it, start.
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

// misconfigure restarts a node with another Redis than the others.
func misconfigure(l *laboratory, t *trouble) error {
	n := l.seqd(t.target)
	n.configure(l.otherEnv(n, t.way))
	return restartSeqd(l, t)
}

// configure corrects that, and gives the nodes time to notice.
func configure(l *laboratory, t *trouble) error {
	n := l.seqd(t.target)
	n.configure(n.home)
	err := restartSeqd(l, t)
	time.Sleep(allSettle)
	return err
}

func toPerNode(l *laboratory, t *trouble) error { return l.order(t, record.PerNode) }

// The ways of a change of the sequencer, which begins and ends with the cursor in Redis.
const (
	toStore     = "to the store and back"
	overPerNode = "to the store, to per-node and back"
)

func toOtherSequencer(l *laboratory, t *trouble) error {
	t.IfRedis = t.way == toStore
	err := l.insistOn(t, load.MovingName, http.MethodPatch, fmt.Sprintf(`{"sequencer":%q}`, record.Store))
	if err != nil || t.way != overPerNode {
		return err
	}
	time.Sleep(short)
	return l.insistOn(t, load.MovingName, http.MethodPatch, fmt.Sprintf(`{"ordering":%q}`, record.PerNode))
}

// toFirstSequencer makes the cursor in Redis the sequencer again, and waits until all nodes know
// it.
func toFirstSequencer(l *laboratory, t *trouble) error {
	return inOrder(
		func() error {
			return l.insistOn(t, load.MovingName, http.MethodPatch, fmt.Sprintf(`{"ordering":%q,"sequencer":"redis"}`, record.Strict))
		},
		sleep(allKnow),
	)
}

// rolled is the kind of change in which there are no calls from before the ordering is strict again
// until all nodes have restarted. Then no node remembers what it issued on its own.
const rolled = "nodes are restarted without load"

// toStrict makes the ordering strict and waits until all nodes know it.
func toStrict(l *laboratory, t *trouble) error {
	if t.way != rolled {
		return inOrder(func() error { return l.order(t, record.Strict) }, sleep(allKnow))
	}
	l.Quiet.Store(true)
	defer l.Quiet.Store(false)
	return inOrder(sleep(load.UsualPatience), func() error { return l.order(t, record.Strict) }, l.roll, sleep(allKnow))
}

// roll restarts the nodes one by one.
func (l *laboratory) roll() error {
	for _, n := range l.world.seqds {
		l.stop(n)
		if err := inOrder(n.start, sleep(short)); err != nil {
			return err
		}
	}
	return nil
}

// sleep is a step that only waits.
func sleep(d time.Duration) func() error {
	return func() error { time.Sleep(d); return nil }
}

// order changes the ordering of a biz type.
func (l *laboratory) order(t *trouble, ordering string) error {
	return l.insistOn(t, load.SwitchedName, http.MethodPatch, fmt.Sprintf(`{"ordering":%q}`, ordering))
}

// insistOn requests a change from the nodes in turn until one has made it.
func (l *laboratory) insistOn(t *trouble, name, method, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l.UntilDone(ctx, rand.New(rand.NewPCG(uint64(l.Options.Seed), uint64(t.ID))), name, method, "", body)
	return named(fmt.Sprintf("%s %s %s", method, name, body), ctx.Err())
}

// makeLate creates the biz type that is not in the configuration.
func (l *laboratory) makeLate(ctx context.Context) {
	l.UntilDone(ctx, rand.New(rand.NewPCG(uint64(l.Options.Seed), 0)), load.LateName, http.MethodPut, "", l.Definition(load.LateName, nil))
}
