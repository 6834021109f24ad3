package ops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/jobs"
	"github.com/seqd/seqd/server/nodes"
	"github.com/seqd/seqd/server/snapshot"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless/ledger"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// Restoring says how [Restore] goes about it.
type Restoring struct {
	// By is how many numbers are skipped above each counter that is not gapless. Otherwise it is
	// restoreGap of its biz type, ten steps, or 1,000,000, whatever is most. 0 says that nothing
	// was issued since the snapshot, nil that nobody has said.
	By *int64
	// Gapless is how many numbers become void above each gapless counter. It must be given if the
	// snapshot has one that Highest does not name: nil if it is not given.
	Gapless *int64
	// Highest says how far counters had come. Those that it names skip no more. One that the
	// snapshot lacks is created.
	Highest []Mark
	// ShutTokens is whether the tokens of the store are disabled.
	ShutTokens bool
}

// check returns what is out of its range.
func (r *Restoring) check() error {
	for _, gap := range []*int64{r.By, r.Gapless} {
		if gap != nil && (*gap < 0 || *gap > seqd.MaxNumber) {
			return fmt.Errorf("%w: a gap of %d is outside 0 to %d", ErrSnapshot, *gap, seqd.MaxNumber)
		}
	}
	return nil
}

// Restore fills the store of a configuration, which must have nothing, from a snapshot, and raises
// every counter, ledger and lease above what may have been issued since the snapshot was begun.
// Every seqd must be stopped, also one with the former store. It calls tell with what it does.
//
// No node can use the store before Restore has returned nil ([persist.ErrRestoring]). An
// [ErrSnapshot] says that nothing was changed. After any other error, or if Restore is killed, the
// store may be marked as one that is being restored: the same call goes on.
func Restore(ctx context.Context, cfg *config.Config, path string, how Restoring, tell func(what, done string)) (err error) {
	if err := how.check(); err != nil {
		return err
	}
	if cfg.Store.Forgets() {
		return fmt.Errorf("%w: store.driver: %s keeps nothing", ErrSnapshot, cfg.Store.Driver)
	}
	r := &restoring{cfg: cfg.ForRepair(), path: path, how: how, tell: tell, highest: make(map[string]int64), gaps: make(map[string]int64), seen: make(map[string]bool)}
	for _, m := range how.Highest {
		if _, _, _, whole := seqd.SplitCounter(m.Counter); !whole {
			return fmt.Errorf("%w: no counter is named %q", ErrSnapshot, m.Counter)
		}
		r.highest[m.Counter] = max(r.highest[m.Counter], m.Number)
	}
	if err := r.look(); err != nil {
		return err
	}
	opened := r.cfg.Store
	opened.MustExist = false
	if r.store, err = backends.NewStore(ctx, opened, time.Now); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	shut, err := r.openCursors(ctx)
	if err != nil {
		return err
	}
	defer shut()
	return r.run(ctx)
}

// restoring is one call of [Restore].
type restoring struct {
	cfg      *config.Config
	path     string
	how      Restoring
	contents Contents
	tell     func(what, done string)
	highest  map[string]int64 // what how.Highest says

	store   persist.Store
	cursors *rediscursor.Options // nil if no counter has a cursor
	mark    persist.Document     // of the cluster, while the store is filled
	fence   string
	now     int64            // of the store, when the restore began
	gaps    map[string]int64 // by biz type
	before  int64            // the gap of a restore before the snapshot, which nobody had confirmed

	mu    sync.Mutex // guards what follows
	usual int64      // the largest gap that a counter has by default
	seen  map[string]bool
}

