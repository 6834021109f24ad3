package nodes

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/logging"
)

// Sources are the names of nodes, by where their definitions of biz types come from.
type Sources struct {
	Store, Config []string
	// Silent are the nodes that do not say, as those of an earlier version.
	Silent []string
}

// The values of bizTypesFrom.
const (
	fromStore  = "store"
	fromConfig = "config"
)

// SourcesOf returns where the definitions of nodes come from.
func SourcesOf(list []admin.Node) (s Sources) {
	for _, node := range list {
		name := shown(node)
		switch node.BizTypesFrom {
		case fromStore:
			s.Store = append(s.Store, name)
		case fromConfig:
			s.Config = append(s.Config, name)
		default:
			s.Silent = append(s.Silent, name)
		}
	}
	return s
}

// shown returns the name of a node for people.
func shown(node admin.Node) string {
	if node.Addr == "" {
		return node.Host
	}
	return node.Host + " (" + node.Addr + ")"
}

// Mixed returns why an operator has to look at the nodes: some follow the store and some their own
// configuration. It returns nil if nobody has to. Nodes that do not say count as neither.
func (s Sources) Mixed() *seqd.Error {
	if len(s.Store) == 0 || len(s.Config) == 0 {
		return nil
	}
	return seqd.Errorf(seqd.CodeConflict, "bizTypesFrom is config at %s, and store at %s: give all nodes the same; "+
		"until then, biz types cannot be disabled, deleted or given another shape", Few(s.Config), Few(s.Store))
}

// Few returns the first few names.
func Few(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// MixedIn returns why an operator has to look at the nodes that use a store, for commands that run
// beside the service: see [Sources.Mixed]. from is bizTypesFrom of the configuration of this machine,
// which counts as a node.
func MixedIn(ctx context.Context, store persist.Store, from string) (*seqd.Error, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return nil, err
	}
	list, err := listed(ctx, store.Documents(), now, "")
	return SourcesOf(append(list, admin.Node{Host: "this configuration", BizTypesFrom: from})).Mixed(), err
}

// Unlike returns the names of the nodes that use a store and whose configurations say something else of what
// all nodes need alike: see [admin.NodeConfig].
func Unlike(ctx context.Context, store persist.Store, alike string) (names []string, err error) {
	now, err := store.Now(ctx)
	if err != nil {
		return nil, err
	}
	list, err := listed(ctx, store.Documents(), now, "")
	for _, node := range list {
		if node.Config != nil && node.Config.Alike != alike {
			names = append(names, shown(node))
		}
	}
	return names, err
}

// Mixed returns why an operator has to look at the nodes, as far as this node knew a few seconds ago:
// see [Sources.Mixed].
func (n *Nodes) Mixed() *seqd.Error { return n.mixed.Load() }

// Elsewhere returns why this node must not have a session, as far as it knew a few seconds ago: the
// oldest node has its session elsewhere, and so their sessions do not see each other. It returns nil
// if it may.
func (n *Nodes) Elsewhere() *seqd.Error { return n.apart.Load() }

// elsewhere compares this node with the oldest one that says where its session is.
func elsewhere(others []admin.Node, self admin.Node) *seqd.Error {
	oldest := self
	for _, node := range others {
		older := cmp.Or(cmp.Compare(node.StartedAt, oldest.StartedAt), cmp.Compare(node.ID, oldest.ID)) < 0
		if node.Coordination != "" && (older || oldest.Coordination == "") {
			oldest = node
		}
	}
	if oldest.Coordination == self.Coordination || self.Coordination == "" {
		return nil
	}
	return seqd.Errorf(seqd.CodeConflict, "%s coordinates by %s, and this node by %s: give all nodes the same section coordination; "+
		"until then this node does no jobs", shown(oldest), oldest.Coordination, self.Coordination)
}

// look finds out what Mixed and Elsewhere return. If the other nodes cannot be listed, they stay as
// they were.
func (n *Nodes) look(ctx context.Context, looking *logging.Trouble) {
	list, err := n.Others(ctx)
	if err != nil {
		return // writing to the same store says so
	}
	if n.opts.Coordination != nil {
		self := admin.Node{ID: n.id, StartedAt: admin.Time(n.startedAt().UnixMilli())}
		self.Coordination, _, _ = n.opts.Coordination()
		n.apart.Store(elsewhere(list, self))
	}
	list = append(list, admin.Node{Host: n.host, Addr: n.opts.Addr, BizTypesFrom: n.opts.BizTypesFrom})
	mixed := SourcesOf(list).Mixed()
	n.mixed.Store(mixed)
	if mixed == nil {
		looking.Note(nil)
		return
	}
	looking.Note(mixed)
}
