// Package imports has the tests of seqd import against the tables of Leaf and Tinyid in a real
// MariaDB or MySQL.
package imports

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

const (
	leafTable = "CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '' PRIMARY KEY, max_id bigint(20) NOT NULL DEFAULT 1, " +
		"step int(11) NOT NULL, description varchar(256) DEFAULT NULL, " +
		"update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP) ENGINE=InnoDB"
	tinyTable = "CREATE TABLE tiny_id_info (id bigint(20) unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, biz_type varchar(63) NOT NULL DEFAULT '', " +
		"begin_id bigint(20) NOT NULL DEFAULT 0, max_id bigint(20) NOT NULL DEFAULT 0, step int(11) DEFAULT 0, delta int(11) NOT NULL DEFAULT 1, " +
		"remainder int(11) NOT NULL DEFAULT 0, create_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00', " +
		"update_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00', version bigint(20) NOT NULL DEFAULT 0, " +
		"UNIQUE KEY uniq_biz_type (biz_type)) ENGINE=InnoDB DEFAULT CHARSET=utf8"
	tinyTokens = "CREATE TABLE tiny_id_token (id int(11) unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, token varchar(255) NOT NULL DEFAULT '', " +
		"biz_type varchar(63) NOT NULL DEFAULT '', remark varchar(255) NOT NULL DEFAULT '', create_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00', " +
		"update_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00') ENGINE=InnoDB DEFAULT CHARSET=utf8"
)

// system is a database with the tables of a service, and a node of seqd.
type system struct {
	t      *testing.T
	db     *sql.Conn
	dsn    string
	source string
	dir    string
	node   *node.Node
}

func start(t *testing.T, source string, statements ...string) *system {
	t.Helper()
	server := testenv.StartMySQL(t)
	dir := t.TempDir()
	s := &system{t: t, db: server.Connect(), dsn: server.DSN(), source: source, dir: dir, node: node.StartReady(t, dir)}
	s.exec(statements...)
	return s
}

func (s *system) exec(statements ...string) {
	s.t.Helper()
	for _, statement := range statements {
		if _, err := s.db.ExecContext(s.t.Context(), statement); err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
	}
}

