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
		return false, f.tellStopped(ctx)
	case confirm:
		if err := f.fenced.ConfirmFence(ctx, fence.Current); err != nil {
			return true, fmt.Errorf("confirm %s: %w", fence.Current, err)
		}
		fmt.Fprintf(f.w, "confirmed: %s; nodes create counters again within a second\n", fence.Current)
		return false, f.tellStopped(ctx)
	}
	fmt.Fprintf(f.w, "the store has FAILED OVER, and nobody has confirmed that\n  now        %s\n  confirmed  %s\n", fence.Current, fence.Confirmed)
	return true, f.tell(ctx)
}

// advice is what an operator has to do.
const advice = `What was written shortly before the failover may be lost, also whole biz types, pools of worker IDs,
tokens and counters. Counters that are there continue above a gap by themselves. One that is lost looks new, so no counter
is created until the failover is confirmed:
  1. make sure that the former server cannot come back and take writes
  2. for each biz type or period that may have issued and is listed without a counter, and for each
     new one whose definition is lost: seqd raise BIZTYPE[@PERIOD] NUMBER, with a number above all
     that left the store for it (the metric seqd_segment_highest of each node, also of one that is
     gone; or what callers got). One that has never issued needs nothing.
  3. seqd failover --confirm
`

// keyedAdvice is for step 2 if there are keyed biz types, and gaplessAdvice if gapless counters
// stand still.
const (
	keyedAdvice = `A key that began shortly before the failover may have lost its counter, and nothing lists it. Give the
highest number of each such key, from the records of your callers: seqd raise --file FILE
`
	gaplessAdvice = `Gapless counters stand still: they skip nothing silently. Say how far each one had come, and the
numbers between become void: seqd raise COUNTER NUMBER; or seqd raise --file FILE, with the highest
number of each, from the records of your callers; or, for all of a biz type, seqd raise --stopped
--by GAP BIZTYPE, with more numbers than were issued in the time that may be lost.
`
)

// tell writes what may be lost.
func (f failover) tell(ctx context.Context) error {
	known, behind := make(map[string]bool), new(names)
	keys := make(map[string]int) // by biz type
	for c, err := range persist.EveryCounter(ctx, f.store.Counters()) {
		if err != nil {
			return err
		}
		switch bizType, key, _, whole := seqd.SplitCounter(c.BizTag); {
		case !whole:
			continue // it counts no numbers
		case key != "":
			keys[bizType]++
		default:
			known[c.BizTag] = true
		}
		if c.FailedOver {
			behind.add(fmt.Sprintf("%s: at %d; continues above a gap", c.BizTag, c.Max))
		}
	}
	stopped, err := f.stopped(ctx, func(counter string) {
		if bizType, key, _, _ := seqd.SplitCounter(counter); key != "" {
			keys[bizType]++
		} else {
			known[counter] = true
		}
	})
	if err != nil {
		return err
	}
	missing, keyed, err := f.missing(ctx, known, keys)
	if err != nil {
		return err
	}
	missing.print(f.w)
	behind.print(f.w)
	stopped.print(f.w)
	text := advice
	if keyed {
		text += keyedAdvice
	}
	if len(stopped.lines) > 0 {
		text += gaplessAdvice
	}
	_, err = io.WriteString(f.w, text)
	return err
}

// missing returns the biz types that have no counter, and whether one is keyed. known are the
// counters that are there, keys how many of keys each biz type has.
func (f failover) missing(ctx context.Context, known map[string]bool, keys map[string]int) (missing *names, keyed bool, err error) {
	list, _, err := allDefined(ctx, f.cfg, f.store)
	if err != nil {
		return nil, false, err
	}
	missing = new(names)
	for _, b := range list {
		counter, counts := counterOf(b, time.Now())
		switch {
		case !counts:
		case seqd.TraitsOf(b.Settings).Keyed:
			keyed = true
			missing.add(fmt.Sprintf("%s: %d counters of keys; those of keys that are new may be lost", b.Name, keys[b.Name]))
		case !known[counter]:
			missing.add(counter + ": no counter; it is new, or lost")
		}
	}
	return missing, keyed, nil
}

// stopped returns the gapless counters that stand still, and calls found with each gapless counter.
func (f failover) stopped(ctx context.Context, found func(counter string)) (*names, error) {
	list := new(names)
	fence, err := fenceOf(ctx, f.store)
	if err != nil {
		return nil, err
	}
	for l, err := range everyLedger(ctx, f.store) {
		if err != nil {
			return nil, err
		}
		if found(l.counter); fence.stops(l.state) {
			list.add(fmt.Sprintf("%s: at %d, gapless; stands still until it is raised", l.counter, l.state.Last))
		}
	}
	return list, nil
}

// tellStopped writes which gapless counters stand still, also after the failover was confirmed.
func (f failover) tellStopped(ctx context.Context) error {
	list, err := f.stopped(ctx, func(string) {})
	if err != nil || len(list.lines) == 0 {
		return err
	}
	list.print(f.w)
	_, err = io.WriteString(f.w, gaplessAdvice)
	return err
}

// counterOf returns the name of the counter that a biz type uses now, without a key. ok is false if
// its strategy has none.
func counterOf(b seqd.BizType, now time.Time) (counter string, ok bool) {
	if factory, err := strategy.Lookup(b.Strategy); err != nil || factory.Restored != nil {
		return "", false
	}
	if calendar := seqd.TraitsOf(b.Settings).Calendar; calendar.Reset != seqd.ResetNever {
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

// countersOf returns the counters of a store for [Raise]. If the store failed over, numbers
// continue a gap above the number that the operator named: nodes that run may hold ranges above it.
func countersOf(store persist.Store, settings any) persist.Counters {
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
