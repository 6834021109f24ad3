package subscriptions

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/events"
	"github.com/seqd/seqd/server/storeerror"
	"github.com/seqd/seqd/server/terms"
)

// Kind is the kind of the documents of definitions, and workKind that of the works. Their keys are
// the names.
const (
	Kind     = "subscriber"
	workKind = "subscription"
)

const (
	// most is how many subscriptions there are at most.
	most = 2000
	// storePatience bounds each use of the store in the background.
	storePatience = 5 * time.Second
)

// Streams are what is sent. An [events.Streams] is one.
type Streams interface {
	Read(ctx context.Context, bizType string, after int64, limit int) ([]events.Event, error)
	Last(ctx context.Context, bizType string) (int64, error)
}

var _ Streams = (*events.Streams)(nil)

// Options are what [New] needs.
type Options struct {
	Documents persist.Documents
	Terms     *terms.Terms
	Streams   Streams
	// Transport posts.
	Transport http.RoundTripper
	// Now is the time that nodes have in common.
	Now func() time.Time
	Log *slog.Logger
	// KeepDead is how long an event is kept that was given up. Past returns the time before which it may
	// be removed then, in ms since the Unix epoch; ok is false if a clock has jumped, so that nothing
	// may. If it is nil, Now says it.
	KeepDead time.Duration
	Past     func(ctx context.Context) (before int64, ok bool, err error)
	// Announce is called before a definition is written, and Publish after it. Both may be nil.
	Announce func(ctx context.Context, kind, key string) error
	Publish  func(ctx context.Context, kind, key string)
}

// Subscriptions implements [admin.Subscriptions], and sends.
type Subscriptions struct {
	opts    Options
	wake    chan struct{} // has an element if there may be something to do
	slots   chan struct{} // has an element for each attempt
	counts  counts
	held    map[string]*held // only Run uses it, and what it waits for
	owned   map[string]bool  // works that this node may own and does not hold; of Run, too
	swept   time.Time        // see sweep
	loaded  bool             // the definitions were read once
	sending sync.WaitGroup   // attempts

	mu          sync.Mutex             // guards what follows
	definitions map[string]*definition // as this node knows them
	figures     Figures
}

var _ admin.Subscriptions = (*Subscriptions)(nil)

// New returns the subscriptions of a store. [Subscriptions.Run] sends.
func New(o Options) *Subscriptions {
	return &Subscriptions{
		opts: o, wake: make(chan struct{}, 1), slots: make(chan struct{}, mostAttempts), held: make(map[string]*held), owned: make(map[string]bool),
		definitions: make(map[string]*definition),
	}
}

// List implements [admin.Subscriptions].
func (s *Subscriptions) List(ctx context.Context, after string, limit int) (list []admin.Subscription, more bool, err error) {
	docs, err := s.opts.Documents.List(ctx, Kind, after, limit+1)
	if err != nil {
		return nil, false, failure(err)
	}
	for _, doc := range docs[:min(len(docs), limit)] {
		d, err := definitionIn(doc)
		if err != nil {
			return nil, false, failure(err)
		}
		list = append(list, d.shown())
	}
	return list, len(docs) > limit, nil
}

// Get implements [admin.Subscriptions].
func (s *Subscriptions) Get(ctx context.Context, name string) (admin.Subscription, error) {
	d, err := s.find(ctx, name)
	if err != nil {
		return admin.Subscription{}, failure(err)
	}
	shown := d.shown()
	w, owner, err := s.work(ctx, name)
	if err != nil {
		return admin.Subscription{}, failure(err)
	}
	w = w.of(d)
	shown.State = &admin.SubscriptionState{Positions: w.At, Missed: w.Missed}
	for b, at := range w.At {
		w.At[b] = max(0, at)
	}
	if key := owner.Session; key != "" {
		gone, err := s.opts.Terms.Gone(ctx, key)
		if err != nil {
			return admin.Subscription{}, failure(err)
		}
		if !gone {
			shown.State.Node = terms.NodeOf(key)
		}
	}
	last := int64(0)
	for doc, err := range persist.DocumentsUnder(ctx, s.opts.Documents, persist.DeliveryKind, name+"/") {
		if err != nil {
			return admin.Subscription{}, failure(err)
		}
		v, err := deliveryIn(doc)
		switch {
		case err != nil || v.Made != d.Made:
			continue
		case v.Dead:
			shown.State.Dead++
		default:
			shown.State.Pending++
		}
		if v.Last > last {
			last, shown.State.Error, shown.State.FailedAt = v.Last, v.Error, admin.Time(v.Last)
		}
	}
	return shown, nil
}

