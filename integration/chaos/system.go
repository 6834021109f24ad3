package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
)

// The stores that a system can have.
const (
	Mongo    = "mongo" // the stand-in, or a server outside the laboratory
	Postgres = "postgres"
	MySQL    = "mysql"
)

// Stores are all of them, the default first.
var Stores = []string{Mongo, Postgres, MySQL}

// System says what a run consists of. The zero value is MongoDB and Redis.
type System struct {
	Store string // one of Stores; empty for the first
	// NoRedis leaves Redis out: the store orders the numbers of strict biz types.
	NoRedis bool
	// Lossy makes the standby of the store asynchronous, so that a failover loses what was
	// acknowledged. Only for Postgres.
	Lossy bool
}

// NewSystem returns a system by the names of its store, of its Redis (sentinel or none) and of what
// a failover may lose (lossless or lossy).
func NewSystem(store, redis, failover string) (System, error) {
	s := System{Store: store, NoRedis: redis == "none", Lossy: failover == "lossy"}
	switch {
	case !slices.Contains(Stores, store):
		return s, fmt.Errorf("unknown store %q; the stores are %s", store, strings.Join(Stores, ", "))
	case redis != "sentinel" && redis != "none":
		return s, fmt.Errorf("unknown Redis %q; it is sentinel or none", redis)
	case failover != "lossless" && failover != "lossy":
		return s, fmt.Errorf("unknown failover %q; it is lossless or lossy", failover)
	case s.Lossy && store != Postgres:
		return s, errors.New("only postgres can be lossy: the laboratory has no asynchronous replica of MySQL")
	}
	return s, nil
}

// load returns what the load has to know of the system.
func (s System) load() load.Options { return load.Options{NoRedis: s.NoRedis, Lossy: s.Lossy} }

// String names what the nodes share.
func (s System) String() string {
	text := s.Store
	if s.mongo() {
		text = Mongo
	}
	if s.Lossy {
		text += " with an asynchronous standby"
	} else if s.has(standby) {
		text += " with a synchronous standby"
	}
	if s.NoRedis {
		text += ", without Redis"
	}
	return text
}

// need is what a class of faults needs.
type need int

const (
	nothing   need = iota
	someRedis      // Redis and its Sentinels
	ownStore       // a store inside the laboratory
	standby        // a store with a standby
)

// has reports whether the system has what a class needs.
func (s System) has(n need) bool {
	switch n {
	case someRedis:
		return !s.NoRedis
	case ownStore:
		return !s.foreign()
	case standby:
		return s.Store == Postgres || s.Store == MySQL
	}
	return true
}

// registryLag is how much longer new machine IDs of snowflake wait if they are in a store that may
// lose writes (docs/SNOWFLAKE.md).
const registryLag = time.Minute

// lag returns how much longer nodes may take to be ready because of that.
func (s System) lag() time.Duration {
	if s.Lossy {
		return registryLag
	}
	return 0
}

// foreign reports whether the store is a server outside the laboratory.
func (s System) foreign() bool { return s.mongo() && Foreign() }

func (s System) mongo() bool { return s.Store == Mongo || s.Store == "" }

// classes returns the kinds of faults that the system can have.
func (s System) classes() (all []class) {
	for _, c := range classes {
		if !s.has(c.needs) {
			continue
		}
		c.marks.Redis = c.marks.Redis && !s.NoRedis
		switch {
		case c.servers && s.has(standby):
			c.targets = storeRoles
		case c.servers:
			c.targets = []string{loneStore}
		case s.Lossy && c.name == "store-failover":
			c.marks.StoreLost, c.marks.LosesKeys = true, s.NoRedis
		case s.NoRedis && c.name == "isolate-host":
			c.targets = nodes
		case s.NoRedis && c.name == "restore":
			c.ways = []string{stopped, killed}
			c.marks.LosesKeys = true // answers are kept in the store
		}
		all = append(all, c)
	}
	return all
}
