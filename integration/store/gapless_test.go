package store

import (
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/strategy/gapless/gaplesstest"
)

// The strategy gapless accounts for every number on every store that nodes share.

func TestGaplessOnPostgres(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	gaplesstest.Run(t, func(t *testing.T) (one, two persist.Store) {
		emptyPostgres(server)
		return openPostgres(t, server.URL(), nil), openPostgres(t, server.URL(), nil)
	})
}

func TestGaplessOnMySQL(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartMySQL(t)
	gaplesstest.Run(t, func(t *testing.T) (one, two persist.Store) {
		o := newMySQL(t, server)
		return openMySQL(t, o), openMySQL(t, o)
	})
}

func TestGaplessOnMongo(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartMongo(t)
	gaplesstest.Run(t, func(t *testing.T) (one, two persist.Store) {
		database := "seqd_" + testenv.Unique()
		node := func() persist.Store {
			return open(t, server.URI(), func(o *mongo.Options) { o.Database = database })
		}
		return node(), node()
	})
}
