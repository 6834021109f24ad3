package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// settings are what a server says about the variables and states that acknowledged writes depend
// on, as the session of the store has them: by lower-case name, as SHOW VARIABLES and SHOW STATUS
// print them. One that the server does not know is missing.
type settings map[string]string

// read are the variables and states that are asked for.
var read = []string{
	"version", "innodb_flush_log_at_trx_commit", "innodb_doublewrite", "innodb_flush_method", "log_bin", "sync_binlog", "sql_log_bin", "binlog_format",
	"autocommit", "sql_mode", "transaction_isolation", "tx_isolation", "read_only", "super_read_only", "innodb_read_only", "transaction_read_only", "tx_read_only",
	"wsrep_on", "wsrep_sync_wait", "group_replication_group_name", "group_replication_consistency",
	"rpl_semi_sync_master_enabled", "rpl_semi_sync_master_timeout", "rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_master_wait_point",
	"rpl_semi_sync_source_enabled", "rpl_semi_sync_source_timeout", "rpl_semi_sync_source_wait_no_replica", "rpl_semi_sync_source_wait_point",
}

var readStatus = []string{
	"Innodb_redo_log_enabled", "wsrep_ready", "wsrep_cluster_status",
	"Rpl_semi_sync_master_status", "Rpl_semi_sync_master_clients", "Rpl_semi_sync_source_status", "Rpl_semi_sync_source_clients",
}

// first returns the first of some variables that the server knows, and its name.
func (s settings) first(names ...string) (name, value string) {
	for _, name := range names {
		if value, ok := s[name]; ok {
			return name, value
		}
	}
	return names[0], ""
}

// on reports whether a variable is on. One that the server does not know is not.
func (s settings) on(name string) bool {
	return strings.EqualFold(s[name], "ON") || s[name] == "1" || strings.EqualFold(s[name], "YES")
}

// mariaDB reports whether the server is MariaDB.
func (s settings) mariaDB() bool { return strings.Contains(strings.ToLower(s["version"]), "mariadb") }

// galera reports whether the server is a node of a Galera cluster.
func (s settings) galera() bool { return s.on("wsrep_on") }

// check returns why the server cannot be used: an error that wraps persist.ErrUnavailable if it
// takes no writes now, or a [sqlstore.Refused].
func (s settings) check(lossless bool) error {
	if err := s.checkVersion(); err != nil {
		return err
	}
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only", "transaction_read_only", "tx_read_only"} {
		// A user with enough rights could write to a replica in spite of read_only.
		if v := s[name]; v != "" && v != "0" && !strings.EqualFold(v, "OFF") {
			return fmt.Errorf("%w: the server takes no writes (%s is %s), as a replica does", persist.ErrUnavailable, name, v)
		}
	}
	if s.galera() && (!s.on("wsrep_ready") || !strings.EqualFold(s["wsrep_cluster_status"], "Primary")) {
		return fmt.Errorf("%w: the server is cut off from its Galera cluster (wsrep_ready is %s, wsrep_cluster_status is %s)",
			persist.ErrUnavailable, s["wsrep_ready"], s["wsrep_cluster_status"])
	}
	if err := s.unsafe(); err != nil || !lossless {
		return err
	}
	return s.lossy()
}

// The oldest supported versions.
var leastMySQL, leastMariaDB = [2]int{8, 0}, [2]int{10, 6}

// checkVersion refuses servers that are too old.
func (s settings) checkVersion() error {
	text := s["version"]
	product, least := "MySQL", leastMySQL
	if s.mariaDB() {
		product, least = "MariaDB", leastMariaDB
	}
	var have [2]int
	if n, _ := fmt.Sscanf(text, "%d.%d", &have[0], &have[1]); n != 2 || strings.Contains(text, "TiDB") {
		return sqlstore.Refusef("the server has version %.40q, which is neither of MySQL nor of MariaDB", text)
	}
	if have[0] < least[0] || have[0] == least[0] && have[1] < least[1] {
		return sqlstore.Refusef("the server is %s %s, and seqd needs MySQL 8.0 or MariaDB 10.6, or newer", product, text)
	}
	return nil
}

