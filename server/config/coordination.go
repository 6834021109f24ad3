package config

import (
	"regexp"
	"strings"
	"time"
	"unicode"
)

// The values of coordination.driver.
const (
	CoordinateInStore   = "store"
	CoordinateConsul    = "consul"
	CoordinateZooKeeper = "zookeeper"
)

// Coordination is where nodes agree on who does a job. Numbers do not depend on it, unless machine IDs
// are leased there.
type Coordination struct {
	// Driver is where sessions of nodes, the leader and permits are: in the store, or in
	// [a coordinator](COORDINATION.md). Most clusters need none. All nodes that share a store need the
	// same.
	Driver string `config:"driver" range:"store, consul, zookeeper" nodes:"same"`
	// Addrs are the servers, as host:port: agents or servers of Consul, or servers of ZooKeeper. One
	// that does not answer costs one `coordination.timeout`.
	Addrs []string `config:"addrs"`
	// Token is the ACL token of Consul, or `user:password` of ZooKeeper, scheme digest. It is never
	// logged.
	Token string `config:"token" secret:"true"`
	// TokenFile is a file with the token instead. Each request to Consul reads it; for ZooKeeper, where
	// the password is part of who may use the keys, it is read at the start.
	TokenFile string    `config:"tokenFile" applies:"contents"`
	TLS       ClientTLS `config:"tls"`
	// Prefix is what keys begin with: names with slashes between them. The ID of the cluster follows.
	Prefix string `config:"prefix" range:"1 to 64 bytes" nodes:"same"`
	// Timeout is the bound of every operation.
	Timeout time.Duration `config:"timeout" range:"50ms to 1s"`
}

// Apart reports whether there is a coordinator besides the store.
func (c *Coordination) Apart() bool { return c.Driver != CoordinateInStore }

// Folder returns what the keys of a cluster begin with.
func (c *Coordination) Folder(cluster string) string { return c.Prefix + "/" + cluster }

// Place names that for people, and for nodes that compare theirs.
func (c *Coordination) Place(cluster string) string { return c.Driver + ", keys " + c.Folder(cluster) }

var coordinationPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$`)

func (c *Coordination) validate(p *problems, shared bool) {
	p.oneOf("coordination.driver", c.Driver, CoordinateInStore, CoordinateConsul, CoordinateZooKeeper)
	p.check(!c.Apart() || shared, "coordination.driver", "%s coordinates nodes, and this store is that of one node: choose a store that nodes share, or leave it at store", c.Driver)
	p.check(!c.Apart() || len(c.Addrs) > 0, "coordination.addrs", "it is empty, and coordination.driver %s needs it", c.Driver)
	for key, set := range map[string]bool{"addrs": len(c.Addrs) > 0, "token": c.Token != "", "tls.enabled": c.TLS.Enabled} {
		p.check(c.Apart() || !set, "coordination."+key, "it is set, but coordination.driver is store")
	}
	p.addresses("coordination.addrs", c.Addrs, "consul.example:8500")
	p.check(c.Driver != CoordinateZooKeeper || c.Token == "" || strings.Contains(c.Token, ":"), "coordination.token", "it is not user:password, which ZooKeeper needs")
	p.check(!strings.ContainsFunc(c.Token, unicode.IsControl), "coordination.token", "it has a line break or another character that cannot be shown")
	c.TLS.validate(p, "coordination.tls")
	p.check(coordinationPrefix.MatchString(c.Prefix) && len(c.Prefix) <= mostKeyPrefix, "coordination.prefix",
		"%.80q is not names of letters, digits, _ and - with slashes between them, of at most %d bytes", c.Prefix, mostKeyPrefix)
	p.duration("coordination.timeout", c.Timeout, 50*time.Millisecond, time.Second)
}
