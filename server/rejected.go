package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

// handlers are the rejection handlers in use. A binding that biz types share has one handler. It is
// safe for concurrent use.
type handlers struct {
	mu   sync.Mutex // guards what follows
	made map[handlerKey]*sharedHandler
}

type sharedHandler struct {
	seqd.RejectedHandler
	users int // biz types
	place int // among those of its name, from 1 on
}

// rejectedOf returns the rejection handler of a biz type, nil for the default. What it returns is
// in use until releaseRejected; after an error nothing is.
func (r *runtime) rejectedOf(bindings []seqd.RejectedBinding) (seqd.RejectedHandler, error) {
	var all rejectedAll
	for i, binding := range bindings {
		made, err := r.handler(binding)
		if err != nil {
			r.releaseRejected(bindings[:i])
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

// handler returns the handler of a binding, with one more user.
func (r *runtime) handler(binding seqd.RejectedBinding) (seqd.RejectedHandler, error) {
	h := &r.handlers
	h.mu.Lock()
	defer h.mu.Unlock()
	key := handlerKey{binding.Name, binding.Settings}
	known := h.made[key]
	if known == nil {
		factory, err := plugin.LookupRejected(binding.Name)
		if err != nil {
			return nil, err
		}
		made, err := factory.New(plugin.Env(r.env()), binding)
		if err != nil {
			return nil, fmt.Errorf("rejection handler %s: %w", binding.Name, err)
		}
		if h.made == nil {
			h.made = make(map[handlerKey]*sharedHandler)
		}
		known = &sharedHandler{RejectedHandler: made, place: h.place(binding.Name)}
		h.made[key] = known
	}
	known.users++
	return known.RejectedHandler, nil
}

// place returns the first place that no handler of a name has. mu is held.
func (h *handlers) place(name string) int {
	taken := make(map[int]bool)
	for key, known := range h.made {
		if key.name == name {
			taken[known.place] = true
		}
	}
	place := 1
	for taken[place] {
		place++
	}
	return place
}

// measure tells what the handlers in use measure. handler is a name and its place among the
// handlers of that name, such as webhook:1; one that is no longer used leaves its place to another.
func (h *handlers) measure(tell func(handler string, m seqd.Measurement)) {
	h.mu.Lock()
	made := maps.Clone(h.made)
	h.mu.Unlock()
	for key, known := range made {
		if m, ok := known.RejectedHandler.(seqd.Measurer); ok {
			handler := fmt.Sprintf("%s:%d", key.name, known.place)
			m.Measure(func(value seqd.Measurement) { tell(handler, value) })
		}
	}
}

// releaseRejected ends the use of the handlers of a biz type. Those that nobody uses any more are
// closed in the background: they may still have something to tell.
func (r *runtime) releaseRejected(bindings []seqd.RejectedBinding) {
	h := &r.handlers
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, binding := range bindings {
		key := handlerKey{binding.Name, binding.Settings}
		known := h.made[key]
		if known == nil {
			continue
		}
		if known.users--; known.users > 0 {
			continue
		}
		delete(h.made, key)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Server.StopTimeout)
			defer cancel()
			if err := closeHandler(ctx, key.name, known); err != nil {
				r.log.Error("a rejection handler that is not used any more did not close well", "error", err)
			}
		}()
	}
}

func closeHandler(ctx context.Context, name string, h *sharedHandler) error {
	c, ok := h.RejectedHandler.(seqd.Closer)
	if !ok {
		return nil
	}
	if err := within(ctx, c.Close); err != nil {
		return fmt.Errorf("close rejection handler %s: %w", name, err)
	}
	return nil
}

// handlerKey is what biz types share a rejection handler by: its name and the pointer to its
// settings.
type handlerKey struct {
	name     string
	settings any
}

// rejectedAll tells several handlers.
type rejectedAll []seqd.RejectedHandler

// Rejected tells each of them, also those behind one that panics; the issuer catches the panic.
func (all rejectedAll) Rejected(ctx context.Context, call *seqd.Call, err *seqd.Error) {
	if len(all) == 0 {
		return
	}
	defer all[1:].Rejected(ctx, call, err)
	all[0].Rejected(ctx, call, err)
}

// close ends the rejection handlers, all at once: one that hangs takes no time from the others.
func (h *handlers) close(ctx context.Context) error {
	h.mu.Lock()
	made := h.made
	h.made = nil  // each is closed once
	h.mu.Unlock() // who measures does not wait for them
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex // guards failed
		failed []error
	)
	for key, known := range made {
		wg.Go(func() {
			err := closeHandler(ctx, key.name, known)
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}
