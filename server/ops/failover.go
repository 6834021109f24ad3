package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy"
)

// ErrFailover is returned by [Failover] if the store is not one that can fail over.
var ErrFailover = errors.New("there is no failover to look at")

// mostNamed is how many counters Failover names of each kind: there may be 100,000.
const mostNamed = 100

// Failover writes to w which server takes the writes of the store, which one an operator has
// confirmed, and, if they differ, what may be lost and what to do. If confirm is true it confirms
// the present server: nodes create counters again, within seconds. It returns whether the store has
// failed over and is not confirmed. Nodes may be running. It is safe to call again, also after an
// error.
func Failover(ctx context.Context, cfg *config.Config, confirm bool, w io.Writer) (failedOver bool, err error) {
	if !cfg.Store.Shared() {
		return false, fmt.Errorf("%w: store.driver: %s is of one node", ErrFailover, cfg.Store.Driver)
	}
	store, err := backends.NewStore(ctx, cfg.Store, time.Now)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	fenced, ok := store.(persist.Fenced)
	if !ok {
		return false, fmt.Errorf("%w: a failover of %s loses nothing that it has acknowledged", ErrFailover, cfg.Store.Driver)
	}
	f := failover{cfg.ForRepair(), store, fenced, w}
	return f.run(ctx, confirm)
}

// failover is one call of [Failover].
type failover struct {
	cfg    *config.Config
	store  persist.Store
	fenced persist.Fenced
	w      io.Writer
}

func (f failover) run(ctx context.Context, confirm bool) (failedOver bool, err error) {
	fence, err := f.fenced.Fence(ctx)
	switch {
	case err != nil:
		return false, err
	case !fence.FailedOver():
		fmt.Fprintf(f.w, "the store has not failed over since it was created or confirmed: %s\n", fence.Current)
		return false, nil
	case confirm:
		if err := f.fenced.ConfirmFence(ctx, fence.Current); err != nil {
			return true, fmt.Errorf("confirm %s: %w", fence.Current, err)
		}
		fmt.Fprintf(f.w, "confirmed: %s; nodes create counters again\n", fence.Current)
		return false, nil
	}
	fmt.Fprintf(f.w, "the store has FAILED OVER, and nobody has confirmed that\n  now        %s\n  confirmed  %s\n", fence.Current, fence.Confirmed)
	return true, f.tell(ctx)
}

// advice is what an operator has to do.
const advice = `What was written shortly before the failover may be lost, also whole biz types, tokens and counters.
Counters that are there continue above a gap by themselves. One that is lost looks new, so no counter
is created until the failover is confirmed:
  1. make sure that the former server cannot come back and take writes
  2. for each biz type or period that may have issued and is listed without a counter, and for each
     new one whose definition is lost: seqd raise BIZTYPE[@PERIOD] NUMBER, with a number above all
     that left the store for it (the metric seqd_segment_highest of each node, also of one that is
     gone; or what callers got). One that has never issued needs nothing.
  3. seqd failover --confirm
`

// tell writes what may be lost.
func (f failover) tell(ctx context.Context) error {
	known, behind := make(map[string]bool), new(names)
	for c, err := range persist.EveryCounter(ctx, f.store.Counters()) {
		if err != nil {
			return err
		}
		if known[c.BizTag] = true; c.FailedOver {
			behind.add(fmt.Sprintf("%s: at %d; continues above a gap", c.BizTag, c.Max))
		}
	}
	missing := new(names)
	list, err := allDefined(ctx, f.cfg, f.store)
	if err != nil {
		return err
	}
	for _, b := range list {
		counter, counts := counterOf(b, time.Now())
		if counts && !known[counter] {
			missing.add(counter + ": no counter; it is new, or lost")
		}
	}
	missing.print(f.w)
	behind.print(f.w)
	_, err = io.WriteString(f.w, advice)
	return err
}

// counterOf returns the name of the counter that a biz type uses now. ok is false if its strategy
// has none.
func counterOf(b seqd.BizType, now time.Time) (counter string, ok bool) {
	if factory, err := strategy.Lookup(b.Strategy); err != nil || factory.Restored != nil {
		return "", false
	}
	if calendar := seqd.CalendarOf(b); calendar.Reset != seqd.ResetNever {
		return calendar.Now(now).Counter(b.Name), true
	}
	return b.Name, true
}

// names are lines of which the first mostNamed are printed.
type names struct {
	lines []string
	more  int
}

func (n *names) add(line string) {
	if len(n.lines) == mostNamed {
		n.more++
		return
	}
	n.lines = append(n.lines, line)
}

func (n *names) print(w io.Writer) {
	if len(n.lines) > 0 {
		fmt.Fprintf(w, "%s\n", strings.Join(n.lines, "\n"))
	}
	if n.more > 0 {
		fmt.Fprintf(w, "… and %d more\n", n.more)
	}
}

// gapped are the settings of a strategy that knows how many numbers nodes may hold that the store
// has lost. step is the counter's step as it was read last, 0 if it is not known.
type gapped interface{ LostGap(step int64) int64 }

// counters returns the counters of a store for [Raise]. If the store failed over, numbers continue
// a gap above the number that the operator named: nodes that run may hold ranges above it.
func counters(store persist.Store, settings any) persist.Counters {
	fenced, ok := store.(persist.Fenced)
	if !ok {
		return store.Counters()
	}
	g, _ := settings.(gapped)
	return namedCounters{store.Counters(), fenced, g}
}

// namedCounters are the counters of a store that can fail over.
type namedCounters struct {
	persist.Counters
	fenced persist.Fenced
	gapped gapped // nil if the strategy knows no gap
}

func (n namedCounters) gap(step int64) int64 {
	if n.gapped == nil {
		return 0
	}
	return n.gapped.LostGap(step)
}

// Allocate adds the gap if the store failed over since the counter was written.
func (n namedCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	known, err := n.Read(ctx, req.BizTag)
	if err != nil {
		return persist.Range{}, err
	}
	req.FailoverGap = n.gap(known.Step)
	return n.Counters.Allocate(ctx, req)
}

// Create stores a counter whose maximum an operator has named, and adds the gap if the store may
// have lost it.
func (n namedCounters) Create(ctx context.Context, c persist.Counter) error {
	err := n.Counters.Create(ctx, c)
	if !errors.Is(err, persist.ErrFailedOver) {
		return err
	}
	c.Max += min(n.gap(0), (persist.MaxNumber-c.Max)/2)
	return n.fenced.CreateLost(ctx, c)
}
