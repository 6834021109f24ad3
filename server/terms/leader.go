package terms

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
)

const (
	// leaderKind and leaderKey are of the document of the work that the leader owns.
	leaderKind = "leader"
	leaderKey  = "leader"
	// planPause is the longest pause between two plans of the leader, and planPatience bounds the
	// call of Options.Wanted and the write of the manifest. The beat does not wait for them.
	planPause    = 3 * time.Second
	planPatience = 10 * time.Second
)

// Manifest is K5, advice: it says which session should do which work. A node calls [Terms.Take]
// before it does a work, whatever the manifest says. So a manifest that is wrong, or old, or
// written by two leaders in turn, costs time and nothing else.
type Manifest struct {
	// Works are the works that each session should do, in alphabetical order. A document has room
	// for some ten thousand.
	Works map[string][]string `json:"works,omitempty"`
}

// Leading reports whether this node leads, as far as it knows. It is for duties that do no harm if
// two nodes do them for a moment, or if no node does.
func (t *Terms) Leading() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leader.Session == t.session.key && t.alive()
}

// Leader returns the ID of the node that leads, as far as this node knows; "" if it does not know.
func (t *Terms) Leader() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return NodeOf(t.leader.Session)
}

// Manifest returns the manifest that this node read last. The caller must not change it.
func (t *Terms) Manifest() Manifest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.manifest
}

// Replan lets this node plan within a second, if it leads. Several calls before that lead to one
// plan.
func (t *Terms) Replan() {
	select {
	case t.replan <- struct{}{}:
	default:
	}
}

// lead finds out who leads. If the leader's session is dead, this node takes over. If this node
// leads, it declares silent sessions dead, and plans.
func (t *Terms) lead(ctx context.Context) error {
	s, ok := t.own()
	if !ok {
		return nil
	}
	if !t.opts.Shared {
		return t.advise(ctx, nil, []string{s.key})
	}
	w, sessions, err := t.findLeader(ctx, s)
	if err != nil || sessions == nil {
		return err
	}
	return t.advise(ctx, w, sessions)
}

// findLeader finds out who leads, or takes over. If this node led already, it returns the work
// "leader" and all sessions that are not dead. Otherwise sessions is nil.
func (t *Terms) findLeader(ctx context.Context, s session) (w *Work, sessions []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	if w, err = t.read(ctx, t.coord, leaderKind, leaderKey); err != nil {
		return nil, nil, err
	}
	t.noteLeader(w)
	if w.Session == s.key {
		sessions, err = t.declareAll(ctx)
		return w, sessions, err
	}
	if dead, err := t.judge(ctx, w.Session); !dead || err != nil {
		return nil, nil, err
	}
	if err = w.take(ctx); err == nil {
		t.opts.Log.Info("this node leads")
		t.noteLeader(w)
	} else if errors.Is(err, ErrTaken) { // the next call of lead finds out by whom
		err = nil
	}
	return nil, nil, err
}

// noteLeader notes who leads, and the manifest.
func (t *Terms) noteLeader(w *Work) {
	var m Manifest
	_ = json.Unmarshal(w.State, &m) // if it cannot be read, it is empty until the leader writes the next one
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leader, t.manifest = w.Owner, m
}

// declareAll reads all sessions, declares the silent ones dead, and returns the others.
func (t *Terms) declareAll(ctx context.Context) (alive []string, err error) {
	var docs []persist.Document
	for doc, err := range persist.EveryDocument(ctx, t.coord, kind) {
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return t.declare(ctx, docs)
}

// advise plans if that is due, and writes the manifest if it differs from the last one. w is the
// work "leader", nil if the store is not shared: then no other node reads the manifest.
func (t *Terms) advise(ctx context.Context, w *Work, sessions []string) error {
	if t.opts.Wanted == nil {
		return nil
	}
	select {
	case <-t.replan:
	default:
		if time.Since(t.plannedAt) < planPause {
			return nil
		}
	}
	t.plannedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, planPatience)
	defer cancel()
	wanted, err := t.opts.Wanted(ctx)
	if err != nil {
		return err
	}
	before := t.Manifest()
	for session, works := range before.Works {
		for _, work := range works {
			if owner, there := wanted[work]; there && owner == "" { // that session has not taken it yet
				wanted[work] = session
			}
		}
	}
	m := Manifest{Works: plan(wanted, sessions)}
	if maps.EqualFunc(m.Works, before.Works, slices.Equal) {
		return nil
	}
	if w != nil {
		state, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err = w.Write(ctx, state, 0); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.manifest = m
	return nil
}
