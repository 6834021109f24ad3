package model

import (
	"fmt"
	"maps"
	"strconv"
)

// hash is a hash of Redis.
type hash map[string]string

// effect is a write as a primary sends it to its replica: fields and values of an HSET, or nil if
// the key was removed. Scripts replicate by their effects.
type effect struct {
	key    string
	fields []string
}

// server is a Redis server, as far as the scripts can tell.
type server struct {
	name   string
	redis  int     // which Redis it belongs to
	peer   *server // the other one of the same Redis
	up     bool
	keys   map[string]hash
	replid string
	info   string // INFO replication
	// replica says that it follows its peer; synced that it holds a copy, to which lag, the writes
	// on their way, will be added.
	replica, synced bool
	lag             []effect
	// writable is replica-read-only no.
	writable bool
	// snapshot is the last RDB file, nil if there is none.
	snapshot map[string]hash
	// clock is the server's time in µs.
	clock int64
}

func newServer(name string, redis int) *server {
	return &server{name: name, redis: redis, up: true, keys: make(map[string]hash), clock: 1e15}
}

// There is one counter, whose cursor lies at key.
const (
	counter, cluster = "order", "cluster"
	keyPrefix        = "seqd:"
	key              = keyPrefix + "{" + counter + "}"
)

// setReplication sets what INFO says.
func (s *server) setReplication(replica bool, replid string) {
	role := "master"
	if replica {
		role = "slave"
	}
	s.replica, s.replid = replica, replid
	s.info = fmt.Sprintf("# Replication\r\nrole:%s\r\nmaster_replid:%s\r\nmaster_replid2:%040d\r\n", role, replid, 0)
}

// set is HSET.
func (s *server) set(key string, fields []string) {
	s.apply(effect{key, fields})
	s.replicate(effect{key, fields})
}

// remove is DEL, an eviction, or a FLUSHALL: there is one key.
func (s *server) remove(key string) {
	s.apply(effect{key, nil})
	s.replicate(effect{key, nil})
}

func (s *server) apply(e effect) {
	if e.fields == nil {
		delete(s.keys, e.key)
		return
	}
	h := s.keys[e.key]
	if h == nil {
		h = make(hash, 16)
		s.keys[e.key] = h
	}
	for i := 0; i < len(e.fields); i += 2 {
		h[e.fields[i]] = e.fields[i+1]
	}
}

func (s *server) replicate(e effect) {
	if !s.replica && s.peer.replica && s.peer.synced {
		s.peer.lag = append(s.peer.lag, e)
	}
}

// catchUp applies the oldest n writes that are on their way to a replica.
func (s *server) catchUp(n int) {
	for _, e := range s.lag[:n] {
		s.apply(e)
	}
	s.lag = append(s.lag[:0], s.lag[n:]...)
}

// follow makes it a replica of its peer. It keeps its data until it is synced.
func (s *server) follow() {
	s.setReplication(true, s.replid)
	s.synced, s.lag = false, s.lag[:0]
}

// sync is a full synchronization: a replica copies its primary's data and its replication ID.
func (s *server) sync() {
	s.keys, s.lag, s.synced = copyOf(s.peer.keys), s.lag[:0], true
	s.setReplication(true, s.peer.replid)
}

// lead makes it a primary, with the data it has and a new replication ID, as every start and every
// promotion does.
func (s *server) lead(replid string) {
	s.synced, s.lag, s.writable = false, s.lag[:0], false
	s.setReplication(false, replid)
}

func copyOf(keys map[string]hash) map[string]hash {
	c := make(map[string]hash, len(keys))
	for k, h := range keys {
		c[k] = maps.Clone(h)
	}
	return c
}

// primary reports whether it serves cursors.
func (s *server) primary() bool { return s.up && !s.replica }

// ceil is the highest number that was ever installed in the cursor here, 0 if that cannot be
// trusted.
func (s *server) ceil() int64 {
	if h := s.keys[key]; h != nil && h["replid"] == s.replid {
		return number(h["ceil"])
	}
	return 0
}

// passed reports whether no number up to n will ever be taken from the cursor here.
func (s *server) passed(n int64) bool {
	h := s.keys[key]
	if h == nil || h["replid"] != s.replid {
		return false
	}
	cur, last := number(h["cur"]), number(h["last"])
	switch queue := h["queue"]; {
	case cur < last:
		return cur >= n
	case queue != "":
		var first int64
		for i := 0; queue[i] != '-'; i++ {
			first = first*10 + int64(queue[i]-'0')
		}
		return first > n
	}
	return number(h["ceil"]) >= n
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("a script wrote %q where a number belongs", text))
	}
	return n
}
