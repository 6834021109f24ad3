package chaos

import (
	"context"
	"fmt"
	"os/exec"
)

// store is what the nodes of a world share.
type store interface {
	// start starts the servers, and returns when nodes can use them.
	start() error
	// addr is where the links of the nodes lead to.
	addr() string
	// env returns the settings of a node that reaches the store at an address.
	env(addr string) []string
	// server returns the server with a role (primary or standby, or loneStore if there is only
	// one).
	server(role string) *storeServer
	// backup copies everything in the store while nothing writes to it. The result replaces the
	// content of the store by the copy while no node runs.
	backup(ctx context.Context) (putBack func(context.Context) error, err error)
	// counters returns the maxima of all counters.
	counters(ctx context.Context) (map[string]int64, error)
}

// replicated is a store with a standby, which can take over.
type replicated interface {
	store
	// failOver makes the standby the primary.
	failOver() error
	// rebuild makes a new standby where the former primary was.
	rebuild() error
	// lag keeps the standby from receiving anything.
	lag() rule
}

var (
	_ store      = (*mongoStore)(nil)
	_ replicated = (*postgres)(nil)
	_ replicated = (*mariadb)(nil)
)

// Roles of the servers of a store.
const (
	primaryRole = "primary"
	standbyRole = "standby"
	// loneStore is the host of a store with one server, and stands for its role as well.
	loneStore = "m"
)

// newStore creates the hosts of a store, or the connection to a server outside the laboratory.
func (w *world) newStore(system System, binaries Binaries) (store, error) {
	switch {
	case system.foreign():
		addr, err := forwardIn()
		return &mongoStore{at: addr}, err
	case system.Store == Postgres:
		return newPostgres(w, system.Lossy)
	case system.Store == MySQL:
		return newMariaDB(w, system.Lossy)
	}
	return newMongoStore(w, binaries.StandIn)
}

// storeServer is a server process of a store. Its data is on a small disk of its own.
type storeServer struct {
	host    *host
	disk    string
	log     string
	command func() *exec.Cmd
	ready   func() error // returns an error until the server answers
	// sluggish means that the server looks for space only once a minute after its disk was full.
	sluggish bool
	process  *process // of its last start
}

// newStoreServer creates the host and the disk of a server.
func newStoreServer(w *world, name string, number int, size string) (s *storeServer, err error) {
	s = &storeServer{log: w.log(name + "-store")}
	return s, inOrder(
		func() (err error) { s.host, err = addHost(name, number); return err },
		func() (err error) { s.disk, err = w.smallDisk(name+"-data", size); return err },
	)
}

// addr returns the server's address.
func (s *storeServer) addr(port int) string { return fmt.Sprintf("%s:%d", s.host.addr, port) }

// start starts the process and waits until it answers.
func (s *storeServer) start() (err error) {
	if s.process, err = startProcess(s.command(), s.log, nil); err != nil {
		return err
	}
	return named("start the store on "+s.host.name, within(patience, func() error {
		if !s.process.alive() {
			return fmt.Errorf("it has ended: %w", s.process.err)
		}
		return s.ready()
	}))
}

// revive starts a server whose disk was full, if it has ended or would take long to go on.
func (s *storeServer) revive() error {
	if s.process.alive() && !s.sluggish {
		return nil
	}
	s.process.kill()
	return s.start()
}
