package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/redissim"
)

var (
	redisAway  = record.Fault{Redis: true}
	redisLoses = record.Fault{Redis: true, LosesKeys: true}
	empty      = "empty"
	old        = "with an old snapshot"
	whole      = "with everything"
)

// redisKinds are the faults of Redis. The server that is not the primary is its replica, except
// after a failover in which there are two primaries for a while.
var redisKinds = []kind{
	{name: "redis-restart", weight: 3, needs: withRedis, holds: "redis@", ways: []string{empty, old, whole}, least: blink, most: some, marks: redisLoses, begin: killRedis},
	{name: "redis-hangs", weight: 3, needs: withRedis, holds: "redis@", least: blink, most: some, marks: redisAway, begin: func(w *World, f *fault) {
		s := w.primaryRedis()
		s.Hang()
		f.later(s.Resume)
	}},
	{name: "redis-flush", weight: 2, needs: withRedis, holds: "redis@", marks: redisLoses, begin: func(w *World, f *fault) { w.primaryRedis().Flush() }},
	{name: "redis-evicts", weight: 2, needs: withRedis, holds: "redis@", marks: redisLoses, begin: func(w *World, f *fault) { w.primaryRedis().Evict(int(f.at / time.Millisecond)) }},
	{name: "redis-full", weight: 2, needs: withRedis, holds: "redis@", least: blink, most: some, marks: redisAway, begin: func(w *World, f *fault) {
		s := w.primaryRedis()
		s.Refuse(redissim.OutOfMemory)
		f.later(func() { s.Refuse("") })
	}},
	{name: "redis-replies-lost", weight: 3, needs: withRedis, holds: "redis@", least: blink, most: short, marks: redisAway, begin: func(w *World, f *fault) { w.primaryRedis().LoseReplies(1 + int(f.at/time.Millisecond)%5) }},
	{name: "redis-failover", weight: 4, needs: withRedis, holds: "redis@", ways: []string{"lossless", "lossy", "two primaries"}, least: blink, most: some, after: 2 * time.Second, marks: redisLoses, begin: failRedisOver},
	{name: "redis-swallowed", weight: 2, needs: withRedis, holds: "partition", targets: nodeNames, least: short, most: some, marks: redisAway, begin: func(w *World, f *fault) {
		for i := range redisServers {
			w.net.Swallow(w.node(f).host, redisHost(i))
		}
	}},
	{name: "partition", weight: 4, needs: withRedis, holds: "partition", targets: nodeNames, ways: directions, least: blink, most: long, marks: redisAway, begin: func(w *World, f *fault) { w.cutOffRedis(f, w.node(f)) }},
}

// redisHost is the host of a server of Redis.
func redisHost(i int) string { return fmt.Sprintf("127.0.0.%d", 31+i) }

// otherNumber is the number of a Redis that belongs to something else, and otherHost its host.
const otherNumber, otherHost = 8, "127.0.0.39"

// startRedis starts the servers of Redis, and their ports.
func (w *World) startRedis() {
	o := redissim.Options{Servers: redisServers, Without: func(r sabotage.Rule) bool { return slices.Contains(w.options.Without, r) }}
	if w.options.Registry {
		// A registry needs these. A failover loses what was written within half the length of its fault.
		o.Settings = map[string]string{"min-replicas-to-write": "1", "min-replicas-max-lag": fmt.Sprint(int(some / 2 / time.Second))}
	}
	w.redis = redissim.New(o)
	for i, s := range w.redis.Servers() {
		w.serveRedis(redisHost(i), s)
	}
	w.other = redissim.New(redissim.Options{Name: "other"})
	w.serveRedis(otherHost, w.other.Server(0))
	w.tellServers()
}

// serveRedis serves the connections to a server.
func (w *World) serveRedis(host string, s *redissim.Server) {
	l, err := w.net.Listen(host + ":6379")
	if err != nil {
		panic(err) // nobody else listens there
	}
	w.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.Serve(conn)
		}
	})
}

// stopRedis ends the servers of Redis, and closes their ports.
func (w *World) stopRedis() {
	w.redis.Close()
	w.other.Close()
	for i := range redisServers {
		w.net.Kill(redisHost(i))
	}
	w.net.Kill(otherHost)
	w.serving.Wait()
}

// redisOf returns the number of the server that a node reaches.
func (w *World) redisOf(n *node) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return n.route
}

// primaryNumber returns the number of the primary.
func (w *World) primaryNumber() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.primary
}

func (w *World) primaryRedis() *redissim.Server { return w.redis.Server(w.primaryNumber()) }

// serverAt returns the address of the server that a configured one leads to, given the number of
// the server that it usually is.
func (w *World) serverAt(addr string, number int) string {
	if addr == redisAddr {
		return redisHost(number) + ":6379"
	}
	return addr
}

// lead leads nodes to a server, and ends their connections to the others.
func (w *World) lead(to int, which ...*node) {
	w.mu.Lock()
	for _, n := range which {
		n.route = to
	}
	w.mu.Unlock()
	for _, n := range which {
		for i := range otherNumber + 1 {
			if i != to {
				w.net.Reset(n.host, redisHost(i))
			}
		}
	}
}

// killRedis ends the primary. It starts again, with what its way says.
func killRedis(w *World, f *fault) {
	s := w.primaryRedis()
	kept := map[string]redissim.Kept{empty: redissim.Nothing, old: redissim.Snapshot, whole: redissim.Everything}[f.way]
	w.tellServers()
	s.Kill()
	w.tellServers()
	f.later(func() {
		s.Start(kept)
		s.Save() // which is old when it starts next
		w.resync()
		w.tellServers()
	})
}

// resync makes the server that is not the primary a replica of it.
func (w *World) resync() {
	primary := w.primaryRedis()
	for _, s := range w.redis.Servers() {
		if s != primary {
			s.Follow(primary)
			s.Sync()
			s.Hold(false)
		}
	}
}

// failRedisOver promotes the replica. It may lack the last writes, and the former primary may take
// writes of some nodes for a while.
func failRedisOver(w *World, f *fault) {
	w.mu.Lock()
	from, to := w.primary, 1-w.primary
	w.mu.Unlock()
	was, is := w.redis.Server(from), w.redis.Server(to)
	if f.way != "lossless" {
		is.Hold(true)
		time.Sleep(f.length / 2)
	}
	w.tellServers()
	if f.way != "two primaries" {
		was.Kill()
	}
	is.Promote()
	w.mu.Lock()
	w.primary = to
	w.mu.Unlock()
	w.tellServers()
	if f.way == "two primaries" {
		w.lead(to, w.nodes[0])
	} else {
		w.lead(to, w.nodes...)
	}
	f.later(func() {
		w.tellServers()
		w.lead(to, w.nodes...)
		if f.way != "two primaries" {
			was.Start(redissim.Nothing)
		}
		w.resync()
		w.tellServers()
	})
}

// tellServers records the roles of the servers.
func (w *World) tellServers() {
	for _, s := range w.redis.Servers() {
		now := &record.Server{At: w.journal.Now(), Name: s.Name(), Role: record.Replica}
		switch {
		case !s.Up():
			now.Role = record.Gone
		case s.Primary():
			now.Role = record.Primary
		}
		if info, _ := s.Do("INFO", "replication"); now.Role != record.Gone {
			now.Replid = fieldOf(fmt.Sprint(info), "master_replid:")
		}
		w.journal.Write(record.Entry{Server: now})
	}
}
