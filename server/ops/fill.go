package ops

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/nodes"
	"github.com/seqd/seqd/server/snapshot"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// atATime is how many records are written at a time. Stores make counters that are created at once
// durable together.
const atATime = 200

// filling fills an empty store with what an origin has, as a policy says: it is [Restore],
// [Import], or the second half of [Move]. First it reads everything and decides whether it may
// (survey, open, mayBegin). Then it writes (run).
type filling struct {
	facts
	policy     policy
	name       string // of the command
	unfinished string // begins each error after the mark was written
	cfg        *config.Config
	from       origin
	tell       func(what, done string)
	wrote      func(snapshot.Record) error // is called with each record as it is written
	fresh      func() error                // returns why no other store may be filled; nil if it may
	noted      func()                      // is called once the store is marked; may be nil
	opened     string                      // the mark of the store that nodes may use by now, "" if there is none

	store   persist.Store
	answers persist.Answers      // nil if the store keeps them in documents
	cursors *rediscursor.Options // nil if they do not count as issued
	mark    persist.Document     // of the cluster, while the store is filled
	marked  time.Time            // when the store had it
}

// survey reads all of the origin.
func (f *filling) survey() (err error) {
	for _, b := range f.cfg.BizTypes {
		f.policy.seeBizType(b)
	}
	f.contents, err = look(f.from, func(h snapshot.Header, r snapshot.Record) {
		f.policy.see(h, r)
		if r.Document == nil {
			return
		}
		// A definition that this build cannot read has the least gap. Its biz type issues nothing.
		if b, ok := definitions.Of(f.cfg, *r.Document); ok {
			f.policy.seeBizType(b)
		}
	})
	if err != nil {
		return err
	}
	return f.policy.check(&f.facts)
}

// open opens the store to fill, and looks at Redis.
func (f *filling) open(ctx context.Context) (closeAll func() error, err error) {
	opened := f.cfg.Store
	opened.MustExist = false
	if f.store, err = backends.NewStore(ctx, opened, time.Now); err != nil {
		return nil, err
	}
	if a, ok := f.store.(persist.Answerer); ok {
		f.answers = a.Answers()
	}
	closeRedis, err := f.openRedis(ctx)
	if err != nil {
		return nil, errors.Join(err, f.store.Close())
	}
	return func() error { closeRedis(); return f.store.Close() }, nil
}

// openRedis opens the Redis that has the cursors, if there is one. It must be that of the cluster.
func (f *filling) openRedis(ctx context.Context) (closeRedis func(), err error) {
	if !f.cfg.Redis.Configured() || !f.cfg.Store.Shared() {
		_, err = f.policy.checkRedis(&f.facts)
		return func() {}, err
	}
	client, err := backends.NewRedis(ctx, f.cfg.Redis)
	if err != nil {
		return nil, err
	}
	cursors := rediscursor.Options{Client: client, Prefix: f.cfg.Redis.KeyPrefix, Cluster: f.contents.Cluster}
	f.owner, err = rediscursor.Owner(ctx, cursors)
	if err == nil && f.owner != "" && f.owner != f.contents.Cluster {
		err = fmt.Errorf("%w: the snapshot is of the cluster %s, and Redis serves another one, %s: it is the wrong file, or redis.addrs or redis.keyPrefix is wrong",
			ErrSnapshot, f.contents.Cluster, f.owner)
	} else if err != nil {
		err = fmt.Errorf("how far the cursors in Redis went cannot be asked, so nothing was changed: %w. Start Redis; or restore with a configuration "+
			"without redis.addrs, and a gap above all that was issued", err)
	}
	if err == nil {
		var ends bool
		if ends, err = f.policy.checkRedis(&f.facts); ends {
			f.cursors = &cursors
		}
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return func() { _ = client.Close() }, nil
}

// run fills the store. No node uses the store before the last write, and each step can be repeated.
// The order of writes, and of the checks in brackets, is
//
//	restore: the mark, all records, counters that --highest names, repairs, how it was restored, [compare], the ID
//	move:    the mark, all records, [verify], in the source that the store may be open, the ID of the cluster
//	import:  the mark, a note beside the file, all records, [verify], the ID
func (f *filling) run(ctx context.Context, steps ...func(context.Context) error) error {
	now, err := f.store.Now(ctx)
	if err != nil {
		return err
	}
	f.now = now.UnixMilli()
	fence, err := fenceOf(ctx, f.store)
	if err != nil {
		return err
	}
	if f.fence = fence.text; fence.failedOver {
		return fmt.Errorf("%w: the server of this store has failed over, and nobody has confirmed that: seqd failover --confirm, and restore again", ErrSnapshot)
	}
	if err := f.begin(ctx); err != nil {
		return err
	}
	f.marked = time.Now()
	for _, step := range append(steps, f.end) {
		if err = f.mine(ctx); err == nil {
			err = step(ctx)
		}
		if err != nil {
			break
		}
	}
	if known, failed := persist.ReadCluster(ctx, f.store.Documents()); err != nil && failed == nil && known.ID == f.contents.Cluster {
		f.tell(f.name, "was ended by another call of this command")
		return nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.unfinished, err)
	}
	return err
}

