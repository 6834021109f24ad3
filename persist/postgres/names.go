package postgres

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seqd/seqd/persist/sqlstore"
)

// Every statement names the schema of its tables. Without that the server looks a table up in the
// schemas of the search_path, and before them among the temporary tables of the session. So a copy
// of the tables in a schema that bears the user's name would take their place while nodes run, and
// numbers would repeat when the copy is dropped. Behind a pooler the session belongs to other
// clients too, with what they leave behind in it.
//
// Functions and operators are named without a schema. The server takes the one whose arguments have
// exactly the types of the call, and looks in pg_catalog first; settings.check refuses a
// search_path that says otherwise. So a call whose types are those of no function in pg_catalog
// needs a cast, or the schema of the operator.

// home is the schema with the tables. It is final if the tables exist; otherwise it is where they
// will be created.
type home struct {
	quoted string
	final  bool
}

// homeQuery returns the schemas of the search_path that exist and that the user may use, and
// whether each has the tables. It reads the catalog itself: to_regclass goes by what the session
// knew of a name before, so a session that waited while another created the tables would not find
// them.
const homeQuery = `SELECT u.s, CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname::text = u.s AND c.relname::text = 'seqd_schema') THEN 1 ELSE 0 END::bigint
	FROM unnest(current_schemas(false)::text[]) WITH ORDINALITY AS u (s, n) WHERE u.s !~ '^pg_' ORDER BY u.n`

// findHome looks for the schema with the tables, and reports whether there is one. Two of them are
// refused: nodes that run may use the one that does not come first.
func (d *db) findHome(ctx context.Context, c sqlstore.Conn) (bool, error) {
	if known := d.home.Load(); known != nil && known.final {
		return true, nil
	}
	var all, with []string
	err := c.Query(ctx, "find tables", homeQuery, func(scan sqlstore.Scan) error {
		var name string
		var has int64
		err := scan(&name, &has)
		all = append(all, name)
		if has != 0 {
			with = append(with, name)
		}
		return err
	})
	switch {
	case err != nil:
		return false, err
	case len(all) == 0:
		return false, sqlstore.Refused("the search_path names no schema that exists and that the user may use; create it, or set search_path in the URL or for the user")
	case len(with) > 1:
		return false, sqlstore.Refusef("the tables of seqd are in several schemas of the search_path: %s; nodes may use any of them. "+
			"Remove the copy, or set search_path, in the URL or for the user, to the one that nodes use", strings.Join(with, ", "))
	case len(with) == 1:
		d.home.Store(&home{pgx.Identifier(with).Sanitize(), true})
		return true, nil
	}
	d.home.Store(&home{pgx.Identifier(all[:1]).Sanitize(), false})
	return false, nil
}

var tables = regexp.MustCompile(` (seqd_(?:counters|documents|slots|history|schema))\b`)

// named puts the schema before the names of tables, unless it is not known yet.
func (d *db) named(statement string) string {
	at := d.home.Load()
	if at == nil {
		return statement
	}
	return tables.ReplaceAllString(statement, " "+strings.ReplaceAll(at.quoted, "$", "$$")+".$1")
}

// numbered replaces each ? by $1, $2 and so on.
func numbered(statement string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		statement = after
	}
}
