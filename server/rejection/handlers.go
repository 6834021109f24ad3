// Package rejection keeps the rejection handlers in use. Biz types whose bindings are the same
// share one handler; it is made when the first of them needs it and closed when the last one is
// gone.
//
// It depends on the registry of handlers (package plugin) and on what they are built from. To add a
// handler, write a package below plugin, such as plugin/webhook; this package names none.
package rejection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/bounded"
	"github.com/seqd/seqd/plugin"
)

// Options are what Handlers depend on.
type Options struct {
	// Env is what handlers are built from.
	Env plugin.Env
	// CloseTimeout bounds the closing of a handler that nobody uses any more.
	CloseTimeout time.Duration
	Log          *slog.Logger
}

// Handlers are the rejection handlers in use. It is safe for concurrent use.
type Handlers struct {
	opts Options

	mu   sync.Mutex // guards made
	made map[binding]*shared
}

// binding is what biz types share a handler by: its name and the pointer to its settings.
type binding struct {
	name     string
	settings any
}

// shared is a handler and who uses it.
type shared struct {
	seqd.RejectedHandler
	users int // biz types
	index int // among the handlers of its name, from 1 on
}

// New returns Handlers without any.
func New(opts Options) *Handlers {
	return &Handlers{opts: opts, made: make(map[binding]*shared)}
}

// Use returns the rejection handler of a biz type, nil for the default. The handlers behind it are
// in use until [Handlers.Release]; after an error none is.
func (h *Handlers) Use(bindings []seqd.RejectedBinding) (seqd.RejectedHandler, error) {
	var all several
	for i, b := range bindings {
		made, err := h.use(b)
		if err != nil {
			h.Release(bindings[:i])
			return nil, err
		}
		all = append(all, made)
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return all, nil
}

// use returns the handler of a binding, with one more user.
func (h *Handlers) use(b seqd.RejectedBinding) (seqd.RejectedHandler, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := binding{b.Name, b.Settings}
	known := h.made[key]
	if known == nil {
		factory, err := plugin.LookupRejected(b.Name)
		if err != nil {
			return nil, err
		}
		made, err := factory.New(h.opts.Env, b)
		if err != nil {
			return nil, fmt.Errorf("rejection handler %s: %w", b.Name, err)
		}
		if h.made == nil { // closed
			h.made = make(map[binding]*shared)
		}
		known = &shared{RejectedHandler: made, index: h.freeIndex(b.Name)}
		h.made[key] = known
	}
	known.users++
	return known.RejectedHandler, nil
}

// freeIndex returns the first index that no handler of a name has. mu is held.
func (h *Handlers) freeIndex(name string) int {
	taken := make(map[int]bool)
	for key, known := range h.made {
		if key.name == name {
			taken[known.index] = true
		}
	}
	index := 1
	for taken[index] {
		index++
	}
	return index
}

// Release ends the use of the handlers of a biz type. Handlers that nobody uses any more are closed
// in the background, because they may still have something to send.
func (h *Handlers) Release(bindings []seqd.RejectedBinding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range bindings {
		key := binding{b.Name, b.Settings}
		known := h.made[key]
		if known == nil {
			continue
		}
		if known.users--; known.users > 0 {
			continue
		}
		delete(h.made, key)
		go h.closeUnused(key.name, known)
	}
}

func (h *Handlers) closeUnused(name string, unused *shared) {
	ctx, cancel := context.WithTimeout(context.Background(), h.opts.CloseTimeout)
	defer cancel()
	if err := unused.close(ctx, name); err != nil {
		h.opts.Log.Error("a rejection handler that is not used any more did not close well", "error", err)
	}
}

// Measure tells what the handlers in use measure. A handler is named by its name and its index
// among the handlers of that name, such as webhook:1. The index of a handler that is gone goes to
// the next new one.
func (h *Handlers) Measure(tell func(handler string, m seqd.Measurement)) {
	h.mu.Lock()
	made := maps.Clone(h.made)
	h.mu.Unlock()
	for key, known := range made {
		handler := fmt.Sprintf("%s:%d", key.name, known.index)
		if err := measure(known.RejectedHandler, func(value seqd.Measurement) { tell(handler, value) }); err != nil {
			h.opts.Log.Error("a rejection handler cannot be measured", "handler", handler, "error", err)
		}
	}
}

// measure turns a panic into an error: there is no request that recovers it.
func measure(of seqd.RejectedHandler, tell func(seqd.Measurement)) (err error) {
	defer bounded.Recover("a rejection handler", &err)
	seqd.Measure(of, tell)
	return nil
}

// Close closes the handlers, all at once: one that hangs takes no time from the others.
func (h *Handlers) Close(ctx context.Context) error {
	h.mu.Lock()
	made := h.made
	h.made = nil  // each is closed once
	h.mu.Unlock() // Measure does not wait for them
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex // guards failed
		failed []error
	)
	for key, known := range made {
		wg.Go(func() {
			err := known.close(ctx, key.name)
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// close closes the handler. It leaves one that hangs soon after ctx has ended.
func (s *shared) close(ctx context.Context, name string) error {
	err := bounded.Do(ctx, func(ctx context.Context) error { return seqd.Close(ctx, s.RejectedHandler) })
	if err != nil {
		return fmt.Errorf("close rejection handler %s: %w", name, err)
	}
	return nil
}

// several are the handlers of one biz type.
type several []seqd.RejectedHandler

// Rejected calls each of them, also those after one that panics; the issuer recovers the panic.
func (all several) Rejected(ctx context.Context, call *seqd.Call, err *seqd.Error) {
	if len(all) == 0 {
		return
	}
	defer all[1:].Rejected(ctx, call, err)
	all[0].Rejected(ctx, call, err)
}
