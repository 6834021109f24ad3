package ops

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/jobs"
	"github.com/seqd/seqd/server/snapshot"
	"github.com/seqd/seqd/strategy"
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
	// Sure is whether what looks like a slip is done nevertheless, as in [How].
	Sure bool
	// ShutTokens is whether the tokens of the store are disabled.
	ShutTokens bool
	// Fresh returns why another store than the one that an earlier call has marked must not be
	// filled, nil if it may. Marked is called once the store is marked, with the largest gap of a
	// counter: from then on a node that was not stopped can issue numbers there. Both may be nil.
	Fresh  func() error
	Marked func(gap int64)
}

// Restore fills the store of a configuration, which must have nothing, from a snapshot, and raises
// every counter, ledger and lease above what may have been issued since the snapshot was begun.
// Every seqd must be stopped, also one with the former store. It calls tell with what it does.
//
// No node can use the store before Restore has returned nil ([persist.ErrRestoring]). An
// [ErrSnapshot] says that nothing was changed. After any other error, or if Restore is killed, the
// store may be marked as one that is being restored: the same call goes on.
func Restore(ctx context.Context, cfg *config.Config, path string, how Restoring, tell func(what, done string)) (err error) {
	p, err := newRestorePolicy(how)
	if err != nil {
		return err
	}
	if cfg.Store.Forgets() {
		return fmt.Errorf("%w: store.driver: %s keeps nothing", ErrSnapshot, cfg.Store.Driver)
	}
	const unfinished = "the store is not restored yet, and no node can use it; restore again with the same file and flags"
	f := &filling{policy: p, name: "restore", unfinished: unfinished, cfg: cfg.ForRepair(), from: inFile(path), tell: tell}
	r := restore{f, p, make(deciding)}
	f.fresh = how.Fresh
	if how.Marked != nil {
		f.noted = func() { how.Marked(p.largest()) }
	}
	f.wrote = func(record snapshot.Record) error { r.written.add(record); return nil }
	if err := f.survey(); err != nil {
		return err
	}
	closeAll, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	ceils, err := f.ceils(ctx, p.counters())
	if err == nil {
		err = p.checkSlips(&f.facts, ceils)
	}
	if err != nil {
		return err
	}
	return f.run(ctx, f.fill, r.createNamed, r.repair, r.sayRestored, r.compare)
}

// restore is what one call of [Restore] does besides filling the store.
type restore struct {
	*filling
	p       *restorePolicy
	written deciding
}

// createNamed creates the counters that somebody has named and the snapshot lacks. A gapless one
// begins above the counter of its name, too.
func (r restore) createNamed(ctx context.Context) error {
	names := r.p.counters()
	ceils, err := r.ceils(ctx, names)
	if err != nil {
		return err
	}
	for i, counter := range names {
		if _, has := r.p.stands[counter]; has {
			continue
		}
		number := max(r.p.highest[counter], ceils[i])
		if err := r.atLeast(ctx, counter, number); err != nil {
			return err
		}
		r.written.add(snapshot.Record{Counter: &snapshot.Counter{Counter: persist.Counter{BizTag: counter}}})
		r.tell(counter, fmt.Sprintf("the snapshot lacks it; its numbers begin above %d", number))
	}
	return nil
}

// repair does what a restore needs besides: jobs fail, tokens are shut, and leases in Redis and in
// coordinators begin above all that may have been granted.
func (r restore) repair(ctx context.Context) error {
	ids, err := jobs.Restored(ctx, r.store.Documents(), time.UnixMilli(r.now))
	if err != nil {
		return err
	}
	for _, id := range ids {
		r.tell("job "+id, "failed")
	}
	if r.p.how.ShutTokens {
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

// sayRestored keeps counters that the snapshot lacks from beginning at their start.
func (r restore) sayRestored(ctx context.Context) error {
	restored, ok := r.p.restored(&r.facts)
	if !ok {
		return nil
	}
	if err := r.store.Documents().Create(ctx, restored.Document(1)); err != nil && !errors.Is(err, persist.ErrExists) {
		return err
	}
	return nil
}

// compare returns an error if a node that was not stopped has begun, changed or removed what
// decides about numbers. When it looks, every node has seen the mark or looks again, so nobody
// begins anything any more.
func (r restore) compare(ctx context.Context) error {
	if r.store.Shared() {
		select {
		case <-time.After(time.Until(r.marked.Add(2 * persist.LookPause))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	left := len(r.written)
	check := func(is snapshot.Record, name string) error {
		key, content, _ := decides(is)
		was, written := r.written[key]
		if left--; written && was == content {
			return nil
		}
		return fmt.Errorf("a node that was not stopped has begun %s in this store: stop every seqd, and restore into another empty database or file, with larger gaps, because numbers may have been issued here", name)
	}
	for c, err := range persist.EveryCounter(ctx, r.store.Counters()) {
		if err == nil {
			err = check(snapshot.Record{Counter: &snapshot.Counter{Counter: c}}, c.BizTag)
		}
		if err != nil {
			return err
		}
	}
	for _, kind := range []string{persist.LedgerKind, definitions.Kind, persist.ShapeKind} {
		for d, err := range persist.EveryDocument(ctx, r.store.Documents(), kind) {
			if err == nil {
				err = check(snapshot.Record{Document: &d}, d.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	if left > 0 {
		return fmt.Errorf("a node that was not stopped has removed %d counters or definitions of this store: stop every seqd, and restore into another empty database or file, with larger gaps, because numbers may have been issued here", left)
	}
	return nil
}

// deciding has what decides about numbers: counters, gapless ones, definitions, and shapes of IDs.
// Their hashes, so that there may be millions, lead to those of their contents.
type deciding map[uint64]uint64

func (d deciding) add(r snapshot.Record) {
	if key, content, ok := decides(r); ok {
		d[key] = content
	}
}

var seed = maphash.MakeSeed()

// decides reports whether a record decides about numbers, and returns hashes of its name and its
// content. How far a counter has come is no content: a repeat may raise it further. A gapless one
// is one of this restore if its revision says so.
func decides(r snapshot.Record) (key, content uint64, ok bool) {
	d := r.Document
	switch {
	case r.Counter != nil:
		return maphash.Comparable(seed, [2]string{"counter", r.Counter.BizTag}), 0, true
	case d == nil:
		return 0, 0, false
	case d.Kind == persist.LedgerKind && d.Revision > revisions:
	case d.Kind == persist.LedgerKind, d.Kind == definitions.Kind, d.Kind == persist.ShapeKind:
		content = maphash.Comparable(seed, *d)
	default:
		return 0, 0, false
	}
	return maphash.Comparable(seed, [2]string{d.Kind, d.Key}), content, true
}
