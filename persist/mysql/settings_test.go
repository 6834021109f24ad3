package mysql

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// mariaDB and mySQL return what servers of these products say that can be used, with changes:
// name=value sets a value, -name removes it.
func mariaDB(changes ...string) settings {
	return changed(settings{
		"version": "10.11.6-MariaDB-0+deb12u1", "innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON", "innodb_flush_method": "O_DIRECT",
		"log_bin": "OFF", "sync_binlog": "0", "sql_log_bin": "ON", "autocommit": "ON", "sql_mode": "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION",
		"tx_isolation": "REPEATABLE-READ", "read_only": "OFF", "tx_read_only": "OFF", "wsrep_on": "OFF", "wsrep_sync_wait": "0",
		"rpl_semi_sync_master_enabled": "OFF", "rpl_semi_sync_master_timeout": "10000", "rpl_semi_sync_master_wait_no_slave": "ON",
		"rpl_semi_sync_master_wait_point": "AFTER_COMMIT", "rpl_semi_sync_master_status": "OFF", "rpl_semi_sync_master_clients": "0",
	}, changes)
}

func mySQL(changes ...string) settings {
	return changed(settings{
		"version": "8.0.36", "innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON", "innodb_flush_method": "fsync",
		"log_bin": "ON", "sync_binlog": "1", "sql_log_bin": "ON", "autocommit": "ON", "sql_mode": "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES",
		"transaction_isolation": "REPEATABLE-READ", "read_only": "OFF", "super_read_only": "OFF", "transaction_read_only": "OFF",
		"innodb_redo_log_enabled": "ON",
	}, changes)
}

func changed(s settings, changes []string) settings {
	s = maps.Clone(s)
	for _, change := range changes {
		if name, gone := strings.CutPrefix(change, "-"); gone {
			delete(s, name)
			continue
		}
		name, value, _ := strings.Cut(change, "=")
		s[name] = value
	}
	return s
}