// look reads the snapshot, and finds the gap of each biz type, in its own definitions and in those
// of the configuration. It returns an error if nobody has said how far a gapless counter may have
// come.
func (r *restoring) look() (err error) {
	for _, b := range r.cfg.BizTypes {
		r.gaps[b.Name] = seqd.TraitsOf(b.Settings).LeastGap
	}
	unnamed, stood := "", ""
	var low error
	r.contents, err = look(r.path, func(h snapshot.Header, record snapshot.Record) {
		d := record.Document
		if d == nil {
			return
		}
		if named := r.highest[d.Key]; d.Kind == persist.LedgerKind && named != 0 {
			if state, err := ledger.Decode(d); err == nil && named < state.Last {
				low = fmt.Errorf("%w: --highest says that %s had come to %d, and it was at %d in the snapshot already: name the last number that left it, confirmed or not", ErrSnapshot, d.Key, named, state.Last)
			}
		} else if d.Kind == persist.LedgerKind {
			unnamed = d.Key
			if state, err := ledger.Decode(d); err == nil && h.Fence != "" && state.Fence != h.Fence {
				stood = d.Key
			}
		}
		if before, err := persist.RestoredIn(*d); err == nil {
			r.before = before.Gap
		}
		// A definition that this build cannot read has the least gap. Its biz type issues nothing.
		if b, ok := definitions.Of(r.cfg, *d); ok {
			r.gaps[b.Name] = max(r.gaps[b.Name], seqd.TraitsOf(b.Settings).LeastGap)
		}
	})
	switch {
	case err != nil:
	case low != nil:
		err = low
	case stood != "":
		err = fmt.Errorf("%w: %s stood still when the snapshot was made, because the store had failed over: nobody knows how far it had come; name it with --highest", ErrSnapshot, stood)
	case unnamed != "" && r.how.Gapless == nil:
		err = fmt.Errorf("%w: the snapshot has %d gapless counters, and nobody has said how far %s had come since: name each with --highest, or say with --gapless "+
			"how many numbers of each become void; 0 only if none was issued since the snapshot", ErrSnapshot, r.contents.Ledgers, unnamed)
	}
	return err
}

// openCursors opens the Redis that has the cursors, if there is one. It must be that of the
// cluster.
func (r *restoring) openCursors(ctx context.Context) (shut func(), err error) {
	if !r.cfg.Redis.Configured() || !r.cfg.Store.Shared() {
		return func() {}, nil
	}
	client, err := backends.NewRedis(ctx, r.cfg.Redis)
	if err != nil {
		return nil, err
	}
	r.cursors = &rediscursor.Options{Client: client, Prefix: r.cfg.Redis.KeyPrefix, Cluster: r.contents.Cluster}
	owner, err := rediscursor.Owner(ctx, *r.cursors)
	if err == nil && owner != "" && owner != r.contents.Cluster {
		err = fmt.Errorf("%w: the snapshot is of the cluster %s, and Redis serves another one, %s: it is the wrong file, or redis.addrs or redis.keyPrefix is wrong",
			ErrSnapshot, r.contents.Cluster, owner)
	} else if err != nil {
		err = fmt.Errorf("how far the cursors in Redis went cannot be asked, so nothing was changed: %w. Start Redis; or restore with a configuration "+
			"without redis.addrs, and a gap above all that was issued", err)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return func() { _ = client.Close() }, nil
}

// run restores. The mark is written first and replaced last.
func (r *restoring) run(ctx context.Context) error {
	now, err := r.store.Now(ctx)
	if err != nil {
		return err
	}
	r.now = now.UnixMilli()
	fence, err := fenceOf(ctx, r.store)
	if err != nil {
		return err
	}
	if r.fence = fence.text; fence.failedOver {
		return fmt.Errorf("%w: the server of this store has failed over, and nobody has confirmed that: seqd failover --confirm, and restore again", ErrSnapshot)
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.fill, r.raiseToCursors, r.createNamed, r.repair, r.end} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("the store is not restored yet, and no node can use it; restore again with the same file and flags: %w", err)
		}
	}
	return nil
}

