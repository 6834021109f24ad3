// Package figures shows what happens in the cluster: GET /overview.
//
// Every 5 seconds each node adds what it has counted to a [window] of 15 minutes. If other nodes
// can use the store, it writes that as one document, a [report], with what it found when it looked
// at its biz types. The node that is asked merges the reports of all nodes: see [merge], which is a
// pure function. A node that does not count writes nothing.
//
// The intervals of all nodes begin at multiples of 5 seconds of the time that nodes have in common.
// So the sum over nodes is right even if their clocks differ.
//
// The package depends on the documents of the store, the list of nodes, and functions in [Options].
// To add a figure that nodes tell each other, add it to [report] and [overview], and merge it.
package figures

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
)

// Options are what Figures depends on.
type Options struct {
	Documents persist.Documents
	// Shared is whether other nodes can use the store. If not, nothing is written.
	Shared bool
	// ID is the ID of this node, and Nodes is the list of all of them.
	ID    string
	Nodes admin.Nodes
	// Clock is the time that nodes have in common. ClockKnown reports whether it is right; nil means
	// that it is. Until then documents of other nodes are not removed.
	Clock      func() time.Time
	ClockKnown func() bool
	// Elapsed is a clock that nobody can set; nil means the system's monotonic clock.
	Elapsed func() time.Duration
	// Addr is what the node listens on, Build the version of the program.
	Addr, Build string
	// Counts is what is counted; nil if nothing is.
	Counts Counts
	Issuer Issuer
	// Stopping reports whether the node is about to stop. Trouble returns why an operator has to look
	// at something besides biz types, nil if nobody has to.
	Stopping func() bool
	Trouble  func() *seqd.Error
	Log      *slog.Logger
}

// Counts is what a node counts, since its start unless stated otherwise. Its methods are those of
// metrics.Metrics.
type Counts interface {
	// Take tells what was counted for each biz type since the last call.
	Take(tell func(bizType string, issued, refused int64))
	Refusals(tell func(code seqd.Code, total int64))
	// Calls returns how many calls took how long, and the upper bounds in seconds.
	Calls() (bounds []float64, counts []uint64)
	// Load returns the present load.
	Load() (inFlight, connections int64)
	// Tidy is called about once a minute.
	Tidy()
}

// Figures are the figures of the cluster. It is safe for concurrent use.
type Figures struct {
	opts    Options
	host    string
	started time.Time
	sampler sampler
	looking looking
	answer  answer
	// outage is when the store last failed, in ms since the Unix epoch; 0, long ago, if it never has.
	outage atomic.Int64
}

var _ admin.Figures = (*Figures)(nil)

// New returns the figures, which have no points yet; see [Figures.Run].
func New(opts Options) *Figures {
	if opts.Elapsed == nil {
		began := time.Now()
		opts.Elapsed = func() time.Duration { return time.Since(began) }
	}
	if opts.ClockKnown == nil {
		opts.ClockKnown = func() bool { return true }
	}
	host, _ := os.Hostname()
	f := &Figures{opts: opts, host: host, started: opts.Clock()}
	f.answer.busy = make(chan struct{}, 1)
	f.sampler = sampler{counts: opts.Counts, window: newWindow(), codes: make(map[seqd.Code]int64)}
	return f
}

// report returns what this node knows of itself. It is without counts if it does not count.
func (f *Figures) report() *report {
	o, found := &f.opts, f.look()
	r := &report{
		Version: version, ID: o.ID, Addr: o.Addr, Host: f.host, Build: o.Build,
		StartedAt: admin.Time(f.started.UnixMilli()),
		InHand:    found.inHand, RunsOut: found.runsOut, BizTypes: found.bizTypes,
	}
	r.State, r.Reasons = f.state(&found)
	if o.Counts != nil {
		f.sampler.fill(r)
		r.InFlight, r.Connections = o.Counts.Load()
	}
	return r
}

// state returns the state of this node, and why.
func (f *Figures) state(found *look) (state, []admin.Reason) {
	reasons := append(append([]admin.Reason{}, found.unready...), found.degraded...)
	reasons = reasons[:min(len(reasons), mostListed)]
	switch {
	case f.opts.Stopping():
		return nodeStopping, reasons
	case found.bizTypes.Unready > 0 && !f.opts.Issuer.Serves():
		return nodeUnready, reasons
	case found.bizTypes.Unready+found.bizTypes.Degraded > 0 || f.opts.Trouble() != nil:
		return nodeDegraded, reasons
	}
	return nodeReady, reasons
}

// looking is the last look at all biz types.
type looking struct {
	mu   sync.Mutex // held during a look
	last atomic.Pointer[looked]
}

