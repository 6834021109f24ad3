package store

import (
	"context"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mysql"
)

// BenchmarkMySQLAllocate compares Allocate with the least that takes a number from MySQL durably: a
// bare UPDATE with LAST_INSERT_ID by the client library, in one round trip.
func BenchmarkMySQLAllocate(b *testing.B) {
	server := testenv.StartMySQL(b)
	dsn := server.NewDSN()
	s, err := mysql.Open(b.Context(), mysql.Options{DSN: dsn, Options: sqlOptions()})
	must(b, err)
	b.Cleanup(func() { _ = s.Close() })
	must(b, s.Counters().Create(b.Context(), persist.Counter{BizTag: "order", Step: 10}))
	db := connectMySQL(b, dsn+"?interpolateParams=true")
	execMySQL(b, db, "CREATE TABLE bare (name VARCHAR(64) PRIMARY KEY, highest BIGINT NOT NULL)", "INSERT INTO bare VALUES ('order', 0)")
	bare := func(ctx context.Context) error {
		result, err := db.ExecContext(ctx, "UPDATE bare SET highest = LAST_INSERT_ID(highest + ?) WHERE name = ?", 10, "order")
		if err == nil {
			_, err = result.LastInsertId()
		}
		return err
	}
	req := persist.Request{BizTag: "order", Size: 10, Step: 10, FailoverGap: 1_000_000}
	compare(b, bare, func(ctx context.Context) error {
		_, err := s.Counters().Allocate(ctx, req)
		return err
	})
}
