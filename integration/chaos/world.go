// Package chaos is the fault laboratory. It runs a whole system of real processes in network
// namespaces on this machine, puts mixed load on it, breaks it by a schedule of faults that a seed
// determines, and records every call. internal/testing/check then checks the record.
package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Binaries are the programs of the system under test.
type Binaries struct {
	Seqd    string // internal/testing/clockseqd
	StandIn string // integration/cmd/mongostandin
}

const (
	seqdPort     = 8080
	respPort     = 6380
	redisPort    = 6379
	sentinelPort = 26379
	mongoPort    = 27017
	postgresPort = 5432
	mysqlPort    = 3306
	linkPort     = 27101 // port of the first node
)

// world is the system: three hosts with a seqd and a Sentinel each, three with a Redis, one with
// another Redis, and those of the store. Without Redis there are only the nodes and the store.
type world struct {
	dir       string // the folder of all files
	logs      string
	seqds     []*seqd
	redises   []*redisServer // the first one is the primary at the beginning
	second    *redisServer   // another Redis, which nodes use only in faults
	sentinels []*redisServer
	store     store
}

// newWorld creates the hosts and starts all servers except the nodes.
func newWorld(system System, logs string, binaries Binaries, bizTypes, sparse string) (*world, error) {
	w := &world{dir: workshop, logs: logs}
	err := inOrder(
		furnish,
		buildBridge,
		func() (err error) { w.store, err = w.newStore(system, binaries); return err },
		func() error { return w.store.start() },
		func() error { return w.makeRedises(system) },
		func() error { return w.makeNodes(system, binaries.Seqd, bizTypes, sparse) },
	)
	if err != nil {
		return w, err
	}
	for _, server := range w.allRedises() {
		if err := server.start(); err != nil {
			return w, err
		}
	}
	return w, named("replication and Sentinels", within(patience, w.settled))
}

// makeRedises prepares the servers of Redis, without the Sentinels.
func (w *world) makeRedises(system System) error {
	if system.NoRedis {
		return nil
	}
	for i, name := range []string{"r1", "r2", "r3"} {
		h, err := addHost(name, 21+i)
		if err != nil {
			return err
		}
		server, err := w.newRedis(h)
		if err != nil {
			return err
		}
		w.redises = append(w.redises, server)
	}
	return w.makeSecond()
}

// makeNodes prepares the hosts with a seqd and a Sentinel each.
func (w *world) makeNodes(system System, program, bizTypes, sparse string) error {
	for i, name := range nodes {
		h, err := addHost(name, 11+i)
		if err != nil {
			return err
		}
		if !system.NoRedis {
			sentinel, err := w.newSentinel(h)
			if err != nil {
				return err
			}
			w.sentinels = append(w.sentinels, sentinel)
		}
		n, err := newSeqd(w, h, linkPort+i, program, bizTypes)
		if err != nil {
			return err
		}
		if i == len(nodes)-1 { // it drops and fetches biz types all the time
			n.env = append(n.env, "SEQD_BIZTYPES="+sparse, "SEQD_LIVEBIZTYPES=6")
		}
		w.seqds = append(w.seqds, n)
	}
	return nil
}

// allRedises returns all servers of Redis in the order in which they are started.
func (w *world) allRedises() []*redisServer {
	all := slices.Concat(w.redises, w.sentinels)
	if w.second != nil {
		all = append(all, w.second)
	}
	return all
}

// makeSecond prepares the other Redis, a single server.
func (w *world) makeSecond() error {
	h, err := addHost("r4", 24)
	if err == nil {
		w.second, err = w.newServer(h, "redis", redisPort, []string{`save ""`, "protected-mode no", "maxmemory-policy noeviction"})
	}
	return err
}

// settled returns an error until the replicas and the Sentinels have found each other.
func (w *world) settled() error {
	for _, sentinel := range w.sentinels {
		master, err := sentinel.masterFields()
		if err != nil {
			return err
		}
		if master["num-slaves"] != fmt.Sprint(len(w.redises)-1) || master["num-other-sentinels"] != fmt.Sprint(len(w.sentinels)-1) || master["flags"] != "master" {
			return fmt.Errorf("the Sentinel on %s knows %s replicas and %s Sentinels of a %s", sentinel.host.name, master["num-slaves"], master["num-other-sentinels"], master["flags"])
		}
	}
	return nil
}

// primary returns the Redis that most Sentinels name as the primary.
func (w *world) primary() *redisServer {
	votes := map[*redisServer]int{}
	var best *redisServer
	for _, sentinel := range w.sentinels {
		master, err := sentinel.masterFields()
		if err != nil {
			continue
		}
		for _, server := range w.redises {
			if server.host.addr == master["ip"] {
				if votes[server]++; best == nil || votes[server] > votes[best] {
					best = server
				}
			}
		}
	}
	return best
}

// redisEnv returns the settings of a node for the Redis of the world.
func (w *world) redisEnv() []string {
	if len(w.sentinels) == 0 {
		return nil
	}
	var addrs []string
	for _, sentinel := range w.sentinels {
		addrs = append(addrs, sentinel.addr())
	}
	return []string{"SEQD_REDIS_ADDRS=" + strings.Join(addrs, ","), "SEQD_REDIS_MASTERNAME=" + masterName}
}

func (w *world) log(name string) string { return filepath.Join(w.logs, name+".log") }

// smallDisk mounts a small file system in memory, which can be filled.
func (w *world) smallDisk(name, size string) (string, error) {
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, named("mount "+dir, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
}

// filler is the file that fills a disk.
const filler = "filler"

// fill fills a disk.
func fill(dir string) error {
	file, err := os.Create(filepath.Join(dir, filler))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; chunk = chunk[:len(chunk)/2] {
		for err = nil; err == nil; {
			_, err = file.Write(chunk)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
	return nil
}

// clear removes the filler.
func clearDisk(dir string) error { return os.Remove(filepath.Join(dir, filler)) }
