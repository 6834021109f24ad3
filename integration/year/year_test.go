//go:build drill

// Package year plays an operator's year with real processes: scripts/drill runs it. Callers of the
// fault laboratory ask for numbers all the time, and its checker judges what they got.
package year

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/check"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/server/certificate/certificatetest"
	"github.com/seqd/seqd/server/config"
)

func TestMain(m *testing.M) { node.Main(m) }

var seed = flag.Int64("seed", time.Now().UnixNano()%1_000_000, "what callers ask for")

// The secrets of the tokens of the configuration.
const (
	operatorSecret = "a-secret-of-the-operator"
	watchSecret    = "a-secret-of-Prometheus"
)

// sharedType and sharedRacks are issued by two data centres, each with an offset or a rack of its
// own.
const (
	sharedType  = "shared"
	sharedRacks = "racks"
)

// year is the installation, its callers and its operator.
type year struct {
	t        *testing.T
	dir      string
	programs []string // of seqd: the versions, in their order
	load     *load.Load
	settings []string // of all nodes
	store    []string // where their store is
	bolt     []string // where it was before the move
	nodes    []*member
	far      *node.Node // the second data centre, once there is one
	pager    *pager
	callers  *callers
	receiver *receiver
	file     string // the configuration that nodes read again; the rest is in their environment

	link     *testenv.Link     // to the database
	database *testenv.Postgres // of this moment
	password string            // of the database

	redises   []*testenv.Redis // a primary and its replica
	sentinels *testenv.Sentinels

	shapes []load.Shape
	heard  *heard
	faults int
	table  []string

	loaded  context.Context // until callers stop
	loading sync.WaitGroup

	watched  context.Context // until nobody watches the servers of Redis any more
	watching sync.WaitGroup
}

// say prints a line of what is done.
func (y *year) say(format string, args ...any) {
	if y.load != nil && y.load.Journal != nil {
		fmt.Printf("%7.2fs  ", time.Since(y.load.Journal.Began).Seconds())
	}
	fmt.Printf(format+"\n", args...)
}

// step does one thing of the year, which the table at the end names.
func (y *year) step(name string, do func() (result string)) {
	y.t.Helper()
	y.say("== %s", name)
	began := time.Now()
	result := do()
	y.table = append(y.table, fmt.Sprintf("%6.1f s  %-44s %s", time.Since(began).Seconds(), name, result))
	if y.t.Failed() {
		y.t.FailNow()
	}
}

// step is what an operator does: a method that says what came of it.
type step struct {
	name string
	do   func() (result string)
}

// steps are the year, in order.
func (y *year) steps() []step {
	one := []step{
		{"deploy one node on bolt", y.deploy},
		{"load it", y.loadIt},
		{"subscribe to events", y.subscribe},
		{"rotate the secret of a token", y.rotateToken},
		{"rotate the certificate", y.rotateCertificate},
	}
	three := []step{
		{"move from bolt to PostgreSQL", y.move},
		{"add a Redis with Sentinels", y.addRedis},
		{"look for events that were not received", y.delivered},
		{"lose the disk, restore an old snapshot", y.loseDisk},
		{"fail over, and lose the last writes", y.failOver},
		{"lose the primary Redis", y.failOverRedis},
		{"rotate the password of the database", y.rotatePassword},
		{"upgrade, and leave it half done", func() string { return y.upgrade(!testing.Short()) }},
		{"upgrade again", func() string { return y.upgrade(false) }},
		{"add a data centre", y.addDataCentre},
	}
	two := []step{
		{"a node dies; decommission it", y.decommission},
		{"machine IDs in both data centres", y.everyMachineID}, // more than a minute after a failover
		{"look for events again", y.delivered},
	}
	return slices.Concat(one, withMistakes(three, y.mistakes()), two)
}

// withMistakes puts each mistake after a step that the seed draws.
func withMistakes(steps, mistakes []step) (all []step) {
	r := rand.New(rand.NewPCG(uint64(*seed), 0))
	after := make([][]step, len(steps))
	for _, i := range r.Perm(len(mistakes)) {
		at := r.IntN(len(steps))
		after[at] = append(after[at], mistakes[i])
	}
	for i, s := range steps {
		all = append(append(all, s), after[i]...)
	}
	return all
}

// TestYear plays the year.
func TestYear(t *testing.T) {
	y := begin(t)
	var endLoad, endWatch context.CancelFunc
	y.loaded, endLoad = context.WithCancel(t.Context())
	y.watched, endWatch = context.WithCancel(t.Context())
	end := func() { endLoad(); y.loading.Wait() }
	defer func() { end(); endWatch(); y.watching.Wait() }()

	for _, s := range y.steps() {
		y.step(s.name, s.do)
	}
	y.more(200)
	end()
	y.load.Nodes = y.load.Nodes[:2]
	y.load.AwaitJobs(t.Context(), await.Patience)
	y.load.CloseBooks(t.Context())
	y.step("answer the auditor", y.audit)
	endWatch()
	y.watching.Wait()
	y.conclude()
}

