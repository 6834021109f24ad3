package terms

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/instant"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/logging"
)

const (
	// storePatience bounds a beat, and each other use of the store in the background.
	storePatience = Life / 2
	// leavePatience bounds the removal of the session when the node stops.
	leavePatience = time.Second
)

// Options are what Terms depend on.
type Options struct {
	// Documents are those of the store. They have the works.
	Documents coordination.Documents
	// Fenced is the store if it has fences, nil if not.
	Fenced persist.Fenced
	// Coordinator has the sessions, the work "leader" and the permits; nil if Documents have them.
	Coordinator coordination.Documents
	// Elsewhere returns why this node must not have a session: others use another coordinator. It
	// returns nil if it may. Elsewhere is nil if it always may.
	Elsewhere func() error
	// Shared is true if other nodes can use the store. If not, this node leads, its session never
	// ends, and no document says so.
	Shared bool
	// Node is the ID of this node.
	Node string
	// Now returns the time of day. It is written for people who look at documents.
	Now func() time.Time
	Log *slog.Logger
	// Clock reads the clocks of the machine; nil for [instant.Now].
	Clock func() instant.Instant
	// Wanted returns the works that the leader distributes, each with the session that owns it now,
	// "" for none; nil if there are no such works. While Wanted runs, the leader declares nobody
	// dead.
	Wanted func(ctx context.Context) (map[string]string, error)
}

// Terms is the part that a node takes: its session, and who leads. It is safe for concurrent use.
type Terms struct {
	opts   Options
	works  place         // has the works: the store
	coord  place         // has sessions, the work "leader" and permits: a coordinator, or the store too
	replan chan struct{} // see [Terms.Replan]
	// plannedAt is when this node planned last. Only advise uses it.
	plannedAt time.Time
	damaged   map[string]bool // sessions, as only lead and what it calls know them

	mu       sync.Mutex // guards what follows
	session  session
	watch    watch
	working  context.Context // ends when the session may not work any more
	stop     context.CancelFunc
	timer    *time.Timer   // calls expire when the session may end; nil before the first beat
	leader   Owner         // the owner of the work "leader", as it was read last
	manifest Manifest      // as it was read last
	death    chan struct{} // see [Terms.Death]
	id       string        // of the coordinator, "" until it is known
	cause    error         // why the last beat failed, nil if it did not
}

// New returns Terms without a session, which do not know who leads, until [Terms.Run] is called. If
// the store is not shared, this node has a session and leads at once.
func New(o Options) *Terms {
	if o.Clock == nil {
		o.Clock = instant.Now
	}
	if o.Elsewhere == nil {
		o.Elsewhere = func() error { return nil }
	}
	t := &Terms{opts: o, replan: make(chan struct{}, 1), death: make(chan struct{}), works: place{o.Documents, o.Fenced}, id: InStore}
	if t.coord = t.works; t.apart() {
		t.coord, t.id = place{o.Coordinator, nil}, ""
	}
	t.working, t.stop = context.WithCancel(context.Background())
	t.session = newSession(o.Node, "")
	if t.session.over = o.Shared; !o.Shared {
		t.leader.Session = t.session.key
	}
	return t
}

// Run keeps a session and takes part in the choice of the leader until ctx ends. Then it ends the
// session, so that others need not wait until it is dead.
func (t *Terms) Run(ctx context.Context) {
	var loops sync.WaitGroup
	if t.opts.Shared {
		loops.Go(func() { t.every(ctx, "the session cannot be renewed", t.renew, nil) })
	}
	loops.Go(func() { t.every(ctx, "it cannot be found out who leads", t.lead, t.untilSilent) })
	loops.Wait()
	t.leave()
}

