package storesim

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

// Client is how a node uses the database.
type Client struct {
	// Now is the clock of the node; nil for time.Now.
	Now func() time.Time
	// Timeout bounds every operation; 0 is 5 s.
	Timeout time.Duration
	// Unreached opens the store without using the database.
	Unreached bool
	// Admit, unless nil, is called before every operation; see [sqlstore.Options].
	Admit func(context.Context) error
}

const timeout = 5 * time.Second

// Open opens the store, a [persist.Fenced] unless the database is Unfenced. It returns an error that
// wraps persist.ErrUnavailable if the database cannot be reached.
func (v *View) Open(ctx context.Context, client Client) (persist.Store, error) {
	client.Timeout = cmp.Or(client.Timeout, timeout)
	if client.Now == nil {
		client.Now = time.Now
	}
	s := &store{view: v, client: client}
	s.counters = counters{s, persist.NewEpochs(s.findEpochs)}
	if !client.Unreached {
		if _, err := s.Now(ctx); err != nil {
			return nil, err
		}
	}
	if v.c.opts.Mode == Unfenced {
		return s, nil
	}
	return &fenced{s}, nil
}

// run does an operation of a store.
func (s *store) run(ctx context.Context, call Call, do operation) (any, error) {
	v := s.view
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.under.Done()
	if s.client.Admit != nil {
		if err := s.client.Admit(ctx); err != nil {
			return nil, err
		}
	}
	awake := func() bool { return !v.paused }
	if err := v.await(v.ctx, awake); err != nil {
		return nil, err
	}
	q, err := v.send(call, do)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.client.Timeout)
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	got, err := v.exchange(bounded, q)
	if dead := v.await(v.ctx, awake); dead != nil {
		return nil, dead
	}
	return got, err
}

// begin admits an operation unless the store is closed or the node dead.
func (s *store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.view.ctx.Err() != nil {
		return persist.ErrClosed
	}
	s.under.Add(1)
	return nil
}

// gate counts the operations under way until a store is closed.
type gate struct {
	mu     sync.Mutex // guards closed
	closed bool
	under  sync.WaitGroup
}

// Close ends all use of the store, and waits for what is under way. The database stays.
func (g *gate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.under.Wait()
	return nil
}

// store is a [persist.Store] of one node.
type store struct {
	gate
	view     *View
	client   Client
	counters counters
}

// fenced is a store of a database with fences.
type fenced struct{ *store }

var (
	_ persist.Store   = (*store)(nil)
	_ persist.Fenced  = (*fenced)(nil)
	_ persist.Shutter = (*store)(nil)
)

// ask does an operation that returns something.
func ask[T any](ctx context.Context, s *store, call Call, do func(*database) (T, error)) (t T, err error) {
	got, err := s.run(ctx, call, func(db *database) (any, error) { return do(db) })
	if err == nil {
		t, _ = got.(T)
	}
	return t, err
}

// tell does an operation that returns nothing.
func (s *store) tell(ctx context.Context, call Call, do func(*database) error) error {
	_, err := s.run(ctx, call, func(db *database) (any, error) { return nil, do(db) })
	return err
}
