package ops

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/nodes"
	"github.com/seqd/seqd/server/snapshot"
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
	s, err := openSource(ctx, from, persist.Moved{To: place}, how)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.store.Close()) }()
	target := backends.Target(ctx)
	m := newMoving(to, s.origin(ctx), how, tell)
	if m.opened = s.now.Into; s.was.Opened {
		if done, err := m.isDone(target, s.now.Cluster); done || err != nil {
			return err
		}
	}
	if err := s.alone(ctx); err != nil {
		return err
	}
	if err := m.survey(); err != nil {
		return err
	}
	closeAll, err := m.open(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	if _, err := m.mayBegin(target); err != nil {
		return err
	}
	if err := s.shut(ctx); err != nil {
		return err
	}
	sayOpened := func(ctx context.Context) error { return s.sayOpened(ctx, m.mark.Body) }
	return m.run(target, m.fill, m.verify, sayOpened)
}

// source is a store that everything is moved out of.
type source struct {
	store persist.Store
	redis bool             // its nodes have a Redis
	doc   persist.Document // of the cluster
	was   persist.Moved    // that the document says; the zero value at first
	now   persist.Moved    // that it is to say
	how   Moving
}

// openSource opens a store that is to be moved as m says, or whose move goes on.
func openSource(ctx context.Context, cfg *config.Config, m persist.Moved, how Moving) (s *source, err error) {
	if err := checkKept(ErrSnapshot, cfg.Store); err != nil {
		return nil, err
	}
	s = &source{redis: cfg.Redis.Configured() && cfg.Store.Shared(), now: m, how: how}
	if s.store, err = backends.MovingStore(ctx, cfg.Store, time.Now); err != nil {
		return nil, err
	}
	if err := s.look(ctx); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	return s, nil
}

// look reads what the document of the cluster says.
func (s *source) look(ctx context.Context) (err error) {
	known, err := persist.ReadCluster(ctx, s.store.Documents())
	switch was, is := errors.AsType[persist.Moved](err); {
	case is:
		s.was = was
		if was.To != s.now.To || was.File != s.now.File || was.Undone {
			return fmt.Errorf("%w: %w", ErrSnapshot, was)
		}
		s.now = was
	case errors.Is(err, persist.ErrNotFound):
		return fmt.Errorf("%w: no seqd has run on this store: there is nothing to move", ErrSnapshot)
	case err != nil:
		return err
	default:
		now, err := s.store.Now(ctx)
		if err != nil {
			return err
		}
		s.now.Move, s.now.Cluster, s.now.Created, s.now.At = persist.NewEpoch(), known.ID, known.Timestamp, now.UnixMilli()
	}
	if _, can := s.store.(persist.Shutter); s.store.Shared() && !can {
		return fmt.Errorf("%w: a store of this kind cannot be shut, so a node that was forgotten could go on with it", ErrSnapshot)
	}
	if s.doc, err = s.store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey); err != nil {
		return err
	}
	fence, err := fenceOf(ctx, s.store)
	if err == nil && fence.failedOver {
		err = fmt.Errorf("%w: the server of the store has failed over, and nobody has confirmed that: seqd failover --confirm, and move then", ErrSnapshot)
	}
	return err
}

// origin is all that the store has.
func (s *source) origin(ctx context.Context) origin {
	return fromStore(ctx, s.store, s.header())
}

