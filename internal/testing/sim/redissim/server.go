package redissim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is a Redis server. Its methods are what an operator, a monitor, the network or the machine
// does to it; clients use the connections that it serves.
type Server struct {
	name string
	d    *Deployment

	// What follows is guarded by the deployment's mu.
	up    bool
	keys  keyspace
	due   deadlines // of a primary
	saved snapshot
	skew  time.Duration

	primary         *Server // that it replicates; nil if it is a primary
	synced          bool    // of a replica: it has what its primary had, and receives what that writes
	held            bool    // of a replica: what its primary writes waits in lag
	lag             []effect
	replid, replid2 string
	replicated      bool   // of a primary: it has had a replica since its start
	replication     string // INFO replication; empty if it must be built anew

	scripts     map[string]*script // by their hashes
	conns       map[*conn]bool
	subscribers map[string][]*conn // by channel

	hung, loading, writable bool
	resumed                 sync.Cond
	refusal                 Refusal
	lose                    int   // how many replies will be lost
	served                  int64 // how many connections so far
}

// effect is a write as a primary sends it to its replicas. Scripts replicate by their effects.
type effect func(*Server)

// snapshot is an RDB file.
type snapshot struct {
	keys   keyspace
	replid string // of a primary that has had replicas, else empty
}

// Name returns the name of the server.
func (s *Server) Name() string { return s.name }

// lock locks the deployment and returns what unlocks it.
func (s *Server) lock() (unlock func()) {
	s.d.mu.Lock()
	return s.d.mu.Unlock
}

// Up reports whether the server runs. A connection to one that does not is refused.
func (s *Server) Up() bool {
	defer s.lock()()
	return s.up
}

// Primary reports whether the server runs and believes that it is a primary.
func (s *Server) Primary() bool {
	defer s.lock()()
	return s.up && s.primary == nil
}

// Kill ends the server and closes its connections. What waits to be executed is dropped. Replicas
// keep what they have and what is on its way to them.
func (s *Server) Kill() {
	unlock := s.lock()
	s.up, s.hung, s.loading, s.lose, s.refusal = false, false, false, 0, ""
	s.synced, s.lag = false, nil
	conns := s.conns
	s.conns, s.subscribers, s.scripts = make(map[*conn]bool), make(map[string][]*conn), make(map[string]*script)
	s.d.rolesChanged()
	s.resumed.Broadcast()
	unlock()
	for c := range conns {
		c.close()
	}
}

// Kept is what a server has when it starts.
type Kept int

// What a server can have kept.
const (
	Nothing    Kept = iota // it writes nothing to disk
	Snapshot               // what the last Save wrote; nothing if there was none
	Everything             // it syncs every write to an append-only file
)

// Start kills the server if it runs and starts it, in the role that it had. A primary gets a new
// replication ID; its replicas are no longer in step and need [Server.Sync].
func (s *Server) Start(k Kept) {
	s.Kill()
	defer s.lock()()
	s.up = true
	switch k {
	case Nothing:
		s.keys = make(keyspace)
	case Snapshot:
		s.keys = s.saved.keys.clone()
	}
	if s.primary == nil {
		s.lead(noID)
		if k == Snapshot && s.saved.replid != "" {
			s.replid2 = s.saved.replid
		}
	}
}

// Save writes a snapshot.
func (s *Server) Save() {
	defer s.lock()()
	s.saved = snapshot{keys: s.keys.clone()}
	if s.primary == nil && s.replicated {
		s.saved.replid = s.replid
	}
}

// lead gives a primary a new replication ID. Its replicas, if any, are out of step.
func (s *Server) lead(second string) {
	s.replid, s.replid2, s.replicated = s.d.newID(), second, false
	s.due = s.keys.deadlines()
	s.turn(nil)
}

