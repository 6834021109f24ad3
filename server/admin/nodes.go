package admin

import "context"

// Node is one process of the cluster.
type Node struct {
	// ID is the random ID of the process.
	ID string `json:"id"`
	// Self is true for the node that answers the request.
	Self bool `json:"self"`
	// Leader is true for the node that does what one node of the cluster does, as far as the one that
	// answers knows.
	Leader bool `json:"leader,omitempty"`
	// Addr is the address that the node listens on.
	Addr string `json:"node"`
	Host string `json:"host"`
	// Build is the version of the program.
	Build string `json:"build"`
	// StartedAt and SeenAt are RFC 3339 in UTC.
	StartedAt string `json:"startedAt"`
	SeenAt    string `json:"seenAt"`
	// BizTypesFrom says where the definitions of the node come from: store or config. It is "" for a
	// node of an earlier version, which does not say.
	BizTypesFrom string `json:"bizTypesFrom,omitempty"`
	// Coordination is the ID of what keeps the session of the node: store, or that of a coordinator. It
	// is "" until the node knows it.
	Coordination string `json:"coordination,omitempty"`
	// Catalogue is the number of the newest change of a definition that the node knows.
	Catalogue int64 `json:"catalogue"`
	// BizTypes is the number of biz types that the node holds.
	BizTypes int `json:"bizTypes"`
	// MachineIDs are the machine IDs that the node holds, by biz type; at most 100.
	MachineIDs map[string]int64 `json:"machineIds"`
	// ClockOffsetMS is by how many milliseconds the clock of the node is ahead of the clock of the
	// store, or of a registry of machine IDs if the clock of the store is not known; nil if neither
	// is known.
	ClockOffsetMS *float64 `json:"clockOffsetMs,omitempty"`
	// Config is the configuration that the node has read; nil for a node of an earlier version.
	Config *NodeConfig `json:"config,omitempty"`
	// Backends are the store, Redis and the coordinator of the node.
	Backends map[string]Backend `json:"backends"`
}

// NodeConfig says which configuration a node has read.
type NodeConfig struct {
	// Version is the same at nodes that have read the same, secrets aside, and Alike at those that work
	// with the same values of what all nodes need alike: a reload does not change it.
	Version string `json:"version"`
	Alike   string `json:"alike"`
	// ReadAt is when it was read, RFC 3339 in UTC.
	ReadAt string `json:"readAt"`
	// Restart is true if a part of it needs a restart of the node.
	Restart bool `json:"restart"`
	// Failed is true if the node could not read a later one.
	Failed bool `json:"failed"`
}

// Reloaded is what a node did with a configuration that it has read again.
type Reloaded struct {
	// Node is the ID of the node, "" until it can issue.
	Node string `json:"node,omitempty"`
	// Version is that of [NodeConfig].
	Version string `json:"version"`
	// Applied are the keys whose change counts from then on, and Restart those that need a restart.
	Applied []string `json:"applied"`
	Restart []string `json:"restart"`
}

// LogLevel is the level of the log of a node.
type LogLevel struct {
	Node string `json:"node,omitempty"`
	// Level is the present one, and Configured that of the configuration, which comes back when that is read
	// again.
	Level      string `json:"level"`
	Configured string `json:"configured"`
}

// Backend is the state of a back end as a node sees it.
type Backend struct {
	// State is ok, away or failed_over.
	State string `json:"state"`
	// Detail says why State is not ok. The log has the error.
	Detail string `json:"detail,omitempty"`
}

// Nodes lists the processes of the cluster.
type Nodes interface {
	// Nodes returns the processes in the order of their IDs. If the store is away, list has only the
	// process that answers, and complete is false.
	Nodes(ctx context.Context) (list []Node, complete bool)
}