// looked is what a look found, how long it took, and when it expires.
type looked struct {
	look
	took  time.Duration
	until time.Time
}

const (
	// lookPause is the shortest pause between two looks.
	lookPause = time.Second
	// lookShare is the ratio of the pause to the time that a look takes: with very many biz types,
	// looking takes a 200th of one processor. longestPause bounds the pause while biz types start:
	// then a look may take long because it waits for them, and what it says is soon no longer so.
	lookShare = 200
	// longLook is from when on nobody waits for a look, except for the first one.
	longLook = 100 * time.Millisecond
)

// look looks at all biz types, unless it did so lately. During a look, others get the one before.
func (f *Figures) look() look {
	l := &f.looking
	last := l.last.Load()
	switch {
	case last == nil:
		l.mu.Lock()
	case time.Now().Before(last.until) || !l.mu.TryLock():
		return last.look
	case last.took > longLook:
		go f.lookAgain(last)
		return last.look
	}
	return f.lookAgain(last)
}

// lookAgain looks at all biz types, unless somebody else did so after the last look. It unlocks
// f.looking.
func (f *Figures) lookAgain(last *looked) look {
	l := &f.looking
	defer l.mu.Unlock()
	if newer := l.last.Load(); newer != last {
		return newer.look
	}
	began := time.Now()
	next := &looked{look: f.lookAnew(), took: time.Since(began)}
	pause := max(lookPause, lookShare*next.took)
	if next.starting {
		pause = min(pause, longestPause)
	}
	next.until = began.Add(next.took + pause)
	l.last.Store(next)
	return next.look
}

// lookAnew looks at all biz types. It forgets the points of those that are gone.
func (f *Figures) lookAnew() look {
	gone := f.sampler.names()
	found := lookAt(f.opts.Issuer, func(bizType string) { delete(gone, bizType) })
	delete(gone, others)
	f.sampler.forget(gone)
	return found
}

// RegistryOffset returns how far this node's clock is ahead of that of a registry of machine IDs,
// if it has one and that was compared. It does not look.
func (f *Figures) RegistryOffset() (offset time.Duration, ok bool) {
	if last := f.looking.last.Load(); last != nil && last.offset != nil {
		return *last.offset, true
	}
	return 0, false
}

const (
	// answerPause is the shortest time that an answer is given again.
	answerPause = time.Second
	// answerShare is the ratio of that time to the time that reading reports and merging them takes:
	// with very many nodes, it takes a 50th of one processor. longestPause bounds it.
	answerShare  = 50
	longestPause = 10 * time.Second
	// readPatience bounds how long an answer waits for the store.
	readPatience = time.Second
)

// answer is the last answer.
type answer struct {
	busy  chan struct{} // has room for the one that guards what follows
	body  []byte
	until time.Time // when it expires
}

// Overview implements [admin.Figures]. One caller makes the answer for all.
func (f *Figures) Overview(ctx context.Context) ([]byte, error) {
	a := &f.answer
	select {
	case a.busy <- struct{}{}:
		defer func() { <-a.busy }()
	case <-ctx.Done():
		return nil, seqd.AsError(ctx.Err())
	}
	if a.body != nil && time.Now().Before(a.until) {
		return a.body, nil
	}
	k, docs := f.known(context.WithoutCancel(ctx)) // others wait for it
	began := time.Now()
	k.reports = append(k.reports, f.readReports(docs)...)
	body, err := json.Marshal(merge(k))
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	now := time.Now()
	a.body, a.until = body, now.Add(max(answerPause, min(answerShare*now.Sub(began), longestPause)))
	return body, nil
}

// known asks for what other nodes have written. k has no reports of theirs yet.
func (f *Figures) known(ctx context.Context) (k known, docs []persist.Document) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	k = known{at: f.opts.Clock(), here: f.report()}
	if f.opts.Counts != nil {
		k.reports = append(k.reports, k.here)
	}
	if k.nodes, k.complete = f.opts.Nodes.Nodes(ctx); k.complete && f.opts.Shared {
		var err error
		if docs, err = f.opts.Documents.List(ctx, kind, "", mostNodes); err != nil {
			// Figures of this node beside a list of all nodes would look like those of all.
			k.complete, k.nodes = false, slices.DeleteFunc(k.nodes, func(n admin.Node) bool { return !n.Self })
		}
	}
	if !k.complete {
		f.noteOutage()
	}
	k.outage = intervalBefore(f.outage.Load())
	return k, docs
}

func (f *Figures) noteOutage() { f.outage.Store(f.opts.Clock().UnixMilli()) }
