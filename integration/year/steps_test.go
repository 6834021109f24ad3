//go:build drill

package year

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/internal/testing/record"
)

// deploy starts the first node, and makes the token of the callers.
func (y *year) deploy() string {
	a := y.nodes[0]
	y.store = []string{"SEQD_STORE_DRIVER=bolt", "SEQD_STORE_BOLT_PATH=" + filepath.Join(a.dir, "seqd.db")}
	a.start()
	y.watch(y.nodes[:1])
	var made struct{ Secret string }
	must.Do(y.t, json.Unmarshal([]byte(y.do(nil, "tokens", "create", "shop", "--scope", "issue:*,lease:*,read,admin", "--json")), &made))
	y.callers.change(made.Secret)
	return a.URL()
}

// loadIt lets callers of all protocols begin. They go on until the end of the year.
func (y *year) loadIt() string {
	y.loading.Go(func() { y.load.Run(y.loaded) })
	y.more(200)
	return "by HTTP, Redis, Leaf, Tinyid and CosId; worker and machine IDs"
}

// rotateToken gives the callers another secret, and revokes the former one.
func (y *year) rotateToken() string {
	var secrets []struct{ ID string }
	must.Do(y.t, json.Unmarshal([]byte(y.do(nil, "tokens", "secrets", "list", "shop", "--json")), &secrets))
	var made struct{ Secret string }
	must.Do(y.t, json.Unmarshal([]byte(y.do(nil, "tokens", "secrets", "create", "shop", "--json")), &made))
	y.load.Sending.Lock()
	former := y.callers.secret.Load().(string)
	y.callers.change(made.Secret)
	y.load.Sending.Unlock()
	y.do(nil, "tokens", "secrets", "revoke", "shop", secrets[0].ID, "--yes")
	await.Eventually(y.t, "the former secret is refused", func() error {
		if status, body := y.ask(y.nodes[0].URL()+"/seq/order", former); status != http.StatusUnauthorized {
			return fmt.Errorf("it answers %d: %s", status, body)
		}
		return nil
	})
	y.more(20)
	return "callers noticed nothing; the former secret is 401"
}

// ask sends a request with a secret, and returns the answer.
func (y *year) ask(url, secret string) (status int, body string) {
	req := must.Get(http.NewRequestWithContext(y.t.Context(), http.MethodGet, url, nil))(y.t)
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := y.callers.Transport.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// rotateCertificate replaces the files of the certificate.
func (y *year) rotateCertificate() string {
	y.useCertificate("second")
	trust := &tls.Config{RootCAs: y.trusted()}
	y.callers.Transport.CloseIdleConnections()
	await.Eventually(y.t, "the node shows the new certificate", func() error {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(y.nodes[0].URL(), "https://"), trust)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if name := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; name != "second" {
			return fmt.Errorf("it shows the %s", name)
		}
		return nil
	})
	return "without a restart"
}

// newDatabase starts a PostgreSQL with nothing in it, behind the address that nodes have.
func (y *year) newDatabase() {
	y.database = testenv.StartPostgres(y.t)
	y.database.Query(fmt.Sprintf("ALTER ROLE seqd PASSWORD '%s'", y.password))
	if y.link == nil {
		y.link = testenv.NewLink(y.t, y.database.Addr())
	} else {
		y.link.Switch(y.database.Addr())
	}
}

// writeURL writes how nodes reach the database to the file that they read.
func (y *year) writeURL() {
	url := strings.Replace(testenv.PostgresURL(y.link.Addr()), ":secret@", ":"+y.password+"@", 1)
	must.Do(y.t, os.WriteFile(filepath.Join(y.dir, "url"), []byte(url), 0o600))
}

// move takes everything from the file to a database that nodes share, and starts three nodes on it.
func (y *year) move() string {
	y.newDatabase()
	y.writeURL()
	y.bolt = y.store
	url := filepath.Join(y.dir, "url")
	shared := []string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URLFILE=" + url, "SEQD_STORE_POSTGRES_TIMEOUT=2s"}
	y.during("move", "store", record.Fault{Store: true}, func() {
		y.nodes[0].stop()
		from, to := filepath.Join(y.dir, "bolt.yaml"), filepath.Join(y.dir, "postgres.yaml")
		must.Do(y.t, os.WriteFile(from, fmt.Appendf(nil, "store: {driver: bolt, bolt: {path: %q}}\n", filepath.Join(y.nodes[0].dir, "seqd.db")), 0o600))
		must.Do(y.t, os.WriteFile(to, fmt.Appendf(nil, "store: {driver: postgres, postgres: {urlFile: %q}}\n", url), 0o600))
		y.do(y.settings, "move", "--from", from, "--to", to)
		y.refused(append(slices.Clone(y.bolt), y.settings...), "was moved to", "raise", "--dry-run")
		y.store = shared
		y.each((*member).start)
	})
	y.watch(y.nodes)
	y.more(50)
	return "three nodes; the file refuses commands"
}