// rule is a variable that keeps an acknowledged write, or what is written, as it is.
type rule struct {
	name      string
	good      func(value string) bool
	otherwise string // what happens if the value is not good
	change    string
}

func oneOf(values ...string) func(string) bool {
	return func(value string) bool {
		for _, v := range values {
			if strings.EqualFold(v, value) {
				return true
			}
		}
		return false
	}
}

// rules returns what must hold on this server.
func (s settings) rules() []rule {
	isolation, _ := s.first("transaction_isolation", "tx_isolation")
	list := []rule{
		// MariaDB knows 3, which syncs even more often.
		{"innodb_flush_log_at_trx_commit", oneOf("1", "3"), "a crash of the machine loses acknowledged numbers", "set it to 1"},
		{"innodb_doublewrite", oneOf("ON", "1", "fast", "DETECT_AND_RECOVER"), "a crash of the machine can leave half-written pages", "set it to ON"},
		{"autocommit", oneOf("ON", "1"), "statements are not committed when they return", "set it to ON"},
		{"sql_mode", strict, "numbers that are too large are changed instead of refused", "add STRICT_TRANS_TABLES to it"},
		{isolation, func(v string) bool { return !strings.EqualFold(v, "READ-UNCOMMITTED") }, "changes are read that may be taken back", "set it to REPEATABLE-READ"},
	}
	if method, ok := s["innodb_flush_method"]; ok && strings.EqualFold(method, "nosync") {
		list = append(list, rule{"innodb_flush_method", oneOf(), "a crash of the machine loses acknowledged numbers", "leave it out"})
	}
	if s.on("log_bin") {
		list = append(list,
			rule{"sync_binlog", oneOf("1"), "after a crash of the machine the server takes back what its binary log lacks, acknowledged numbers too", "set it to 1"},
			rule{"sql_log_bin", oneOf("ON", "1", ""), "replicas do not get what is written", "set it to ON"})
		if format, ok := s["binlog_format"]; ok && strings.EqualFold(format, "STATEMENT") {
			list = append(list, rule{"binlog_format", oneOf(), "replicas write their own identity, so that a failover is not noticed", "set it to ROW"})
		}
	}
	if redo, ok := s["innodb_redo_log_enabled"]; ok && !strings.EqualFold(redo, "ON") {
		list = append(list, rule{"innodb_redo_log_enabled", oneOf(), "a crash of the server loses everything", "run ALTER INSTANCE ENABLE INNODB REDO_LOG"})
	}
	if s.galera() {
		list = append(list, rule{"wsrep_sync_wait", readsWait, "a node of the cluster answers from before what another one acknowledged", "set it to 1 or 3"})
	}
	return list
}

// strict reports whether the server refuses values that do not fit.
func strict(mode string) bool {
	mode = strings.ToUpper(mode)
	return strings.Contains(mode, "STRICT_TRANS_TABLES") || strings.Contains(mode, "STRICT_ALL_TABLES")
}

// readsWait reports whether reads wait until the node has what others committed: the bit 1.
func readsWait(value string) bool {
	n, err := strconv.Atoi(value)
	return err == nil && n&1 == 1
}

// unsafe returns a [sqlstore.Refused] that names the settings that can lose an acknowledged write.
func (s settings) unsafe() error {
	var bad []string
	for _, r := range s.rules() {
		value, known := s[r.name]
		switch {
		case !known && r.name != "sql_log_bin":
			return sqlstore.Refusef("the server does not know the variable %s: it is not a server that seqd can rely on", r.name)
		case !r.good(value):
			bad = append(bad, fmt.Sprintf("%s is %s: %s; %s", r.name, shown(value), r.otherwise, r.change))
		}
	}
	if len(bad) > 0 {
		return sqlstore.Refused(strings.Join(bad, "; "))
	}
	return nil
}

func shown(value string) string {
	if value == "" {
		return "empty"
	}
	return value
}

const promised = "store.mysql.failover is lossless, but "