// begin marks the store, which must have nothing or be marked by the same restore.
func (r *restoring) begin(ctx context.Context) error {
	said, err := json.Marshal([]any{r.contents.SHA256, r.how.By, r.how.Gapless, r.how.ShutTokens, r.highest})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(said)
	r.mark = persist.RestoringDocument(hex.EncodeToString(sum[:]), r.now)
	has, err := r.store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey)
	switch {
	case err == nil && has.Body == r.mark.Body:
		r.tell("restore", "goes on with what was interrupted")
		r.mark = has
		return nil
	case err == nil:
		if known, failed := persist.ReadCluster(ctx, r.store.Documents()); failed == nil {
			return fmt.Errorf("%w: the store is not empty: it is that of the cluster %s, and the snapshot is of %s. Give it an empty database or file", ErrSnapshot, known.ID, r.contents.Cluster)
		}
		return fmt.Errorf("%w: the restore of another file, or with other flags, was begun here: repeat that one, or give an empty database or file", ErrSnapshot)
	case !errors.Is(err, persist.ErrNotFound):
		return err
	}
	if err := r.empty(ctx); err != nil {
		return err
	}
	return r.store.Documents().Create(ctx, r.mark)
}

// empty returns an error unless the store has nothing.
func (r *restoring) empty(ctx context.Context) error {
	counters, err := r.store.Counters().List(ctx, "", 1)
	if err != nil {
		return err
	}
	kinds, err := r.store.Kinds(ctx)
	if err != nil {
		return err
	}
	registries, err := r.store.Registries(ctx)
	if err != nil {
		return err
	}
	if len(counters)+len(kinds)+len(registries) > 0 {
		return fmt.Errorf("%w: the store is not empty: it has %d registries of machine IDs, and documents of kind %q; give it an empty database or file", ErrSnapshot, len(registries), kinds)
	}
	return nil
}

// filling is how many records are written at a time. Stores make counters that are created at once
// durable together.
const filling = 200

// fill writes what the snapshot has. Each counter and ledger is raised in the step that writes it,
// so that it is never there as it was.
func (r *restoring) fill(ctx context.Context) error {
	var docs []persist.Document
	var counters []snapshot.Counter
	var history []persist.HistoryRecord
	size := 0
	flush := func() error {
		if err := r.store.Refill(ctx, docs); err != nil {
			return err
		}
		if err := r.createAll(ctx, counters); err != nil {
			return err
		}
		if len(history) > 0 {
			if err := r.store.History().Append(ctx, history); err != nil {
				return err
			}
		}
		docs, counters, history, size = nil, nil, nil, 0
		return nil
	}
	end, err := readFile(r.path, r.same, func(record snapshot.Record) (err error) {
		switch {
		case record.Registry != nil:
			return r.registry(ctx, *record.Registry)
		case record.Counter != nil:
			counters = append(counters, *record.Counter)
		case record.History != nil:
			history = append(history, *record.History)
		case record.Document.Kind == persist.RestoredKind: // end writes another one
		case record.Document.Kind == persist.LedgerKind:
			if *record.Document, err = r.raisedLedger(*record.Document); err != nil {
				return err
			}
			fallthrough
		default:
			docs = append(docs, *record.Document)
			size += len(record.Document.Body)
		}
		if len(docs)+len(counters)+len(history) >= filling || size > 4<<20 {
			return flush()
		}
		return nil
	})
	if err == nil && end != r.contents.End {
		err = errReplaced
	}
	if err != nil {
		return err
	}
	return flush()
}

// errReplaced is why a restore stops that reads another file than it has checked.
var errReplaced = errors.New("the file was replaced while it was read")

// same returns an error if the file is another one by now.
func (r *restoring) same(h snapshot.Header) error {
	if h != r.contents.Header {
		return errReplaced
	}
	return nil
}

// to returns the number that everything counts as issued up to, of a counter that stands at last.
func (r *restoring) to(counter string, last, gap int64) int64 {
	if number, named := r.highest[counter]; named {
		r.mu.Lock()
		r.seen[counter] = true
		r.mu.Unlock()
		return max(last, number)
	}
	return last + min(gap, seqd.MaxNumber-last)
}

