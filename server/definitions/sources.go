package definitions

import (
	"context"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/nodes"
)

// sources know where the definitions of the other nodes come from. A node with bizTypesFrom: config
// uses the same counters, and follows no change: it issues what is disabled here, and makes numbers
// in the shape before a forced one.
type sources struct {
	// others returns the other nodes that use the store; nil if there are none.
	others func(ctx context.Context) ([]admin.Node, error)
}

func (s sources) read(ctx context.Context) (nodes.Sources, error) {
	if s.others == nil {
		return nodes.Sources{}, nil
	}
	list, err := s.others(ctx)
	return nodes.SourcesOf(list), err
}

// change returns why a definition must not be changed while other nodes do not follow it, or what
// to warn of. stops is whether the biz type then issues no more, and forced whether it then has
// another shape than the one on record.
func (s sources) change(ctx context.Context, name string, stops, forced bool) ([]seqd.Problem, error) {
	all, err := s.read(ctx)
	switch {
	case err != nil:
		return nil, storeError(err)
	case len(all.Config) > 0 && (stops || forced):
		return nil, unfollowed(name, all.Config)
	case len(all.Silent) > 0 && forced:
		return nil, unsaid(name, all.Silent)
	case len(all.Config) > 0:
		return []seqd.Problem{{Text: "bizTypesFrom is config at " + nodes.Few(all.Config) + ": the change has no effect there"}}, nil
	case len(all.Silent) > 0 && stops:
		return []seqd.Problem{{Text: "these nodes do not say where their definitions come from, as earlier versions do not: " + nodes.Few(all.Silent) +
			". They continue to issue if that is not the store"}}, nil
	}
	return nil, nil
}

// settle returns why a forced shape must not be put on record. err says that this could not be
// found out.
func (s sources) settle(ctx context.Context, name string) (refused, err error) {
	all, err := s.read(ctx)
	switch {
	case err != nil:
		return nil, storeError(err)
	case len(all.Config) > 0:
		return unfollowed(name, all.Config), nil
	case len(all.Silent) > 0:
		return unsaid(name, all.Silent), nil
	}
	return nil, nil
}

// unsaid is why a shape is not forced while nodes do not say where their definitions come from.
func unsaid(name string, list []string) error {
	return seqd.Errorf(seqd.CodeConflict, "these nodes do not say where their definitions come from, as earlier versions do not: %s. "+
		"If that is not the store, they would continue to issue %s in its previous shape: upgrade or stop them first", nodes.Few(list), name)
}

// unfollowed is why a change is refused that some nodes would not follow.
func unfollowed(name string, config []string) error {
	return seqd.Errorf(seqd.CodeConflict, "bizTypesFrom is config at %s: there, %s would continue to issue as the configuration says, "+
		"which can repeat numbers. Restart these nodes with bizTypesFrom: store, or stop them, and try again; "+
		"a node that was killed counts for 20 s", nodes.Few(config), name)
}
