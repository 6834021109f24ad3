package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/nodes"
)

// How is how [Raise], [RaiseAll] and [RaiseBy] go about it.
type How struct {
	// DryRun is whether nothing is changed: the results are what would become of the counters. Nodes
	// may run. A dry run does not check what Sure permits, and does not look for nodes.
	DryRun bool
	// Sure is whether what looks like a slip is done nevertheless: see slip. A dry run too names a
	// counter that the biz type does not have as it is only if Sure is set.
	Sure bool
	// Waits is called before it waits whether nodes still run, with their names; nil calls nobody.
	Waits func(nodes string)
	// Left is called with the biz types, in order, of which the store has counters that a raise of all
	// does not find: they are not defined, or have another strategy now. nil calls nobody.
	Left func(bizTypes []string)
	// Beside is whether nodes are not looked for. Only tests set it: the protocols bear a raise beside
	// nodes, and the number may be below what they hold.
	Beside bool
}

// A raise looks like a slip if it skips more numbers than these, and more than the counter has come
// to. A digit too many multiplies the number by ten or more, so it is noticed in every case that
// costs more than these. A backup is rarely so old that the counter has doubled since.
const (
	// mostSkipped is as many as seqd itself skips if the store is behind: the default of restoreGap.
	mostSkipped = 1_000_000
	// mostVoid is for gapless counters: each is a gap that somebody has to explain.
	mostVoid = 1_000
)

// plan is what a raise would do with a counter.
type plan struct {
	Raised
	counter string
	// stands is the highest number that cannot be issued any more, before, and fresh the first number
	// if that is below it: nothing was issued.
	stands, fresh int64
	// slip is why the raise looks like a slip, "" if it does not.
	slip string
	// unsaid is what the definition must say, because the store does not know what IDs looked like; ""
	// if it does.
	unsaid string
	// beside is whether nodes may run.
	beside bool
}

// plan finds out what a raise would do, and changes nothing.
func (f *repair) plan(ctx context.Context, j job) (p plan, err error) {
	if j.ledger {
		p, err = f.planLedger(ctx, j)
	} else {
		p, err = f.planCounter(ctx, j)
	}
	p.counter = j.counter
	if first := max(1, seqd.TraitsOf(j.Settings).First); p.stands < first {
		p.fresh = first
	}
	if err == nil {
		p.unsaid, err = f.unsaid(ctx, j.BizType)
	}
	return p, err
}

// unsaid returns what a definition must say before numbers continue, because the store has no
// record of what earlier IDs looked like; "" if it has, or if that makes no difference.
func (f *repair) unsaid(ctx context.Context, b seqd.BizType) (string, error) {
	problems := definitions.Unrecorded(b)
	if len(problems) == 0 {
		return "", nil
	}
	_, err := persist.ShapesIn(f.store.Documents()).Read(ctx, b.Name)
	if errors.Is(err, persist.ErrNotFound) {
		return fmt.Sprintf("%s: %s: %s", b.Name, problems[0].Key, problems[0].Text), nil
	}
	return "", err
}

// planLedger plans for a gapless counter. Nodes may run if they refuse, because it stands still or
// is closed, or if it stays where it is.
func (f *repair) planLedger(ctx context.Context, j job) (p plan, err error) {
	if p.Raised, err = f.raiseLedgerOnce(ctx, j.target, j.to, true); err != nil {
		return p, err
	}
	p.stands = p.Before
	p.beside = p.Ledger.Stood || p.Ledger.Opened || f.fence.failedOver || p.After == p.Before
	p.slip = slip(j.BizType, j.counter, p.stands, p.After, mostVoid)
	if p.Created {
		p.Before = 0
	}
	return p, nil
}

// planCounter plans for another counter. Nodes may run after a failover: numbers continue a gap
// above.
func (f *repair) planCounter(ctx context.Context, j job) (p plan, err error) {
	known, number, waiting, err := f.aim(ctx, j.target, j.to)
	if err != nil {
		return p, err
	}
	first := max(1, seqd.TraitsOf(j.Settings).First)
	p.Raised = Raised{Before: known.Max, After: max(known.Max, number, waiting), Waiting: waiting, Created: known.BizTag == "", DryRun: true}
	p.beside = f.fence.failedOver || known.FailedOver
	p.stands = max(known.Max, waiting, first-1)
	p.slip = slip(j.BizType, j.counter, p.stands, number, mostSkipped)
	if list, ok := countersOf(f.store, j.Settings).(namedCounters); ok && (f.isLost(known) || known.FailedOver && p.After > known.Max) {
		p.After += min(list.gap(known.Step)*max(1, known.Failovers), seqd.MaxNumber-p.After)
	}
	return p, nil
}

// slip returns why it looks like a slip to raise a counter that stands at stands to number, "" if
// it does not.
func slip(b seqd.BizType, counter string, stands, number, most int64) string {
	if last := cmp.Or(seqd.TraitsOf(b.Settings).Last, seqd.MaxNumber); number > last && stands <= last {
		return fmt.Sprintf("%s ends at %d, and %d is above that", counter, last, number)
	}
	if number-stands <= max(most, stands) {
		return ""
	}
	return fmt.Sprintf("%s stands at %d, and %d numbers would be skipped for good", counter, stands, number-stands)
}

// permit returns why counters must not be raised, nil if they may.
func (f *repair) permit(ctx context.Context, plans []plan) error {
	var slips []string
	for _, p := range plans {
		if p.unsaid != "" && !f.how.Sure {
			return fmt.Errorf("%w: the store has no record of what the IDs of earlier numbers look like, so later ones could repeat them: %s. "+
				"With --yes they are as those of a new biz type", ErrRefused, p.unsaid)
		}
		if p.slip != "" {
			slips = append(slips, p.slip)
		}
	}
	if err := asError(ErrRefused, slips); err != nil && !f.how.Sure {
		return err
	}
	alone := slices.ContainsFunc(plans, func(p plan) bool { return !p.beside })
	if !alone || f.how.Beside || !f.store.Shared() { // a store of one node is open here
		return nil
	}
	running, err := nodes.Running(ctx, f.store, f.how.Waits)
	if err == nil && len(running) > 0 {
		err = fmt.Errorf("%w: seqd runs: %s. A node goes on from what it knows: stop every seqd, raise, and start them again", ErrRefused, nodes.Few(running))
	}
	return err
}

// asError returns what an operator is told about slips, nil if there are none.
func asError(kind error, slips []string) error {
	if len(slips) == 0 {
		return nil
	}
	return fmt.Errorf("%w: this looks like a slip: %s. Look again at the number; if it is right, add --yes", kind, few(slips))
}

// few returns the first few of a list.
func few(list []string) string {
	const most = 3
	if len(list) > most {
		return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), len(list)-most)
	}
	return strings.Join(list, "; ")
}
