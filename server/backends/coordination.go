package backends

import (
	"context"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/coordination/consul"
	"github.com/seqd/seqd/coordination/zookeeper"
	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/internal/secretfile"
	"github.com/seqd/seqd/server/config"
)

// NewCoordinator returns the coordinator of a cluster, nil if it is the store. It reads the TLS files
// and connects to nothing: a coordinator that is away delays no start.
func NewCoordinator(ctx context.Context, cfg config.Coordination, cluster string) (coordination.Coordinator, error) {
	if open := seams.Of(ctx).OpenCoordinator; open != nil {
		return open(), nil
	}
	if !cfg.Apart() {
		return nil, nil
	}
	dial, err := newDialer("coordination.tls", cfg.TLS, cfg.Timeout)
	if err != nil {
		return nil, err
	}
	options := coordination.Options{Addrs: cfg.Addrs, Prefix: cfg.Folder(cluster), Timeout: cfg.Timeout, Dial: dial}
	options.Token = secretfile.Follow(cfg.TokenFile, cfg.Token, nil)
	if cfg.Driver == config.CoordinateConsul {
		return consul.New(options), nil
	}
	return zookeeper.New(options), nil
}
