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
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	nodes    []*member
	far      *node.Node // the second data centre, once there is one
	pager    *pager
	callers  *callers

	link     *testenv.Link     // to the database
	database *testenv.Postgres // of this moment
	password string            // of the database

	shapes []load.Shape
	writer *record.Writer
	faults int
	table  []string
}

// callers send the secret of their token.
type callers struct {
	*http.Transport
	secret atomic.Value
}

func (c *callers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+c.secret.Load().(string))
	return c.Transport.RoundTrip(r)
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

// TestYear plays the year.
func TestYear(t *testing.T) {
	y := begin(t)
	loaded, endLoad := context.WithCancel(t.Context())
	var loading sync.WaitGroup
	defer func() { endLoad(); loading.Wait() }()

	y.step("deploy one node on bolt", y.deploy)
	y.step("load it", func() string {
		loading.Go(func() { y.load.Run(loaded) })
		y.more(200)
		return "segments, keys, gapless with reservations, Idempotency-Keys, snowflake, jobs"
	})
	y.step("rotate the secret of a token", y.rotateToken)
	y.step("rotate the certificate", y.rotateCertificate)
	y.step("move from bolt to PostgreSQL", y.move)
	y.step("rotate the password of the database", y.rotatePassword)
	y.step("upgrade, and leave it half done", func() string { return y.upgrade(!testing.Short()) })
	y.step("upgrade again", func() string { return y.upgrade(false) })
	y.step("lose the disk, restore an old snapshot", y.loseDisk)
	y.step("fail over, and lose the last writes", y.failOver)
	y.step("add a data centre", y.addDataCentre)
	y.step("a node dies; decommission it", y.decommission)

	y.step("machine IDs in both data centres", func() string {
		for _, m := range y.nodes[:2] {
			m.awaitReady() // after a failover leases wait for a minute
		}
		return y.everywhere(sharedRacks)
	})
	y.more(200)
	endLoad()
	loading.Wait()
	y.load.Nodes = y.load.Nodes[:2]
	y.load.AwaitJobs(t.Context(), await.Patience)
	y.load.CloseBooks(t.Context())
	y.step("answer the auditor", y.audit)
	y.conclude()
}

// begin prepares everything that needs no server of the installation.
func begin(t *testing.T) *year {
	y := &year{t: t, dir: t.TempDir(), password: "secret", programs: builds(t)}
	y.say("seed %d", *seed)
	for name, more := range map[string]load.Settings{
		"order": nil, "local": nil, "huge": nil, "ledger": nil, "parcel": nil, "bill": nil, "credit": nil, "rent": nil, "user": nil, "guest": nil,
	} {
		y.shapes = append(y.shapes, load.Some(load.Shapes(load.Options{NoRedis: true, Lossy: true}), map[string]load.Settings{name: more})...)
	}
	slices.SortFunc(y.shapes, func(a, b load.Shape) int { return strings.Compare(a.Name, b.Name) })
	y.makeCertificates()
	y.callers = &callers{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: y.trusted()}}}
	y.callers.secret.Store("")
	y.load = &load.Load{Seed: *seed, Shapes: y.shapes, HTTP: &http.Client{Transport: y.callers}, Pace: 3,
		Loops: load.Loops{Mixed: 6, Books: 4, Audit: 1, Jobs: 1}}

	y.writer = must.Get(record.Create(filepath.Join(y.dir, "record")))(t)
	journal := must.Get(load.NewJournal(y.writer, os.Stdout, y.shapes))(t)
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
		"SEQD_SEGMENT_ACQUIRETIMEOUT=2s", "SEQD_GAPLESS_ACQUIRETIMEOUT=2s",
		"SEQD_SERVER_TLS_CERTFILE=" + filepath.Join(y.dir, "tls.crt"), "SEQD_SERVER_TLS_KEYFILE=" + filepath.Join(y.dir, "tls.key"),
		fmt.Sprintf(`SEQD_AUTH_TOKENS=[{"name":"ops","sha256":"%x","scopes":["admin"]},{"name":"watch","sha256":"%x","scopes":["read"]}]`,
			sha256.Sum256([]byte(operatorSecret)), sha256.Sum256([]byte(watchSecret))),
	}
	for _, name := range world.Nodes {
		m := &member{year: y, name: name, addr: testenv.ReserveAddr(t), dir: t.TempDir(), program: y.programs[0]}
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

// more waits until callers have got more numbers: of a counter without gaps, and of another.
func (y *year) more(count int64) {
	y.t.Helper()
	began := time.Now()
	defer func() {
		y.say("   callers got %d more numbers without a gap, in %.1f s", count, time.Since(began).Seconds())
	}()
	before := y.load.Journal.Highest()
	for _, counter := range []string{"order", "bill"} {
		await.Eventually(y.t, fmt.Sprintf("callers get %d more numbers of %s", count, counter), func() error {
			if got := y.load.Journal.Highest()[counter] - before[counter]; got < count {
				return fmt.Errorf("they got %d", got)
			}
			return nil
		})
	}
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

// marks writes how far gapless counters have come, as callers know, for the operator. No call is
// under way meanwhile.
func (y *year) marks() (file string) {
	y.load.Sending.Lock()
	highest := y.load.Journal.Highest()
	y.load.Sending.Unlock()
	var lines strings.Builder
	for counter, number := range highest {
		bizType, _, _ := strings.Cut(counter, "/")
		if s := y.load.Shape(bizType); s.Strategy == record.Gapless {
			fmt.Fprintf(&lines, "%s,%d\n", counter, number)
		}
	}
	file = filepath.Join(y.dir, fmt.Sprintf("callers-%d.csv", y.faults))
	must.Do(y.t, os.WriteFile(file, []byte(lines.String()), 0o600))
	return file
}

// conclude stops the nodes, lets the checker judge what callers got, and prints the table.
func (y *year) conclude() {
	for _, m := range y.nodes {
		if m.cmd != nil && !m.ended() {
			m.stop()
		}
	}
	y.load.Journal.Write(record.Entry{Done: &record.Done{At: y.load.Journal.Now()}})
	must.Do(y.t, y.writer.Close())
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