// turn makes the server a replica of another one, or a primary. Nothing is in step with it.
func (s *Server) turn(primary *Server) {
	s.primary, s.synced, s.lag = primary, false, nil
	for _, t := range s.d.servers {
		if t.primary == s {
			t.synced, t.lag = false, nil
		}
	}
	s.d.rolesChanged()
}

// Promote makes a replica a primary. What is on its way to it is lost. Its primary does not learn
// of it: both accept writes until that one is killed or follows.
func (s *Server) Promote() {
	defer s.lock()()
	if s.primary != nil {
		s.lead(s.replid)
	}
}

// Follow makes the server a replica of another one. It keeps and shows its data until [Server.Sync].
func (s *Server) Follow(primary *Server) {
	defer s.lock()()
	s.turn(primary)
}

// Sync copies the data of its primary to a replica, which is in step from then on. It reports
// whether it could: both must run, and the primary must be one.
func (s *Server) Sync() bool {
	defer s.lock()()
	if !s.up || s.primary == nil || !s.primary.up || s.primary.primary != nil {
		return false
	}
	s.sync()
	return true
}

func (s *Server) sync() {
	s.keys, s.synced, s.lag = s.primary.keys.clone(), true, nil
	s.replid, s.replid2 = s.primary.replid, s.primary.replid2
	s.primary.replicated = true
	s.d.rolesChanged()
}

// Hold makes what the primary writes from now on wait on its way to this replica, or lets all of it
// arrive and wait no more.
func (s *Server) Hold(hold bool) {
	defer s.lock()()
	if s.held = hold; !hold {
		s.catchUp(len(s.lag))
	}
}

// Lag returns how many writes are on their way to a replica.
func (s *Server) Lag() int {
	defer s.lock()()
	return len(s.lag)
}

// Replicate lets the oldest n writes arrive at a replica, or all if there are fewer.
func (s *Server) Replicate(n int) {
	defer s.lock()()
	s.catchUp(min(n, len(s.lag)))
}

func (s *Server) catchUp(n int) {
	arrived := s.lag[:n]
	s.lag = s.lag[n:]
	for _, e := range arrived {
		e(s)
	}
}

// Flush removes all keys (FLUSHALL), also from replicas.
func (s *Server) Flush() {
	defer s.lock()()
	s.write(func(t *Server) { t.keys, t.due = make(keyspace), nil })
}

// Evict removes a key, also from replicas, and returns its name. The number, 0 or more, chooses it
// among all of them. It returns "" if there is none.
func (s *Server) Evict(number int) (key string) {
	defer s.lock()()
	if len(s.keys) == 0 {
		return ""
	}
	keys := s.keys.names()
	key = keys[number%len(keys)]
	s.remove(key)
	return key
}

// Refusal is the error that a server answers all writes with.
type Refusal string

// The refusals of Redis. A script that has begun to write continues.
const (
	OutOfMemory Refusal = "OOM command not allowed when used memory > 'maxmemory'." // not of DEL, HDEL
	DiskError   Refusal = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. " +
		"Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB " +
		"snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error."
	// NoReplicas is also what a server answers whose setting min-replicas-to-write is not met.
	NoReplicas Refusal = "NOREPLICAS Not enough good replicas to write."

	readOnly     Refusal = "READONLY You can't write against a read only replica."
	stillLoading         = failure("LOADING Redis is loading the dataset in memory")
)

// Refuse makes the server refuse writes. An empty refusal ends that.
func (s *Server) Refuse(r Refusal) {
	defer s.lock()()
	s.refusal = r
}

// Load makes the server answer that it is loading its data, or ends that.
func (s *Server) Load(loading bool) {
	defer s.lock()()
	s.loading = loading
}

// Writable makes a replica accept writes (replica-read-only no), or ends that.
func (s *Server) Writable(writable bool) {
	defer s.lock()()
	s.writable = writable
}

// Hang stops the server: it accepts connections and commands and executes nothing. [Server.Resume]
// lets it continue. Then it executes what it has received, also for clients that have left.
func (s *Server) Hang() {
	defer s.lock()()
	s.hung = s.up
}