// begin marks the store, which must have nothing or be marked by the same command.
func (f *filling) begin(ctx context.Context) error {
	began, err := f.mayBegin(ctx)
	if err != nil {
		return err
	}
	if began {
		f.tell(f.name, "goes on with what was interrupted")
	} else {
		if f.fresh != nil {
			if err := f.fresh(); err != nil {
				return err
			}
		}
		if err := f.store.Documents().Create(ctx, f.mark); err != nil {
			return err
		}
	}
	if f.noted != nil {
		f.noted()
	}
	return nil
}

// mayBegin returns why the store cannot be filled. began is whether it has the mark.
func (f *filling) mayBegin(ctx context.Context) (began bool, err error) {
	said, err := json.Marshal(f.policy.identity(&f.facts))
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(said)
	f.mark = persist.RestoringDocument(hex.EncodeToString(sum[:])+" ", f.now)
	has, err := f.store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey)
	began = err == nil && strings.HasPrefix(has.Body, f.mark.Body)
	f.mark.Body += persist.NewEpoch() // no other store has it
	if f.opened != "" && f.opened != has.Body && (began || errors.Is(err, persist.ErrNotFound)) {
		return false, fmt.Errorf("%w: everything was moved to another store of this name, or this one was lost. Numbers may have been issued there, and would be issued again: use that one", ErrSnapshot)
	}
	switch {
	case began:
		f.mark = has
		return true, nil
	case err == nil:
		if known, failed := persist.ReadCluster(ctx, f.store.Documents()); failed == nil {
			return false, fmt.Errorf("%w: the store is not empty: it is that of the cluster %s, and the snapshot is of %s. Give it an empty database or file", ErrSnapshot, known.ID, f.contents.Cluster)
		}
		return false, fmt.Errorf("%w: the restore of another file, or with other flags, or another move was begun here: repeat that one, or give an empty database or file", ErrSnapshot)
	case !errors.Is(err, persist.ErrNotFound):
		return false, err
	}
	return false, f.empty(ctx)
}

// empty returns an error unless the store has nothing.
func (f *filling) empty(ctx context.Context) error {
	counters, err := f.store.Counters().List(ctx, "", 1)
	if err != nil {
		return err
	}
	kinds, err := f.store.Kinds(ctx)
	if err != nil {
		return err
	}
	registries, err := f.store.Registries(ctx)
	if err != nil {
		return err
	}
	if len(counters)+len(kinds)+len(registries) > 0 {
		return fmt.Errorf("%w: the store is not empty: it has %d registries of machine IDs, and documents of kind %q. Stop every seqd, which may have written them, and give it an empty database or file", ErrSnapshot, len(registries), kinds)
	}
	return nil
}