// onStore returns the settings of commands that open the store.
func (y *year) onStore() []string { return append(slices.Clone(y.store), y.settings...) }

// each does something with all nodes, one after the other.
func (y *year) each(do func(*member)) {
	for _, m := range y.nodes {
		do(m)
	}
}

// rotatePassword changes the password of the database, writes it to the file that nodes read, and
// ends all connections.
func (y *year) rotatePassword() string {
	y.password = "another"
	y.database.Query(fmt.Sprintf("ALTER ROLE seqd PASSWORD '%s'", y.password))
	y.writeURL()
	y.database.Query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'seqd'")
	y.more(100)
	return "from a file, without a restart"
}

// upgrade replaces the program of one node after the other while callers go on. If it is left half
// done, the operator does something else until the alert says so.
func (y *year) upgrade(halfDone bool) string {
	i := slices.Index(y.programs, y.nodes[0].program) + 1
	mix := y.pager.expect("SeqdVersionMix")
	for n, m := range y.nodes {
		m.stop()
		m.program = y.programs[i]
		m.start()
		y.more(20)
		if halfDone && n == 0 {
			mix.fired()
		}
	}
	if !halfDone {
		return "node by node"
	}
	return "node by node; " + mix.cleared()
}

// loseDisk loses the database, and restores a snapshot that lacks what was issued since. The
// operator forgets one node, which runs all the time, and another is suspended and comes back
// afterwards.
func (y *year) loseDisk() string {
	file := filepath.Join(y.dir, "hourly.snapshot")
	y.do(nil, "snapshot", "save", file, "--addr", y.nodes[0].URL())
	y.more(300) // what callers get within the hour
	forgotten, stopped, suspended := y.nodes[0], y.nodes[1], y.nodes[2]
	down := y.pager.expect("SeqdStoreDown")
	var found string
	y.during("disk", "store", record.Fault{Store: true, StoreBack: true, StoreLost: true, LosesKeys: true}, func() {
		y.during("suspended", suspended.name, record.Fault{Paused: true}, func() {
			suspended.pause()
			y.database.LoseDisk()
			down.fired()
			stopped.stop()
			restore := []string{"snapshot", "restore", file, "--highest", y.marks(), "--gapless", "0", "--yes"}
			y.newDatabase()
			said, code := y.seqd(y.onStore(), restore...)
			found = "the node that was forgotten came too late to the new database"
			if code != 0 {
				found = "the restore found the node that was forgotten"
				if !strings.Contains(said, "top every seqd") {
					y.t.Errorf("the restore fails with %d and does not say what to do: %s", code, said)
				}
			}
			forgotten.stop()
			if code != 0 {
				y.newDatabase() // it has written to the other one, and callers got numbers from there
				if said, code := y.seqd(y.onStore(), restore...); code == 0 || !strings.Contains(said, "was restored at") {
					y.t.Errorf("the same restore into another store exits with %d: %s", code, said)
				}
				y.do(y.onStore(), "snapshot", "restore", file, "--highest", y.marks(), "--by", strconv.Itoa(30_000_000), "--yes")
			}
			forgotten.start()
			stopped.start()
			y.do(y.onStore(), "snapshot", "confirm")
			y.more(50)
			suspended.resume()
		})
		y.more(50)
	})
	return found + "; " + down.cleared()
}

// failOver lets a standby take over that lacks the last writes.
func (y *year) failOver() string {
	former, standby := y.database, testenv.StartStandby(y.t, y.database)
	former.AwaitStandby(standby)
	down, failed := y.pager.expect("SeqdStoreDown"), y.pager.expect("SeqdStoreFailedOver")
	var lost int64
	y.during("failover", "store", record.Fault{Store: true, StoreLost: true, LosesKeys: true}, func() {
		standby.Detach()
		y.more(50)
		y.link.Cut()
		down.fired()
		lost = y.order(former) - y.order(standby)
		former.Kill()
		standby.Promote()
		y.database = standby
		y.link.Switch(standby.Addr())
		y.link.Restore()
		failed.fired()
		if said, code := y.seqd(y.onStore(), "failover"); code != 1 || !strings.Contains(said, "FAILED OVER") {
			y.t.Errorf("seqd failover exits with %d: %s", code, said)
		}
		marks := y.marks()
		y.do(y.onStore(), "raise", "--file", marks, "--yes")
		if said := y.do(y.onStore(), "raise", "--file", marks, "--yes"); !strings.Contains(said, "0 counters were raised") {
			y.t.Errorf("who raises twice is told: %s", said)
		}
		y.do(y.onStore(), "failover", "--confirm")
		y.more(50)
	})
	return fmt.Sprintf("%d numbers of order were lost; %s; %s", lost, down.cleared(), failed.cleared())
}

// order returns how far a server knows that the counter order has come.
func (y *year) order(p *testenv.Postgres) int64 {
	return must.Get(strconv.ParseInt(p.Query("SELECT highest FROM seqd_counters WHERE name = 'order'"), 10, 64))(y.t)
}