func (s *source) header() snapshot.Header {
	return snapshot.Header{Cluster: s.now.Cluster, Created: s.now.Created, Began: s.now.At, Move: &snapshot.Move{ID: s.now.Move, Redis: s.redis}}
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
func (s *source) alone(ctx context.Context) error {
	running, err := nodes.Running(ctx, s.store, s.how.Waits)
	if err == nil && len(running) > 0 {
		err = fmt.Errorf("%w: seqd runs: %s. Stop every seqd, and do this then", ErrRefused, nodes.Few(running))
	}
	return err
}

// shut takes the store from all nodes: from those that start by the document of the cluster, and from
// those that have opened it before and were suspended, or are cut off, by [persist.Shutter].
func (s *source) shut(ctx context.Context) error {
	if s.was.Move == "" {
		s.now.Marked = s.doc.Revision + 1
		if err := s.say(ctx, s.now); err != nil {
			return err
		}
	}
	if err := s.alone(ctx); err != nil {
		if errors.Is(err, ErrRefused) && s.was.Move == "" { // it has started just now
			err = errors.Join(err, s.undo(ctx)) // another call of this may have shut it meanwhile
		}
		return err
	}
	if store, ok := s.store.(persist.Shutter); ok && !sabotage.Off(sabotage.MoveShut) {
		return store.Shut(ctx, s.doc)
	}
	return nil
}

// say writes the document of the cluster. The outcome of an earlier try may be unknown.
func (s *source) say(ctx context.Context, m persist.Moved) error {
	return s.write(ctx, m.Document(s.doc.Revision+1))
}

func (s *source) write(ctx context.Context, next persist.Document) error {
	err := s.store.Documents().Update(ctx, next)
	if err != nil {
		if has, failed := s.store.Documents().Read(ctx, next.Kind, next.Key); failed != nil || has != next {
			return err
		}
	}
	s.doc = next
	return nil
}

// sayOpened says that nodes may use the store with this mark: there is no way back.
func (s *source) sayOpened(ctx context.Context, mark string) error {
	if s.now.Opened {
		return nil
	}
	s.now.Opened, s.now.Into = true, mark
	return s.say(ctx, s.now)
}

// reopen gives the store back to the nodes.
func (s *source) reopen(ctx context.Context) error {
	back := persist.Cluster{ID: s.now.Cluster, Timestamp: s.now.Created}.Document()
	back.Revision = s.doc.Revision + 1
	return s.write(ctx, back)
}

// undo opens the store again that was shut. First it says so, so that no move goes on beside it.
func (s *source) undo(ctx context.Context) error {
	undone := s.now
	undone.Undone = true
	if err := s.say(ctx, undone); err != nil {
		return err
	}
	if store, ok := s.store.(persist.Shutter); ok {
		if err := store.Unshut(ctx, s.doc); err != nil {
			return err
		}
	}
	return s.reopen(ctx)
}

// moving is what one call of [Move] or [Import] does besides filling the store.
type moving struct {
	*filling
	how  Moving
	want digest
	what string // is done
	done int64
}

func newMoving(to *config.Config, from origin, how Moving, tell func(what, done string)) *moving {
	p := &movePolicy{leaveRedis: how.LeaveRedis, gaps: make(gaps)}
	const unfinished = "everything is not in the new store yet, and no node can use it; repeat the command"
	m := &moving{filling: &filling{policy: p, name: "move", unfinished: unfinished, cfg: to.ForRepair(), from: from, tell: tell}, how: how}
	m.wrote = func(r snapshot.Record) error {
		m.count("written")
		return m.want.add(r)
	}
	return m
}

// isDone reports whether nodes can use the new store already.
func (m *moving) isDone(ctx context.Context, cluster string) (bool, error) {
	store, err := backends.NewStore(ctx, m.cfg.Store, time.Now)
	if err != nil {
		return false, err
	}
	known, failed := persist.ReadCluster(ctx, store.Documents())
	done := failed == nil && known.ID == cluster
	if done {
		m.tell("move", "was done already")
	}
	return done, store.Close()
}

// count counts a record.
func (m *moving) count(what string) {
	if m.what != what {
		m.what, m.done = what, 0
	}
	if m.done++; m.how.Progress != nil {
		m.how.Progress(what, m.done, m.contents.Records)
	}
}

// verify compares what the new store has with what was written.
func (m *moving) verify(ctx context.Context) error {
	var has digest
	from := fromStore(ctx, m.store, m.contents.Header)
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
