package ops

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/nodes"
	"github.com/seqd/seqd/server/snapshot"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// Moving says how [Move], [Export] and [Import] go about it.
type Moving struct {
	// LeaveRedis is whether what the Redis of the former store has is left behind: the rest of the
	// numbers in cursors, answers to requests with an Idempotency-Key, the state of rate limits.
	LeaveRedis bool
	// Waits is as in [How].
	Waits func(nodes string)
	// Progress is called with how many records were read, written or checked; of is 0 while nobody
	// knows how many there are. It may be nil.
	Progress func(what string, done, of int64)
}

// Move brings all that the store of a configuration has to the empty store of another one, and leaves
// the former store shut: no process can take a number there any more. Every seqd must be stopped. No
// number is skipped.
//
// An [ErrSnapshot] or [ErrRefused] says that nothing was changed. After any other error, or if Move is
// killed, the same call goes on. Until it says that the new store may be used, [UndoMove] opens the former
// one again.
func Move(ctx context.Context, from, to *config.Config, how Moving, tell func(what, done string)) (err error) {
	place := to.Store.Driver + ", " + to.Store.Place()
	for _, cfg := range []*config.Config{from, to} {
		if cfg.Store.Forgets() {
			return fmt.Errorf("%w: store.driver: %s keeps nothing", ErrSnapshot, cfg.Store.Driver)
		}
	}
	if place == from.Store.Driver+", "+from.Store.Place() {
		return fmt.Errorf("%w: both configurations have the same store: %s. Variables of the environment (SEQD_STORE_…) override both", ErrSnapshot, place)
	}
	l, err := leave(ctx, from, persist.Moved{To: place}, how)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.store.Close()) }()
	target := seams.Target(ctx)
	r := newMove(to, l.origin(ctx), l, how, tell)
	if l.was.Opened {
		if done, err := r.done(target); done || err != nil {
			return err
		}
	}
	if err := l.alone(ctx); err != nil {
		return err
	}
	if err := r.look(); err != nil {
		return err
	}
	shut, err := r.open(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	if _, err := r.mayBegin(target); err != nil {
		return err
	}
	if err := l.shut(ctx); err != nil {
		return err
	}
	return r.run(target)
}

// leaving is a store that everything is taken out of.
type leaving struct {
	store persist.Store
	redis bool             // its nodes have a Redis
	doc   persist.Document // of the cluster
	was   persist.Moved    // that the document says; the zero value at first
	now   persist.Moved    // that it is to say
	how   Moving
}

// leave opens a store that is to be moved as m says, or whose move goes on.
func leave(ctx context.Context, cfg *config.Config, m persist.Moved, how Moving) (l *leaving, err error) {
	if err := checkKept(cfg.Store); err != nil {
		return nil, err
	}
	l = &leaving{redis: cfg.Redis.Configured() && cfg.Store.Shared(), now: m, how: how}
	if l.store, err = backends.MovingStore(ctx, cfg.Store, time.Now); err != nil {
		return nil, err
	}
	if err := l.look(ctx); err != nil {
		return nil, errors.Join(err, l.store.Close())
	}
	return l, nil
}

// look reads what the document of the cluster says.
func (l *leaving) look(ctx context.Context) (err error) {
	known, err := persist.ReadCluster(ctx, l.store.Documents())
	switch was, is := errors.AsType[persist.Moved](err); {
	case is:
		l.was = was
		if was.To != l.now.To || was.File != l.now.File || was.Undone {
			return fmt.Errorf("%w: %w", ErrSnapshot, was)
		}
		l.now = was
	case errors.Is(err, persist.ErrNotFound):
		return fmt.Errorf("%w: no seqd has run on this store: there is nothing to move", ErrSnapshot)
	case err != nil:
		return err
	default:
		now, err := l.store.Now(ctx)
		if err != nil {
			return err
		}
		l.now.Move, l.now.Cluster, l.now.Created, l.now.At = persist.NewEpoch(), known.ID, known.Timestamp, now.UnixMilli()
	}
	if _, can := l.store.(persist.Shutter); l.store.Shared() && !can {
		return fmt.Errorf("%w: a store of this kind cannot be shut, so a node that was forgotten could go on with it", ErrSnapshot)
	}
	if l.doc, err = l.store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey); err != nil {
		return err
	}
	fence, err := fenceOf(ctx, l.store)
	if err == nil && fence.failedOver {
		err = fmt.Errorf("%w: the server of the store has failed over, and nobody has confirmed that: seqd failover --confirm, and move then", ErrSnapshot)
	}
	return err
}

