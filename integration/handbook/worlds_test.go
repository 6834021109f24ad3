package handbook

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// world is what a page is run with.
type world struct {
	store string // bolt, postgres, standby (of postgres) or mysql
	nodes int
	redis bool
	// tokens: nodes ask for tokens, and the shell has that of an administrator.
	tokens bool
	// tls: the node speaks HTTPS, and a new certificate is there.
	tls bool
	// disk is the size of the disk of data, if it is not that of the machine.
	disk string
	// empty: the page writes the configuration, and starts what it needs.
	empty bool
}

// alone, onPG and onSQL are the stores that need no more.
var (
	alone = world{store: "bolt", nodes: 1}
	onPG  = world{store: "postgres", nodes: 2}
	onSQL = world{store: "mysql", nodes: 2}

	withRedis = world{store: "postgres", nodes: 2, redis: true}
)

// withTokens returns a world whose nodes ask for tokens.
func withTokens(w world) world {
	w.tokens = true
	return w
}

// page says how a page is run.
type page struct {
	before string // what happened before the page is read
	worlds []world
}

var pages = map[string]page{
	"audit.md":        {issued, []world{withTokens(alone), withTokens(onPG)}},
	"backup.md":       {issued, []world{alone, onPG, onSQL}},
	"certificates.md": {issued, []world{{store: "bolt", nodes: 1, tls: true}}},
	"changes.md":      {issued, []world{withRedis}},
	"damaged.md":      {damaged, []world{alone}},
	"disk.md":         {full, []world{{store: "bolt", nodes: 1, disk: "2m"}}},
	"failover.md":     {issued, []world{{store: "standby", nodes: 2}}},
	"first-week.md":   {":", []world{{store: "bolt", nodes: 1, empty: true}}},
	"growth.md":       {issued, []world{alone}},
	"move.md":         {issued, []world{alone}},
	"overload.md":     {issued, []world{alone}},
	"raise.md":        {sold, []world{alone, onPG}},
	"redis-away.md":   {issued, []world{withRedis}},
	"restore.md":      {backedUp, []world{alone, onPG, onSQL}},
	"rotation.md":     {stolen, []world{withTokens(withRedis), withTokens(onSQL)}},
	"store-away.md":   {issued, []world{withRedis}},
	"upgrade.md":      {issued, []world{onPG}},
}

const (
	issued = `seqd next order -n 500 && seqd next user && seqd next invoice -n 40 && seqd next ticket --key tenant-1`
	// sold: the database of the shop has what its callers got.
	sold = issued + `
if [ $STORE = postgres ]; then
	psql -q -c 'CREATE DATABASE shop' && psql -q shop -c 'CREATE TABLE tickets AS SELECT text $$tenant-1$$ AS tenant, 5001 AS number'
fi`
	// stolen: somebody has the secret of an administrator, and has made a token with it.
	stolen = issued + `
seqd tokens create shop --scope issue:order
seqd tokens create heir --scope admin --token $(seqd tokens create thief --scope admin --json | jq -r .secret)`
	// damaged: a disk wrote other bytes into the store.
	damaged = issued + `
seqd snapshot save seqd.snapshot --addr $SEQD_CLIENT_ADDR && seqd next order -n 900 && systemctl stop seqd
for file in data/seqd.db data/seqd.db-history; do
	head -c $(($(stat -c %s $file) - 8192)) /dev/urandom | dd of=$file bs=4096 seek=2 conv=notrunc status=none
done
! systemctl start seqd`
	// full: the disk is full, and so is the file: the store has no free page for another record.
	full = issued + `
cat /dev/zero 2>/dev/null >data/core.4711
i=0; while echo 'step: 10' | seqd biz-types put old-$i 2>/dev/null; do i=$((i + 1)); done
true`
	// backedUp: a page of backups was followed, and more was issued.
	backedUp = issued + `
echo 'step: 10' | seqd biz-types put old
seqd snapshot save seqd.snapshot --addr $SEQD_CLIENT_ADDR && case $STORE in
bolt) systemctl stop seqd && cp -a data data.copy && systemctl start seqd ;;
postgres) pg_dump -Fc -d seqd -f seqd.dump ;;
mysql) mariadb-dump --single-transaction --hex-blob --databases seqd >seqd.sql ;;
esac && seqd biz-types delete old --yes && seqd next order -n 900 && seqd next invoice -n 5 && seqd next ticket --key tenant-9`
)

func (w world) name() string {
	if w.redis {
		return w.store + "+redis"
	}
	return w.store
}

// running is a world that was started.
type running struct {
	*shell
	has    []string // the store, and redis
	folder string
	addrs  *strings.Replacer // replaces those of the pages
	does   map[string]func() // commands for which no shell is enough
}

// definitions are the biz types of the handbook.
const definitions = `bizTypes:
  - {name: order}
  - {name: user, strategy: snowflake}
  - {name: ticket, keyed: true}
  - {name: invoice, strategy: gapless, plugins: [{name: history, onOverflow: block}]}
`

// adminToken is the secret of the administrator, and adminSum its SHA-256.
const (
	adminToken = "seqd_handbookhandbookhandbookhandbook"
	adminSum   = "e1bdbc6925e7bf65bec8964b30439e8184dfaa1459843dc9c062d288de6082e2"
)

