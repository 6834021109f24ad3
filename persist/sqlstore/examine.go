package sqlstore

import (
	"context"
	"errors"
	"strings"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
)

// inspected is a store of a driver, which says what its server is like.
type inspected interface {
	Inspect(ctx context.Context) (Server, error)
}

// Examine implements [driver.Settings].
func (s *Settings) Examine(ctx context.Context, e driver.Examination) (readable bool) {
	if e.Err != nil {
		e.Add(driver.Fail, e.Key, "start the server, or correct the address, the database, the user and the password", "%s", strings.TrimPrefix(e.Err.Error(), e.Key+": "))
		return false
	}
	server, err := e.Store.(inspected).Inspect(ctx)
	if err != nil {
		e.Add(driver.Fail, e.Key, "", "the server cannot be asked about itself: %v", err)
		return false
	}
	judge{e, s, server}.all(e.Nodes(ctx))
	return server.Schema > 0 && !errors.Is(server.Refused, persist.ErrUnavailable)
}

// judge reports what is wrong with a server.
type judge struct {
	e     driver.Examination
	named *Settings
	s     Server
}

// all judges everything. nodes is how many nodes run on the store.
func (j judge) all(nodes int) {
	j.server()
	j.schema()
	j.rights()
	j.connections(nodes)
	j.failover()
}

// server judges the answers and the settings.
func (j judge) server() {
	j.e.Answers(j.s.Product, j.s.Version, j.s.Offset, j.s.RoundTrip)
	if j.s.Refused != nil {
		j.e.Add(driver.Fail, j.e.Section, "", "seqd does not use it as it is: %v", j.s.Refused)
	} else {
		j.e.OK(j.e.Section, "what it acknowledges is kept: %s; whether its disk keeps what it says it keeps cannot be told", strings.Join(j.s.Settings, ", "))
	}
	if j.s.Plain {
		j.e.Add(driver.Info, j.e.Key, "turn TLS on, unless the network is trusted", "the connection is not encrypted")
	}
	switch {
	case j.s.Timeout == 0:
		j.e.Add(driver.Warn, j.e.Section+".timeout", "set it for the user, to store's timeout ("+j.named.Timeout.String()+")",
			"statements have no bound in the server: one that hangs holds its locks although nobody waits for it")
	default:
		j.e.OK(j.e.Section+".timeout", "the server ends statements after %s", j.s.Timeout)
	}
}

// manyDead is how many dead rows a table may have for each live one, beside leastDead.
const (
	manyDead  = 20
	leastDead = 100_000
)

// schema judges the tables.
func (j judge) schema() {
	switch {
	case j.s.Schema == 0:
		j.e.Add(driver.Info, j.e.Section, "if numbers were issued before, this is the wrong database", "it has no tables yet: the next seqd that starts creates them")
		return
	case j.s.Schema < j.s.Known:
		j.e.Add(driver.Info, j.e.Section, "", "the tables have schema version %d; the next seqd that starts upgrades them to %d", j.s.Schema, j.s.Known)
	default:
		j.e.OK(j.e.Section, "the tables have schema version %d and take %d MiB", j.s.Schema, j.s.Bytes>>20)
	}
	for _, unfit := range j.s.Unfit {
		j.e.Add(driver.Fail, j.e.Section, "", "%s", unfit)
	}
	if j.s.Dead > leastDead && j.s.Dead > manyDead*j.s.Live {
		j.e.Add(driver.Warn, j.e.Section, "look for a transaction that never ends, and at autovacuum",
			"%d rows wait to be removed, and %d are in use: the tables grow and become slow", j.s.Dead, j.s.Live)
	}
}

// rights judges the user.
func (j judge) rights() {
	if j.s.Mighty {
		j.e.Add(driver.Warn, j.e.Key, "use one of its own, with rights on its tables only; docs/STORES.md has the statements", "the user %s has rights over the whole server", j.s.User)
	}
	if len(j.s.Missing) > 0 {
		j.e.Add(driver.Fail, j.e.Key, "grant them; docs/STORES.md has the statements", "the user %s lacks rights: %s", j.s.User, strings.Join(j.s.Missing, ", "))
		return
	}
	j.e.OK(j.e.Key, "the user %s has the rights it needs", j.s.User)
}

// connections compares what nodes may open with what is left.
func (j judge) connections(nodes int) {
	key := j.e.Section + ".maxConnections"
	if j.s.Pooler {
		j.e.OK(key, "a pooler such as pgbouncer is between: it decides how many connections there are")
		return
	}
	wanted := int64(nodes * j.named.MaxConnections)
	switch {
	case wanted > j.s.Most:
		j.e.Add(driver.Warn, key, "lower it, or raise the limit of the user, the database or the server (max_connections)", "%d nodes may open %d connections, and the server allows %d in all", nodes, wanted, j.s.Most)
	case j.s.Open*10 > j.s.Most*9:
		j.e.Add(driver.Warn, key, "raise max_connections in the server, or use a pooler", "%d of %d connections are open", j.s.Open, j.s.Most)
	default:
		j.e.OK(key, "%d nodes may open %d of the %d connections that the server allows; %d are open now", nodes, wanted, j.s.Most, j.s.Open)
	}
}

// failover judges what a failover can lose, and whether one is to be confirmed.
func (j judge) failover() {
	key := j.e.Section + ".failover"
	known := strings.Join(append(append([]string(nil), j.s.Standbys...), nonEmpty(j.s.Replication)...), "; ")
	if known == "" {
		known = "no standby is connected"
	}
	switch {
	case strings.HasPrefix(j.s.Fence.Confirmed, Lossless):
		j.e.Add(driver.Fail, key, "set it to lossless; or stop every node, and run seqd failover --confirm with lossy",
			"lossy, and other nodes rely on lossless: a node with lossy writes nothing")
	case j.s.Fence.FailedOver():
		j.e.Add(driver.Fail, key, "raise what may be missing, then run seqd failover --confirm; see docs/operations/failover.md",
			"the store has failed over and nobody has confirmed that (now %s, confirmed %s): it may have lost counters, and none is created", j.s.Fence.Current, j.s.Fence.Confirmed)
	case j.named.Failover == Lossless:
		j.e.OK(key, "lossless: commits wait for a standby. %s", known)
	case j.s.Fence.Current != "":
		j.e.OK(key, "lossy: after a failover counters continue above a gap, and none is created until seqd failover --confirm. The server is %s. %s", j.s.Fence.Current, known)
	default:
		j.e.OK(key, "lossy. %s", known)
	}
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}
