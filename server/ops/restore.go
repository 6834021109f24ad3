package ops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
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
	r := &restoring{cfg: cfg.ForRepair(), from: inFile(path), how: how, tell: tell, highest: make(map[string]int64), gaps: make(map[string]int64), seen: make(map[string]bool)}
	for _, m := range how.Highest {
		if _, _, _, whole := seqd.SplitCounter(m.Counter); !whole {
			return fmt.Errorf("%w: no counter is named %q", ErrSnapshot, m.Counter)
		}
		r.highest[m.Counter] = max(r.highest[m.Counter], m.Number)
	}
	if err := r.look(); err != nil {
		return err
	}
	shut, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	return r.run(ctx)
}

// open opens the store to fill, and Redis.
func (r *restoring) open(ctx context.Context) (shut func() error, err error) {
	opened := r.cfg.Store
	opened.MustExist = false
	if r.store, err = backends.NewStore(ctx, opened, time.Now); err != nil {
		return nil, err
	}
	if a, ok := r.store.(persist.Answerer); ok && r.moving != nil {
		r.moving.answers = a.Answers()
	}
	closeRedis, err := r.openCursors(ctx)
	if err != nil {
		return nil, errors.Join(err, r.store.Close())
	}
	return func() error { closeRedis(); return r.store.Close() }, nil
}

// restoring is one call of [Restore], or the second half of a move.
type restoring struct {
	cfg      *config.Config
	from     origin
	moving   *moving // nil if it is a restore
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
		if r.moving != nil {
			r.moving.see(b)
		}
		r.gaps[b.Name] = seqd.TraitsOf(b.Settings).LeastGap
	}
	unnamed, stood := "", ""
	var low error
	r.contents, err = lookIn(r.from, func(h snapshot.Header, record snapshot.Record) {
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
			if r.moving != nil {
				r.moving.see(b)
			}
			r.gaps[b.Name] = max(r.gaps[b.Name], seqd.TraitsOf(b.Settings).LeastGap)
		}
	})
	switch {
	case err != nil:
	case r.moving != nil:
		err = r.moving.check(r, stood)
	case r.contents.Move != nil:
		err = fmt.Errorf("%w: the file is an export, after which nothing was issued: seqd import --from", ErrSnapshot)
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
		if r.moving != nil {
			err = r.moving.redis("")
		}
		return func() {}, err
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
	if err == nil && r.moving != nil {
		err = r.moving.redis(owner)
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
	if r.moving != nil {
		err := r.finish(ctx, "everything is not in the new store yet, and no node can use it; repeat the command", r.moving.note, r.fill, r.moving.verify, r.moving.leave, r.end)
		if known, failed := persist.ReadCluster(ctx, r.store.Documents()); err != nil && failed == nil && known.ID == r.contents.Cluster {
			r.tell(r.word(), "was ended by another call of this command")
			return nil
		}
		return err
	}
	return r.finish(ctx, "the store is not restored yet, and no node can use it; restore again with the same file and flags", r.fill, r.raiseToCursors, r.createNamed, r.repair, r.end)
}

// finish takes the steps. unfinished says what it means if one fails.
func (r *restoring) finish(ctx context.Context, unfinished string, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%s: %w", unfinished, err)
		}
	}
	return nil
}

// begin marks the store, which must have nothing or be marked by the same restore.
func (r *restoring) begin(ctx context.Context) error {
	began, err := r.mayBegin(ctx)
	if err != nil {
		return err
	}
	if began {
		r.tell(r.word(), "goes on with what was interrupted")
		return nil
	}
	return r.store.Documents().Create(ctx, r.mark)
}

// mayBegin returns why the store cannot be filled. began is whether it has the mark.
func (r *restoring) mayBegin(ctx context.Context) (began bool, err error) {
	what := []any{r.contents.SHA256, r.how.By, r.how.Gapless, r.how.ShutTokens, r.highest}
	if r.moving != nil { // which may read the former store again
		what = []any{"move", r.contents.Move.ID}
	}
	said, err := json.Marshal(what)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(said)
	r.mark = persist.RestoringDocument(hex.EncodeToString(sum[:]), r.now)
	has, err := r.store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey)
	began = err == nil && has.Body == r.mark.Body
	if r.moving != nil {
		began = err == nil && strings.HasPrefix(has.Body, r.mark.Body+" ")
		r.mark.Body += " " + persist.NewEpoch() // no other store has it
		if into := r.moving.into(); into != "" && into != has.Body && (began || errors.Is(err, persist.ErrNotFound)) {
			return false, fmt.Errorf("%w: everything was moved to another store of this name, or this one was lost. Numbers may have been issued there, and would be issued again: use that one", ErrSnapshot)
		}
	}
	switch {
	case began:
		r.mark = has
		return true, nil
	case err == nil:
		if known, failed := persist.ReadCluster(ctx, r.store.Documents()); failed == nil {
			return false, r.notEmpty(known)
		}
		return false, fmt.Errorf("%w: the restore of another file, or with other flags, or another move was begun here: repeat that one, or give an empty database or file", ErrSnapshot)
	case !errors.Is(err, persist.ErrNotFound):
		return false, err
	}
	return false, r.empty(ctx)
}

func (r *restoring) notEmpty(known persist.Cluster) error {
	return fmt.Errorf("%w: the store is not empty: it is that of the cluster %s, and the snapshot is of %s. Give it an empty database or file", ErrSnapshot, known.ID, r.contents.Cluster)
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
		return fmt.Errorf("%w: the store is not empty: it has %d registries of machine IDs, and documents of kind %q. Stop every seqd, which may have written them, and give it an empty database or file", ErrSnapshot, len(registries), kinds)
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
	if r.moving == nil {
		if err := r.sayRestored(ctx); err != nil {
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

// sayRestored keeps counters that the snapshot lacks from beginning at their start.
func (r *restoring) sayRestored(ctx context.Context) error {
	restored := persist.Restored{Began: r.contents.Began, At: r.now, Gap: max(LeastGap, r.usual)}
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
	return nil
}

// word says what this is.
func (r *restoring) word() string {
	if r.moving != nil {
		return "move"
	}
	return "restore"
}