// start starts the servers and nodes of a world, which are ready.
func (w world) start(t *testing.T) *running {
	t.Helper()
	r := &running{has: strings.Split(w.name(), "+"), folder: t.TempDir(), does: make(map[string]func())}
	first := testenv.ReserveAddr(t)
	env := []string{
		"PATH=" + filepath.Dir(node.Program(t)) + ":" + os.Getenv("PATH"), "HOME=" + r.folder, "NODES=node-1", "STORE=" + w.store, "ADDR_node_1=" + first,
		"SEQD_SERVER_WRITETIMEOUT=5m",
	}
	replace := []string{"localhost:8080", first, "127.0.0.1:8080", first, "node-1:8080", first}
	for i := 2; i <= w.nodes; i++ {
		addr := testenv.ReserveAddr(t)
		env = append(env, fmt.Sprintf("ADDR_node_%d=%s", i, addr), fmt.Sprintf("NODES=node-1 node-%d", i))
		replace = append(replace, fmt.Sprintf("node-%d:8080", i), addr)
	}
	server, scheme := "addr: "+first, "http://"
	if w.tls {
		server, scheme = server+", tls: {certFile: tls.crt, keyFile: tls.key}", "https://"
		env = append(env, "CURL_CA_BUNDLE=authority.crt", "SSL_CERT_FILE=authority.crt")
	}
	env = append(env, "SCHEME="+scheme, "SEQD_CLIENT_ADDR="+scheme+first)
	config := "server: {" + server + "}\n" + definitions
	if w.redis {
		redis := testenv.StartRedis(t, "user seqd on >old ~seqd:* &seqd:* +@all")
		host, port := split(redis.Addr())
		config += "redis: {addrs: [" + redis.Addr() + "], username: seqd, passwordFile: redis.secret, timeout: 5s}\n"
		must.Do(t, os.WriteFile(filepath.Join(r.folder, "redis.secret"), []byte("old\n"), 0o600))
		env = append(env, "REDIS_HOST="+host, "REDIS_PORT="+port)
		r.does["systemctl stop redis-server"], r.does["systemctl start redis-server"] = redis.Kill, redis.RestartEmpty
	}
	secret := ""
	switch w.store {
	case "bolt":
		config += "store: {bolt: {path: data/seqd.db}}\n"
	case "postgres", "standby":
		p := testenv.StartPostgres(t)
		addr := p.Addr()
		if w.store == "standby" {
			standby := testenv.StartStandby(t, p)
			link := testenv.NewLink(t, addr)
			addr = link.Addr()
			r.does["pg_ctl promote -D standby"] = func() { standby.Promote(); link.Switch(standby.Addr()) }
			r.does["systemctl stop postgresql"] = p.Stop
		} else {
			r.does["systemctl stop postgresql"], r.does["systemctl start postgresql"] = p.Stop, p.Start
		}
		host, port := split(addr)
		env = append(env, "PGHOST="+host, "PGPORT="+port, "PGUSER=admin", "PGPASSWORD=secret", "PGDATABASE=postgres", "PGSSLMODE=disable")
		config += "store: {driver: postgres, postgres: {urlFile: store.secret, timeout: 10s}}\n"
		secret = testenv.PostgresURL(addr)
	case "mysql":
		m := testenv.StartMariaDB(t)
		host, port := split(m.Addr())
		options := fmt.Sprintf("[client]\nhost=%s\nport=%s\nuser=admin\npassword=secret\n", host, port)
		must.Do(t, os.WriteFile(filepath.Join(r.folder, ".my.cnf"), []byte(options), 0o600))
		r.does["systemctl stop mariadb"], r.does["systemctl start mariadb"] = m.Stop, m.Start
		config += "store: {driver: mysql, mysql: {dsnFile: store.secret, timeout: 10s}}\n"
		secret = m.DSN()
	}
	must.Do(t, os.WriteFile(filepath.Join(r.folder, "store.secret"), []byte(secret+"\n"), 0o600))
	if w.tokens {
		config += "auth: {tokens: [{name: boss, sha256: " + adminSum + ", scopes: [admin, 'issue:*']}]}\n"
		env = append(env, "SEQD_CLIENT_TOKEN="+adminToken)
	}
	r.addrs = strings.NewReplacer(replace...)
	if w.disk != "" {
		mount(t, filepath.Join(r.folder, "data"), w.disk)
	}
	r.shell = newShell(t, r.folder, env)
	if w.tls {
		r.run("authority && pair tls 10 && pair new 90")
	}
	if !w.empty {
		must.Do(t, os.WriteFile(filepath.Join(r.folder, "seqd.yaml"), []byte(config), 0o600))
		if out, code := r.run("systemctl start seqd"); code != 0 {
			t.Fatalf("nodes do not start: %s\n%s", out, r.log())
		}
	}
	return r
}

// mount gives a folder a disk of its own.
func mount(t *testing.T, folder, size string) {
	t.Helper()
	must.Do(t, os.Mkdir(folder, 0o700))
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mount a tmpfs (this test needs root): %v", err)
	}
	t.Cleanup(func() { must.Report(t, syscall.Unmount(folder, syscall.MNT_DETACH)) })
}

func split(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr)
	return host, port
}

// log returns the end of the nodes' logs.
func (r *running) log() string {
	const tail = 6000
	out, _ := r.run("tail -c 3000 log-*")
	return out[max(0, len(out)-tail):]
}
