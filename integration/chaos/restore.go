package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// What happens to the nodes in a restore.
const (
	stopped       = "stopped"
	killed        = "killed"
	cutOffAtStart = ", the first to start is cut off from Redis"
)

const (
	perNodeFor = 3 * time.Second // after a restore, until the ordering is strict again
	// long enough for a node without Redis to issue on its own for a while
	aloneFor = 6 * time.Second
)

// backup is a copy of the whole store.
type backup struct {
	putBack func(context.Context) error
	late    bool // load.LateName is in it
}

// beginRestore takes a backup while a biz type's ordering is per-node, and, if possible, before
// another biz type is created.
func beginRestore(l *laboratory, t *trouble) error {
	return inOrder(
		func() error { return l.order(t, record.PerNode) },
		func() error { return l.takeBackup(t) },
		func() error { return l.order(t, record.Strict) },
		func() error { return l.makeLateOnce(t) },
	)
}

// takeBackup reads the store while nothing writes to it, as a snapshot would.
func (l *laboratory) takeBackup(t *trouble) error {
	l.mu.Lock()
	t.backup = &backup{late: l.late}
	l.mu.Unlock()
	all := &trouble{planned: planned{target: "all"}}
	if err := onLinks(plain((*link).hang))(l, all); err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond) // let commands that had passed the links finish
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	t.backup.putBack, err = l.world.store.backup(ctx)
	return errors.Join(err, restoreLinks(l, all))
}

// makeLateOnce creates the biz type that is not in the configuration, unless an earlier restore
// has.
func (l *laboratory) makeLateOnce(t *trouble) error {
	l.mu.Lock()
	made := l.late
	l.late = true
	l.mu.Unlock()
	if made {
		return nil
	}
	return l.insistOn(t, load.LateName, http.MethodPut, l.Definition(load.LateName, nil))
}

// endRestore follows docs/operations/restore.md. It does not change Redis.
func endRestore(l *laboratory, t *trouble) error {
	var issued map[string]int64
	return inOrder(
		func() error { return l.endNodes(strings.HasPrefix(t.way, killed)) },
		func() (err error) { issued, err = l.mayBeIssued(); return err },
		func() error { return l.putBack(t.backup) },
		func() error { return l.raiseAll(t, issued) },
		func() error {
			if strings.HasSuffix(t.way, cutOffAtStart) {
				return l.startCutOff(t, issued[load.LateName]+1)
			}
			return l.startAtOnce(t, issued[load.LateName]+1)
		},
	)
}

// putBack replaces the content of the store by a backup.
func (l *laboratory) putBack(b *backup) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return b.putBack(ctx)
}

// startAtOnce starts all nodes, and brings everything back to the state before the restore.
func (l *laboratory) startAtOnce(t *trouble, start int64) error {
	return inOrder(
		func() error { return l.onAll((*seqd).start) },
		func() error { return l.makeAgain(t, start) },
		sleep(perNodeFor),
		func() error { return l.order(t, record.Strict) },
		sleep(allKnow),
	)
}

// startCutOff is like startAtOnce, except that the first node cannot reach Redis and issues on its
// own before the others start.
func (l *laboratory) startCutOff(t *trouble, start int64) error {
	return inOrder(
		func() error { return l.cutFromRedis(t) },
		l.seqd(t.target).start,
		func() error { return l.makeAgain(t, start) },
		sleep(aloneFor),
		func() error { return l.order(t, record.Strict) },
		func() error { return l.onAll((*seqd).start) },
		sleep(allKnow),
		t.reconnect,
	)
}

// endNodes ends all nodes, and waits until all their answers are in the journal.
func (l *laboratory) endNodes(kill bool) error {
	end := l.stop
	if kill {
		end = (*seqd).kill
	}
	err := l.onAll(func(n *seqd) error { end(n); return nil })
	l.Sending.Lock()
	defer l.Sending.Unlock()
	return err
}

// mayBeIssued returns the highest number of each counter that may have been issued. Usually that is
// the highest number that callers have seen. If display forms hide the number, or if nodes issue
// from their own ranges, of which only an answer for a key in Redis may be left, it is the value in
// the store that is about to be lost.
func (l *laboratory) mayBeIssued() (issued map[string]int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lost, err := l.world.store.counters(ctx)
	return load.Enough(l.Shapes, l.Journal.Highest(), lost), err
}

// raiseAll runs `seqd raise --yes` for each counter of the backup, and `seqd restored`.
func (l *laboratory) raiseAll(t *trouble, issued map[string]int64) error {
	n := l.seqd(t.target)
	for counter, number := range issued {
		if counter == load.LateName && !t.backup.late {
			continue // it is created again
		}
		if err := l.operate(n, "raise", counter, fmt.Sprint(number), "--yes"); err != nil {
			return err
		}
	}
	return l.operate(n, "restored")
}

// operate repeats a command of seqd until it succeeds, because Redis may be away.
func (l *laboratory) operate(n *seqd, args ...string) error {
	return within(patience, func() error {
		said, err := n.do(args...)
		if err == nil {
			l.Journal.Say("  %s", said)
		}
		return err
	})
}

// cutFromRedis cuts a node off from every server except the Sentinel on its host.
func (l *laboratory) cutFromRedis(t *trouble) error {
	n := l.seqd(t.target)
	var rules []rule
	for _, s := range append(append([]*redisServer{l.world.second}, l.world.redises...), l.world.sentinels...) {
		if s.host != n.host {
			rules = append(rules, incoming(n.host, s.host), incoming(s.host, n.host))
		}
	}
	return t.enforce(rules...)
}

// reconnect undoes cutFromRedis.
func (t *trouble) reconnect() (err error) {
	for _, undo := range t.undo {
		err = errors.Join(err, undo())
	}
	t.undo = nil
	return err
}

// makeAgain creates the biz type that the backup lacks, with a start above all that was issued.
func (l *laboratory) makeAgain(t *trouble, start int64) error {
	if t.backup.late {
		return nil
	}
	return l.insistOn(t, load.LateName, http.MethodPut, l.Definition(load.LateName, load.Settings{"start": start}))
}