// raisedCounter returns a counter as it is written: above what may have been issued, and without a
// cursor, because one in Redis can have the same epoch and be ahead or behind.
func (r *restoring) raisedCounter(c snapshot.Counter) persist.Counter {
	next := c.Counter
	if bizType, _, _, whole := seqd.SplitCounter(c.BizTag); whole && !sabotage.Off(sabotage.RestoreRaise) {
		usual := max(leastGap, r.gaps[bizType], 10*min(c.Step, seqd.MaxNumber/10))
		r.mu.Lock()
		r.usual = max(r.usual, usual)
		r.mu.Unlock()
		gap := usual
		if r.how.By != nil {
			gap = *r.how.By
		}
		if c.FailedOver { // there was a gap to come already, whatever was issued since the snapshot
			gap += min(usual, seqd.MaxNumber-gap)
		}
		next.Max = r.to(c.BizTag, c.Max, gap)
	}
	if next.Epoch != persist.StoreEpoch {
		next.Epoch = ""
	}
	return next
}

// revisions is how much later the revision of a restored ledger is: a node that holds the former
// one must not find the revision that it expects.
const revisions = 1 << 32

// raisedLedger returns the document of a gapless counter as it is written.
func (r *restoring) raisedLedger(doc persist.Document) (persist.Document, error) {
	state, err := ledger.Decode(&doc)
	if err != nil {
		return doc, err
	}
	gap := int64(0)
	if r.how.Gapless != nil {
		gap = *r.how.Gapless
	}
	op := ledger.Op{Kind: ledger.Raise, To: r.to(doc.Key, state.Last, gap), Reason: raiseReason, Caller: "seqd snapshot restore", Fence: r.fence}
	if sabotage.Off(sabotage.RestoreRaise) {
		op.To = state.Last
	}
	policy := state.Policy()
	if _, err := state.Apply(r.now, &policy, &op, nil); err != nil {
		return doc, fmt.Errorf("%s: %w", doc.PersistID(), err)
	}
	next, err := state.Document(doc.Key, r.now)
	next.Revision += revisions
	return next, err
}

// createAll creates counters, several at a time.
func (r *restoring) createAll(ctx context.Context, list []snapshot.Counter) error {
	return each(ctx, len(list), filling, func(ctx context.Context, i int) error {
		err := r.store.Counters().Create(ctx, r.raisedCounter(list[i]))
		if errors.Is(err, persist.ErrExists) { // the same restore has made it
			return nil
		}
		return err
	})
}

// registry writes a registry of machine IDs, whose floor is above all leases that may have been
// granted since.
func (r *restoring) registry(ctx context.Context, from persist.Registry) error {
	t, err := r.store.Slots().Look(ctx, from.Name)
	if err != nil {
		return err
	}
	if from.Set != nil && t.Set == nil {
		set := *from.Set
		set.Incarnation, set.Source = persist.NewEpoch(), t.Source
		if !sabotage.Off(sabotage.RestoreRaise) {
			set.Floor = max(set.Floor, max(t.Now, r.contents.Ended)+set.Ahead+t.Lag)
		}
		if err := r.swap(ctx, from.Name, persist.SlotSwap{NewSet: &set, Source: t.Source}); err != nil {
			return err
		}
		t.Set = &set
	}
	for _, slot := range from.Slots {
		if slices.ContainsFunc(t.Slots, func(has persist.Slot) bool { return has.ID == slot.ID }) {
			continue
		}
		if err := r.swap(ctx, from.Name, persist.SlotSwap{OldSet: t.Set, NewSlot: &slot, Source: t.Source}); err != nil {
			return err
		}
	}
	return nil
}

func (r *restoring) swap(ctx context.Context, registry string, swap persist.SlotSwap) error {
	made, err := r.store.Slots().Swap(ctx, registry, swap)
	if err == nil && !made {
		err = fmt.Errorf("registry %q: %w: somebody else changes it: stop every seqd", registry, persist.ErrUnavailable)
	}
	return err
}