// origin is all that the store has.
func (l *leaving) origin(ctx context.Context) origin {
	return fromStore(ctx, l.store, l.header())
}

func (l *leaving) header() snapshot.Header {
	return snapshot.Header{Cluster: l.now.Cluster, Created: l.now.Created, Began: l.now.At, Move: &snapshot.Move{ID: l.now.Move, Redis: l.redis}}
}

// fromStore reads a store as if it were a file.
func fromStore(ctx context.Context, store persist.Store, h snapshot.Header) origin {
	return origin{open: func() (io.ReadCloser, error) {
		read, write := io.Pipe()
		go func() { _ = write.CloseWithError(snapshot.Export(ctx, store, write, h)) }() // the reader gets the error
		return read, nil
	}}
}

// alone returns an error if a node uses the store.
func (l *leaving) alone(ctx context.Context) error {
	running, err := nodes.Running(ctx, l.store, l.how.Waits)
	if err == nil && len(running) > 0 {
		err = fmt.Errorf("%w: seqd runs: %s. Stop every seqd, and do this then", ErrRefused, nodes.Few(running))
	}
	return err
}

// shut takes the store from all nodes: from those that start by the document of the cluster, and from
// those that have opened it before and were suspended, or are cut off, by [persist.Shutter].
func (l *leaving) shut(ctx context.Context) error {
	if l.was.Move == "" {
		if err := l.say(ctx, l.now); err != nil {
			return err
		}
	}
	if err := l.alone(ctx); err != nil {
		if errors.Is(err, ErrRefused) && l.was.Move == "" { // it has started just now
			err = errors.Join(err, l.open(ctx))
		}
		return err
	}
	if s, ok := l.store.(persist.Shutter); ok && !sabotage.Off(sabotage.MoveShut) {
		return s.Shut(ctx)
	}
	return nil
}

// say writes the document of the cluster. The outcome of an earlier try may be unknown.
func (l *leaving) say(ctx context.Context, m persist.Moved) error {
	return l.write(ctx, m.Document(l.doc.Revision+1))
}

func (l *leaving) write(ctx context.Context, next persist.Document) error {
	err := l.store.Documents().Update(ctx, next)
	if err != nil {
		if has, failed := l.store.Documents().Read(ctx, next.Kind, next.Key); failed != nil || has != next {
			return err
		}
	}
	l.doc = next
	return nil
}

// open gives the store back to the nodes.
func (l *leaving) open(ctx context.Context) error {
	back := persist.Cluster{ID: l.now.Cluster, Timestamp: l.now.Created}.Document()
	back.Revision = l.doc.Revision + 1
	return l.write(ctx, back)
}

// undo opens the store again that was shut. First it says so, so that no move goes on beside it.
func (l *leaving) undo(ctx context.Context) error {
	undone := l.now
	undone.Undone = true
	if err := l.say(ctx, undone); err != nil {
		return err
	}
	if s, ok := l.store.(persist.Shutter); ok {
		if err := s.Unshut(ctx); err != nil {
			return err
		}
	}
	return l.open(ctx)
}

