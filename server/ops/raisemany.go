package ops

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/internal/sheet"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/counters"
)

// Mark says how far a counter had come.
type Mark struct {
	// Counter is its name, as in [Raise].
	Counter string
	// Number is the highest number that anybody got, 1 to 2^53 − 1.
	Number int64
}

// check refuses a number out of its range.
func (m Mark) check() error {
	if m.Number < 1 || m.Number > seqd.MaxNumber {
		return fmt.Errorf("%w: %d is outside 1 to %d", ErrRaise, m.Number, seqd.MaxNumber)
	}
	return nil
}

// atLeast is the number, whatever the store knows.
func (m Mark) atLeast(int64) int64 { return m.Number }

// ReadMarks reads a mark from each line: the counter and the number, with a comma, a tab or spaces
// between them, as databases write tables. Empty lines and lines that begin with # are left out.
// Of lines that name the same counter the highest number counts. The error names the line.
func ReadMarks(r io.Reader) (list []Mark, err error) {
	lines, at := bufio.NewScanner(r), make(map[string]int)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(strings.TrimPrefix(lines.Text(), sheet.Mark))
		if text == "" || text[0] == '#' {
			continue
		}
		fields := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == '\t' || c == ' ' })
		if len(fields) != 2 {
			return nil, fmt.Errorf("%w: line %d is not a counter and a number: %.100q", ErrRaise, n, text)
		}
		number, ok := literal.Int(fields[1])
		if !ok {
			return nil, fmt.Errorf("%w: line %d: %.100q is not a whole number", ErrRaise, n, fields[1])
		}
		m := Mark{fields[0], number}
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("%w (line %d)", err, n)
		}
		if i, again := at[m.Counter]; again { // two files were joined
			list[i].Number = max(list[i].Number, m.Number)
			continue
		}
		at[m.Counter] = len(list)
		list = append(list, m)
	}
	return list, lines.Err()
}

// RaiseAll does what [Raise] does, for many counters, several at a time. It calls tell with each
// result, one call at a time, in no order. It checks all counters before it raises one. After other
// errors than ErrRaise and ErrRefused some of them may have been raised; it is safe to call it
// again.
func RaiseAll(ctx context.Context, cfg *config.Config, marks []Mark, how How, tell func(counter string, r Raised)) error {
	if len(marks) == 0 {
		return fmt.Errorf("%w: no counter is named", ErrRaise)
	}
	return repairing(ctx, cfg, marks[0].Counter, how, func(f *repair) error {
		jobs := make([]job, 0, len(marks))
		for _, m := range marks {
			t, err := f.named(ctx, m.Counter)
			if err != nil {
				return err
			}
			jobs = append(jobs, job{t, m.atLeast})
		}
		return f.raiseMany(ctx, jobs, tell)
	})
}

// By says which counters [RaiseBy] raises, and how far.
type By struct {
	// BizType names a biz type, and, after an @, a period of it: invoice or invoice@2026. All
	// counters that the store has of it are raised, those of all keys.
	BizType string
	// All is whether those of all biz types are raised. Then BizType is "". A dry run needs no All.
	All bool
	// Gap is how much above the highest number that the store knows, 0 to 2^53 − 1.
	Gap int64
	// Stopped is whether only gapless counters are raised that stand still after a failover. Then
	// it is safe to call [RaiseBy] again after an error. Otherwise the counters that were raised
	// already would be raised by another gap.
	Stopped bool
}

// RaiseBy does what [Raise] does, for all counters of a biz type that the store has. It cannot
// raise those that the store has lost. It calls tell as [RaiseAll] does. If there is none, a dry
// run returns nil, and so does one of By.Stopped if none stands still.
func RaiseBy(ctx context.Context, cfg *config.Config, by By, how How, tell func(counter string, r Raised)) error {
	if by.Gap < 0 || by.Gap > seqd.MaxNumber {
		return fmt.Errorf("%w: %d is outside 0 to %d", ErrRaise, by.Gap, seqd.MaxNumber)
	}
	return repairing(ctx, cfg, by.BizType, how, func(f *repair) error {
		list := func() ([]job, error) { return f.jobsOf(ctx, by) }
		if by.All || by.BizType == "" && how.DryRun {
			list = func() ([]job, error) { return f.everyJob(ctx, by) }
		}
		jobs, err := list()
		if err != nil {
			return err
		}
		return f.raiseMany(ctx, jobs, tell)
	})
}

