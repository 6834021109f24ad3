package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
)

// plain adapts a fault of links without an amount.
func plain(what func(*link) error) func(*link, time.Duration) error {
	return func(l *link, _ time.Duration) error { return what(l) }
}

// onLinks calls a function for the links of a fault.
func onLinks(what func(*link, time.Duration) error) func(*laboratory, *trouble) error {
	return func(l *laboratory, t *trouble) error {
		for _, link := range l.links(t) {
			if err := what(link, t.amount); err != nil {
				return err
			}
		}
		return nil
	}
}

func restoreLinks(l *laboratory, t *trouble) error { return onLinks(plain((*link).restore))(l, t) }

func (l *laboratory) links(t *trouble) (links []*link) {
	for _, n := range l.world.seqds {
		if t.target == n.Name() || t.target == "all" {
			links = append(links, n.link)
		}
	}
	return links
}

// storeServer returns the server that a fault is about, and names it in the record.
func (l *laboratory) storeServer(t *trouble) *storeServer {
	s := l.world.store.server(t.target)
	t.Target, t.Detail = s.host.name, t.target
	return s
}

func killStore(l *laboratory, t *trouble) error {
	t.server = l.storeServer(t)
	t.server.process.kill()
	return nil
}

func startStore(_ *laboratory, t *trouble) error { return t.server.start() }

func pauseStore(l *laboratory, t *trouble) error {
	t.server = l.storeServer(t)
	return t.server.process.pause()
}

func resumeStore(_ *laboratory, t *trouble) error { return t.server.process.resume() }

func fillStore(l *laboratory, t *trouble) error {
	t.server = l.storeServer(t)
	return fill(t.server.disk)
}

// clearStore makes room again. A server that ended because it could not write is started, as a
// supervisor would. MariaDB is restarted, as an operator does who does not want to wait.
func clearStore(_ *laboratory, t *trouble) error {
	return errors.Join(clearDisk(t.server.disk), t.server.revive())
}

// The ways of a failover.
const (
	primaryKilled = "the primary is killed"
	// it lives on, and nobody reaches it
	primaryCutOff = "the primary is cut off"
	// the standby has not received what was written in the last moments
	standbyLags = "the primary is killed after the standby was cut off"
)

// lagFor is how long the standby was cut off before.
const lagFor = 1500 * time.Millisecond

// failStoreOver takes the primary away and makes the standby the primary.
func failStoreOver(l *laboratory, t *trouble) error {
	store := l.world.store.(replicated)
	was := store.server(primaryRole)
	t.Target = was.host.name
	switch t.way {
	case primaryKilled:
		was.process.kill()
	case primaryCutOff:
		if err := isolate(was.host, t); err != nil {
			return err
		}
	case standbyLags:
		rule := store.lag()
		if err := rule.add(); err != nil {
			return err
		}
		time.Sleep(lagFor)
		was.process.kill()
		if err := rule.remove(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%q is not a kind of failover", t.way)
	}
	return store.failOver()
}

// rebuildStandby makes the former primary the standby. If the failover may have lost writes, it
// then does what docs/operations/failover.md asks of an operator.
func rebuildStandby(l *laboratory, t *trouble) error {
	err := l.world.store.(replicated).rebuild()
	if err != nil || !t.StoreLost {
		return err
	}
	return l.confirmFailover()
}

// inDoubt is more than what callers of a gapless counter can get between a failover and the raise
// that follows: answers that were on their way.
const inDoubt = 2000

// confirmFailover raises the counters that the store has lost, and those of gapless biz types, and
// confirms the failover.
func (l *laboratory) confirmFailover() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	there, err := l.world.store.counters(ctx)
	if err != nil {
		return err
	}
	n := l.world.seqds[0]
	for counter, number := range l.Journal.Highest() {
		if _, kept := there[counter]; kept {
			continue
		}
		if l.isGapless(counter) {
			number += inDoubt
		}
		if err := l.operate(n, "raise", counter, fmt.Sprint(number), "--yes"); err != nil {
			return err
		}
	}
	return l.operate(n, "failover", "--confirm")
}

// isGapless reports whether a counter belongs to a gapless biz type.
func (l *laboratory) isGapless(counter string) bool {
	name, _, _ := strings.Cut(counter, "@")
	name, _, _ = strings.Cut(name, "/")
	return slices.ContainsFunc(l.Shapes, func(s load.Shape) bool { return s.Name == name && s.Booked })
}