// lossy returns why a failover can lose an acknowledged write.
func (s settings) lossy() error {
	switch {
	case s.galera():
		return nil // every node has certified the write before it is acknowledged
	case s["group_replication_group_name"] != "":
		// With EVENTUAL a new primary answers before it has applied what it received.
		if v := s["group_replication_consistency"]; strings.EqualFold(v, "EVENTUAL") {
			return sqlstore.Refused(promised + "group_replication_consistency is EVENTUAL, so a new primary answers before it has everything; set it to BEFORE_ON_PRIMARY_FAILOVER")
		}
		return nil
	}
	return s.semiSync()
}

// foreverMs is the longest time-out of semi-synchronous replication in MySQL, about 50 days.
const foreverMs = 1<<32 - 1

// semiSync returns why commits do not wait for a replica.
func (s settings) semiSync() error {
	enabled, on := s.first("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled")
	timeout, ms := s.first("rpl_semi_sync_source_timeout", "rpl_semi_sync_master_timeout")
	alone, waits := s.first("rpl_semi_sync_source_wait_no_replica", "rpl_semi_sync_master_wait_no_slave")
	point, when := s.first("rpl_semi_sync_source_wait_point", "rpl_semi_sync_master_wait_point")
	status, active := s.first("rpl_semi_sync_source_status", "rpl_semi_sync_master_status")
	clients, count := s.first("rpl_semi_sync_source_clients", "rpl_semi_sync_master_clients")
	n, _ := strconv.ParseUint(ms, 10, 64)
	isOn := oneOf("ON", "1")
	switch {
	case !s.on("log_bin") || !isOn(on):
		return sqlstore.Refusef(promised+"commits wait for no replica: the server is neither a node of Galera or group replication, nor has it log_bin and %s on; set it up so, or set failover to lossy", enabled)
	case n < foreverMs:
		return sqlstore.Refusef(promised+"%s is %s, and after so many ms commits do not wait any more; set it to %d", timeout, ms, uint64(foreverMs))
	case !isOn(waits):
		return sqlstore.Refusef(promised+"%s is %s, so commits do not wait if there is no replica; set it to ON", alone, shown(waits))
	case !strings.EqualFold(when, "AFTER_SYNC"):
		return sqlstore.Refusef(promised+"%s is %s, so others read what no replica has; set it to AFTER_SYNC", point, shown(when))
	case !isOn(active) || count == "0" || count == "":
		return fmt.Errorf("%w: %sno semi-synchronous replica is connected (%s is %s, %s is %s)", persist.ErrUnavailable, promised, status, shown(active), clients, shown(count))
	}
	return nil
}

// settingsQueries read rows of name and value. SHOW works on every server that is supported, needs
// no rights, and leaves out what the server does not know.
var settingsQueries = []string{
	"SHOW SESSION VARIABLES WHERE Variable_name IN ('" + strings.Join(read, "','") + "')",
	"SHOW GLOBAL STATUS WHERE Variable_name IN ('" + strings.Join(readStatus, "','") + "')",
}

// readSettings asks the server of a new connection for its settings.
func readSettings(ctx context.Context, conn driver.Conn) (settings, error) {
	asker, ok := conn.(driver.QueryerContext)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	s := make(settings)
	for _, query := range settingsQueries {
		rows, err := asker.QueryContext(ctx, query, nil)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(s.collect(rows), rows.Close()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// collect adds rows of name and value.
func (s settings) collect(rows driver.Rows) error {
	row := make([]driver.Value, 2)
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		s[strings.ToLower(text(row[0]))] = text(row[1])
	}
}

func text(v driver.Value) string {
	if raw, ok := v.([]byte); ok {
		return string(raw)
	}
	return fmt.Sprint(v)
}

// checked is a connector whose new connections are used only if the settings of the server are
// safe, so that a server that comes back with other settings is not used. A server that took over
// is put on record.
type checked struct {
	driver.Connector
	lossless bool
}

var _ driver.Connector = checked{}

// Connect connects and asks the server for its settings. It returns why the server cannot be used.
func (c checked) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s, err := readSettings(ctx, conn)
	if err == nil {
		err = s.check(c.lossless)
	}
	if err == nil {
		err = putOnRecord(ctx, conn, c.lossless)
	}
	if err != nil {
		_ = conn.Close() // err says more
		return nil, err
	}
	return conn, nil
}
