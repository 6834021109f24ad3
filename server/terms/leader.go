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
	// planPause is the longest pause between two passes of the plan.
	planPause = 3 * time.Second
	// planPatience bounds a pass. The beat does not wait for it.
	planPatience = 10 * time.Second
)

// Manifest is K5, advice: what the leader wants. Whatever it says, a node takes a work by
// [Terms.Take] before it does it. So a manifest that is wrong, or old, or of two leaders, costs time
// and nothing else.
type Manifest struct {
	// Works are the works that each session should do, in their order. A document has room for some
	// ten thousand.
	Works map[string][]string `json:"works,omitempty"`
}

// Leading reports whether this node should do what one node of the cluster does. It is for what does
// no harm if two nodes do it for a moment, or none.
func (t *Terms) Leading() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owner.Session == t.session.key && t.alive()
}

// Leader returns the ID of the node that leads, as far as this node knows, "" if it does not know.
func (t *Terms) Leader() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return nodeOf(t.owner.Session)
}

// Manifest returns what the leader wants, as far as this node knows. It must not be changed.
func (t *Terms) Manifest() Manifest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.manifest
}

// Replan lets the leader plan within a second, if this node is the leader. Several calls are one
// pass.
func (t *Terms) Replan() {
	select {
	case t.replan <- struct{}{}:
	default:
	}
}

// look finds out who leads. It takes that over from a session that is dead, and does the duties of
// the leader if this node leads.
func (t *Terms) look(ctx context.Context) error {
	s, ok := t.own()
	if !ok {
		return nil
	}
	if !t.opts.Shared {
		return t.plan(ctx, nil, []string{s.key})
	}
	w, sessions, err := t.find(ctx, s)
	if err != nil || sessions == nil {
		return err
	}
	return t.plan(ctx, w, sessions)
}

// find finds out who leads, or takes that over. If this node leads, it returns the work and all
// sessions that are not dead.
func (t *Terms) find(ctx context.Context, s session) (w *Work, sessions []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	if w, err = t.read(ctx, leaderKind, leaderKey); err != nil {
		return nil, nil, err
	}
	t.follow(w)
	if w.Session == s.key {
		sessions, err = t.declareAll(ctx)
		return w, sessions, err
	}
	if dead, err := t.judge(ctx, w.Session); !dead || err != nil {
		return nil, nil, err
	}
	if err = w.take(ctx); err == nil {
		t.opts.Log.Info("this node leads")
		t.follow(w)
	} else if errors.Is(err, ErrTaken) { // the next look finds out by whom
		err = nil
	}
	return nil, nil, err
}

// follow notes who leads and what it wants.
func (t *Terms) follow(w *Work) {
	var m Manifest
	_ = json.Unmarshal(w.State, &m) // there is none, or the next one replaces it
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owner, t.manifest = w.Owner, m
}

// declareAll declares all sessions that are dead, and returns the others.
func (t *Terms) declareAll(ctx context.Context) (alive []string, err error) {
	var docs []persist.Document
	for doc, err := range persist.EveryDocument(ctx, t.opts.Documents, kind) {
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	alive, _, err = t.declare(ctx, docs)
	return alive, err
}

// plan makes the manifest anew when that is due, and writes it if it is another one. w is nil if
// nobody else reads it.
func (t *Terms) plan(ctx context.Context, w *Work, sessions []string) error {
	if t.opts.Wanted == nil {
		return nil
	}
	select {
	case <-t.replan:
	default:
		if time.Since(t.planned) < planPause {
			return nil
		}
	}
	t.planned = time.Now()
	ctx, cancel := context.WithTimeout(ctx, planPatience)
	defer cancel()
	wanted, err := t.opts.Wanted(ctx)
	if err != nil {
		return err
	}
	before := t.Manifest()
	for session, works := range before.Works {
		for _, work := range works {
			if owner, there := wanted[work]; there && owner == "" { // it is on its way to the session that should do it
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
