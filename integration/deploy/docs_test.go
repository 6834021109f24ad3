package deploy

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

const repository = "../.."

// block returns the first block of code in a language below a heading of a document.
func block(t *testing.T, document, heading, language string) string {
	t.Helper()
	_, section, ok := strings.Cut(read(t, filepath.Join(repository, document)), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	_, text, found := strings.Cut(section, "```"+language+"\n")
	text, _, ended := strings.Cut(text, "```")
	if !ok || !found || !ended {
		t.Fatalf("%s has no block of %s below %q", document, language, heading)
	}
	return text
}

// runs runs a command in the repository, with an input and more variables.
func runs(t *testing.T, input string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = repository, append(withoutSeqd(), env...), strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", name, err, input, out)
	}
	return string(out)
}

// withoutSeqd is the environment without variables for seqd.
func withoutSeqd() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SEQD_") {
			env = append(env, v)
		}
	}
	return env
}

// adminPassword is that of the superusers of testenv.
const adminPassword = "secret"

// emptyPostgres starts a server without database and user, as after its installation, and returns
// the variables with which psql reaches it as the superuser.
func emptyPostgres(t *testing.T) (p *testenv.Postgres, env []string) {
	t.Helper()
	p = testenv.StartPostgres(t)
	host, port, _ := net.SplitHostPort(p.Addr())
	env = []string{"PGHOST=" + host, "PGPORT=" + port, "PGUSER=admin", "PGPASSWORD=" + adminPassword, "PGDATABASE=postgres", "PGSSLMODE=disable"}
	psql(t, env, "DROP DATABASE seqd;\nDROP ROLE seqd;\n")
	return p, env
}

func psql(t *testing.T, env []string, script string) string {
	t.Helper()
	return runs(t, script, env, "psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1")
}

// emptyMariaDB is emptyPostgres for MariaDB. The options are those of the client.
func emptyMariaDB(t *testing.T) (m *testenv.MariaDB, options []string) {
	t.Helper()
	m = testenv.StartMariaDB(t)
	host, port, _ := net.SplitHostPort(m.Addr())
	options = []string{"--no-defaults", "--host=" + host, "--port=" + port, "--user=admin", "--password=" + adminPassword}
	runs(t, "DROP DATABASE seqd; DROP USER seqd@'%';", nil, "mariadb", options...)
	return m, options
}

// inOrder starts two nodes on a store and checks that their numbers increase.
func inOrder(t *testing.T, env ...string) {
	t.Helper()
	env = append(env, "SEQD_SEGMENT_SEQUENCER=store")
	inTurn(t, 0, node.StartReady(t, t.TempDir(), env...), node.StartReady(t, t.TempDir(), env...))
}

// onPostgres are the settings of nodes whose user has the password of the documents.
func onPostgres(addr string) []string {
	return []string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=postgres://seqd:change-me@" + addr + "/seqd"}
}

func onMySQL(addr string) []string {
	return []string{"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN=seqd:change-me@tcp(" + addr + ")/seqd"}
}

// The statements of docs/STORES.md make a database that nodes can use, and a user with the rights
// that they need.
func TestDocumentedPostgres(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	for heading, owner := range map[string]bool{"### Create the database and the user (PostgreSQL)": true, "### Least rights (PostgreSQL)": false} {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			p, env := emptyPostgres(t)
			psql(t, env, block(t, "docs/STORES.md", heading, "sql"))
			const rights = "SELECT datacl, pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'seqd'"
			before := p.Query(rights)
			var restore []string
			for _, page := range []string{"backup.md", "restore.md"} {
				text := read(t, filepath.Join(repository, "docs/operations", page))
				restore = append(restore, regexp.MustCompile(`(?m)^ *\$ pg_(?:dump|restore) .*`).FindAllString(text, -1)...)
			}
			runs(t, "", env, "bash", "-ec", "cd \"$1\"\n"+strings.ReplaceAll(strings.Join(restore, "\n"), "$ ", ""), "-", t.TempDir())
			if after := p.Query(rights); after != before || len(restore) < 2 {
				t.Errorf("%q turn the rights %s into %s", restore, before, after)
			}
			psql(t, env, block(t, "docs/STORES.md", "### Pooling (PostgreSQL)", "sql"))
			inOrder(t, onPostgres(p.Addr())...)
			must.Equal(t, p.Query("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'seqd_%' AND tableowner = 'seqd'") != "0", owner, "the user owns tables")
			must.Equal(t, p.Query("SELECT has_schema_privilege('seqd', 'public', 'CREATE')") == "t", owner, "the user may create tables")
		})
	}
}

