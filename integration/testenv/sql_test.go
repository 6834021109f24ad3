package testenv_test

import (
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
)

func TestPostgresIsDurable(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgres(t)
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		must.Equal(t, p.Query("SHOW "+setting), "on", "%s", setting)
	}
	must.Equal(t, p.Query("SELECT rolsuper FROM pg_roles WHERE rolname = 'seqd'"), "f", "the owner of the database is a superuser")
}

func TestMariaDBIsDurable(t *testing.T) {
	t.Parallel()
	m := testenv.StartMariaDB(t)
	must.Equal(t, m.Query("SELECT @@innodb_flush_log_at_trx_commit"), "1", "innodb_flush_log_at_trx_commit")
	if got := m.Query("SELECT @@innodb_flush_method"); got != "fsync" && got != "O_DIRECT" {
		t.Errorf("innodb_flush_method is %s", got)
	}
}