// work returns the state of the work of a subscription and its owner.
func (s *Subscriptions) work(ctx context.Context, name string) (w state, owner terms.Owner, err error) {
	doc, err := s.opts.Documents.Read(ctx, workKind, name)
	if errors.Is(err, persist.ErrNotFound) {
		return w, owner, nil
	}
	if err != nil {
		return w, owner, err
	}
	return workIn(doc)
}

// find reads a definition.
func (s *Subscriptions) find(ctx context.Context, name string) (*definition, error) {
	if seqd.CheckName(name) != nil {
		return nil, unknown(name)
	}
	doc, err := s.opts.Documents.Read(ctx, Kind, name)
	if errors.Is(err, persist.ErrNotFound) {
		return nil, unknown(name)
	}
	if err != nil {
		return nil, err
	}
	return definitionIn(doc)
}

// Put implements [admin.Subscriptions].
func (s *Subscriptions) Put(ctx context.Context, name string, want admin.SubscriptionRequest, may func(version int64) error) (admin.Subscription, error) {
	if err := check(name, &want); err != nil {
		return admin.Subscription{}, err
	}
	begin := make(map[string]int64)
	for _, b := range want.BizTypes {
		begin[b] = events.Oldest
		if want.From != fromOldest {
			last, err := s.opts.Streams.Last(ctx, b)
			if err != nil {
				return admin.Subscription{}, failure(err)
			}
			begin[b] = last
		}
	}
	made := ""
	d, err := s.change(ctx, name, func(d *definition) (err error) {
		if err := may(d.revision); err != nil {
			return err
		}
		if d.revision == 0 {
			if err := s.room(ctx); err != nil {
				return err
			}
		}
		made, err = d.put(want, begin, s.opts.Now())
		return err
	})
	if err != nil {
		return admin.Subscription{}, err
	}
	shown := d.shown()
	shown.Secret = made
	return shown, nil
}

// room returns an error if there are as many subscriptions as possible.
func (s *Subscriptions) room(ctx context.Context) error {
	docs, err := s.opts.Documents.List(ctx, Kind, "", most)
	if err == nil && len(docs) >= most {
		err = seqd.Errorf(seqd.CodeConflict, "there are %d subscriptions, which is the most: delete one that is not needed any more", most)
	}
	return err
}

// change changes a definition by compare-and-set; edit gets one of revision 0 if there is none.
func (s *Subscriptions) change(ctx context.Context, name string, edit func(*definition) error) (*definition, error) {
	for {
		d, err := s.find(ctx, name)
		if seqd.CodeOf(err) == seqd.CodeUnknownSubscription {
			d, err = &definition{name: name}, nil
		}
		if err == nil {
			err = edit(d)
		}
		if err == nil {
			err = s.announce(ctx, name)
		}
		if err != nil {
			return nil, failure(err)
		}
		err = persist.Put(ctx, s.opts.Documents, d.document(s.opts.Now()))
		s.publish(ctx, name)
		if persist.Overtaken(err) || errors.Is(err, persist.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, failure(err)
		}
		s.settle(name, d)
		return d, nil
	}
}

func (s *Subscriptions) announce(ctx context.Context, name string) error {
	if s.opts.Announce == nil {
		return nil
	}
	return s.opts.Announce(ctx, Kind, name)
}

func (s *Subscriptions) publish(ctx context.Context, name string) {
	if s.opts.Publish != nil {
		s.opts.Publish(context.WithoutCancel(ctx), Kind, name)
	}
}

// Delete implements [admin.Subscriptions]. The node that sends removes the deliveries.
func (s *Subscriptions) Delete(ctx context.Context, name string, may func(version int64) error) (int64, error) {
	for {
		d, err := s.find(ctx, name)
		if err == nil {
			err = may(d.revision)
		}
		if err == nil {
			err = s.announce(ctx, name)
		}
		if err != nil {
			return 0, failure(err)
		}
		err = s.opts.Documents.Delete(ctx, Kind, name, d.revision)
		s.publish(ctx, name)
		if errors.Is(err, persist.ErrConflict) {
			continue
		}
		if err == nil {
			s.settle(name, nil)
		} else if errors.Is(err, persist.ErrNotFound) {
			err = unknown(name)
		}
		return d.revision, failure(err)
	}
}

