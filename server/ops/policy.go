package ops

import (
	"fmt"
	"maps"
	"slices"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/snapshot"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// A policy is all that differs between a restore and a move while an empty store is filled. A
// restore skips numbers, because nodes may have gone on after the snapshot. A move skips none,
// because its source was shut. A policy decides, and neither reads nor writes: [filling] does that.
//
//	                      restore                                 move
//	counter               above a gap, or --highest               as it was, plus a gap for each failover
//	cursor in Redis       counts as issued, and ends              goes on, if Redis serves the cluster
//	gapless counter       above --gapless, or --highest;          as it was, with the fence of the new store
//	                      revision + 2^32
//	leases of machine IDs above all that may have been granted    as they were, unless a failover lost some
//	a former restore      is followed by a new one                is copied
//	the mark is of        the file and the flags                  the move
//
// What they write besides is in the lists of steps that [Restore], [Move] and [Import] give to
// filling.run.
type policy interface {
	// seeBizType and see take note of what is read before anything is written.
	seeBizType(b seqd.BizType)
	see(h snapshot.Header, r snapshot.Record)
	// check returns why what was seen cannot be brought into a store.
	check(f *facts) error
	// checkRedis returns why it cannot be with the Redis of the configuration. ends is whether the
	// cursors there count as issued.
	checkRedis(f *facts) (ends bool, err error)
	// identity is what a repeat of the command has in common with it.
	identity(f *facts) []any
	// counter, document and registry return what is written, given what was read. kept is whether
	// anything is; t is what the registry of the store has.
	counter(f *facts, c snapshot.Counter) persist.Counter
	document(f *facts, d persist.Document) (next persist.Document, kept bool, err error)
	registry(f *facts, set persist.SlotSet, t persist.SlotTable) persist.SlotSet
}

// facts are what policies decide by.
type facts struct {
	contents Contents // of the source
	owner    string   // the cluster that the Redis of the configuration serves, "" for none
	fence    string   // the present one of the store that is filled
	now      int64    // of that store, in ms
}

// gaps says of each biz type how many numbers a restore skips at least.
type gaps map[string]int64

func (g gaps) see(b seqd.BizType) { g[b.Name] = max(g[b.Name], seqd.TraitsOf(b.Settings).LeastGap) }

// usual returns how many numbers are skipped above a counter unless somebody says otherwise.
func (g gaps) usual(c snapshot.Counter) int64 {
	bizType, _, _, whole := seqd.SplitCounter(c.BizTag)
	if !whole {
		return 0 // it counts no numbers
	}
	return max(LeastGap, g[bizType], 10*min(c.Step, seqd.MaxNumber/10))
}

// lost returns how many numbers failovers may have lost that nobody has noticed: the counter would
// have continued above a gap for each.
func (g gaps) lost(c snapshot.Counter) int64 { return min(c.Failovers*g.usual(c), seqd.MaxNumber) }

// above returns a counter as it is written that continues above a gap, if it counts numbers.
func above(c persist.Counter, gap int64) persist.Counter {
	if _, _, _, whole := seqd.SplitCounter(c.BizTag); whole && !sabotage.Off(sabotage.RestoreRaise) {
		c.Max += min(gap, seqd.MaxNumber-c.Max)
	}
	c.FailedOver, c.Failovers = false, 0
	return c
}

// withoutCursor returns a counter that has none in Redis: one can have the same epoch there, and be
// ahead or behind.
func withoutCursor(c persist.Counter) persist.Counter {
	if c.Epoch != persist.StoreEpoch {
		c.Epoch = ""
	}
	return c
}

// aboveLeases returns the set of a registry whose leases begin above all that may have been granted
// until now, lag before the store learned of it.
func aboveLeases(f *facts, set persist.SlotSet, t persist.SlotTable, lag int64) persist.SlotSet {
	if !sabotage.Off(sabotage.RestoreRaise) {
		set.Floor = max(set.Floor, max(t.Now, f.contents.Ended)+set.Ahead+lag)
	}
	return set
}

// standsStill reports whether a gapless counter stood still, because the store had failed over.
func standsStill(h snapshot.Header, state *ledger.State) bool {
	return h.Fence != "" && state.Fence != h.Fence
}

// restorePolicy skips what may have been issued since the snapshot.
type restorePolicy struct {
	how     Restoring
	highest map[string]int64 // what how.Highest says

	gaps   gaps
	steps  int64                   // the largest usual gap of a counter
	before int64                   // the gap of a restore before the snapshot, which nobody had confirmed
	named  map[string]seqd.BizType // those that have counters in highest
	stands map[string]snapshotted  // what highest names and the snapshot has

	unnamed, stood string // a gapless counter that highest does not name, and one that stood still
	low            error
}

// snapshotted says how far a counter had come in a snapshot.
type snapshotted struct {
	number  int64
	gapless bool
}

// largest returns the largest gap that is skipped above a counter.
func (p *restorePolicy) largest() int64 {
	if p.how.By != nil {
		return *p.how.By
	}
	return max(LeastGap, p.steps)
}

func newRestorePolicy(how Restoring) (*restorePolicy, error) {
	p := &restorePolicy{how: how, highest: make(map[string]int64), gaps: make(gaps), named: make(map[string]seqd.BizType), stands: make(map[string]snapshotted)}
	for _, gap := range []*int64{how.By, how.Gapless} {
		if gap != nil && (*gap < 0 || *gap > seqd.MaxNumber) {
			return nil, fmt.Errorf("%w: a gap of %d is outside 0 to %d", ErrSnapshot, *gap, seqd.MaxNumber)
		}
	}
	for _, m := range how.Highest {
		bizType, _, _, whole := seqd.SplitCounter(m.Counter)
		if !whole {
			return nil, fmt.Errorf("%w: no counter is named %q", ErrSnapshot, m.Counter)
		}
		p.highest[m.Counter] = max(p.highest[m.Counter], m.Number)
		p.named[bizType] = seqd.BizType{}
	}
	return p, nil
}

func (p *restorePolicy) seeBizType(b seqd.BizType) {
	p.gaps.see(b)
	if _, is := p.named[b.Name]; is {
		p.named[b.Name] = b
	}
}

func (p *restorePolicy) see(h snapshot.Header, r snapshot.Record) {
	switch d := r.Document; {
	case r.Counter != nil:
		p.steps = max(p.steps, p.gaps.usual(*r.Counter))
		p.stand(r.Counter.BizTag, r.Counter.Max, false)
	case d == nil:
	case d.Kind == persist.LedgerKind:
		state, err := ledger.Decode(d)
		if err != nil {
			return // whoever reads the snapshot finds that, too
		}
		p.stand(d.Key, state.Last, true)
		switch number, named := p.highest[d.Key]; {
		case named && number < state.Last:
			p.low = fmt.Errorf("%w: --highest says that %s had come to %d, and it was at %d in the snapshot already: name the last number that left it, confirmed or not", ErrSnapshot, d.Key, number, state.Last)
		case !named:
			p.unnamed = d.Key
			if standsStill(h, state) {
				p.stood = d.Key
			}
		}
	default:
		if before, err := persist.RestoredIn(*d); err == nil {
			p.before = before.Gap
		}
	}
}

// stand notes how far a counter had come that highest names. Of two of the same name the gapless
// one, which comes later, issues.
func (p *restorePolicy) stand(counter string, number int64, gapless bool) {
	if _, named := p.highest[counter]; named {
		p.stands[counter] = snapshotted{number, gapless}
	}
}

func (p *restorePolicy) check(f *facts) error {
	switch {
	case f.contents.Move != nil:
		return fmt.Errorf("%w: the file is an export, after which nothing was issued: seqd import --from", ErrSnapshot)
	case p.low != nil:
		return p.low
	case p.stood != "":
		return fmt.Errorf("%w: %s stood still when the snapshot was made, because the store had failed over: nobody knows how far it had come; name it with --highest", ErrSnapshot, p.stood)
	case p.unnamed != "" && p.how.Gapless == nil:
		return fmt.Errorf("%w: the snapshot has %d gapless counters, and nobody has said how far %s had come since: name each with --highest, or say with --gapless "+
			"how many numbers of each become void; 0 only if none was issued since the snapshot", ErrSnapshot, f.contents.Ledgers, p.unnamed)
	}
	return nil
}

// checkSlips returns an error if a flag looks like a slip, by the rule of a raise. ceils are how
// far the cursors in Redis went, of counters in the order of p.counters.
func (p *restorePolicy) checkSlips(f *facts, ceils []int64) error {
	if p.how.Sure {
		return nil
	}
	var slips []string
	add := func(slip string) {
		if slip != "" {
			slips = append(slips, slip)
		}
	}
	for i, counter := range p.counters() {
		bizType, _, _, _ := seqd.SplitCounter(counter)
		b := p.named[bizType]
		has, known := p.stands[counter]
		if !known {
			factory, err := strategy.Lookup(b.Strategy)
			has.gapless = err == nil && factory.Ledger
		}
		stands, most := max(has.number, seqd.TraitsOf(b.Settings).First-1), int64(mostVoid)
		if !has.gapless {
			stands, most = max(stands, ceils[i]), mostSkipped
		}
		add(slip(b, counter, stands, p.highest[counter], most))
	}
	// A gap is for every counter, so it is compared with the one that has come furthest.
	for _, gap := range []struct {
		flag    string
		number  *int64
		most    int64
		gapless bool
	}{{"--by", p.how.By, mostSkipped, false}, {"--gapless", p.how.Gapless, mostVoid, true}} {
		furthest := int64(-1)
		for _, h := range f.contents.BizTypes {
			if h.Gapless == gap.gapless {
				furthest = max(furthest, h.Highest)
			}
		}
		if gap.number != nil && furthest >= 0 {
			add(slip(seqd.BizType{}, gap.flag+": the highest counter", furthest, furthest+*gap.number, gap.most))
		}
	}
	return asError(ErrSnapshot, slips)
}

// counters returns the names in highest.
func (p *restorePolicy) counters() []string { return slices.Sorted(maps.Keys(p.highest)) }

func (p *restorePolicy) checkRedis(*facts) (ends bool, err error) { return true, nil }

func (p *restorePolicy) identity(f *facts) []any {
	return []any{f.contents.SHA256, p.how.By, p.how.Gapless, p.how.ShutTokens, p.highest}
}

func (p *restorePolicy) counter(_ *facts, c snapshot.Counter) persist.Counter {
	gap := p.gaps.usual(c)
	if p.how.By != nil {
		gap = *p.how.By
	}
	// There was a gap to come already for each failover, whatever was issued since the snapshot.
	gap += p.gaps.lost(c)
	if number, named := p.highest[c.BizTag]; named {
		gap = max(0, number-c.Max)
	}
	return withoutCursor(above(c.Counter, gap))
}

// revisions is how much later the revision of a restored ledger is: a node that holds the former
// one must not find the revision that it expects.
const revisions = 1 << 32

func (p *restorePolicy) document(f *facts, d persist.Document) (next persist.Document, kept bool, err error) {
	if d.Kind == persist.RestoredKind { // what this restore says replaces it
		return d, false, nil
	}
	if d.Kind != persist.LedgerKind {
		return d, true, nil
	}
	state, err := ledger.Decode(&d)
	if err != nil {
		return d, true, err
	}
	op := ledger.Op{Kind: ledger.Raise, To: state.Last, Reason: raiseReason, Caller: "seqd snapshot restore", Fence: f.fence}
	if number, named := p.highest[d.Key]; !sabotage.Off(sabotage.RestoreRaise) {
		switch {
		case named:
			op.To = max(op.To, number)
		case p.how.Gapless != nil:
			op.To += min(*p.how.Gapless, seqd.MaxNumber-op.To)
		}
	}
	policy := state.Policy()
	if _, err := state.Apply(f.now, &policy, &op, nil); err != nil {
		return d, true, fmt.Errorf("%s: %w", d.PersistID(), err)
	}
	next, err = state.Document(d.Key, f.now)
	next.Revision += revisions
	return next, true, err
}

func (p *restorePolicy) registry(f *facts, set persist.SlotSet, t persist.SlotTable) persist.SlotSet {
	set.Incarnation = persist.NewEpoch()
	return aboveLeases(f, set, t, t.Lag)
}

// restored returns what keeps counters that the snapshot lacks from beginning at their start. ok is
// false if nothing was issued that the store could lack.
func (p *restorePolicy) restored(f *facts) (r persist.Restored, ok bool) {
	r = persist.Restored{Began: f.contents.Began, At: f.now, Gap: max(LeastGap, p.steps)}
	for _, gap := range p.gaps {
		r.Gap = max(r.Gap, gap)
	}
	if p.how.By != nil && !f.contents.FailedOver {
		r.Gap = *p.how.By
	}
	r.Gap = max(r.Gap, p.before)
	return r, r.Gap > 0
}

// movePolicy skips nothing: what it moves was shut.
type movePolicy struct {
	leaveRedis bool
	gaps       gaps
	stood      string // a gapless counter that stood still
	leases     string // a biz type whose machine IDs are leased in Redis
}

func (p *movePolicy) seeBizType(b seqd.BizType) {
	p.gaps.see(b)
	if seqd.TraitsOf(b.Settings).Redis == "registry" {
		p.leases = b.Name
	}
}

func (p *movePolicy) see(h snapshot.Header, r snapshot.Record) {
	if d := r.Document; d != nil && d.Kind == persist.LedgerKind {
		if state, err := ledger.Decode(d); err == nil && standsStill(h, state) {
			p.stood = d.Key
		}
	}
}

func (p *movePolicy) check(f *facts) error {
	switch {
	case f.contents.Move == nil:
		return fmt.Errorf("%w: the file is a snapshot, after which numbers may have been issued: seqd snapshot restore", ErrSnapshot)
	case f.contents.FailedOver:
		return fmt.Errorf("%w: the server of the store has failed over, and nobody has confirmed that: seqd failover --confirm, and move then", ErrSnapshot)
	case p.stood != "":
		return fmt.Errorf("%w: %s stands still because the store has failed over: raise it (seqd raise), and move then", ErrSnapshot, p.stood)
	}
	return nil
}

func (p *movePolicy) checkRedis(f *facts) (ends bool, err error) {
	switch {
	case !f.contents.Move.Redis || f.sameRedis():
	case p.leases != "":
		err = fmt.Errorf("%w: machine IDs of %s are leased in the Redis of the former store, and the new configuration has another Redis, or none: "+
			"give it the same redis.addrs, redis.db and redis.keyPrefix", ErrSnapshot, p.leases)
	case !p.leaveRedis:
		err = fmt.Errorf("%w: the nodes of the former store had a Redis, and the new configuration has another one, or none, or an empty one: give it the same redis.addrs, redis.db and "+
			"redis.keyPrefix; or add --leave-redis, and the rest of the numbers in its cursors is skipped, and answers to Idempotency-Keys and the state of rate limits are forgotten", ErrSnapshot)
	}
	return false, err
}

// sameRedis reports whether the Redis of the configuration has the cursors of the source.
func (f *facts) sameRedis() bool { return f.owner == f.contents.Cluster }

// identity has no sum of records: a move that goes on reads the source again.
func (p *movePolicy) identity(f *facts) []any { return []any{"move", f.contents.Move.ID} }

func (p *movePolicy) counter(f *facts, c snapshot.Counter) persist.Counter {
	next := above(c.Counter, p.gaps.lost(c))
	if c.Failovers == 0 && f.sameRedis() {
		return next
	}
	return withoutCursor(next)
}

func (p *movePolicy) document(f *facts, d persist.Document) (next persist.Document, kept bool, err error) {
	if d.Kind != persist.LedgerKind {
		return d, true, nil
	}
	state, err := ledger.Decode(&d)
	if err != nil || state.Fence == f.fence {
		return d, true, err
	}
	state.Fence = f.fence
	next, err = state.Document(d.Key, d.Timestamp)
	return next, true, err
}

// lostLeases is how old the leases can be that a failover of the former store has lost, in ms: it
// is the [persist.SlotTable.Lag] of every store that can lose some.
const lostLeases = 60_000

func (p *movePolicy) registry(f *facts, set persist.SlotSet, t persist.SlotTable) persist.SlotSet {
	if set.Source == f.contents.Fence {
		return set
	}
	return aboveLeases(f, set, t, max(t.Lag, lostLeases))
}