// run runs seqd import and returns its output and exit code.
func (s *system) run(args ...string) (output string, code int) {
	s.t.Helper()
	args = append([]string{"import", s.source, "--dsn", s.dsn}, args...)
	if !strings.Contains(strings.Join(args, " "), "--recheck") {
		args = append(args, "--recheck", "0s")
	}
	cmd := s.node.Tool(s.dir, args...)
	out, _ := cmd.CombinedOutput()
	if strings.Contains(string(out), "secret") || strings.Contains(string(out), "0f673adf") {
		s.t.Errorf("%q shows a secret: %s", args, out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// want fails unless the output has the parts in one line each, and the exit code is right.
func (s *system) want(output string, code, wantCode int, lines ...[]string) {
	s.t.Helper()
	must.Equal(s.t, code, wantCode, "%s\nthe exit code", output)
	for _, parts := range lines {
		found := false
		for line := range strings.Lines(output) {
			all := true
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			found = found || all
		}
		if !found {
			s.t.Errorf("no line with %q in: %s", parts, output)
		}
	}
}

// numbers is what was issued, by whom.
type numbers map[int64]string

func (n numbers) add(t *testing.T, by string, from, to int64) {
	t.Helper()
	for i := from; i <= to; i++ {
		if other, twice := n[i]; twice {
			t.Fatalf("%d was issued by %s and by %s", i, other, by)
		}
		n[i] = by
	}
}

// take takes numbers from seqd.
func (s *system) take(issued numbers, bizType string, count int) (first int64) {
	s.t.Helper()
	list := must.Get(s.node.Take(bizType, count))(s.t)
	for _, number := range list {
		issued.add(s.t, "seqd", number, number)
	}
	return list[0]
}

// segment is what a server of Leaf or Tinyid has in memory: numbers from next to last.
type segment struct{ next, last int64 }

func (s *segment) issue(t *testing.T, issued numbers, by string, count int64) {
	t.Helper()
	to := min(s.next+count-1, s.last)
	issued.add(t, by, s.next, to)
	s.next = to + 1
}

// leaf allocates as a server of Leaf does: it raises max_id, and issues the step numbers below it.
func (s *system) leaf(tag string) segment {
	s.t.Helper()
	tx, err := s.db.BeginTx(s.t.Context(), nil)
	must.Do(s.t, err)
	var maxID, step int64
	_, err = tx.ExecContext(s.t.Context(), "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = ?", tag)
	if err == nil {
		err = tx.QueryRowContext(s.t.Context(), "SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?", tag).Scan(&maxID, &step)
	}
	if err == nil {
		err = tx.Commit()
	}
	must.Do(s.t, err)
	return segment{maxID - step, maxID - 1}
}

// tiny allocates as a server of Tinyid does: it raises max_id, and issues the step numbers up to
// it.
func (s *system) tiny(bizType string) segment {
	s.t.Helper()
	var id, maxID, step, version int64
	err := s.db.QueryRowContext(s.t.Context(), "SELECT id, max_id, step, version FROM tiny_id_info WHERE biz_type = ?", bizType).Scan(&id, &maxID, &step, &version)
	must.Do(s.t, err)
	_, err = s.db.ExecContext(s.t.Context(), "UPDATE tiny_id_info SET max_id = ?, update_time = now(), version = version + 1 WHERE id = ? AND max_id = ? AND version = ?", maxID+step, id, maxID, version)
	must.Do(s.t, err)
	return segment{maxID + 1, maxID + step}
}

// Two servers of Leaf have segments in memory while their numbers are taken over, and issue the
// rest of them afterwards. One of them even allocates again, and the import is repeated.
func TestLeaf(t *testing.T) {
	t.Parallel()
	s := start(t, "leaf", leafTable,
		"INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('pay', 1, 2000), ('leaf-segment-test', 1, 100), ('my tag', 70, 10), ('huge', 9007199254740991, 1000)")
	issued := make(numbers)
	first, second := s.leaf("pay"), s.leaf("pay")
	first.issue(t, issued, "Leaf 1", 700)
	second.issue(t, issued, "Leaf 2", 2000)

	refused := [][]string{{"my tag", "refused", "--rename 'my tag=NAME'"}, {"huge", "refused", "largest number of a segment"}}
	out, code := s.run()
	s.want(out, code, 1, append(refused, []string{"pay", "4001", "4002", "2000", "planned"}, []string{"leaf-segment-test", "planned"})...)
	out, code = s.run("--dry-run", "--rename", "my tag=tag")
	s.want(out, code, 1, []string{"pay", "4002", "would be created"}, []string{"my tag as tag", "71", "would be created"}, refused[1])
	if status, body := s.node.Status("/seq/pay"); status != 404 {
		t.Fatalf("a dry run made a biz type: %s", body)
	}
	out, code = s.run("--apply", "--rename", "my tag=tag")
	s.want(out, code, 1, []string{"pay", "4002", "created"}, []string{"my tag as tag", "created"}, []string{"leaf-segment-test", "created"}, refused[1])

	must.Equal(t, s.take(issued, "pay", 3000), 4002, "seqd begins at")
	first.issue(t, issued, "Leaf 1", 2000) // what it had in memory
	out, code = s.run("--apply", "--rename", "my tag=tag")
	s.want(out, code, 1, []string{"pay", "unchanged"}, []string{"my tag as tag", "unchanged"})

	// A server that was not stopped allocates: the import says so, and raises only if it may.
	s.leaf("pay")
	s.leaf("pay")
	s.leaf("pay")
	third := s.leaf("pay")
	out, code = s.run("--apply", "--rename", "my tag=tag")
	s.want(out, code, 1, []string{"pay", "refused", "--raise"})
	out, code = s.run("--dry-run", "--raise", "--rename", "my tag=tag")
	s.want(out, code, 1, []string{"pay", "12002", "would be raised", "it started at 4002"})
	out, code = s.run("--apply", "--raise", "--rename", "my tag=tag")
	s.want(out, code, 1, []string{"pay", "12002", "raised", "it started at 4002"})
	third.issue(t, issued, "Leaf 3", 2000)
	must.Equal(t, s.take(issued, "pay", 3000), 12002, "seqd continues at")
}

// A table that changes while it is read is noticed, and a margin leaves room for that.
func TestServersStillRun(t *testing.T) {
	t.Parallel()
	s := start(t, "leaf", leafTable, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('pay', 1, 1000)")
	allocated := make(chan struct{})
	conn := s.node.Tool(s.dir, "import", "leaf", "--dsn", s.dsn, "--apply", "--margin", "5000", "--recheck", "8s")
	var out strings.Builder
	conn.Stdout, conn.Stderr = &out, &out
	must.Do(t, conn.Start())
	go func() { _ = conn.Wait(); close(allocated) }()
	s.node.Await("/seq/pay", 200) // the table was read once
	issued := make(numbers)
	late := s.leaf("pay")
	<-allocated
	s.want(out.String(), conn.ProcessState.ExitCode(), 1, []string{"pay", "5002", "created"},
		[]string{"the max_id of pay went from 1 to 1001 meanwhile"}, []string{"stop them, and import again with --raise"})
	late.issue(t, issued, "Leaf", 1000)
	s.take(issued, "pay", 5000)
}

// Tinyid: rows are imported, also those with delta and remainder; tokens stay valid by the fragment
// of a configuration.
func TestTinyid(t *testing.T) {
	t.Parallel()
	s := start(t, "tinyid", tinyTable, tinyTokens,
		"INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder) VALUES ('test', 1, 1, 1000, 1, 0), ('test_odd', 1, 1, 100000, 2, 1), ('nostep', 5, 5, NULL, 1, 0)",
		"INSERT INTO tiny_id_token (token, biz_type) VALUES ('0f673adf80504e2eaa552f5d791b644c', 'test'), ('0f673adf80504e2eaa552f5d791b644c', 'test_odd'), ('0f673adf-other', 'nostep')")
	issued := make(numbers)
	first, second := s.tiny("test"), s.tiny("test")
	first.issue(t, issued, "Tinyid 1", 300)
	second.issue(t, issued, "Tinyid 2", 1000) // max_id itself is issued
	odd := []string{"test_odd", "1", "2", "50000"}
	out, code := s.run("--apply")
	s.want(out, code, 0, append(odd, "created"), []string{"test", "2001", "2002", "1000", "created"}, []string{"nostep", "6", "created"},
		[]string{"2 tokens: -o writes them"})
	must.Equal(t, s.take(issued, "test", 3000), 2002, "seqd begins at")
	first.issue(t, issued, "Tinyid 1", 1000)
	must.Equal(t, s.take(make(numbers), "nostep", 1), 6, "nostep begins at")
	must.Equal(t, s.take(make(numbers), "test_odd", 1), 3, "test_odd begins at")

	out, code = s.run("-o", "tinyid.yaml")
	s.want(out, code, 0, odd, []string{"2 tokens are in tinyid.yaml"})
	file := filepath.Join(s.dir, "tinyid.yaml")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "0f673adf") {
		t.Errorf("%v: %s", err, text)
	}
	out, code = s.run("-o", "tinyid.yaml")
	s.want(out, code, 78, []string{"tinyid.yaml exists", "--force"})
	out, code = s.run("-o", "tinyid.yaml", "--force")
	s.want(out, code, 0, odd)
	useFragment(t, file)
}

// useFragment runs a node with what a fragment of a configuration says: the tokens of Tinyid are
// valid.
func useFragment(t *testing.T, file string) {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	var fragment struct {
		BizTypes []any
		Auth     struct{ Tokens []any }
	}
	must.Do(t, yaml.UnmarshalStrict(text, &fragment))
	env := func(name string, value any) string {
		text := must.Get(json.Marshal(value))(t)
		return name + "=" + string(text)
	}
	n := node.StartReady(t, t.TempDir(), env("SEQD_BIZTYPES", fragment.BizTypes), env("SEQD_AUTH_TOKENS", fragment.Auth.Tokens))
	for _, tt := range []struct {
		bizType, secret string
		status          int
		body            string
	}{
		{"test", "0f673adf80504e2eaa552f5d791b644c", 200, `"id":"2002"`},
		{"nostep", "0f673adf-other", 200, `"id":"6"`},
		{"nostep", "0f673adf80504e2eaa552f5d791b644c", 403, "forbidden"},
		{"test", "0f673adf", 401, "unauthorized"},
	} {
		answer, err := n.Do("GET", "/seq/"+tt.bizType, "", "Authorization", "Bearer "+tt.secret)
		if err != nil || answer.Status != tt.status || !strings.Contains(answer.Body, tt.body) {
			t.Errorf("%s: %d %s, %v; want %d with %s", tt.bizType, answer.Status, answer.Body, err, tt.status, tt.body)
		}
	}
	n.Stop()
}

// Biz types that exist are never lowered nor replaced.
func TestExisting(t *testing.T) {
	t.Parallel()
	s := start(t, "leaf", leafTable, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('higher', 100, 10), ('same', 100, 10), ('flake', 100, 10), ('daily', 100, 10), ('deleted', 100, 10), ('off', 100, 10)")
	for name, definition := range map[string]string{
		"higher": `{"start": 5000}`, "same": `{"start": 101}`, "flake": `{"strategy": "snowflake"}`, "daily": `{"reset": "daily", "plugins": [{"name": "format", "template": "{date:20060102}-{seq}"}]}`,
		"deleted": `{"start": 90000}`, "off": `{"start": 101}`,
	} {
		if answer, err := s.node.Do("PUT", "/biz-types/"+name, definition); err != nil || answer.Status != 201 {
			t.Fatal(err, answer)
		}
	}
	s.node.Await("/seq/deleted", 200)
	for _, change := range [][2]string{{"DELETE", "/biz-types/deleted"}, {"POST", "/biz-types/off/disable"}} {
		if answer, err := s.node.Do(change[0], change[1], ""); err != nil || answer.Status >= 300 {
			t.Fatal(err, answer)
		}
	}
	out, code := s.run("--apply", "--raise", "--json")
	var report struct {
		BizTypes []struct{ Name, Result, Detail string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 {
		t.Fatalf("%d %s: %v", code, out, err)
	}
	want := map[string]string{"higher": "unchanged", "same": "unchanged", "flake": "refused", "daily": "refused", "deleted": "created", "off": "unchanged"}
	for _, b := range report.BizTypes {
		must.Equal(t, b.Result, want[b.Name], "%s: %s", b.Name, b.Detail)
	}
	must.Equal(t, s.take(make(numbers), "higher", 1), 5000, "higher is at")
	if first := s.take(make(numbers), "deleted", 1); first <= 90000 {
		t.Errorf("deleted begins at %d", first)
	}
}

// Mistakes are named, with what to do, and never show the password.
func TestMistakes(t *testing.T) {
	t.Parallel()
	s := start(t, "leaf")
	s.exec("CREATE USER nobody@'%' IDENTIFIED BY 'secret-password'")
	addr := s.dsn[strings.Index(s.dsn, "@"):]
	for name, tt := range map[string]struct {
		dsn  string
		args []string
		code int
		want []string
	}{
		"no table":      {s.dsn, nil, 1, []string{"leaf_alloc", "is this the database of the service?"}},
		"password":      {"seqd:secret-wrong" + addr, nil, 1, []string{"look at user and password in the DSN"}},
		"no right":      {"nobody:secret-password" + addr, nil, 1, []string{"right"}},
		"not a DSN":     {"leaf:secret@localhost", nil, 78, []string{"want user:password@tcp(host:3306)/database"}},
		"no database":   {"leaf:secret@tcp(localhost:1)/", nil, 78, []string{"names no database"}},
		"unreachable":   {"leaf:secret@tcp(127.0.0.1:1)/leaf", nil, 1, []string{"refused"}},
		"no DSN":        {"", nil, 78, []string{"--dsn or SEQD_CLIENT_DSN is missing"}},
		"two modes":     {s.dsn, []string{"--apply", "--dry-run"}, 78, []string{"apply", "dry-run"}},
		"raise what":    {s.dsn, []string{"--raise"}, 78, []string{"--raise needs --apply"}},
		"margin":        {s.dsn, []string{"--margin", "-1"}, 78, []string{"--margin -1"}},
		"rename":        {s.dsn, []string{"--rename", "a"}, 78, []string{"OLD=NEW"}},
		"json and file": {s.dsn, []string{"-o", "-", "--json"}, 78, []string{"not both"}},
	} {
		s.dsn = tt.dsn
		out, code := s.run(tt.args...)
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.want(out, code, tt.code, tt.want)
		})
		s.t = t
	}
}

// A service that is away fails each biz type, and says so.
func TestServiceAway(t *testing.T) {
	t.Parallel()
	s := start(t, "leaf", leafTable, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('pay', 1, 10), ('refund', 1, 10)")
	out, code := s.run("--apply", "--token", "seqd_wrong", "--rename", "pay=invoice", "--rename", "refund=invoice")
	s.want(out, code, 1, []string{"pay as invoice", "refused", "has the same name"}, []string{"refund as invoice", "refused", "has the same name"})
	s.node.Kill()
	out, code = s.run("--apply")
	s.want(out, code, 1, []string{"pay", "failed", "cannot be reached"}, []string{"refund", "failed: not tried"})
	out, code = s.run("--apply", "--json")
	s.want(out, code, 1, []string{`"result": "failed"`})
}