// Deliveries implements [admin.Subscriptions].
func (s *Subscriptions) Deliveries(ctx context.Context, name, of, after string, limit int) (list []admin.Delivery, more bool, err error) {
	if of != "" && of != statePending && of != stateIsDead {
		return nil, false, seqd.Errorf(seqd.CodeInvalidRequest, "state: %.20q is neither pending nor dead", of)
	}
	d, err := s.find(ctx, name)
	if err != nil {
		return nil, false, failure(err)
	}
	for at := name + "/" + after; ; {
		docs, err := s.opts.Documents.List(ctx, persist.DeliveryKind, at, limit+1)
		if err != nil {
			return nil, false, failure(err)
		}
		for _, doc := range docs {
			if at = doc.Key; !strings.HasPrefix(at, name+"/") {
				return list, false, nil
			}
			v, err := deliveryIn(doc)
			if err != nil || v.Made != d.Made {
				continue // one that is damaged must not hide the others
			}
			if shown := v.shown(doc); of == "" || of == shown.State {
				if list = append(list, shown); len(list) > limit {
					return list[:limit], true, nil
				}
			}
		}
		if len(docs) <= limit {
			return list, false, nil
		}
	}
}

// Replay implements [admin.Subscriptions].
func (s *Subscriptions) Replay(ctx context.Context, name string, r admin.Replay) (admin.Subscription, error) {
	if !r.Dead {
		if err := s.checkReplay(ctx, r); err != nil {
			return admin.Subscription{}, failure(err)
		}
	}
	d, err := s.change(ctx, name, func(d *definition) error {
		w, _, err := s.work(ctx, name)
		switch {
		case err != nil:
			return err
		case d.revision == 0:
			return unknown(name)
		case !r.Dead && !slices.Contains(d.BizTypes, r.BizType):
			return seqd.Errorf(seqd.CodeInvalidRequest, "bizType: %.64q is not one of the subscription's", r.BizType)
		}
		return d.order(order{BizType: r.BizType, From: r.From}, w.of(d).Done)
	})
	if err != nil {
		return admin.Subscription{}, err
	}
	return d.shown(), nil
}

// checkReplay returns an error if a position is not in the stream.
func (s *Subscriptions) checkReplay(ctx context.Context, r admin.Replay) error {
	if r.From < 1 {
		return seqd.Errorf(seqd.CodeInvalidRequest, "from: %d is no position; the first one is 1", r.From)
	}
	if err := seqd.CheckName(r.BizType); err != nil {
		return err
	}
	list, err := s.opts.Streams.Read(ctx, r.BizType, r.From-1, 1)
	if err == nil && len(list) == 0 {
		err = seqd.Errorf(seqd.CodeInvalidRequest, "from: %d is above the position of the last event of %s", r.From, r.BizType)
	}
	return err
}

// settle notes a definition that was just read or written, nil for none.
func (s *Subscriptions) settle(name string, d *definition) {
	s.mu.Lock()
	known := s.definitions[name]
	switch {
	case d == nil:
		delete(s.definitions, name)
	case known == nil || known.Made != d.Made || known.revision < d.revision:
		s.definitions[name] = d
	}
	s.mu.Unlock()
	if (known == nil) != (d == nil) {
		s.opts.Terms.Replan()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Changed reads a definition again, because it may have changed.
func (s *Subscriptions) Changed(ctx context.Context, name string) error {
	d, err := s.find(ctx, name)
	switch {
	case seqd.CodeOf(err) == seqd.CodeUnknownSubscription:
		err = nil
	case errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
		s.opts.Log.Error("a subscription cannot be read; it does not change on this node", "subscription", name, "error", err)
		return nil
	}
	if err == nil {
		s.settle(name, d)
	}
	return err
}

// Reload reads all definitions.
func (s *Subscriptions) Reload(ctx context.Context) error {
	s.mu.Lock()
	gone := make(map[string]bool)
	for name := range s.definitions {
		gone[name] = true
	}
	s.mu.Unlock()
	for doc, err := range persist.EveryDocument(ctx, s.opts.Documents, Kind) {
		if err != nil {
			return err
		}
		delete(gone, doc.Key)
		if d, err := definitionIn(doc); err == nil {
			s.settle(doc.Key, d)
		}
	}
	for name := range gone { // it may be new since
		if err := s.Changed(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func unknown(name string) *seqd.Error {
	return seqd.Errorf(seqd.CodeUnknownSubscription, "there is no subscription %.64q", name)
}

// failure returns what callers see of an error of the store, nil for nil.
func failure(err error) error {
	if gone, ok := errors.AsType[*events.GoneError](err); ok {
		return seqd.Errorf(seqd.CodeEventsGone, "these events are not kept any more: the oldest one that is kept has position %d", gone.Oldest)
	}
	return storeerror.Of(err, "the subscription", "subscriptions")
}