func TestSettings(t *testing.T) {
	semiSync := []string{
		"rpl_semi_sync_source_enabled=ON", "rpl_semi_sync_source_timeout=4294967295", "rpl_semi_sync_source_wait_no_replica=ON",
		"rpl_semi_sync_source_wait_point=AFTER_SYNC", "rpl_semi_sync_source_status=ON", "rpl_semi_sync_source_clients=1",
	}
	but := func(change string) settings { return mySQL(append(semiSync[:len(semiSync):len(semiSync)], change)...) }
	galera := []string{"wsrep_on=ON", "wsrep_sync_wait=1", "wsrep_ready=ON", "wsrep_cluster_status=Primary"}
	const lossless = true
	for name, test := range map[string]struct {
		settings settings
		lossless bool
		refused  string // "" for a server that can be used
		away     bool   // it can pass
	}{
		"MariaDB":                     {mariaDB(), false, "", false},
		"MySQL":                       {mySQL(), false, "", false},
		"MySQL 8.4":                   {mySQL("version=8.4.0"), false, "", false},
		"MariaDB with a binary log":   {mariaDB("log_bin=ON", "sync_binlog=1"), false, "", false},
		"more syncs":                  {mariaDB("innodb_flush_log_at_trx_commit=3"), false, "", false},
		"late syncs":                  {mySQL("innodb_flush_log_at_trx_commit=2"), false, "innodb_flush_log_at_trx_commit is 2: a crash of the machine loses acknowledged numbers; set it to 1", false},
		"no syncs":                    {mariaDB("innodb_flush_log_at_trx_commit=0"), false, "innodb_flush_log_at_trx_commit is 0", false},
		"a late binary log":           {mySQL("sync_binlog=0"), false, "sync_binlog is 0", false},
		"MariaDB's late binary log":   {mariaDB("log_bin=ON"), false, "sync_binlog is 0", false},
		"not in the binary log":       {mySQL("sql_log_bin=OFF"), false, "sql_log_bin is OFF", false},
		"half pages":                  {mySQL("innodb_doublewrite=OFF"), false, "innodb_doublewrite is OFF", false},
		"half pages, found":           {mySQL("innodb_doublewrite=DETECT_ONLY"), false, "innodb_doublewrite is DETECT_ONLY", false},
		"half pages, mended":          {mySQL("innodb_doublewrite=DETECT_AND_RECOVER"), false, "", false},
		"nosync":                      {mariaDB("innodb_flush_method=nosync"), false, "innodb_flush_method is nosync", false},
		"no redo log":                 {mySQL("innodb_redo_log_enabled=OFF"), false, "ALTER INSTANCE ENABLE INNODB REDO_LOG", false},
		"no autocommit":               {mySQL("autocommit=OFF"), false, "autocommit is OFF", false},
		"lenient":                     {mySQL("sql_mode="), false, "sql_mode is empty", false},
		"dirty reads":                 {mariaDB("tx_isolation=READ-UNCOMMITTED"), false, "tx_isolation is READ-UNCOMMITTED", false},
		"two at once":                 {mySQL("sync_binlog=0", "innodb_flush_log_at_trx_commit=2"), false, "set it to 1; sync_binlog is 0", false},
		"another product":             {mySQL("-innodb_flush_log_at_trx_commit"), false, "does not know the variable innodb_flush_log_at_trx_commit", false},
		"TiDB":                        {mySQL("version=8.0.11-TiDB-v7.5.0"), false, "neither of MySQL nor of MariaDB", false},
		"nonsense":                    {mySQL("version=x"), false, "neither of MySQL nor of MariaDB", false},
		"MySQL 5.7":                   {mySQL("version=5.7.44-log"), false, "MySQL 5.7.44-log, and seqd needs MySQL 8.0 or MariaDB 10.6", false},
		"MariaDB 10.5":                {mariaDB("version=10.5.23-MariaDB"), false, "MariaDB 10.5.23-MariaDB", false},
		"MariaDB 10.6":                {mariaDB("version=10.6.0-MariaDB"), false, "", false},
		"a replica":                   {mySQL("read_only=ON"), false, "read_only is ON", true},
		"a strict replica":            {mySQL("super_read_only=ON"), false, "super_read_only is ON", true},
		"a replica of MariaDB 12":     {mariaDB("read_only=NO_LOCK_NO_ADMIN"), false, "read_only is NO_LOCK", true},
		"an unsafe replica":           {mySQL("read_only=ON", "sync_binlog=0"), false, "read_only is ON", true},
		"read-only sessions":          {mySQL("transaction_read_only=ON"), false, "transaction_read_only is ON", true},
		"identities of replicas":      {mySQL("binlog_format=STATEMENT"), false, "binlog_format is STATEMENT", false},
		"rows":                        {mySQL("binlog_format=MIXED"), false, "", false},
		"Galera":                      {mariaDB(galera...), false, "", false},
		"Galera, old reads":           {mariaDB(append(galera, "wsrep_sync_wait=0")...), false, "wsrep_sync_wait is 0", false},
		"Galera, cut off":             {mariaDB(append(galera, "wsrep_cluster_status=non-Primary")...), false, "cut off from its Galera cluster", true},
		"Galera, joining":             {mariaDB(append(galera, "wsrep_ready=OFF")...), false, "wsrep_ready is OFF", true},
		"lossless, Galera":            {mariaDB(galera...), lossless, "", false},
		"lossless, group":             {mySQL("group_replication_group_name=x", "group_replication_consistency=BEFORE_ON_PRIMARY_FAILOVER"), lossless, "", false},
		"lossless, group, eventual":   {mySQL("group_replication_group_name=x", "group_replication_consistency=EVENTUAL"), lossless, "group_replication_consistency is EVENTUAL", false},
		"lossless, one server":        {mariaDB(), lossless, "neither a node of Galera", false},
		"lossless, one MySQL":         {mySQL(), lossless, "rpl_semi_sync_source_enabled on", false},
		"lossless, semi-sync":         {mySQL(semiSync...), lossless, "", false},
		"lossless, falls back":        {but("rpl_semi_sync_source_timeout=10000"), lossless, "rpl_semi_sync_source_timeout is 10000", false},
		"lossless, alone":             {but("rpl_semi_sync_source_wait_no_replica=OFF"), lossless, "rpl_semi_sync_source_wait_no_replica is OFF", false},
		"lossless, after commit":      {but("rpl_semi_sync_source_wait_point=AFTER_COMMIT"), lossless, "rpl_semi_sync_source_wait_point is AFTER_COMMIT", false},
		"lossless, no replica":        {but("rpl_semi_sync_source_clients=0"), lossless, "no semi-synchronous replica is connected", true},
		"lossless, fell back":         {but("rpl_semi_sync_source_status=OFF"), lossless, "no semi-synchronous replica is connected", true},
		"lossless, late syncs":        {but("sync_binlog=0"), lossless, "sync_binlog is 0", false},
		"lossless, MariaDB fell back": {mariaDB("log_bin=ON", "sync_binlog=1", "rpl_semi_sync_master_enabled=ON"), lossless, "rpl_semi_sync_master_timeout is 10000", false},
	} {
		err := test.settings.check(test.lossless)
		if test.refused == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		_, refused := errors.AsType[sqlstore.Refused](err)
		if err == nil || !strings.Contains(err.Error(), test.refused) || errors.Is(err, persist.ErrUnavailable) != test.away || refused == test.away {
			t.Errorf("%s: %v (%T), want one with %q, away %t", name, err, err, test.refused, test.away)
		}
	}
}
