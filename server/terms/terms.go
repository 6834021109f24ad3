package terms

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/instant"
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
	Documents persist.Documents
	// Fenced is the store if it has fences, nil if not.
	Fenced persist.Fenced
	// Shared is whether other nodes can use the store. If not, this node leads and its session never
	// ends, and neither is written.
	Shared bool
	// Node is the ID of this node.
	Node string
	// Now is the time of day, which is written for people who look at documents.
	Now func() time.Time
	Log *slog.Logger
	// Clock reads the clocks of the machine; nil for [instant.Now].
	Clock func() instant.Instant
	// Wanted returns the works that the leader plans, each with the session that owns it now, "" for
	// none. If it is nil, there are none. While it runs, the leader declares nobody dead.
	Wanted func(ctx context.Context) (map[string]string, error)
}

// Terms are the session of this node, what it works on, and whether it leads. It is safe for
// concurrent use.
type Terms struct {
	opts   Options
	replan chan struct{} // see [Terms.Replan]
	// planned is when the leader planned last. Only look uses it.
	planned time.Time

	mu       sync.Mutex // guards what follows
	session  session
	watch    watch
	working  context.Context // ends when the session may not work any more
	stop     context.CancelFunc
	timer    *time.Timer // calls expire when that may be so; nil before the first beat
	owner    Owner       // of the work "leader", as it was read last
	manifest Manifest
}

// New returns terms. Until [Terms.Run] is called the node has no session, and no node is known to
// lead; if the store is not shared, this one leads at once.
func New(o Options) *Terms {
	if o.Clock == nil {
		o.Clock = instant.Now
	}
	t := &Terms{opts: o, replan: make(chan struct{}, 1)}
	t.working, t.stop = context.WithCancel(context.Background())
	t.session = newSession(o.Node, "")
	if t.session.over = o.Shared; !o.Shared {
		t.owner.Session = t.session.key
	}
	return t
}

// Run keeps a session and takes part in the choice of the leader until ctx ends. Then it ends the
// session, so that others need not wait until it is dead.
func (t *Terms) Run(ctx context.Context) {
	var loops sync.WaitGroup
	if t.opts.Shared {
		loops.Go(func() { t.every(ctx, "the session cannot be renewed", t.beat) })
	}
	loops.Go(func() { t.every(ctx, "it cannot be found out who leads", t.look) })
	loops.Wait()
	t.leave()
}

// every calls do now and after each beatPause until ctx ends. A document that cannot be read is a
// warning; that the store does not answer is one of those who write more to it.
func (t *Terms) every(ctx context.Context, what string, do func(context.Context) error) {
	ticker := time.NewTicker(beatPause)
	defer ticker.Stop()
	unread := logging.Trouble{Log: t.opts.Log, Begins: what + "; it is tried again"}
	for {
		switch err := do(ctx); {
		case err == nil, errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
			unread.Note(err)
		case ctx.Err() == nil:
			t.opts.Log.Debug(what, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
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

// beat renews the session, or begins the next one.
func (t *Terms) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	t.mu.Lock()
	s := t.session // only this goroutine changes it
	t.mu.Unlock()
	switch {
	case s.over:
		fence, err := t.fence(ctx)
		if err != nil {
			return err
		}
		s = newSession(t.opts.Node, fence)
	case s.unsure:
		known, err := t.opts.Documents.Read(ctx, kind, s.key)
		s.found(known.Revision, err)
		if s.over || err != nil {
			t.set(s)
			return err
		}
	}
	sent := t.opts.Clock()
	err := t.put(ctx, s.next(t.opts.Now()), s.fence)
	s.told(sent, err)
	t.set(s)
	return err
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
	if s.alive(now) && t.working.Err() != nil {
		t.working, t.stop = context.WithCancel(context.Background())
	}
}

// expire tells those who work that they may not any more, if that is so.
func (t *Terms) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.alive() {
		t.stop()
	}
}

// leave ends the session.
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
	known, err := t.opts.Documents.Read(ctx, kind, s.key) // the last beat may be there or not
	if err == nil {
		err = t.opts.Documents.Delete(ctx, kind, s.key, known.Revision)
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

// put writes a document under a fence.
func (t *Terms) put(ctx context.Context, doc persist.Document, fence string) error {
	if t.opts.Fenced == nil {
		return persist.Put(ctx, t.opts.Documents, doc)
	}
	return persist.PutFenced(ctx, t.opts.Fenced, doc, fence)
}

// judge reports whether a session of another node is dead, and declares that if nobody has. "" is
// the session of nobody.
func (t *Terms) judge(ctx context.Context, key string) (dead bool, err error) {
	var docs []persist.Document
	if key != "" {
		doc, err := t.opts.Documents.Read(ctx, kind, key)
		switch {
		case err == nil:
			docs = []persist.Document{doc}
		case !errors.Is(err, persist.ErrNotFound):
			return false, err
		}
	}
	_, declared, err := t.declare(ctx, docs)
	return len(docs) == declared, err
}

// declare deletes the sessions that are dead among those that were just received, and returns those
// that are not, and how many are.
func (t *Terms) declare(ctx context.Context, docs []persist.Document) (alive []string, dead int, err error) {
	t.mu.Lock()
	judged := t.watch.look(t.opts.Clock(), docs)
	t.mu.Unlock()
	gone := make(map[string]bool, len(judged))
	for _, doc := range judged {
		failed := t.opts.Documents.Delete(ctx, kind, doc.Key, doc.Revision)
		switch {
		case failed == nil:
			t.opts.Log.Info("the session of a node ended", "node", nodeOf(doc.Key))
			fallthrough
		case errors.Is(failed, persist.ErrNotFound):
			gone[doc.Key] = true
		case !errors.Is(failed, persist.ErrConflict): // a later beat: it lives
			err = cmp.Or(err, failed)
		}
	}
	for _, doc := range docs {
		if !gone[doc.Key] {
			alive = append(alive, doc.Key)
		}
	}
	return alive, len(gone), err
}