// The same for MySQL, on MariaDB.
func TestDocumentedMySQL(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	for heading, creates := range map[string]bool{"### Create the database and the user (MySQL)": true, "### Least rights (MySQL)": false} {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			m, options := emptyMariaDB(t)
			runs(t, block(t, "docs/STORES.md", heading, "sql"), nil, "mariadb", options...)
			inOrder(t, onMySQL(m.Addr())...)
			if grant := m.Query("SELECT GROUP_CONCAT(PRIVILEGE_TYPE) FROM information_schema.SCHEMA_PRIVILEGES WHERE GRANTEE LIKE '%seqd%'"); strings.Contains(grant, "CREATE") != creates {
				t.Errorf("the user has %s", grant)
			}
		})
	}
}

// The scripts of the compositions make what their nodes need.
func TestComposeSQL(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p, env := emptyPostgres(t)
		runs(t, "", append(env, "POSTGRES_USER=admin", "SEQD_PASSWORD=change-me"), "deploy/compose/postgres.sh")
		inOrder(t, onPostgres(p.Addr())...)
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		m, options := emptyMariaDB(t)
		root := fmt.Sprintf("ALTER USER root@'127.0.0.1' IDENTIFIED BY '%s';", adminPassword)
		runs(t, root, nil, "mariadb", options...)
		host, port, _ := net.SplitHostPort(m.Addr())
		runs(t, "", []string{"MYSQL_HOST=" + host, "MYSQL_TCP_PORT=" + port, "MARIADB_ROOT_PASSWORD=" + adminPassword, "SEQD_PASSWORD=change-me"}, "deploy/compose/mysql.sh")
		inOrder(t, onMySQL(m.Addr())...)
	})
}

var answers = regexp.MustCompile(`\}\s*\{`)

// The commands in the README start two nodes on PostgreSQL, and give the answers that it shows.
// Only the ports are others, and apt-get and sudo do nothing that needs root.
func TestREADME(t *testing.T) {
	p, env := emptyPostgres(t)
	bin := t.TempDir()
	for name, text := range map[string]string{
		"sudo":    "#!/bin/sh\n[ \"$1\" != -u ] || shift 2 # the user\nexec \"$@\"\n",
		"apt-get": "#!/bin/sh\n[ \"$*\" = 'install -y postgresql' ]\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	first, second := testenv.ReserveAddr(t), testenv.ReserveAddr(t)
	ports := strings.NewReplacer("127.0.0.1:5432", p.Addr(), "localhost:8080", first, "127.0.0.1:8081", second, "localhost:8081", second)
	const heading = "## Two nodes"
	script := "set -e\n" + ports.Replace(block(t, "README.md", heading, "sh")) + "wait\n"
	if strings.Count(script, first)+strings.Count(script, second)+strings.Count(script, p.Addr()) != 2 || strings.Count(script, "&\n") != 2 {
		t.Fatalf("the ports are not those of the README:\n%s", script)
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir, cmd.SysProcAttr = repository, &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(withoutSeqd(), append(env, "PATH="+bin+":"+os.Getenv("PATH"), "SEQD_SERVER_ADDR="+first)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("%s", log.Bytes())
		}
	})
	for _, addr := range []string{first, second} {
		await.Eventually(t, addr+" is ready", func() error {
			return exec.Command("curl", "--silent", "--fail", "--max-time", "120", "--output", "/dev/null", addr+"/readyz").Run()
		})
	}
	ask, want, _ := strings.Cut(block(t, "README.md", heading, "console"), "\n")
	got := runs(t, "", nil, "bash", "-c", strings.ReplaceAll(strings.TrimPrefix(ports.Replace(ask), "$ "), "curl ", "curl --silent "))
	if got = answers.ReplaceAllString(strings.TrimSpace(got), "}\n{"); got != strings.TrimSpace(want) {
		t.Errorf("%s\ngot\n%s\nwant\n%s", ask, got, want)
	}
}