// Export writes all that a store has to a file, and leaves the store shut, as [Move] does: it is the first
// half of one. It returns what the file has.
func Export(ctx context.Context, cfg *config.Config, path string, how Moving) (c Contents, err error) {
	file, err := filepath.Abs(path)
	if err != nil {
		return c, err
	}
	l, err := leave(ctx, cfg, persist.Moved{File: file}, how)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, l.store.Close()) }()
	if err := l.mayWrite(file); err != nil {
		return c, err
	}
	if err := l.alone(ctx); err != nil {
		return c, err
	}
	r := newMove(cfg, l.origin(ctx), l, how, func(string, string) {})
	if err := r.look(); err != nil {
		return c, err
	}
	fresh := l.was.Move == ""
	if err := l.shut(ctx); err != nil {
		return c, err
	}
	err = snapshot.WriteFile(file, func(w io.Writer) error { return snapshot.Export(ctx, l.store, w, l.header()) })
	if err == nil {
		return Status(file)
	}
	if fresh { // nobody has the file
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
		defer cancel()
		if failed := l.undo(ctx); failed != nil {
			return c, fmt.Errorf("%w; and the store is still shut: seqd export --undo: %w", err, failed)
		}
		return c, fmt.Errorf("nothing was changed: %w", err)
	}
	return c, err
}

// undoing bounds how long an export that fails takes to open the store again.
const undoing = 20 * time.Second

// mayWrite returns an error if there is a file that is not of this export.
func (l *leaving) mayWrite(file string) error {
	if _, err := os.Stat(file + importedNote); err == nil {
		return fmt.Errorf("%w: %s says that a file of this name was imported, or must not be: give another name", ErrSnapshot, file+importedNote)
	}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if c, err := Status(file); err != nil || c.Move == nil || c.Move.ID != l.now.Move {
		return fmt.Errorf("%w: there is a file %s, which is not of this export: give another name", ErrSnapshot, file)
	}
	return nil
}

// importedNote ends the name of a file that says where an export was imported: a second store with the
// same numbers would issue them again.
const importedNote = ".imported"

// imported is what that file says.
type imported struct {
	Move string    `json:"move"`
	At   time.Time `json:"at"`
	Into string    `json:"store"` // "" if the export was undone
}

// Import fills the empty store of a configuration from the file of [Export]: it is the second half of a
// move. Beside the file it notes which store that is, and refuses another one.
//
// An [ErrSnapshot] says that nothing was changed. After any other error the same call goes on.
func Import(ctx context.Context, cfg *config.Config, path string, how Moving, tell func(what, done string)) (err error) {
	if cfg.Store.Forgets() {
		return fmt.Errorf("%w: store.driver: %s keeps nothing", ErrSnapshot, cfg.Store.Driver)
	}
	file, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	r := newMove(cfg, inFile(file), nil, how, tell)
	if err := r.look(); err != nil {
		return err
	}
	if err := r.mayImport(file); err != nil {
		return err
	}
	shut, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	if _, err := r.mayBegin(ctx); err != nil {
		return err
	}
	if err := writeNote(file, imported{r.contents.Move.ID, time.Now().UTC(), r.place()}); err != nil {
		return fmt.Errorf("the file beside it that says where it is imported: %w", err)
	}
	return r.run(ctx)
}

// place is the driver and the place of the store.
func (r *restoring) place() string { return r.cfg.Store.Driver + ", " + r.cfg.Store.Place() }

// mayImport returns an error if the export was imported into another store, or undone.
func (r *restoring) mayImport(file string) error {
	text, err := os.ReadFile(file + importedNote)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var note imported
	switch err := json.Unmarshal(text, &note); {
	case err != nil:
		return fmt.Errorf("%w: %s cannot be read: it says where the export was imported: %w", ErrSnapshot, file+importedNote, err)
	case note.Into == "":
		return fmt.Errorf("%w: the export was undone at %s, and its store is in use again: export again", ErrSnapshot, note.At.Format(time.RFC3339))
	case note.Into != r.place():
		return fmt.Errorf("%w: %s was imported at %s into another store: %s. Two stores would issue the same numbers: use that one", ErrSnapshot, file, note.At.Format(time.RFC3339), note.Into)
	}
	return nil
}

