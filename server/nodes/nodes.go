// Package nodes keeps the list of the nodes of the cluster. Every few seconds each node writes a
// document about itself and reads those of the others.
//
// The package depends on the documents of the store, a clock and a log. The functions in [Options]
// return what a node reports about itself. To add a field to GET /nodes, add it to [admin.Node]
// and fill it in [Nodes.self].
package nodes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/longlock"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/logging"
)

const (
	// kind is the kind of the documents.
	kind = "node"
	// beatInterval is the pause between two documents of a node, and life how long one counts.
	beatInterval = 5 * time.Second
	life         = 4 * beatInterval
	// mostNodes is how many nodes are listed, and mostListed how many machine IDs of each.
	mostNodes  = 1000
	mostListed = 100
	// longestBody is the size of a document, in bytes, from which on it is ignored.
	longestBody = 64 << 10
	// leavePatience bounds the removal of the document when the node stops.
	leavePatience = time.Second
)

// Options are what Nodes depends on.
type Options struct {
	Documents persist.Documents
	// Shared is whether other nodes can use the store. If not, nothing is written.
	Shared bool
	Now    func() time.Time
	// Clock is the time that nodes have in common; nil means Now.
	Clock func() time.Time
	// ClockKnown reports whether Clock is right; nil means that it is. Until then documents of
	// other nodes are not removed, and count however old they look. Ask makes it known; nil if it
	// is.
	ClockKnown func() bool
	Ask        func(ctx context.Context) error
	// ClockOffset returns how far the clock of this node is ahead, if that is known; nil means that
	// it is not.
	ClockOffset func() (offset time.Duration, ok bool)
	Log         *slog.Logger
	// Addr is what the node listens on, Build the version of the program, and BizTypesFrom where
	// its definitions come from.
	Addr, Build, BizTypesFrom string
	// Leader returns the ID of the node that leads, "" if that is not known; nil means that it is not.
	Leader func() string
	// Changes returns the number of the newest change that the node has seen, BizTypes how many biz
	// types it has, and Details what their strategies say of themselves.
	Changes  func() int64
	BizTypes func() int
	Details  func(most int) []issuer.Details
	// FailedOver returns why an operator has to look at the store, nil if nobody has to.
	FailedOver func() *seqd.Error
	// Coordination returns the ID of what keeps the session of the node, "" if that is not known,
	// whether that is a coordinator, and why this node cannot use it, "" if it can. It may be nil.
	Coordination func() (id string, used bool, trouble string)
	// Config returns which configuration the node has read. It may be nil.
	Config func() *admin.NodeConfig
	// Redis returns whether this node or the others use Redis, and why this one cannot, "" if it
	// can. It may be nil.
	Redis func() (used bool, trouble string)
}

// Nodes are the nodes of the cluster. It is safe for concurrent use.
type Nodes struct {
	opts    Options
	id      string
	host    string
	started time.Time
	mu      longlock.Lock // guards own; held while it is written
	own     Own
	counted counted
	mixed   atomic.Pointer[seqd.Error] // what Mixed returns
	apart   atomic.Pointer[seqd.Error] // what Elsewhere returns
}

var _ admin.Nodes = (*Nodes)(nil)

// New returns the nodes, of which this one is not one yet; see [Nodes.Beat].
func New(opts Options) *Nodes {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	host, _ := os.Hostname()
	if opts.Clock == nil {
		opts.Clock = opts.Now
	}
	if opts.Ask == nil {
		opts.Ask = func(context.Context) error { return nil }
	}
	if opts.ClockKnown == nil {
		opts.ClockKnown = func() bool { return true }
	}
	n := &Nodes{opts: opts, id: hex.EncodeToString(id[:]), host: host, started: opts.Now()}
	n.own = Own{Documents: opts.Documents, Kind: kind, Key: n.id}
	return n
}

// Self returns the ID of this node and the name of its machine.
func (n *Nodes) Self() (id, host string) { return n.id, n.host }

// self is what this node says of itself. store is why the store cannot be used, nil if it can.
func (n *Nodes) self(store error) admin.Node {
	o, now := &n.opts, n.opts.Clock()
	self := admin.Node{
		ID: n.id, Addr: o.Addr, Host: n.host, Build: o.Build,
		StartedAt: admin.Time(n.startedAt().UnixMilli()), SeenAt: admin.Time(now.UnixMilli()),
		BizTypesFrom: o.BizTypesFrom, Catalogue: o.Changes(), BizTypes: o.BizTypes(),
		MachineIDs: make(map[string]int64), Backends: make(map[string]admin.Backend),
	}
	if o.ClockOffset != nil {
		if offset, ok := o.ClockOffset(); ok {
			self.ClockOffsetMS = new(float64(offset) / float64(time.Millisecond))
		}
	}
	if o.Config != nil {
		self.Config = o.Config()
	}
	self.Backends["store"] = backend("")
	if store != nil {
		self.Backends["store"] = backend("the store does not answer")
	}
	if o.FailedOver != nil && store == nil {
		if why := o.FailedOver(); why != nil {
			self.Backends["store"] = admin.Backend{State: "failed_over", Detail: why.Detail}
		}
	}
	if o.Redis != nil {
		if used, trouble := o.Redis(); used {
			self.Backends["redis"] = backend(trouble)
		}
	}
	if o.Coordination != nil {
		id, used, trouble := o.Coordination()
		if self.Coordination = id; used {
			self.Backends["coordinator"] = backend(trouble)
		}
	}
	for _, of := range o.Details(mostListed) {
		if id, ok := of.Values["machineId"].(int64); ok {
			self.MachineIDs[of.BizType] = id
		}
	}
	return self
}