// mine returns an error if the store does not have the mark any more: another call has ended this,
// and nodes may use the store.
func (f *filling) mine(ctx context.Context) error {
	has, err := f.store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey)
	if err == nil && has.Body != f.mark.Body {
		err = errors.New("the store is not being filled any more: another call of this command has ended it")
	}
	return err
}

// end lets nodes use the store.
func (f *filling) end(ctx context.Context) error {
	running, err := nodes.Running(ctx, f.store, nil)
	if err == nil && len(running) > 0 {
		err = fmt.Errorf("%w: seqd runs on this store: %s. Stop every seqd", ErrRefused, nodes.Few(running))
	}
	if err != nil {
		return err
	}
	if fence, err := fenceOf(ctx, f.store); err != nil || fence.text != f.fence {
		return cmp.Or(err, errors.New("the server of this store has failed over meanwhile, and may have lost what was written: seqd failover --confirm, and repeat"))
	}
	done := f.mark
	done.Revision, done.Body, done.Timestamp = done.Revision+1, f.contents.Cluster, f.contents.Created
	err = f.store.Documents().Update(ctx, done)
	if known, failed := persist.ReadCluster(ctx, f.store.Documents()); failed == nil && known.ID == f.contents.Cluster {
		return nil // also if the answer was lost
	}
	return err
}

// batch is what is written at once.
type batch struct {
	docs     []persist.Document
	counters []persist.Counter
	history  []persist.HistoryRecord
	size     int // of the bodies of docs
}

// fill writes each record as the policy says, so that it is never there as it was.
func (f *filling) fill(ctx context.Context) error {
	most := atATime
	if _, ok := f.store.(persist.CounterFiller); ok {
		most *= 5
	}
	var b batch
	end, err := f.from.read(f.same, func(r snapshot.Record) error {
		if err := f.add(ctx, &b, r); err != nil {
			return err
		}
		if len(b.docs)+len(b.counters)+len(b.history) < most && b.size <= 4<<20 {
			return nil
		}
		full := b
		b = batch{}
		return f.write(ctx, full)
	})
	if err == nil && end != f.contents.End && f.from.name != "" {
		err = errReplaced
	}
	if err != nil {
		return err
	}
	return f.write(ctx, b)
}

// add decides about a record, and adds it to a batch. It writes registries, and answers that the
// store keeps apart.
func (f *filling) add(ctx context.Context, b *batch, r snapshot.Record) (err error) {
	kept := true
	switch {
	case r.Registry != nil:
		err = f.registry(ctx, r.Registry)
	case r.Counter != nil:
		r.Counter = &snapshot.Counter{Counter: f.policy.counter(&f.facts, *r.Counter)}
		b.counters = append(b.counters, r.Counter.Counter)
	case r.History != nil:
		b.history = append(b.history, *r.History)
	case r.Document.Kind == persist.KeptAnswerKind && f.answers != nil:
		kept, err = f.answer(ctx, *r.Document)
	default:
		if *r.Document, kept, err = f.policy.document(&f.facts, *r.Document); kept {
			b.docs = append(b.docs, *r.Document)
			b.size += len(r.Document.Body)
		}
	}
	if err != nil || !kept {
		return err
	}
	return f.wrote(r)
}

func (f *filling) write(ctx context.Context, b batch) error {
	if err := f.mine(ctx); err != nil {
		return err
	}
	if err := f.store.Refill(ctx, b.docs); err != nil {
		return err
	}
	if err := f.createAll(ctx, b.counters); err != nil {
		return err
	}
	if len(b.history) == 0 {
		return nil
	}
	return f.store.History().Append(ctx, b.history)
}

// errReplaced is why this stops if it reads another file than it has checked.
var errReplaced = errors.New("the file was replaced while it was read")

