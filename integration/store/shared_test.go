package store

import (
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
)

// These run a long test with one store that two nodes have opened.

func twoOnPostgres(t *testing.T, test func(t *testing.T, one, two persist.Store)) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	emptyPostgres(server)
	test(t, openPostgres(t, server.URL(), nil), openPostgres(t, server.URL(), nil))
}

func twoOnMySQL(t *testing.T, test func(t *testing.T, one, two persist.Store)) {
	longtest.Only(t)
	t.Parallel()
	o := newMySQL(t, testenv.StartMySQL(t))
	test(t, openMySQL(t, o), openMySQL(t, o))
}

func twoOnMongo(t *testing.T, test func(t *testing.T, one, two persist.Store)) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartMongo(t)
	database := "seqd_" + testenv.Unique()
	node := func() persist.Store {
		return open(t, server.URI(), func(o *mongo.Options) { o.Database = database })
	}
	test(t, node(), node())
}
