package snowflake

import (
	"errors"
	"sync"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

// holderKey is equal for strategies that share a holder.
type holderKey struct {
	store    persist.Store
	settings Settings
}

// registered is the holders, and how many strategies use each.
type registered struct {
	sync.Mutex // guards of
	of         map[holderKey]*sharedHolder
}

// holders are the holders of this process.
var holders = registered{of: make(map[holderKey]*sharedHolder)}

// admit returns an error if a new holder conflicts with an existing one. The lock is held.
func (r *registered) admit(h *holder) error {
	for _, other := range r.of {
		if other.env.Store != h.env.Store {
			continue
		}
		if h.registry.Offline > 0 && other.registry.Offline > 0 && h.file.path() == other.file.path() {
			return errors.New("offlineStart: biz types that set it share the file of the reservation in stateDir: " +
				"give them the same settings, or a stateDir each")
		}
	}
	return nil
}

// reach returns the largest ahead of all holders of this process on a registry.
func (r *registered) reach(on *slotRegistry) (most int64) {
	r.Lock()
	defer r.Unlock()
	for _, other := range r.of {
		if other.registry.name == on.name && other.env.Store == on.env.Store {
			most = max(most, other.registry.Ahead())
		}
	}
	return most
}

// reserves reports whether a holder keeps its reservation in the file.
func (r *registered) reserves(path string) bool {
	r.Lock()
	defer r.Unlock()
	for _, other := range r.of {
		if other.registry.Offline > 0 && other.file.path() == path {
			return true
		}
	}
	return false
}

// count counts a strategy as a user of its holder, once. If the holder has ended since New, because
// its last user was closed, the strategy gets a new one.
func (r *registered) count(s *Strategy) error {
	r.Lock()
	defer r.Unlock()
	switch {
	case s.closed.Load():
		return errStopping
	case s.counted:
		return nil
	}
	if shared := r.of[s.key]; shared == nil || shared.holder != s.held() {
		before := s.held()
		if err := r.bind(s, before.env.Env, before.settings); err != nil {
			return err
		}
		s.held().users.know(s.name, before.users)
	}
	s.counted = true
	r.of[s.key].active++
	s.held().tenure.gen.join()
	return nil
}

// bind gives a strategy the holder for its settings, which it creates if necessary. The lock is
// held.
func (r *registered) bind(s *Strategy, env strategy.Env, settings *Settings) error {
	shared := r.of[s.key]
	if shared == nil {
		h, err := newHolder(env, settings, s.layout)
		if err != nil {
			return err
		}
		if err := r.admit(h); err != nil {
			return err
		}
		shared = &sharedHolder{holder: h}
		r.of[s.key] = shared
	}
	shared.made++
	s.bound.Store(shared.holder)
	shared.holder.users.serves(s.name)
	return nil
}

// leave closes a strategy. It reports whether it was the last user of its holder, which it then
// removes.
func (r *registered) leave(s *Strategy) (last bool) {
	r.Lock()
	defer r.Unlock()
	again := s.closed.Swap(true)
	shared := r.of[s.key]
	if again || shared == nil || shared.holder != s.held() {
		return false
	}
	shared.made--
	if s.counted {
		shared.tenure.gen.leave()
		shared.active--
		last = shared.active == 0
	}
	if last || shared.active == 0 && shared.made == 0 {
		delete(r.of, s.key)
	}
	return last
}

type sharedHolder struct {
	*holder
	made   int // strategies that were created and not closed
	active int // those of them that were initialised
}