// jobsOf returns what RaiseBy has to do.
func (f *repair) jobsOf(ctx context.Context, by By) (jobs []job, err error) {
	bizType, digits, dated := strings.Cut(by.BizType, "@")
	if name, _, keyed := strings.Cut(bizType, "/"); keyed {
		return nil, fmt.Errorf("%w: --by raises the counters of all keys: name %s without a key, or raise %s to a NUMBER without --by", ErrRaise, name, by.BizType)
	}
	owner, err := f.owner(ctx, bizType)
	if err != nil {
		return nil, err
	}
	if owner.unfit != "" {
		return nil, fmt.Errorf("%w: %s", ErrRaise, owner.unfit)
	}
	if by.Stopped && !owner.ledger {
		return nil, fmt.Errorf("%w: %s is not gapless: after a failover its counters continue by themselves", ErrRaise, bizType)
	}
	if _, whole := counters.ParseName(bizType, by.BizType); dated && !whole {
		return nil, fmt.Errorf("%w: no period is named %q: name one such as %s@2026 or %s@20261120", ErrRaise, digits, bizType, bizType)
	}
	names, err := f.namesOf(ctx, owner, by.Stopped)
	if err != nil {
		return nil, err
	}
	for _, name := range names[bizType] {
		if _, _, period, whole := seqd.SplitCounter(name); !whole || dated && period != digits {
			continue
		}
		t, err := f.find(ctx, name)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job{t, func(highest int64) int64 { return highest + min(by.Gap, seqd.MaxNumber-highest) }})
	}
	switch {
	case len(jobs) > 0 || f.how.DryRun || by.All:
		return jobs, nil
	case by.Stopped: // then there must be one that does not stand still
		_, err := f.jobsOf(ctx, By{BizType: by.BizType})
		return nil, err
	}
	return nil, fmt.Errorf("%w: the store has no such counter of %s", ErrRaise, by.BizType)
}

// everyJob returns a job for each counter of the store.
func (f *repair) everyJob(ctx context.Context, by By) (jobs []job, err error) {
	f.read = make(map[namesRead]map[string][]string) // once for all biz types
	list, _, err := allDefined(ctx, f.cfg, f.store)
	if err != nil {
		return nil, err
	}
	raised := make(map[string]bool)
	for _, b := range list {
		if _, counts := counterOf(b, time.Now()); !counts {
			continue
		}
		if owner, err := f.owner(ctx, b.Name); err == nil && by.Stopped && !owner.ledger {
			continue // after a failover it continues by itself
		}
		by.BizType, raised[b.Name] = b.Name, true
		more, err := f.jobsOf(ctx, by)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
	}
	if f.how.Left == nil || by.Stopped {
		return jobs, nil
	}
	return jobs, f.tellLeft(ctx, raised)
}

// tellLeft tells of which biz types the store has counters that are not raised.
func (f *repair) tellLeft(ctx context.Context, raised map[string]bool) error {
	left := make(map[string]bool)
	for _, ledgers := range []bool{false, true} {
		names, err := f.namesOf(ctx, target{ledger: ledgers}, false)
		if err != nil {
			return err
		}
		for bizType, list := range names {
			if !raised[bizType] && slices.ContainsFunc(list, func(name string) bool { _, whole := counters.ParseName(bizType, name); return whole }) {
				left[bizType] = true
			}
		}
	}
	if len(left) > 0 {
		f.how.Left(slices.Sorted(maps.Keys(left)))
	}
	return nil
}

// namesRead says which names were read.
type namesRead struct{ ledgers, stopped bool }

// namesOf returns, by biz type, the names of the counters that the store has, of all biz types whose
// counters are kept as those of t.
func (f *repair) namesOf(ctx context.Context, t target, stopped bool) (names map[string][]string, err error) {
	which := namesRead{t.ledger, stopped}
	if names, known := f.read[which]; known {
		return names, nil
	}
	names = make(map[string][]string)
	add := func(name string) {
		bizType, _, _, _ := seqd.SplitCounter(name)
		names[bizType] = append(names[bizType], name)
	}
	if t.ledger {
		err = f.ledgerNames(ctx, stopped, add)
	} else {
		for c, wrong := range persist.EveryCounter(ctx, f.store.Counters()) {
			if err = wrong; err != nil {
				break
			}
			add(c.BizTag)
		}
	}
	if f.read != nil && err == nil {
		f.read[which] = names
	}
	return names, err
}

// job is a counter to raise; to is described at [repair.raise].
type job struct {
	target
	to func(highest int64) int64
}

// atOnce is how many counters are raised at a time. Stores make the changes of several callers
// durable together.
const atOnce = 16

// raiseMany raises counters until one fails, and returns why. It looks at all of them before it
// raises one.
func (f *repair) raiseMany(ctx context.Context, jobs []job, tell func(counter string, r Raised)) error {
	plans := make([]plan, len(jobs))
	err := f.each(ctx, jobs, func(ctx context.Context, i int) (err error) {
		plans[i], err = f.plan(ctx, jobs[i])
		return err
	})
	if err != nil {
		return err
	}
	if f.how.DryRun {
		for _, p := range plans {
			tell(p.counter, p.Raised)
		}
		return nil
	}
	if err := f.permit(ctx, plans); err != nil {
		return err
	}
	var mu sync.Mutex // one tell at a time
	return f.each(ctx, jobs, func(ctx context.Context, i int) error {
		r, err := f.raise(ctx, jobs[i].target, jobs[i].to)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			tell(jobs[i].counter, r)
		}
		return err
	})
}

// each calls do for each job, several at a time, until one fails, and returns why.
func (f *repair) each(ctx context.Context, jobs []job, do func(ctx context.Context, i int) error) error {
	return each(ctx, len(jobs), atOnce, func(ctx context.Context, i int) error {
		err := do(ctx, i)
		if err != nil {
			err = fmt.Errorf("%s: %w", jobs[i].counter, err)
		}
		return err
	})
}

// each calls do for 0 to n − 1, most at a time, until one fails, and returns why.
func each(ctx context.Context, n, most int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(most, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err) // the first one counts
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
