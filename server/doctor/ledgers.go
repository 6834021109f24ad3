package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

const (
	// crowded is the share of maxReserved, in percent, above which reserved numbers are reported.
	crowded = 80
	// longReleased is how long a number may be released before that is reported.
	longReleased = 24 * time.Hour
	// oddClock is how far ahead of the store's clock the last sign of a node may be.
	oddClock = 15 * time.Second
)

// ledgersCheck looks at gapless counters.
type ledgersCheck struct {
	storeCheck
	defined map[string]seqd.BizType
	keys    *keys
	now     time.Time     // of the store
	fence   persist.Fence // of the store; Current is "" if it compares none

	count                       int
	stopped, damaged, full, old some10
}

// some10 are names of which the first few are kept.
type some10 struct {
	names []string
	more  int
}

func (s *some10) add(name string) {
	if len(s.names) == mostKeysNamed {
		s.more++
		return
	}
	s.names = append(s.names, name)
}

// report says what the names have in common. found begins with how many there are.
func (s *some10) report(f *findings, level Level, change, found string) {
	if len(s.names) == 0 {
		return
	}
	f.add(level, "gapless counters", change, found+": %s", len(s.names)+s.more, strings.Join(s.names, ", "))
}

// ledgers checks whether gapless counters can be read and issue, and whether numbers wait.
func (c storeCheck) ledgers(ctx context.Context, f *findings, store persist.Store, defined map[string]seqd.BizType) {
	l := ledgersCheck{storeCheck: c, defined: defined, keys: newKeys(defined)}
	err := l.prepare(ctx, store)
	if err == nil {
		err = l.look(ctx, store)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		f.add(Info, "gapless counters", "", "%d were looked at, and there was no time for more", l.count)
	case err != nil:
		f.add(Fail, "gapless counters", "restore a backup; see docs/operations/restore.md", "they cannot be read: %v", err)
	case l.count == 0:
		return
	}
	l.report(f)
	l.beat(ctx, f, store)
}

// prepare reads the clock and the fence.
func (l *ledgersCheck) prepare(ctx context.Context, store persist.Store) (err error) {
	if l.now, err = store.Now(ctx); err != nil {
		return err
	}
	if fenced, ok := store.(persist.Fenced); ok {
		l.fence, err = fenced.Fence(ctx)
	}
	return err
}

func (l *ledgersCheck) look(ctx context.Context, store persist.Store) error {
	for doc, err := range persist.EveryDocument(ctx, store.Documents(), persist.LedgerKind) {
		if err != nil {
			return err
		}
		l.count++
		state, err := ledger.Decode(&doc)
		if err != nil {
			l.damaged.add(doc.Key)
			continue
		}
		l.counter(doc.Key, state)
	}
	return nil
}

// counter looks at one counter.
func (l *ledgersCheck) counter(name string, s *ledger.State) {
	bizType, key, digits, _ := seqd.SplitCounter(name)
	b, ok := l.defined[bizType]
	if ok && key != "" {
		l.keys.add(bizType, digits)
	}
	if ok {
		l.keys.left(name, mostNumbers(b), s.Last)
	}
	if l.fence.Current != "" && s.Fence != l.fence.Current {
		l.stopped.add(name)
	}
	if most, _ := config.Setting[int](b.Settings, "maxReserved"); ok && most > 0 && s.NumReserved()*100 > int64(most)*crowded {
		l.full.add(name)
	}
	if at := s.OldestReleased(); at > 0 && l.now.Sub(time.UnixMilli(at)) > longReleased {
		l.old.add(name)
	}
}

func (l *ledgersCheck) report(f *findings) {
	l.damaged.report(f, Fail, "restore a backup; see docs/operations/restore.md", "%d are damaged, or of a newer version")
	l.stopped.report(f, Fail, "say how far each had come: seqd raise; see docs/operations/raise.md", "%d stand still since the store failed over")
	l.full.report(f, Warn, "confirm or release sooner, or set maxReserved higher", "of %d more than 80 percent of maxReserved are reserved")
	l.old.report(f, Info, "make the number void if nobody will use it: a gap stays until then", "of %d a number is released for more than a day")
	l.keys.report(f)
	f.ok("gapless counters", "%d were looked at", l.count)
}

// beat checks whether the store's clock went back: reservations that were made before are reclaimed
// that much later.
func (l *ledgersCheck) beat(ctx context.Context, f *findings, store persist.Store) {
	for doc, err := range persist.EveryDocument(ctx, store.Documents(), persist.BeatKind) {
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				f.add(Fail, "gapless counters", "", "the sign of the nodes cannot be read: %v", err)
			}
			return
		}
		if ahead := time.UnixMilli(doc.Timestamp).Sub(l.now); ahead > oddClock {
			f.add(Warn, "clock", "keep the clock of the store by NTP", "it is %s behind the last sign of a node: it went back, and reservations end that much later", ahead.Round(time.Second))
		}
	}
}