// same returns an error if the file is another one by now.
func (f *filling) same(h snapshot.Header) error {
	if h.Began != f.contents.Began && f.from.name != "" || h.Cluster != f.contents.Cluster {
		return errReplaced
	}
	return nil
}

// answer keeps an answer in a store that keeps them apart, unless it has ended.
func (f *filling) answer(ctx context.Context, d persist.Document) (kept bool, err error) {
	left := time.Duration(d.Expires-f.contents.Ended) * time.Millisecond
	if left <= 0 {
		return false, nil
	}
	const claim = "seqd move"
	held, err := f.answers.Claim(ctx, d.Key, claim, time.Minute)
	if err == nil && held == "" {
		_, err = f.answers.Swap(ctx, d.Key, claim, d.Body, left)
	}
	return err == nil, err
}

// createAll creates counters, above their cursors in Redis if these count as issued.
func (f *filling) createAll(ctx context.Context, list []persist.Counter) error {
	if len(list) == 0 {
		return nil
	}
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.BizTag
	}
	ceils, err := f.ceils(ctx, names)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Max = max(list[i].Max, ceils[i])
	}
	if at, ok := f.store.(persist.CounterFiller); ok {
		if err := at.FillCounters(ctx, list); !errors.Is(err, persist.ErrExists) {
			return err
		}
	}
	return each(ctx, len(list), atATime, func(ctx context.Context, i int) error {
		err := f.store.Counters().Create(ctx, list[i])
		if !errors.Is(err, persist.ErrExists) {
			return err
		}
		has, err := f.store.Counters().Read(ctx, names[i])
		if err != nil || has.Max >= list[i].Max && has.Epoch == list[i].Epoch {
			return err // an earlier call of this command has made it
		}
		return f.atLeast(ctx, names[i], list[i].Max) // a node that was not stopped has made it
	})
}

// ceils returns how far the cursors of counters in Redis went, 0 if they do not count as issued.
func (f *filling) ceils(ctx context.Context, counters []string) (ceils []int64, err error) {
	if f.cursors == nil {
		return make([]int64, len(counters)), nil
	}
	for some := range slices.Chunk(counters, 5*atATime) {
		list, err := rediscursor.Ceils(ctx, *f.cursors, some)
		if err != nil {
			return nil, err
		}
		ceils = append(ceils, list...)
	}
	return ceils, nil
}

// atLeast raises a counter, and creates it if there is none.
func (f *filling) atLeast(ctx context.Context, counter string, number int64) error {
	_, err := raise(ctx, f.store.Counters(), counter, number, time.UnixMilli(f.now))
	return err
}

// registry writes a registry of machine IDs, and sets the floor of from to what it has there.
func (f *filling) registry(ctx context.Context, from *persist.Registry) error {
	t, err := f.store.Slots().Look(ctx, from.Name)
	if err != nil {
		return err
	}
	if from.Set != nil && t.Set == nil {
		set := f.policy.registry(&f.facts, *from.Set, t)
		set.Source = t.Source
		if err := f.swap(ctx, from.Name, persist.SlotSwap{NewSet: &set, Source: t.Source}); err != nil {
			return err
		}
		t.Set = &set
	}
	if from.Set != nil {
		from.Set.Floor = max(from.Set.Floor, t.Set.Floor)
	}
	for _, slot := range from.Slots {
		if slices.ContainsFunc(t.Slots, func(has persist.Slot) bool { return has.ID == slot.ID }) {
			continue
		}
		if err := f.swap(ctx, from.Name, persist.SlotSwap{OldSet: t.Set, NewSlot: &slot, Source: t.Source}); err != nil {
			return err
		}
	}
	return nil
}

func (f *filling) swap(ctx context.Context, registry string, swap persist.SlotSwap) error {
	made, err := f.store.Slots().Swap(ctx, registry, swap)
	if err == nil && !made {
		err = fmt.Errorf("registry %q: %w: somebody else changes it: stop every seqd", registry, persist.ErrUnavailable)
	}
	return err
}
