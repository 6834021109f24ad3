package imports

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Sources that can be read.
const (
	leaf   = "leaf"
	tinyid = "tinyid"
)

// timeout bounds one reading.
const timeout = 30 * time.Second

// database reads the tables of Leaf or Tinyid. It only reads.
type database struct {
	source string
	db     *sql.DB
}

// Errors about a DSN. They do not show it, because it has a password.
var (
	errDSN      = errors.New("the DSN cannot be read; want user:password@tcp(host:3306)/database")
	errDatabase = errors.New("the DSN names no database; want user:password@tcp(host:3306)/database")
)

// open prepares to read. It does not connect.
func open(source, dsn string) (*database, error) {
	cfg, err := mysql.ParseDSN(dsn)
	switch {
	case err != nil:
		return nil, errDSN
	case cfg.DBName == "":
		return nil, errDatabase
	}
	cfg.Logger = &mysql.NopLogger{} // errors are returned
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, errDSN
	}
	return &database{source: source, db: sql.OpenDB(connector)}, nil
}

// Close ends the connections.
func (d *database) Close() error { return d.db.Close() }

// Read implements [reader]. Each table is read by one statement, so its rows belong together.
func (d *database) Read(ctx context.Context) (t reading, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if d.source == leaf {
		t.Rows, err = d.rows(ctx, "SELECT biz_tag, max_id, step, 1, 0 FROM leaf_alloc ORDER BY biz_tag")
	} else {
		t.Rows, err = d.rows(ctx, "SELECT biz_type, max_id, step, delta, remainder FROM tiny_id_info ORDER BY biz_type")
	}
	if err == nil && d.source == tinyid {
		t.Grants, err = d.grants(ctx)
		if server, ok := errors.AsType[*mysql.MySQLError](err); ok && server.Number == errNoTable {
			t.Warnings, err = append(t.Warnings, "there is no table tiny_id_token, so no tokens are imported"), nil
		}
	}
	if err != nil {
		return reading{}, explain(err)
	}
	var readOnly bool
	if err := d.db.QueryRowContext(ctx, "SELECT @@global.read_only").Scan(&readOnly); err == nil && readOnly {
		t.Warnings = append(t.Warnings, "the database server is read only: if it is a replica, it may lack the last segments; read the primary")
	}
	return t, nil
}

// rows reads the counters.
func (d *database) rows(ctx context.Context, query string) (list []counterRow, err error) {
	rows, err := d.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var row counterRow
		var maxID, step, delta, remainder sql.NullInt64
		if err := rows.Scan(&row.Name, &maxID, &step, &delta, &remainder); err != nil {
			return nil, err
		}
		row.MaxID, row.Valid, row.Step, row.Delta, row.Remainder = maxID.Int64, maxID.Valid, step.Int64, 1, remainder.Int64
		if delta.Valid {
			row.Delta = delta.Int64
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// grants reads the tokens of Tinyid.
func (d *database) grants(ctx context.Context) (list []grant, err error) {
	rows, err := d.db.QueryContext(ctx, "SELECT id, token, biz_type FROM tiny_id_token ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var g grant
		if err := rows.Scan(&g.ID, &g.Token.text, &g.BizType); err != nil {
			return nil, err
		}
		list = append(list, g)
	}
	return list, rows.Err()
}

// Numbers of errors, which mean the same on MySQL and MariaDB.
const (
	errNoTable  = 1146
	errNoColumn = 1054
)

// hints say what to do about errors of the server.
var hints = map[uint16]string{
	1045:        "look at user and password in the DSN",
	1698:        "look at user and password in the DSN",
	1044:        "the user has no right to the database",
	1142:        "the user needs the right SELECT on the table",
	1049:        "look at the name of the database in the DSN",
	errNoTable:  "is this the database of the service?",
	errNoColumn: "the table is not as the service makes it",
}

func explain(err error) error {
	if server, ok := errors.AsType[*mysql.MySQLError](err); ok && hints[server.Number] != "" {
		return fmt.Errorf("read the tables: %w (%s)", err, hints[server.Number])
	}
	return fmt.Errorf("read the tables: %w", err)
}
