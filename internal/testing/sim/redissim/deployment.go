package redissim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
)

// Options are the options of [New].
type Options struct {
	// Name tells deployments apart: it is a part of the names of servers and of what their
	// replication IDs are made from. It may be empty.
	Name string
	// Servers is how many there are, 0 for one. The first is the primary. The others replicate it,
	// without delay.
	Servers int
	// Settings are what CONFIG GET and INFO say, besides the defaults of Redis. Among them,
	// min-replicas-to-write has an effect.
	Settings map[string]string
	// Clock is the time of all servers, see [Server.Shift]. Nil stands for [time.Now].
	Clock func() time.Time
	// Without takes rules out of scripts, as [sabotage.Without] does. Nil stands for none.
	Without func(sabotage.Rule) bool
}

// Deployment is a logical Redis: some servers that can replicate one another. It is safe for
// concurrent use, and so are its servers.
type Deployment struct {
	opts Options

	mu      sync.Mutex // guards what follows, and all of the servers
	servers []*Server
	ids     int // replication IDs so far
	lua     *interpreter
	unknown map[string]bool
}

// New returns a deployment whose servers run and are empty.
func New(opts Options) *Deployment {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	settings := map[string]string{
		"maxmemory-policy": "noeviction", "min-replicas-to-write": "0", "min-replicas-max-lag": "10", "repl-backlog-ttl": "3600", "save": "",
	}
	maps.Copy(settings, opts.Settings)
	opts.Settings = settings
	d := &Deployment{opts: opts, unknown: make(map[string]bool)}
	for i := range max(opts.Servers, 1) {
		s := &Server{
			name: fmt.Sprintf("%sredis%d", opts.Name, i), d: d, up: true, keys: make(keyspace), scripts: make(map[string]*script),
			conns: make(map[*conn]bool), subscribers: make(map[string][]*conn),
		}
		s.resumed.L = &d.mu
		d.servers = append(d.servers, s)
		if i == 0 {
			s.replid, s.replid2 = d.newID(), noID
		} else {
			s.primary = d.servers[0]
			s.sync()
		}
	}
	return d
}

// Close kills all servers, so that what serves their connections ends.
func (d *Deployment) Close() {
	for _, s := range d.servers {
		s.Kill()
	}
}

// Server returns a server by its number, from 0.
func (d *Deployment) Server(i int) *Server { return d.servers[i] }

// Servers returns all servers.
func (d *Deployment) Servers() []*Server { return slices.Clone(d.servers) }

// Unknown returns what clients and scripts asked for and this package does not have, sorted. A
// simulation should fail if it is not empty.
func (d *Deployment) Unknown() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.unknown))
}

// doesNotKnow notes what is missing here.
func (d *Deployment) doesNotKnow(what string) failure {
	d.unknown[what] = true
	return failure("ERR the simulation does not know " + what)
}

// noID is what INFO says when there is no second replication ID.
const noID = "0000000000000000000000000000000000000000"

// newID returns a replication ID that was never used.
func (d *Deployment) newID() string {
	d.ids++
	sum := sha1.Sum(fmt.Appendf(nil, "%s/%d", d.opts.Name, d.ids))
	return hex.EncodeToString(sum[:])
}

// rolesChanged drops what INFO said of replication.
func (d *Deployment) rolesChanged() {
	for _, s := range d.servers {
		s.replication = ""
	}
}