// begin prepares everything that needs no server of the installation.
func begin(t *testing.T) *year {
	y := &year{t: t, dir: t.TempDir(), password: "secret", programs: builds(t)}
	y.say("seed %d", *seed)
	for name, more := range map[string]load.Settings{
		"order": nil, "local": nil, "huge": nil, "ledger": {"sequencer": record.Store}, "parcel": nil, "bill": {"events": true}, "credit": nil, "rent": nil,
		"user": nil, "guest": nil, load.CosIDName: nil,
	} {
		y.shapes = append(y.shapes, load.Some(load.Shapes(load.Options{NoRedis: true, Lossy: true}), map[string]load.Settings{name: more})...)
	}
	slices.SortFunc(y.shapes, func(a, b load.Shape) int { return strings.Compare(a.Name, b.Name) })
	for i := range y.shapes { // from addRedis on a counter may have its cursor there, and after the store was lost it has
		if s := &y.shapes[i]; s.Ordering == record.Strict && s.Setting["sequencer"] == nil {
			s.Sequencer, s.OnRedisDown = "", record.Reject
		}
	}
	y.makeCertificates()
	y.callers = &callers{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: y.trusted()}}}
	y.callers.secret.Store("none")
	y.load = &load.Load{Seed: *seed, Shapes: y.shapes, HTTP: &http.Client{Transport: y.callers}, Pace: 3, Token: "theirs",
		Loops: load.Loops{Mixed: 6, RESP: 2, DropIn: 2, Books: 4, Audit: 1, Jobs: 1, Programs: 2, Machines: 2}}

	y.heard = &heard{Writer: must.Get(record.Create(filepath.Join(y.dir, "record")))(t), count: make(map[string]int)}
	journal := must.Get(load.NewJournal(y.heard, os.Stdout, y.shapes))(t)
	y.load.Journal = journal
	world := record.World{Seed: *seed, Store: "bolt, then PostgreSQL", Began: journal.Began.UnixNano(), Nodes: []string{"a", "b", "c"}}
	for i := range y.shapes {
		world.BizTypes = append(world.BizTypes, y.shapes[i].BizType)
	}
	journal.Write(record.Entry{World: &world})

	bizTypes, _, err := load.Configuration(y.shapes)
	must.Do(t, err)
	more := fmt.Sprintf(`,{"name":%q,"increment":10,"offset":1},{"name":%q,"strategy":"snowflake"}]`, sharedType, sharedRacks)
	y.settings = []string{
		"SEQD_BIZTYPES=" + strings.TrimSuffix(bizTypes, "]") + more, "SEQD_SNOWFLAKE_BITSRACK=2", "SEQD_SNOWFLAKE_RACK=0", "SEQD_SNOWFLAKE_STATEDIR=.",
		"SEQD_COMPAT_LEAF=true", "SEQD_COMPAT_TINYID=true", "SEQD_COMPAT_COSID=use", "SEQD_COMPAT_TOKEN=shop",
		"SEQD_SERVER_STOPTIMEOUT=4s", "SEQD_SEGMENT_ONREDISDOWN=reject", "SEQD_SEGMENT_ACQUIRETIMEOUT=2s", "SEQD_GAPLESS_ACQUIRETIMEOUT=2s",
		"SEQD_SERVER_TLS_CERTFILE=" + filepath.Join(y.dir, "tls.crt"), "SEQD_SERVER_TLS_KEYFILE=" + filepath.Join(y.dir, "tls.key"),
		fmt.Sprintf(`SEQD_AUTH_TOKENS=[{"name":"ops","sha256":"%x","scopes":["admin"]},{"name":"watch","sha256":"%x","scopes":["read"]}]`,
			sha256.Sum256([]byte(operatorSecret)), sha256.Sum256([]byte(watchSecret))),
	}
	y.configure("info")
	for _, name := range world.Nodes {
		m := &member{year: y, name: name, addr: testenv.ReserveAddr(t), resp: testenv.ReserveAddr(t), dir: t.TempDir(), program: y.programs[0]}
		y.nodes = append(y.nodes, m)
		y.load.Nodes = append(y.load.Nodes, m)
		t.Cleanup(func() {
			m.kill()
			if t.Failed() {
				t.Logf("%s says at last: %s", m.name, m.tail())
			}
		})
	}
	y.pager = newPager(t, t.TempDir())
	return y
}

