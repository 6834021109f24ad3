package terms

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/seqd/seqd/persist"
)

const (
	// leaderKind and leaderKey are of the document of the work that the leader owns.
	leaderKind = "leader"
	leaderKey  = "leader"
	// planPause is the longest pause between two passes of the plan.
	planPause = 3 * time.Second
)

// Manifest is K5, advice: what the leader wants. Whatever it says, a node takes a work by
// [Terms.Take] before it does it. So a manifest that is wrong, or old, or of two leaders, costs time
// and nothing else.
type Manifest struct {
	// Works names the session that should do each work.
	Works map[string]string `json:"works,omitempty"`
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
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	s, ok := t.own()
	if !ok {
		return nil
	}
	if !t.opts.Shared {
		return t.plan(ctx, nil, []string{s.key})
	}
	w, err := t.read(ctx, leaderKind, leaderKey)
	if err != nil {
		return err
	}
	t.follow(w)
	if w.Session == s.key {
		return t.lead(ctx, w)
	}
	if dead, err := t.judge(ctx, w.Session); !dead || err != nil {
		return err
	}
	if err = w.take(ctx); errors.Is(err, ErrTaken) { // the next look finds out by whom
		return nil
	}
	if err == nil {
		t.opts.Log.Info("this node leads")
		t.follow(w)
	}
	return err
}

// follow notes who leads and what it wants.
func (t *Terms) follow(w *Work) {
	var m Manifest
	_ = json.Unmarshal(w.State, &m) // there is none, or the next one replaces it
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owner, t.manifest = w.Owner, m
}

// lead does the duties of the leader: it declares sessions dead, and plans.
func (t *Terms) lead(ctx context.Context, w *Work) error {
	var docs []persist.Document
	for doc, err := range persist.EveryDocument(ctx, t.opts.Documents, kind) {
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	alive, _, err := t.declare(ctx, docs)
	if err != nil {
		return err
	}
	return t.plan(ctx, w, alive)
}

// plan makes the manifest anew when that is due, and writes it if it is another one. w is nil if
// nobody else reads it.
func (t *Terms) plan(ctx context.Context, w *Work, sessions []string) error {
	select {
	case <-t.replan:
	default:
		if t.opts.Wanted == nil || time.Since(t.planned) < planPause {
			return nil
		}
	}
	t.planned = time.Now()
	wanted, err := t.opts.Wanted(ctx)
	if err != nil {
		return err
	}
	before := t.Manifest().Works
	for work, owner := range wanted {
		if owner == "" { // it is on its way to the session that should take it
			wanted[work] = before[work]
		}
	}
	m := Manifest{Works: plan(wanted, sessions)}
	if maps.Equal(m.Works, before) {
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
