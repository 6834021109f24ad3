package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/version"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/httpapi"
)

const (
	// nodeKind is the kind of the documents in which nodes say who they are.
	nodeKind = "node"
	// beatInterval is the pause between two such documents of one node, and nodeLife how long one
	// counts.
	beatInterval = 5 * time.Second
	nodeLife     = 4 * beatInterval
	// mostNodes is how many are listed, and mostListed how many machine IDs of each.
	mostNodes  = 1000
	mostListed = 100
)

// nodes keeps this node among those of the cluster. It is safe for concurrent use.
type nodes struct {
	*catalogue
	id      string
	host    string
	started time.Time
}

var _ httpapi.Nodes = (*nodes)(nil)

func newNodes(c *catalogue) *nodes {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	host, _ := os.Hostname()
	return &nodes{catalogue: c, id: hex.EncodeToString(id[:]), host: host, started: c.now()}
}

// self is what this node says of itself.
func (n *nodes) self(store error) httpapi.Node {
	self := httpapi.Node{
		ID: n.id, Addr: n.addr, Host: n.host, Build: n.build(), StartedAt: httpapi.Time(n.started.UnixMilli()), SeenAt: httpapi.Time(n.now().UnixMilli()),
		Catalogue: n.feed.number(), BizTypes: n.count(), MachineIDs: make(map[string]int64), Backends: make(map[string]httpapi.Backend),
	}
	self.Backends["store"] = backend(store, "the store does not answer")
	if n.redisAway != nil {
		_, cause := n.redisAway()
		self.Backends["redis"] = backend(cause, "Redis cannot be used")
	}
	for _, of := range n.issuer.Details(mostListed) {
		if id, ok := of.Values["machineId"].(int64); ok {
			self.MachineIDs[of.BizType] = id
		}
	}
	return self
}

func backend(err error, detail string) httpapi.Backend {
	if err == nil {
		return httpapi.Backend{State: "ok"}
	}
	return httpapi.Backend{State: "away", Detail: detail}
}

// build is the version of the program, and what it was built from where that is known.
func (o *options) build() string {
	number, revision := o.built()
	return strings.TrimSpace(number + " " + revision)
}

// built returns the version of the program and the revision that it was built from.
func (o *options) built() (number, revision string) {
	return version.Of(o.version), version.Revision(o.revision)
}

// Nodes implements [httpapi.Nodes].
func (n *nodes) Nodes(ctx context.Context) (list []httpapi.Node, complete bool) {
	docs, err := n.store.Documents().List(ctx, nodeKind, "", mostNodes)
	self := n.self(err)
	self.Self = true
	list = append(list, self)
	now := n.now().UnixMilli()
	for _, doc := range docs {
		var other httpapi.Node
		if doc.Key == n.id || doc.Expires < now || json.Unmarshal([]byte(doc.Body), &other) != nil {
			continue
		}
		list = append(list, other)
	}
	slices.SortFunc(list, func(a, b httpapi.Node) int { return strings.Compare(a.ID, b.ID) })
	return list, err == nil
}

// beat says again and again that this node is there, until ctx ends, and forgets those that no
// longer do. Where nobody else can see the store, it does nothing.
func (n *nodes) beat(ctx context.Context) {
	if !n.store.Shared() {
		return
	}
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	var revision int64
	var silent, crowded failing
	for {
		var err error
		revision, err = n.say(ctx, revision)
		if silent.begins(err) && ctx.Err() == nil {
			n.log.Warn("this node cannot say that it is there; it is tried again", "error", err)
		}
		if err == nil {
			_, err = n.store.Documents().Purge(ctx, nodeKind, n.now().Add(-nodeLife).UnixMilli(), mostNodes)
			if crowded.begins(err) && ctx.Err() == nil {
				n.log.Warn("nodes that have gone cannot be removed from the store; it is tried again", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			n.leave(revision)
			return
		case <-ticker.C:
		}
	}
}

// say writes this node's document, over the revision that it wrote last, 0 for none, and returns
// the one that is there now.
func (n *nodes) say(ctx context.Context, last int64) (int64, error) {
	body, err := json.Marshal(n.self(nil))
	if err != nil {
		return last, err
	}
	now := n.now()
	doc := persist.Document{Kind: nodeKind, Key: n.id, Revision: last + 1, Body: string(body), Timestamp: now.UnixMilli(), Expires: now.Add(nodeLife).UnixMilli()}
	if last == 0 {
		err = n.store.Documents().Create(ctx, doc)
	} else {
		err = n.store.Documents().Update(ctx, doc)
	}
	if err == nil {
		return doc.Revision, nil
	}
	// Whether it was written is not known, or somebody purged it: what is there tells.
	known, readErr := n.store.Documents().Read(ctx, nodeKind, n.id)
	switch {
	case readErr == nil:
		return known.Revision, err
	case errors.Is(readErr, persist.ErrNotFound):
		return 0, err
	}
	return last, err
}

// leave removes this node's document.
func (n *nodes) leave(revision int64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := n.store.Documents().Delete(ctx, nodeKind, n.id, revision); err != nil {
		n.log.Debug("this node could not say that it leaves", "error", err)
	}
}