func writeNote(file string, note imported) error {
	text, err := json.Marshal(note)
	if err == nil {
		err = os.WriteFile(file+importedNote, append(text, '\n'), 0o600)
	}
	return err
}

// UndoMove opens a store again that a move or an export has shut, if no other store was opened since. It
// returns what the store was moved to.
func UndoMove(ctx context.Context, cfg *config.Config) (m persist.Moved, err error) {
	if err := checkKept(cfg.Store); err != nil {
		return m, err
	}
	store, err := backends.MovingStore(ctx, cfg.Store, time.Now)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_, err = persist.ReadCluster(ctx, store.Documents())
	m, moved := errors.AsType[persist.Moved](err)
	switch {
	case !moved && err != nil:
		return m, err
	case !moved:
		return m, fmt.Errorf("%w: the store was neither moved nor exported: nodes can use it", ErrSnapshot)
	case m.Opened:
		return m, fmt.Errorf("%w: %w. There is no way back: numbers may have been issued there", ErrSnapshot, m)
	}
	if m.File != "" {
		if note, err := os.ReadFile(m.File + importedNote); err == nil && !m.Undone {
			return m, fmt.Errorf("%w: the file was imported, so there is no way back: %s", ErrSnapshot, note)
		}
		if err := writeNote(m.File, imported{Move: m.Move, At: time.Now().UTC()}); err != nil {
			return m, fmt.Errorf("%w: a note beside the file, that it must not be imported, cannot be written: %w", ErrSnapshot, err)
		}
	}
	l := &leaving{store: store, now: m}
	if l.doc, err = store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey); err != nil {
		return m, err
	}
	return m, l.undo(ctx)
}

// moving is what differs when everything is moved, and nothing was issued since.
type moving struct {
	r       *restoring
	from    *leaving // nil if it comes from a file
	how     Moving
	answers persist.Answers // nil if the new store keeps answers in documents
	cursors bool            // those in Redis go on
	leases  string          // a biz type whose machine IDs are leased in Redis
	want    digest
	what    string // is done
	done    int64
}

func newMove(to *config.Config, from origin, l *leaving, how Moving, tell func(what, done string)) *restoring {
	r := &restoring{cfg: to.ForRepair(), from: from, tell: tell, highest: map[string]int64{}, gaps: map[string]int64{}, seen: map[string]bool{}}
	r.moving = &moving{r: r, from: l, how: how}
	return r
}

// done reports whether the new store is open already.
func (r *restoring) done(ctx context.Context) (bool, error) {
	store, err := backends.NewStore(ctx, r.cfg.Store, time.Now)
	if err != nil {
		return false, err
	}
	known, failed := persist.ReadCluster(ctx, store.Documents())
	done := failed == nil && known.ID == r.moving.from.now.Cluster
	if done {
		r.tell("move", "was done already")
	}
	return done, store.Close()
}

// check returns why what was read cannot be moved. stood is a gapless counter that stood still.
func (m *moving) check(r *restoring, stood string) error {
	switch {
	case r.contents.Move == nil:
		return fmt.Errorf("%w: the file is a snapshot, after which numbers may have been issued: seqd snapshot restore", ErrSnapshot)
	case r.contents.FailedOver:
		return fmt.Errorf("%w: the server of the store has failed over, and nobody has confirmed that: seqd failover --confirm, and move then", ErrSnapshot)
	case stood != "":
		return fmt.Errorf("%w: %s stands still because the store has failed over: raise it (seqd raise), and move then", ErrSnapshot, stood)
	}
	return nil
}

// note notes a biz type.
func (m *moving) note(b seqd.BizType) {
	if seqd.TraitsOf(b.Settings).Redis == "registry" {
		m.leases = b.Name
	}
}

