package testenv

import (
	"context"
	"fmt"
	"strconv"
	"testing"
)

// WritableReplica is a setting for StartReplica with which the replica accepts writes.
const WritableReplica = "replica-read-only no"

// StartReplica starts a replica of a server and waits until it has all data.
func StartReplica(t testing.TB, master *Redis, settings ...string) *Redis {
	t.Helper()
	r := StartRedis(t, append(settings, fmt.Sprintf("replicaof 127.0.0.1 %d", master.port))...)
	r.awaitLink()
	return r
}

// Promote makes a replica a master (REPLICAOF NO ONE), also after a restart.
func (r *Redis) Promote() {
	r.t.Helper()
	r.replicaOf("NO", "ONE")
}

// Follow makes the server a replica of another one, also after a restart, and waits until it has
// all data.
func (r *Redis) Follow(master *Redis) {
	r.t.Helper()
	r.replicaOf("127.0.0.1", strconv.Itoa(master.port))
	r.awaitLink()
}

func (r *Redis) replicaOf(host, port string) {
	r.t.Helper()
	ctx, cancel := within()
	defer cancel()
	must(r.t, r, "REPLICAOF "+host+" "+port, r.client.ReplicaOf(ctx, host, port).Err())
	must(r.t, r, "CONFIG REWRITE", r.client.ConfigRewrite(ctx).Err())
}

// awaitLink waits until the replica is connected and has the data.
func (r *Redis) awaitLink() {
	r.t.Helper()
	r.await(r.name+" replicates", r.linkUp)
}

// linkUp returns an error if the server is a replica that is not in step. It returns nil for a
// master.
func (r *Redis) linkUp(ctx context.Context) error {
	info, err := r.info(ctx, "replication")
	if err != nil {
		return err
	}
	if info["role"] == "slave" && info["master_link_status"] != "up" {
		return fmt.Errorf("%s: the link to its master is %s", r.name, info["master_link_status"])
	}
	return nil
}