// builds returns the programs of the versions that the year runs: the last release, if there is
// one, and builds of this version under other names.
func builds(t *testing.T) (programs []string) {
	dir := t.TempDir()
	if out, err := exec.Command("../../scripts/last-release").Output(); err == nil {
		programs = append(programs, strings.TrimSpace(string(out)))
	} else {
		fmt.Println("NOT CHECKED: an upgrade from the last release, which is unknown; three builds of this version stand for three versions.")
	}
	for i := len(programs); i < 3; i++ {
		path := filepath.Join(dir, fmt.Sprint("seqd-", i+1))
		build := exec.Command("go", "build", "-tags", "nomsgpack", "-o", path,
			"-ldflags", fmt.Sprintf("-s -X github.com/seqd/seqd/internal/version.linked=v0.%d.0-drill", i+1), "./cmd/seqd")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build seqd: %v: %s", err, out)
		}
		programs = append(programs, path)
	}
	return programs
}

// configure writes the configuration that nodes read again.
func (y *year) configure(logLevel string) {
	y.file = filepath.Join(y.dir, "seqd.yaml")
	must.Do(y.t, os.WriteFile(y.file, fmt.Appendf(nil, "log: {level: %s}\n", logLevel), 0o600))
}

// makeCertificates makes two certificates, which callers and the operator trust. Nodes have the
// first.
func (y *year) makeCertificates() {
	var trusted []byte
	for _, subject := range []string{"second", "first"} {
		cert, key := certificatetest.Pair(y.t, subject, time.Now().Add(50*time.Minute))
		trusted = append(trusted, cert...)
		certificatetest.Put(y.t, config.TLS{CertFile: filepath.Join(y.dir, subject+".crt"), KeyFile: filepath.Join(y.dir, subject+".key")}, cert, key)
	}
	must.Do(y.t, os.WriteFile(filepath.Join(y.dir, "trusted.pem"), trusted, 0o600))
	y.useCertificate("first")
}

// useCertificate puts a certificate where nodes look for theirs.
func (y *year) useCertificate(subject string) {
	for _, end := range []string{".crt", ".key"} {
		text := must.Get(os.ReadFile(filepath.Join(y.dir, subject+end)))(y.t)
		must.Do(y.t, os.WriteFile(filepath.Join(y.dir, "tls"+end), text, 0o600))
	}
}

// trusted returns the certificates that callers trust.
func (y *year) trusted() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(must.Get(os.ReadFile(filepath.Join(y.dir, "trusted.pem")))(y.t))
	return pool
}

// watch makes Prometheus watch these nodes, and the second data centre.
func (y *year) watch(members []*member) {
	all := map[string][]string{}
	for _, m := range members {
		all["main"] = append(all["main"], m.URL())
	}
	if y.far != nil {
		all["far"] = []string{y.far.URL}
	}
	y.pager.watch(all)
}

// during does something that can take back what callers were told, and records that for the
// checker.
func (y *year) during(class, target string, marks record.Fault, do func()) {
	y.faults++
	marks.ID, marks.Class, marks.Target, marks.Begin = y.faults, class, target, y.load.Journal.Now()
	told := marks // the journal may read it later
	y.load.Journal.Write(record.Entry{Fault: &told})
	do()
	marks.End = y.load.Journal.Now()
	y.load.Journal.Write(record.Entry{Fault: &marks})
}

// conclude stops the nodes, lets the checker judge what callers got, and prints the table.
func (y *year) conclude() {
	for _, m := range y.nodes {
		if m.cmd != nil && !m.ended() {
			m.stop()
		}
	}
	y.load.Journal.Write(record.Entry{Done: &record.Done{At: y.load.Journal.Now()}})
	must.Do(y.t, y.heard.Close())
	report := must.Get(check.File(filepath.Join(y.dir, "record"), check.Options{Shown: 5}))(y.t)
	y.say("\n%s", report)
	if report.Total() > 0 {
		y.t.Errorf("%d violations, of which %d duplicates (seed %d)", report.Total(), report.Duplicates, *seed)
	}
	if y.pager == nil {
		y.say("NOT CHECKED: alerts, because %s does not name a Prometheus.", programEnv)
	} else {
		fired := make(map[string]int)
		for _, a := range y.pager.since(time.Time{}) {
			fired[a.Labels["alertname"]]++
		}
		text := must.Get(json.Marshal(fired))(y.t)
		y.say("alerts that fired in the year, each with other labels or in another step: %s", text)
	}
	y.say("\nthe year, seed %d: %d numbers in %d calls, %d duplicates, %d violations", *seed, report.Numbers, report.Calls, report.Duplicates, report.Total())
	for _, line := range y.table {
		fmt.Println(line)
	}
}
