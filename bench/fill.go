package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.etcd.io/bbolt"
)

// A store with very many biz types is filled in two steps: seqd itself creates one by its API, and
// everything that it wrote for that one is then copied for the others. So the store has what seqd
// would have written, whatever that is, and is filled in seconds.

// template is the biz type that is copied. The names of the others are as long.
const template = "type000000"

// typeName returns the name of a biz type in a filled store.
func typeName(i int) string { return fmt.Sprintf("type%06d", i) }

// fromStore are the settings of a node that has no biz types in its configuration.
const fromStore = "SEQD_BIZTYPESFROM=store"

// createTemplate lets a node create the first biz type, and stops it.
func (s *servers) createTemplate(ctx context.Context, dir, path string, env ...string) error {
	n, err := s.startNodeIn(ctx, dir, path, "/readyz", append(env, fromStore)...)
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"start":%d}`, firstNumber)
	if _, err := send(ctx, http.DefaultClient, http.MethodPut, n.url+"/biz-types/"+template, body, http.StatusCreated); err != nil {
		return err
	}
	if err := n.awaitReady(ctx, "/readyz"); err != nil {
		return err
	}
	return n.stop()
}

// fillBolt fills a new bolt store in a folder with n biz types.
func (s *servers) fillBolt(ctx context.Context, dir, path string, n int) (err error) {
	if err := s.createTemplate(ctx, dir, path); err != nil {
		return err
	}
	db, err := bbolt.Open(filepath.Join(dir, "data", "seqd.db"), 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true, NoFreelistSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Sync(), db.Close()) }()
	var records []boltRecord
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(bucket []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(key, value []byte) error {
				if value != nil && bytes.Contains(key, []byte(template)) {
					records = append(records, boltRecord{string(bucket), string(key), bytes.Clone(value)})
				}
				return nil
			})
		})
	})
	for _, r := range records {
		err = errors.Join(err, r.copies(ctx, db, n))
	}
	return err
}

// boltRecord is a record of the template.
type boltRecord struct {
	bucket, key string
	value       []byte
}

// copies writes the record for the biz types from 1 to n−1.
func (r boltRecord) copies(ctx context.Context, db *bbolt.DB, n int) error {
	const together = 50_000
	e, err := parseEnvelope(r.value)
	if err != nil {
		return err
	}
	for from := 1; from < n; from += together {
		err := db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(r.bucket))
			b.FillPercent = 0.9 // keys come in order
			for i := from; i < min(from+together, n); i++ {
				if err := b.Put([]byte(strings.ReplaceAll(r.key, template, typeName(i))), e.renamed(typeName(i))); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// envelope is a record of a store that keeps bytes: see the envelope of package persist.
type envelope struct {
	Version int             `json:"v"`
	Sum     uint32          `json:"sum"`
	Model   json.RawMessage `json:"m"`
}

func parseEnvelope(record []byte) (e envelope, err error) {
	if err := json.Unmarshal(record, &e); err != nil {
		return e, fmt.Errorf("the record %q: %w", record, err)
	}
	return e, nil
}

// renamed returns the record with another name, and the checksum of that.
func (e envelope) renamed(name string) []byte {
	model := bytes.ReplaceAll(e.Model, []byte(template), []byte(name))
	return fmt.Appendf(nil, `{"v":%d,"sum":%d,"m":%s}`, e.Version, crc32.ChecksumIEEE(model), model)
}

// fillPostgres fills a new database with n biz types. env are the settings of a node on it.
func (s *servers) fillPostgres(ctx context.Context, database, path string, n int, env []string) (err error) {
	dir, err := s.folder()
	if err != nil {
		return err
	}
	if err := s.createTemplate(ctx, dir, path, env...); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.database(database))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	tables, err := columnsOf(ctx, conn)
	if err != nil {
		return err
	}
	for table, columns := range tables {
		statement := copyStatement(table, columns, n)
		if statement == "" {
			continue
		}
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
		// otherwise the server would do this during the measurement
		if _, err := conn.Exec(ctx, "VACUUM ANALYZE "+table); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "CHECKPOINT")
	return err
}

// pgColumn is a column of a table.
type pgColumn struct {
	name, kind string
	isKey      bool // it is part of the primary key
}

// columnsOf returns the columns of all tables.
func columnsOf(ctx context.Context, conn *pgx.Conn) (map[string][]pgColumn, error) {
	rows, err := conn.Query(ctx, `
		SELECT c.table_name, c.column_name, c.data_type, k.column_name IS NOT NULL
		FROM information_schema.columns c
		LEFT JOIN information_schema.table_constraints t
			ON t.table_schema = c.table_schema AND t.table_name = c.table_name AND t.constraint_type = 'PRIMARY KEY'
		LEFT JOIN information_schema.key_column_usage k
			ON k.constraint_schema = t.constraint_schema AND k.constraint_name = t.constraint_name AND k.column_name = c.column_name
		WHERE c.table_schema = 'public' AND c.is_generated = 'NEVER' ORDER BY 1, c.ordinal_position`)
	if err != nil {
		return nil, err
	}
	tables := make(map[string][]pgColumn)
	var table string
	var c pgColumn
	_, err = pgx.ForEachRow(rows, []any{&table, &c.name, &c.kind, &c.isKey}, func() error {
		tables[table] = append(tables[table], c)
		return nil
	})
	return tables, err
}

// copyStatement returns the statement that copies what a table has for the template, "" if its key
// has no names.
func copyStatement(table string, columns []pgColumn, n int) string {
	const name = "'type' || lpad(i::text, 6, '0')" // as typeName
	var into, values, where []string
	for _, c := range columns {
		value, found := c.name, ""
		switch c.kind {
		case "bytea":
			value = fmt.Sprintf("convert_to(replace(convert_from(%s, 'UTF8'), '%s', %s), 'UTF8')", c.name, template, name)
			found = fmt.Sprintf("position('%s'::bytea IN %s) > 0", template, c.name)
		case "text":
			value = fmt.Sprintf("replace(%s, '%s', %s)", c.name, template, name)
			found = fmt.Sprintf("position('%s' IN %s) > 0", template, c.name)
		}
		if c.isKey && found != "" {
			where = append(where, found)
		}
		into, values = append(into, c.name), append(values, value)
	}
	if len(where) == 0 {
		return ""
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s, generate_series(1, %d) AS i WHERE %s",
		table, strings.Join(into, ", "), strings.Join(values, ", "), table, n-1, strings.Join(where, " OR "))
}
