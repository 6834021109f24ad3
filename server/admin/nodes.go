package admin

import "context"

// Node is one process of the cluster.
type Node struct {
	// ID is a random ID of the process.
	ID string `json:"id"`
	// Self is true for the node that answers.
	Self bool `json:"self"`
	// Addr is the address it listens on.
	Addr string `json:"node"`
	Host string `json:"host"`
	// Build is the version of the program.
	Build string `json:"build"`
	// StartedAt and SeenAt are RFC 3339 in UTC.
	StartedAt string `json:"startedAt"`
	SeenAt    string `json:"seenAt"`
	// BizTypesFrom is where its definitions come from: store or config; "" if it does not say, as a
	// node of an earlier version.
	BizTypesFrom string `json:"bizTypesFrom,omitempty"`
	// Catalogue is the number of the newest change that it knows.
	Catalogue int64 `json:"catalogue"`
	// BizTypes is the number of biz types that it holds.
	BizTypes int `json:"bizTypes"`
	// MachineIDs are the machine IDs that it holds, by biz type; at most 100.
	MachineIDs map[string]int64 `json:"machineIds"`
	// ClockOffsetMS is by how many milliseconds its clock is ahead of that of the store, or else of a
	// registry of machine IDs; nil if that is not known.
	ClockOffsetMS *float64 `json:"clockOffsetMs,omitempty"`
	// Backends are its store and Redis.
	Backends map[string]Backend `json:"backends"`
}

// Backend is the state of a back end as a node sees it.
type Backend struct {
	// State is ok, away or failed_over.
	State string `json:"state"`
	// Detail says why it is not ok. The log says more.
	Detail string `json:"detail,omitempty"`
}

// Nodes lists the processes of the cluster.
type Nodes interface {
	// Nodes returns the processes in the order of their IDs. complete is false if the store is away
	// and only the process that answers is known.
	Nodes(ctx context.Context) (list []Node, complete bool)
}