// every calls do now and after each beatPause until ctx ends, and once more in between, after sooner,
// if that is shorter. It warns of a document that is damaged or of a newer format, and of a
// coordinator that fails. Other errors of the store are for the debug log: other packages warn of
// them.
func (t *Terms) every(ctx context.Context, what string, do func(context.Context) error, sooner func() time.Duration) {
	ticker := time.NewTicker(beatPause)
	defer ticker.Stop()
	unread := logging.Trouble{Log: t.opts.Log, Begins: what + "; it is tried again"}
	for {
		switch err := do(ctx); {
		case err == nil, errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
			unread.Note(err)
		case ctx.Err() != nil:
		case t.apart():
			unread.Note(err)
		default:
			t.opts.Log.Debug(what, "error", err)
		}
		var early <-chan time.Time
		if sooner != nil {
			early = time.After(sooner())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-early:
		}
	}
}

// untilSilent returns how long it takes until a session that is not seen to beat any more is silent.
func (t *Terms) untilSilent() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watch.untilSilent(t.opts.Clock())
}

// Death returns a channel that is closed when this node next declares a session dead: then it may
// take what that session owned. Other nodes find out when they look for works.
func (t *Terms) Death() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.death
}

// Session returns the key of the session under which this node may work, and a context that ends
// when it may not any more (K1). ok is false if it may not now.
func (t *Terms) Session() (key string, working context.Context, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session.key, t.working, t.alive()
}

// alive reports whether this node may work. mu is held.
func (t *Terms) alive() bool { return !t.opts.Shared || t.session.alive(t.opts.Clock()) }

// own returns the session, if this node may work under it.
func (t *Terms) own() (s session, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session, t.alive()
}

// renew calls beat, and keeps its error.
func (t *Terms) renew(ctx context.Context) error {
	err := t.beat(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cause = err
	return err
}

// beat renews the session, or begins the next one.
func (t *Terms) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	t.mu.Lock()
	s := t.session // only this goroutine changes it
	t.mu.Unlock()
	if why := t.opts.Elsewhere(); why != nil {
		s.over = true
		t.set(s)
		return errors.Join(why, t.identify(ctx)) // it may have been wiped: then it is the one of the others
	}
	switch {
	case s.over:
		if err := t.identify(ctx); err != nil {
			return err
		}
		fence, err := t.fence(ctx)
		if err != nil {
			return err
		}
		s = newSession(t.opts.Node, fence)
	case s.unsure:
		known, err := t.coord.Read(ctx, kind, s.key)
		s.noteRead(known.Revision, err)
		if s.over || err != nil {
			t.set(s)
			return err
		}
	}
	sent := t.confirm(ctx, &s)
	if s.over {
		t.set(s)
		return persist.ErrFailedOver
	}
	err := t.coord.put(ctx, s.next(t.opts.Now()), s.fence)
	s.noteBeat(sent, err)
	t.set(s)
	return err
}

// confirm returns when the beat that is sent next counts from. If the store does not fence that
// beat, because a coordinator keeps it, the node asks the store for its fence, later than that time:
// a failover ends the session, and while the store does not answer, the session lives but the node
// must not work.
func (t *Terms) confirm(ctx context.Context, s *session) (sent instant.Instant) {
	sent = t.opts.Clock()
	if !t.apart() || sabotage.Off(sabotage.TermConfirm) {
		return sent
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience/2)
	defer cancel()
	fence, err := t.fence(ctx)
	if err != nil {
		return s.sent
	}
	s.over = fence != s.fence
	return sent
}

// set changes the session after a beat. A new session begins to watch anew.
func (t *Terms) set(s session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.opts.Clock()
	if s.key != t.session.key {
		t.watch = newWatch(now)
	}
	t.session = s
	if t.timer == nil {
		t.timer = time.AfterFunc(max(0, s.left(now)), t.expire)
	} else {
		t.timer.Reset(max(0, s.left(now)))
	}
	switch alive := s.alive(now); {
	case !alive: // a session that is over must not seem to go on as the next one
		t.stop()
	case t.working.Err() != nil:
		t.working, t.stop = context.WithCancel(context.Background())
	}
}