// Resume ends [Server.Hang].
func (s *Server) Resume() {
	defer s.lock()()
	if s.hung = false; !s.held {
		s.catchUp(len(s.lag))
	}
	s.resumed.Broadcast()
}

// LoseReplies makes the server lose the replies to the next n commands that have keys: it executes
// each, and closes its connection without an answer.
func (s *Server) LoseReplies(n int) {
	defer s.lock()()
	s.lose = n
}

// Shift turns the server's clock by d, forwards or back.
func (s *Server) Shift(d time.Duration) {
	defer s.lock()()
	s.skew += d
}

// now is the time of the server's clock.
func (s *Server) now() time.Time { return s.d.opts.Clock().Add(s.skew) }

// replicas returns how many replicas are in step.
func (s *Server) replicas() (n int) {
	for _, t := range s.d.servers {
		if t.primary == s && t.up && t.synced {
			n++
		}
	}
	return n
}

// write makes a change here and at the replicas.
func (s *Server) write(e effect) {
	e(s)
	if s.primary != nil { // a writable replica keeps its writes to itself
		return
	}
	for _, t := range s.d.servers {
		switch {
		case t.primary != s || !t.up || !t.synced:
		case t.held || t.hung:
			t.lag = append(t.lag, e)
		default:
			e(t)
		}
	}
}

// refuses returns the error that a write gets, "" for none.
func (s *Server) refuses(cmd *command) Refusal {
	least, _ := strconv.Atoi(s.d.opts.Settings["min-replicas-to-write"])
	switch {
	case s.primary != nil && !s.writable:
		return readOnly
	case s.refusal == OutOfMemory && cmd.flags&frees != 0:
	case s.refusal != "":
		return s.refusal
	case s.primary == nil && least > 0 && s.replicas() < least:
		return NoReplicas
	}
	return ""
}

// info returns the sections of INFO that are asked for, all for none.
func (s *Server) info(sections []string) string {
	if s.replication == "" {
		s.replication = s.replicationInfo()
	}
	if len(sections) == 1 && sections[0] == "replication" { // what every script asks for
		return s.replication
	}
	loading := 0
	if s.loading {
		loading = 1
	}
	var texts []string
	for _, section := range []struct{ name, text string }{
		{"server", "# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n"},
		{"memory", "# Memory\r\nmaxmemory_policy:" + s.d.opts.Settings["maxmemory-policy"] + "\r\n"},
		{"persistence", fmt.Sprintf("# Persistence\r\nloading:%d\r\naof_enabled:0\r\n", loading)},
		{"replication", s.replication},
	} {
		wanted := func(name string) bool {
			name = strings.ToLower(name)
			return name == section.name || name == "default" || name == "all" || name == "everything"
		}
		if len(sections) == 0 || slices.ContainsFunc(sections, wanted) {
			texts = append(texts, section.text)
		}
	}
	return strings.Join(texts, "\r\n")
}

// version is the version of Redis that this package imitates.
const version = "7.0.15"

func (s *Server) replicationInfo() string {
	var b strings.Builder
	if b.WriteString("# Replication\r\n"); s.primary == nil {
		b.WriteString("role:master\r\n")
	} else {
		link := "down"
		if s.synced {
			link = "up"
		}
		fmt.Fprintf(&b, "role:slave\r\nmaster_host:%s\r\nmaster_port:6379\r\nmaster_link_status:%s\r\n", s.primary.name, link)
	}
	fmt.Fprintf(&b, "connected_slaves:%d\r\n", s.replicas())
	if least := s.d.opts.Settings["min-replicas-to-write"]; s.primary == nil && least != "0" {
		fmt.Fprintf(&b, "min_slaves_good_slaves:%d\r\n", s.replicas())
	}
	fmt.Fprintf(&b, "master_replid:%s\r\nmaster_replid2:%s\r\n", s.replid, s.replid2)
	return b.String()
}