// startedAt is when this node started, by the time that nodes have in common.
func (n *Nodes) startedAt() time.Time { return n.opts.Clock().Add(n.started.Sub(n.opts.Now())) }

func backend(trouble string) admin.Backend {
	if trouble == "" {
		return admin.Backend{State: "ok"}
	}
	return admin.Backend{State: "away", Detail: trouble}
}

// Nodes implements [admin.Nodes].
func (n *Nodes) Nodes(ctx context.Context) (list []admin.Node, complete bool) {
	list, err := listed(ctx, n.opts.Documents, n.opts.Clock(), n.id)
	self := n.self(err)
	self.Self = true
	list = append(list, self)
	if n.opts.Leader != nil {
		leader := n.opts.Leader()
		for i := range list {
			list[i].Leader = list[i].ID == leader
		}
	}
	slices.SortFunc(list, func(a, b admin.Node) int { return strings.Compare(a.ID, b.ID) })
	return list, err == nil
}

// Others returns the other nodes that use the store. A node that has ended without a stop is among
// them for up to 20 s.
func (n *Nodes) Others(ctx context.Context) ([]admin.Node, error) {
	if !n.opts.Shared {
		return nil, nil
	}
	now := n.opts.Clock()
	if !n.opts.ClockKnown() {
		now = time.Time{} // which is before any document expires
	}
	return listed(ctx, n.opts.Documents, now, n.id)
}

// listed returns the nodes that have said less than life ago that they are there, except one.
func listed(ctx context.Context, documents persist.Documents, now time.Time, except string) (list []admin.Node, err error) {
	docs, err := documents.List(ctx, kind, "", mostNodes)
	for _, doc := range docs {
		if doc.Key == except || doc.Expires < now.UnixMilli() {
			continue
		}
		if other, ok := readNode(doc.Key, doc.Body); ok {
			list = append(list, other)
		}
	}
	return list, err
}

// readNode returns what the document of another node says. ok is false if it is damaged.
func readNode(id, body string) (other admin.Node, ok bool) {
	if len(body) > longestBody || json.Unmarshal([]byte(body), &other) != nil || other.ID != id {
		return other, false
	}
	other.Self = false
	if other.MachineIDs == nil {
		other.MachineIDs = make(map[string]int64)
	}
	if other.Backends == nil {
		other.Backends = make(map[string]admin.Backend)
	}
	return other, true
}

// Beat writes this node's document at every interval until ctx ends, removes those of nodes that
// have stopped doing so, and looks at the others. If no other node can use the store, it does
// nothing.
func (n *Nodes) Beat(ctx context.Context) {
	if !n.opts.Shared {
		return
	}
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	writing := logging.Trouble{Log: n.opts.Log, Begins: "this node cannot say that it is there; it is tried again"}
	purging := logging.Trouble{Log: n.opts.Log, Begins: "nodes that have gone cannot be removed from the store; it is tried again"}
	looking := logging.Trouble{Log: n.opts.Log, Begins: "definitions of biz types come from different places", Ends: "the definitions of all nodes come from the same place"}
	for {
		err := n.write(ctx)
		note(ctx, &writing, err)
		if err == nil && n.opts.ClockKnown() {
			before := n.opts.Clock().Add(-life).UnixMilli()
			_, err = n.opts.Documents.Purge(ctx, kind, before, mostNodes)
			note(ctx, &purging, err)
		}
		n.look(ctx, &looking)
		select {
		case <-ctx.Done():
			n.leave()
			return
		case <-ticker.C:
		}
	}
}

// note notes an outcome, unless it is due to the end of ctx.
func note(ctx context.Context, t *logging.Trouble, err error) {
	if ctx.Err() == nil {
		t.Note(err)
	}
}

// write writes this node's document. It asks the store for its time first if others may not count
// this node: its clock may be wrong, or have stood still.
func (n *Nodes) write(ctx context.Context) error {
	began := time.Now()
	if _, ok := n.counted.now(); !ok {
		if err := n.opts.Ask(ctx); err != nil {
			return err
		}
	}
	body, err := json.Marshal(n.self(nil))
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err = n.own.Write(ctx, string(body), n.opts.Clock(), life); err == nil {
		n.counted.note(began)
	}
	return err
}

// leave removes this node's document.
func (n *Nodes) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
	defer cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.own.Delete(ctx); err != nil {
		n.opts.Log.Debug("this node could not say that it leaves", "error", err)
	}
}