// expire ends the context of [Terms.Session] if this node may not work any more.
func (t *Terms) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.alive() {
		t.stop()
	}
}

// leave ends the session, and deletes its document so that other nodes need not wait.
func (t *Terms) leave() {
	t.mu.Lock()
	s := t.session
	t.session.over = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.stop()
	t.mu.Unlock()
	if s.over || !t.opts.Shared {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
	defer cancel()
	known, err := t.readSession(ctx, s.key) // the last beat may be there or not
	if err == nil {
		err = t.coord.Delete(ctx, kind, s.key, known.Revision)
	}
	if err != nil {
		t.opts.Log.Debug("this node could not end its session", "error", err)
	}
}

// fence returns the present fence of the store, "" if it has none.
func (t *Terms) fence(ctx context.Context) (string, error) {
	if t.opts.Fenced == nil {
		return "", nil
	}
	f, err := t.opts.Fenced.Fence(ctx)
	return f.Current, err
}

// putBody writes the next revision of a document, with another body, under a fence.
func (t *Terms) putBody(ctx context.Context, in place, doc persist.Document, body any, fence string) (persist.Document, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return doc, fmt.Errorf("%w: the state of %s: %w", persist.ErrInvalid, doc.PersistID(), err)
	}
	doc.Revision, doc.Body, doc.Timestamp = doc.Revision+1, string(text), t.opts.Now().UnixMilli()
	return doc, in.put(ctx, doc, fence)
}

// readBody reads a document and its body. If there is no document, it returns one of revision 0,
// and leaves body as it is.
func (p place) readBody(ctx context.Context, kind, key string, body any) (persist.Document, error) {
	doc, err := p.Read(ctx, kind, key)
	if errors.Is(err, persist.ErrNotFound) {
		return persist.Document{Kind: kind, Key: key}, nil
	}
	if err != nil {
		return doc, err
	}
	if err = json.Unmarshal([]byte(doc.Body), body); err != nil {
		err = fmt.Errorf("%w: %s is damaged: %w", persist.ErrInvalid, doc.PersistID(), err)
	}
	return doc, err
}

// judge reads the session of another node and reports whether it is dead. It declares the session
// dead if it is silent. "" is the session of nobody.
func (t *Terms) judge(ctx context.Context, key string) (dead bool, err error) {
	var docs []persist.Document
	if key != "" {
		doc, err := t.readSession(ctx, key)
		switch {
		case err == nil:
			docs = []persist.Document{doc}
		case !errors.Is(err, persist.ErrNotFound):
			return false, err
		}
	}
	alive, err := t.declare(ctx, docs) // also without documents: otherwise the watch would have a gap
	return len(alive) == 0, err
}

// declare gets the documents of sessions that were just read. It declares the silent sessions dead,
// by deleting their documents, and returns the keys of the others.
func (t *Terms) declare(ctx context.Context, docs []persist.Document) (alive []string, err error) {
	t.noteDamaged(docs)
	t.mu.Lock()
	silent := t.watch.receive(t.opts.Clock(), docs)
	t.mu.Unlock()
	dead := make(map[string]bool, len(silent))
	for _, doc := range silent {
		failed := t.coord.Delete(ctx, kind, doc.Key, doc.Revision)
		switch {
		case failed == nil:
			t.opts.Log.Info("the session of a node ended", "node", NodeOf(doc.Key))
			fallthrough
		case errors.Is(failed, persist.ErrNotFound):
			dead[doc.Key] = true
		case !errors.Is(failed, persist.ErrConflict): // after a conflict it lives: it had a later beat
			err = cmp.Or(err, failed)
		}
	}
	for _, doc := range docs {
		if !dead[doc.Key] {
			alive = append(alive, doc.Key)
		}
	}
	if len(dead) > 0 {
		t.Replan()
		t.mu.Lock()
		defer t.mu.Unlock()
		close(t.death)
		t.death = make(chan struct{})
	}
	return alive, err
}