// addDataCentre starts another installation, with a store and a Redis of its own, that issues
// numbers of the same biz types.
func (y *year) addDataCentre() string {
	redis := testenv.StartRedis(y.t)
	y.far = node.StartReady(y.t, y.t.TempDir(), "SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL="+testenv.StartPostgres(y.t).URL(),
		"SEQD_REDIS_ADDRS="+redis.Addr(), "SEQD_SNOWFLAKE_BITSRACK=2", "SEQD_SNOWFLAKE_RACK=1",
		fmt.Sprintf(`SEQD_BIZTYPES=[{"name":%q,"increment":10,"offset":2},{"name":%q,"strategy":"snowflake"}]`, sharedType, sharedRacks))
	y.watch(y.nodes)
	return y.everywhere(sharedType)
}

// everywhere takes numbers of a biz type in both data centres at once.
func (y *year) everywhere(bizType string) string {
	all := ordercheck.New()
	var both sync.WaitGroup
	for _, place := range []struct{ name, url string }{{"here", y.nodes[0].URL()}, {"here, too", y.nodes[1].URL()}, {"far away", y.far.URL}} {
		both.Go(func() {
			for range 200 {
				began := all.Now()
				status, body := y.ask(place.url+"/seq/"+bizType, y.callers.secret.Load().(string))
				var got struct{ ID string }
				_ = json.Unmarshal([]byte(body), &got) // an answer without a number is reported below
				number, err := strconv.ParseInt(got.ID, 10, 64)
				if err != nil {
					y.t.Errorf("%s answers %d: %s", place.name, status, body)
					return
				}
				all.Add(began, place.name, []int64{number})
			}
		})
	}
	both.Wait()
	must.Report(y.t, all.Duplicates())
	return fmt.Sprintf("%d numbers of one space from both, none twice", all.Numbers())
}

// everyMachineID takes numbers of snowflake in both data centres, and waits for programs that lease
// worker and machine IDs.
func (y *year) everyMachineID() string {
	for _, m := range y.nodes[:2] {
		m.awaitReady() // after a failover leases wait for a minute
	}
	result := y.everywhere(sharedRacks)
	y.moreOf(nil, load.Pools...)
	if !testing.Short() { // where the leases of clients of CosId begin too late
		y.moreOf(y.heard.counts(), append(slices.Clone(load.Pools), load.MachinePool)...)
	}
	return result
}

// decommission takes a node away that has died: Prometheus and callers forget it.
func (y *year) decommission() string {
	down := y.pager.expect("SeqdTargetDown")
	gone := y.nodes[2]
	gone.kill()
	down.fired()
	y.watch(y.nodes[:2])
	await.Eventually(y.t, "the service does not know it any more", func() error {
		if status, list := y.ask(y.nodes[0].URL()+"/nodes", operatorSecret); status != http.StatusOK || strings.Contains(list, gone.addr) {
			return fmt.Errorf("it says %d: %s", status, list)
		}
		return nil
	})
	result := down.cleared()
	y.more(50)
	return result
}

// audit writes the account of each gapless biz type, and looks for holes in it.
func (y *year) audit() string {
	var numbers, counters int
	for _, bizType := range []string{"bill", "credit", "rent"} {
		y.do(nil, "report", bizType, "--to", y.dir)
		path := filepath.Join(y.dir, bizType)
		rows := must.Get(os.ReadFile(path + ".csv"))(y.t)
		sums := string(must.Get(os.ReadFile(path + ".sha256"))(y.t))
		for _, end := range []string{".csv", ".json"} {
			want := fmt.Sprintf("%x  %s\n", sha256.Sum256(must.Get(os.ReadFile(path+end))(y.t)), bizType+end)
			if !strings.Contains(sums, want) {
				y.t.Errorf("%s is not in %s", want, sums)
			}
		}
		next := map[string]int64{} // by key
		reader := csv.NewReader(bytes.NewReader(rows))
		for i, row := range must.Get(reader.ReadAll())(y.t) {
			if i == 0 {
				continue
			}
			from, to := must.Get(strconv.ParseInt(row[2], 10, 64))(y.t), must.Get(strconv.ParseInt(row[3], 10, 64))(y.t)
			if want := max(next[row[0]], 1); from != want || to < from {
				y.t.Errorf("the account of %s %s has %d to %d where %d must follow", bizType, row[0], from, to, want)
			}
			next[row[0]] = to + 1
			numbers += int(to - from + 1)
		}
		counters += len(next)
		for counter, highest := range y.load.Journal.Highest() {
			name, key, _ := strings.Cut(counter, "/")
			if name == bizType && next[key] <= highest {
				y.t.Errorf("the account of %s ends before %d, and callers have got %d", counter, next[key], highest)
			}
		}
	}
	lines := y.do(nil, "audit", "--json")
	return fmt.Sprintf("%d numbers of %d counters without a hole; %d bytes of audit lines", numbers, counters, len(lines))
}
