package server

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/seqd/seqd/server/tracing"
)

// tracesPatience is how long a stop waits for the last spans to be sent, at most: no number depends
// on them.
const tracesPatience = 3 * time.Second

// trace begins to trace requests, where the configuration says so.
func (r *runtime) trace() (err error) {
	cfg := r.cfg.Tracing
	if cfg.Endpoint == "" {
		return nil
	}
	version, _ := r.built()
	r.traces, err = tracing.New(tracing.Options{Endpoint: cfg.Endpoint, Ratio: cfg.SampleRatio, Version: version, Instance: r.addr, Log: r.log})
	if err != nil {
		return fmt.Errorf("tracing.endpoint: %w", err)
	}
	r.api.Trace(r.traces)
	return nil
}

// mongoMonitor is told of the commands of MongoDB, nil where nothing is traced.
func (r *runtime) mongoMonitor() *event.CommandMonitor {
	if r.traces == nil {
		return nil
	}
	return r.traces.MongoMonitor()
}

// endTraces sends what is left.
func (r *runtime) endTraces() {
	if r.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(tracesPatience, r.cfg.Server.StopTimeout))
	defer cancel()
	r.traces.Close(ctx)
}
