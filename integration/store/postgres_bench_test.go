package store

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/persist"
)

// BenchmarkAllocate compares Allocate with the least that takes a number from PostgreSQL durably: a
// bare UPDATE … RETURNING by pgx with its defaults, straight to the server. What stands behind
// pgbouncer is compared with the same, sent as pgbouncer needs it.
func BenchmarkAllocate(b *testing.B) {
	server := testenv.StartPostgres(b)
	bouncer := testenv.StartPgbouncer(b, server.Addr())
	for _, way := range []struct{ name, url, bare string }{
		{"direct", server.URL(), server.URL()},
		{"pgbouncer", bouncer.URL(), bouncer.URL() + "&default_query_exec_mode=exec"},
	} {
		dropTables(server)
		s := openPostgres(b, way.url, nil)
		if err := s.Counters().Create(b.Context(), persist.Counter{BizTag: "order", Step: 10}); err != nil {
			b.Fatal(err)
		}
		req := persist.Request{BizTag: "order", Size: 10, Step: 10}
		bare := barePool(b, server, way.bare)
		b.Run(way.name, func(b *testing.B) {
			compare(b, bare, func(ctx context.Context) error {
				_, err := s.Counters().Allocate(ctx, req)
				return err
			})
		})
	}
}

// compare runs two functions in turn, so that both see the same load of the machine, and reports
// the median times.
func compare(b *testing.B, bare, allocate func(context.Context) error) {
	b.Helper()
	var times [2][]float64
	for b.Loop() {
		for i, take := range []func(context.Context) error{bare, allocate} {
			begin := time.Now()
			if err := take(b.Context()); err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], float64(time.Since(begin).Nanoseconds())/1000)
		}
	}
	median := func(of []float64) float64 { slices.Sort(of); return of[len(of)/2] }
	b.ReportMetric(median(times[0]), "bare-µs")
	b.ReportMetric(median(times[1]), "allocate-µs")
	b.ReportMetric(median(times[1])/median(times[0]), "ratio")
}

// barePool returns a function that takes ten numbers from a table of its own.
func barePool(b *testing.B, server *testenv.Postgres, url string) func(context.Context) error {
	b.Helper()
	server.Query("DROP TABLE IF EXISTS bare; CREATE TABLE bare (name text PRIMARY KEY, highest bigint NOT NULL) WITH (fillfactor = 50); " +
		"INSERT INTO bare VALUES ('order', 0); GRANT ALL ON bare TO PUBLIC")
	pool, err := pgxpool.New(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return func(ctx context.Context) error {
		var highest int64
		return pool.QueryRow(ctx, "UPDATE bare SET highest = highest + $1 WHERE name = $2 RETURNING highest", 10, "order").Scan(&highest)
	}
}