// raiseToCursors raises each counter to what was ever in its cursor in Redis.
func (r *restoring) raiseToCursors(ctx context.Context) error {
	if r.cursors == nil {
		return nil
	}
	const most = 1000
	for after := ""; ; {
		list, err := r.store.Counters().List(ctx, after, most)
		if err != nil || len(list) == 0 {
			return err
		}
		names := make([]string, len(list))
		for i, c := range list {
			names[i] = c.BizTag
		}
		ceils, err := rediscursor.Ceils(ctx, *r.cursors, names)
		if err != nil {
			return err
		}
		err = each(ctx, len(list), filling, func(ctx context.Context, i int) error {
			if ceils[i] <= list[i].Max {
				return nil
			}
			return r.atLeast(ctx, names[i], ceils[i])
		})
		if err != nil {
			return err
		}
		after = names[len(names)-1]
	}
}

// atLeast raises a counter, and creates it if there is none.
func (r *restoring) atLeast(ctx context.Context, counter string, number int64) error {
	_, err := raise(ctx, r.store.Counters(), counter, number, time.UnixMilli(r.now))
	return err
}

// createNamed creates the counters that somebody has named and the snapshot lacks. A gapless one
// begins above the counter of its name, too.
func (r *restoring) createNamed(ctx context.Context) error {
	for _, counter := range slices.Sorted(maps.Keys(r.highest)) {
		if r.seen[counter] {
			continue
		}
		if err := r.atLeast(ctx, counter, r.highest[counter]); err != nil {
			return err
		}
		r.tell(counter, fmt.Sprintf("the snapshot lacks it; its numbers begin above %d", r.highest[counter]))
	}
	return nil
}

// repair does what a restore needs besides: jobs fail, tokens are shut, and leases in Redis and in
// coordinators begin above all that may have been granted.
func (r *restoring) repair(ctx context.Context) error {
	ids, err := jobs.Restored(ctx, r.store.Documents(), time.UnixMilli(r.now))
	if err != nil {
		return err
	}
	for _, id := range ids {
		r.tell("job "+id, "failed")
	}
	if r.how.ShutTokens {
		names, err := access.Shut(ctx, r.store.Documents(), time.UnixMilli(r.now))
		if err != nil {
			return err
		}
		for _, name := range names {
			r.tell("token "+name, "disabled")
		}
	}
	env := strategy.Env{
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, Store: r.store, Cluster: r.contents.Cluster,
		RedisPrefix: r.cfg.Redis.KeyPrefix, Addr: r.cfg.Server.Addr,
	}
	return leasesRestored(ctx, r.cfg, env, func(what, done string, gapless bool) {
		if !gapless {
			r.tell(what, done)
		}
	})
}

// end says that the store was restored, and lets nodes use it.
func (r *restoring) end(ctx context.Context) error {
	running, err := nodes.Running(ctx, r.store, nil)
	if err == nil && len(running) > 0 {
		err = fmt.Errorf("%w: seqd runs on this store: %s. Stop every seqd", ErrRefused, nodes.Few(running))
	}
	if err != nil {
		return err
	}
	restored := persist.Restored{Began: r.contents.Began, At: r.now, Gap: max(leastGap, r.usual)}
	for _, gap := range r.gaps {
		restored.Gap = max(restored.Gap, gap)
	}
	if r.how.By != nil && !r.contents.FailedOver {
		restored.Gap = *r.how.By
	}
	restored.Gap = max(restored.Gap, r.before)
	if restored.Gap > 0 { // otherwise nothing was issued that the store could lack
		if err := r.store.Documents().Create(ctx, restored.Document(1)); err != nil && !errors.Is(err, persist.ErrExists) {
			return err
		}
	}
	done := r.mark
	done.Revision, done.Body, done.Timestamp = done.Revision+1, r.contents.Cluster, r.contents.Created
	err = r.store.Documents().Update(ctx, done)
	if known, failed := persist.ReadCluster(ctx, r.store.Documents()); failed == nil && known.ID == r.contents.Cluster {
		return nil // also if the answer was lost
	}
	return err
}
