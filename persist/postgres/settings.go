package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// leastVersion is the oldest supported version of PostgreSQL, as server_version_num.
const leastVersion = 13_00_00

// durable are the settings that keep an acknowledged write, the value that each must have, and what
// happens otherwise.
var durable = []struct{ name, value, otherwise string }{
	{"fsync", "on", "a crash of the machine loses acknowledged numbers"},
	{"full_page_writes", "on", "a crash of the machine can leave half-written pages"},
	{"data_sync_retry", "off", "a failed write to disk can be taken for a successful one"},
	{"zero_damaged_pages", "off", "damaged pages are replaced by empty ones, and counters vanish"},
	{"ignore_checksum_failure", "off", "damaged pages are read as if they were well"},
}

// safeNow is the condition that the settings in durable have their values.
var safeNow = func() string {
	var all []string
	for _, d := range durable {
		all = append(all, "current_setting('"+d.name+"') = '"+d.value+"'")
	}
	return strings.Join(all, " AND ")
}()

// settings are what a server says about the settings that acknowledged writes depend on, as the
// user of the store has them.
type settings struct {
	// version is server_version_num.
	version int
	// values are the settings in durable and those of replication, nil for one that the server does
	// not know.
	values map[string]*string
	// recovery is true on a standby, readOnly if transactions cannot write.
	recovery, readOnly bool
	// catalogLater is true if the search_path puts another schema before pg_catalog.
	catalogLater bool
	// standbys counts the servers that receive the log, inStep those of them that stream and that
	// commits wait for. hidden is true if this user may not see which those are.
	standbys, inStep int
	hidden           bool
}

// value returns a setting, "" for one that the server does not know.
func (s settings) value(name string) string {
	if v := s.values[name]; v != nil {
		return *v
	}
	return ""
}

// check returns why the server cannot be used: an error that wraps persist.ErrUnavailable if it
// takes no writes now, or a [sqlstore.Refused].
func (s settings) check(lossless bool) error {
	if s.version < leastVersion {
		return sqlstore.Refusef("the server has version %s, and seqd needs PostgreSQL 13 or newer", shownVersion(s.version))
	}
	switch {
	case s.recovery:
		return fmt.Errorf("%w: the server is a standby and takes no writes", persist.ErrUnavailable)
	case s.readOnly:
		return fmt.Errorf("%w: the server, the database or the user is read only (default_transaction_read_only)", persist.ErrUnavailable)
	}
	if err := s.unsafe(); err != nil || !lossless {
		return err
	}
	return s.lossy()
}

// unsafe returns a [sqlstore.Refused] that names the settings that can lose an acknowledged write.
func (s settings) unsafe() error {
	var bad []string
	for _, d := range durable {
		switch v := s.values[d.name]; {
		case v == nil:
			return sqlstore.Refusef("the server does not know the setting %s: it is not a PostgreSQL server that seqd can rely on", d.name)
		case *v != d.value:
			bad = append(bad, fmt.Sprintf("%s is %s: %s; set it to %s", d.name, *v, d.otherwise, d.value))
		}
	}
	// Without synchronous standbys every other value waits for the local disk.
	if v := s.value("synchronous_commit"); v == "off" {
		bad = append(bad, "synchronous_commit is off: a crash of the server loses acknowledged numbers; set it to on for the user, the database or the server")
	}
	if s.catalogLater {
		bad = append(bad, "search_path has pg_catalog behind another schema: functions there can take the place of those of the server; leave pg_catalog out")
	}
	if len(bad) > 0 {
		return sqlstore.Refused(strings.Join(bad, "; "))
	}
	return nil
}

// lossy returns why a failover can lose an acknowledged write.
func (s settings) lossy() error {
	const promised = "store.postgres.failover is lossless, but "
	commit, names := s.value("synchronous_commit"), s.value("synchronous_standby_names")
	switch {
	case strings.TrimSpace(names) == "":
		return sqlstore.Refused(promised + "synchronous_standby_names is empty, so commits wait for no standby; name one there, or set failover to lossy")
	case commit != "on" && commit != "remote_apply":
		return sqlstore.Refusef(promised+"synchronous_commit is %s, so commits do not wait for a standby's disk; set it to on or remote_apply", commit)
	case s.value("client_min_messages") == "error":
		return sqlstore.Refused(promised + "client_min_messages is error, which hides that a commit did not wait for a standby; set it to notice for the user, the database and the server")
	case s.inStep > 0:
		return nil
	case s.hidden:
		return sqlstore.Refused(promised + "this user may not see whether a standby streams; GRANT pg_read_all_stats TO it, or pg_monitor")
	case s.standbys == 0:
		return fmt.Errorf("%w: %sno standby is connected", persist.ErrUnavailable, promised)
	}
	return fmt.Errorf("%w: %sno connected standby (there are %d) has state streaming and sync_state sync or quorum in pg_stat_replication",
		persist.ErrUnavailable, promised, s.standbys)
}

// shownVersion turns server_version_num into what people call the version.
func shownVersion(num int) string {
	if num < 10_00_00 {
		return fmt.Sprintf("%d.%d.%d", num/10000, num/100%100, num%100)
	}
	return fmt.Sprintf("%d.%d", num/10000, num%10000)
}

// asked are the settings that readSettings reads, beside those in durable.
var asked = []string{"synchronous_commit", "synchronous_standby_names", "client_min_messages"}

// settingsQuery reads one row. current_setting, unlike pg_settings, reads only what is asked for,
// and returns NULL for a setting that the server does not know.
var settingsQuery = func() string {
	names := append([]string(nil), asked...)
	for _, d := range durable {
		names = append(names, d.name)
	}
	return "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', " +
		"current_schemas(true)::text !~ '^{(pg_temp_[0-9]+,)?pg_catalog[,}]', " +
		"(SELECT array_agg(n || '=' || current_setting(n, true)) FROM unnest(ARRAY['" + strings.Join(names, "','") + "']) AS n)"
}()

// standbysQuery needs the role pg_read_all_stats; without it state is NULL.
const standbysQuery = `SELECT count(*), count(*) FILTER (WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')), ` +
	`count(*) FILTER (WHERE state IS NULL) > 0 FROM pg_stat_replication`

// rower is a connection or a pool.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readSettings asks a server for its settings, and if it takes writes for its standbys.
func readSettings(ctx context.Context, conn rower, standbys bool) (s settings, err error) {
	var list []*string
	if err = conn.QueryRow(ctx, settingsQuery).Scan(&s.version, &s.recovery, &s.readOnly, &s.catalogLater, &list); err != nil {
		return s, err
	}
	s.values = make(map[string]*string)
	for _, pair := range list {
		if pair == nil { // the server does not know it
			continue
		}
		name, value, _ := strings.Cut(*pair, "=")
		s.values[name] = &value
	}
	if standbys && !s.recovery {
		err = conn.QueryRow(ctx, standbysQuery).Scan(&s.standbys, &s.inStep, &s.hidden)
	}
	return s, err
}

// settingsCheck checks the server behind each new connection of a pool, so that one that comes back
// with other settings is not used.
type settingsCheck struct{ lossless bool }

// conn returns why the server of a connection cannot be used. It costs one round trip, two if a
// failover is to lose nothing.
func (c settingsCheck) conn(ctx context.Context, conn *pgx.Conn) error {
	s, err := readSettings(ctx, conn, c.lossless)
	if err != nil {
		return err
	}
	return s.check(c.lossless)
}
