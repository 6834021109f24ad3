package model

func (w *world) storeFails() bool {
	if w.store.down {
		return false
	}
	w.say("store: away")
	w.store.down = true
	return true
}

func (w *world) storeReturns() bool {
	if !w.store.down {
		return false
	}
	w.say("store: back")
	w.store.down = false
	return true
}

func (w *world) replicates() bool {
	s := w.someServer()
	if len(s.lag) == 0 {
		return false
	}
	n := 1 + w.dice.Below(len(s.lag))
	s.catchUp(n)
	w.say("%s: %d writes arrive, %d are still on their way", s.name, n, len(s.lag))
	return true
}

func (w *world) syncs() bool {
	s := w.someServer()
	if !s.up || !s.replica || s.synced || !s.peer.primary() {
		return false
	}
	w.say("%s: takes over what %s has", s.name, s.peer.name)
	s.sync()
	return true
}

func (w *world) savesSnapshot() bool {
	s := w.someServer()
	if !s.up {
		return false
	}
	s.snapshot = copyOf(s.keys)
	return true
}

// evicts removes the hash: an eviction, a DEL or a FLUSHALL.
func (w *world) evicts() bool {
	s := w.someServer()
	if !s.primary() || s.keys[key] == nil || w.fragile() {
		return false
	}
	w.say("%s: the hash goes away", s.name)
	s.remove(key)
	return true
}

// load is what a starting server finds: nothing, or its last snapshot.
func (w *world) load(s *server) {
	s.keys = map[string]hash{}
	if s.snapshot != nil && !w.dice.OneIn(3) {
		s.keys = copyOf(s.snapshot)
	}
	s.clock += int64(w.dice.Below(3)-1) * 50_000
}

// serverRestarts restarts a primary at once; its replica will have to sync again.
func (w *world) serverRestarts() bool {
	s := w.someServer()
	if !s.primary() || w.fragile() {
		return false
	}
	w.load(s)
	s.lead(w.newReplid())
	if s.peer.replica {
		s.peer.synced, s.peer.lag = false, nil
	}
	w.say("%s: restarted, its hash is %v", s.name, s.keys[key])
	return true
}

// serverDies stops a server; its replica may be promoted in its place.
func (w *world) serverDies() bool {
	s := w.someServer()
	if !s.up || w.fragile() {
		return false
	}
	wasPrimary := !s.replica
	s.up, s.synced, s.lag = false, false, nil
	w.say("%s: dies", s.name)
	if wasPrimary && s.peer.up && s.peer.replica && w.dice.OneIn(2) {
		w.promote(s.peer)
	}
	return true
}

// promote makes a replica a primary. What its primary wrote and it has not received is lost.
func (w *world) promote(s *server) {
	s.lead(w.newReplid())
	w.say("%s: promoted, its hash is %v", s.name, s.keys[key])
	w.count("promoted")
}

// serverStarts starts a server that died: as a replica if there is a primary, by mistake as a
// second primary, or as the primary.
func (w *world) serverStarts() bool {
	s := w.someServer()
	switch {
	case !s.up:
		w.load(s)
		s.up = true
		if s.peer.primary() && !w.splitStart() {
			s.follow()
			w.say("%s: starts as a replica", s.name)
			return true
		}
		s.lead(w.newReplid())
		w.say("%s: starts as a primary, its hash is %v", s.name, s.keys[key])
		return true
	case s.replica && !s.peer.up && w.dice.OneIn(2):
		w.promote(s)
		return true
	}
	return false
}

// splitStart reports whether a server starts as a primary beside another one.
func (w *world) splitStart() bool { return !w.healing && !w.fragile() && w.dice.OneIn(6) }

// failsOver promotes the replica and makes the primary its replica.
func (w *world) failsOver() bool {
	s := w.someServer()
	if !s.up || !s.replica || !s.peer.primary() || w.fragile() {
		return false
	}
	w.promote(s)
	s.peer.follow()
	if w.dice.OneIn(2) {
		s.peer.sync()
	}
	return true
}

// splits promotes the replica while the primary continues.
func (w *world) splits() bool {
	s := w.someServer()
	if !s.up || !s.replica || !s.peer.primary() || w.fragile() {
		return false
	}
	w.promote(s)
	return true
}

// splitEnds makes one of two primaries a replica of the other.
func (w *world) splitEnds() bool {
	s := w.someServer()
	if !s.primary() || !s.peer.primary() {
		return false
	}
	w.say("%s: the other primary wins", s.name)
	s.follow()
	return true
}

// replicaAttaches draws a new replication ID, as when the first replica attaches or the backlog is
// freed.
func (w *world) replicaAttaches() bool {
	s := w.someServer()
	if !s.primary() || w.fragile() {
		return false
	}
	s.setReplication(false, w.newReplid())
	if s.peer.replica {
		s.peer.synced, s.peer.lag = false, nil
	}
	w.say("%s: has a new replication ID", s.name)
	return true
}

func (w *world) clockJumps() bool {
	s := w.someServer()
	s.clock += int64(w.dice.Below(400)-200) * 1000
	w.say("%s: its clock jumps", s.name)
	return true
}

// heal ends all faults.
func (w *world) heal() {
	w.healing = true
	w.say("all faults end")
	w.store.down = false
	for a := firstFault; a < actionsInAll; a++ {
		w.weights[a] = w.weights[firstFault-1]
	}
	for _, n := range w.nodes {
		n.paused, n.cut = false, false
	}
	for _, s := range w.servers {
		s.writable = false
	}
	for _, n := range w.nodes {
		for _, o := range n.ops {
			if o != nil && !w.awaited(o) {
				n.fail(o) // its deadline passes
			}
		}
	}
}