// redis returns why nothing can be moved without the Redis that the nodes had. owner is the cluster that
// the Redis of the new configuration serves, "" for none.
func (m *moving) redis(owner string) error {
	m.cursors = owner == m.r.contents.Cluster
	switch {
	case !m.r.contents.Move.Redis || m.cursors:
		return nil
	case m.leases != "":
		return fmt.Errorf("%w: machine IDs of %s are leased in the Redis of the former store, and the new configuration has another Redis, or none: "+
			"give it the same redis.addrs, redis.db and redis.keyPrefix", ErrSnapshot, m.leases)
	case !m.how.LeaveRedis:
		return fmt.Errorf("%w: the nodes of the former store had a Redis, and the new configuration has another one, or none, or an empty one: give it the same redis.addrs, redis.db and "+
			"redis.keyPrefix; or add --leave-redis, and the rest of the numbers in its cursors is skipped, and answers to Idempotency-Keys and the state of rate limits are forgotten", ErrSnapshot)
	}
	return nil
}

// counter returns a counter as it is written.
func (m *moving) counter(c persist.Counter) persist.Counter {
	if c.Epoch != persist.StoreEpoch && !m.cursors {
		c.Epoch = ""
	}
	return c
}

// ledger returns the document of a gapless counter as it is written: the fence is that of the new store.
func (m *moving) ledger(doc persist.Document, state *ledger.State, fence string) (persist.Document, error) {
	if state.Fence == fence {
		return doc, nil
	}
	state.Fence = fence
	return state.Document(doc.Key, doc.Timestamp)
}

// answer keeps an answer in a store that keeps them apart, unless it has ended.
func (m *moving) answer(ctx context.Context, d persist.Document) (kept bool, err error) {
	left := time.Duration(d.Expires-m.r.contents.Ended) * time.Millisecond
	if left <= 0 {
		return false, nil
	}
	const claim = "seqd move"
	held, err := m.answers.Claim(ctx, d.Key, claim, time.Minute)
	if err == nil && held == "" {
		_, err = m.answers.Swap(ctx, d.Key, claim, d.Body, left)
	}
	return err == nil, err
}

// count counts a record.
func (m *moving) count(what string) {
	if m.what != what {
		m.what, m.done = what, 0
	}
	if m.done++; m.how.Progress != nil {
		m.how.Progress(what, m.done, m.r.contents.Records)
	}
}

// verify compares what the new store has with what was read.
func (m *moving) verify(ctx context.Context) error {
	var has digest
	from := fromStore(ctx, m.r.store, m.r.contents.Header)
	_, err := from.read(func(snapshot.Header) error { return nil }, func(record snapshot.Record) error {
		m.count("checked")
		return has.add(record)
	})
	if err == nil && has != m.want {
		err = fmt.Errorf("the new store has %d records, and not the same as the %d that were read: a forgotten node may have changed documents of the former store; "+
			"stop it, and give an empty database or file", has.records, m.want.records)
	}
	return err
}

// leave says in the former store that the new one may be open: there is no way back.
func (m *moving) leave(ctx context.Context) error {
	if m.from == nil || m.from.now.Opened {
		return nil
	}
	m.from.now.Opened = true
	return m.from.say(ctx, m.from.now)
}

// digest is a sum over records in any order.
type digest struct {
	sum     [4]uint64
	records int64
}

func (d *digest) add(record snapshot.Record) error {
	if r := record.Registry; r != nil && r.Set != nil { // the source differs
		set := *r.Set
		set.Source = ""
		record.Registry = &persist.Registry{Name: r.Name, Set: &set, Slots: r.Slots}
	}
	if d := record.Document; d != nil && d.Kind == persist.KeptAnswerKind { // the rest may be as before, or later
		record.Document = &persist.Document{Kind: d.Kind, Key: d.Key, Body: d.Body}
	}
	if record.Counter != nil {
		record.Counter = &snapshot.Counter{Counter: record.Counter.Counter}
	}
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	for i := range d.sum {
		d.sum[i] += binary.BigEndian.Uint64(sum[8*i:])
	}
	d.records++
	return nil
}
