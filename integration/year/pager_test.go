//go:build drill

package year

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// haste is how much faster time passes for Prometheus than for the operator: a second of the drill
// is two minutes of the rules. Seconds that a rule compares, such as the age of a released number,
// stay.
const haste = 120

// pager is what Prometheus tells of alerts: it runs deploy/alerts.yaml on the metrics of the nodes,
// and sends what fires to this program, as it would to Alertmanager.
type pager struct {
	t       *testing.T
	targets string // the file with the nodes to scrape

	mu     sync.Mutex // guards what follows
	alerts map[string]*alert
}

// alert is that an alert fires, or has.
type alert struct {
	Labels           map[string]string
	StartsAt, EndsAt time.Time
}

func (a *alert) String() string {
	return fmt.Sprintf("%s %s %s", a.Labels["alertname"], a.Labels["env"], a.Labels["instance"])
}

// programEnv is the environment variable with the program of Prometheus.
const programEnv = "SEQD_TEST_PROMETHEUS"

// newPager starts Prometheus. Without the program there is no pager, and no alert is checked.
func newPager(t *testing.T, dir string) *pager {
	t.Helper()
	program := os.Getenv(programEnv)
	if program == "" {
		return nil
	}
	p := &pager{t: t, targets: filepath.Join(dir, "targets.json"), alerts: make(map[string]*alert)}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	receiver := &http.Server{Handler: http.HandlerFunc(p.receive), ReadHeaderTimeout: await.Patience}
	go func() { _ = receiver.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = receiver.Close() })
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("targets.json", "[]")
	rules := must.Get(os.ReadFile("../../deploy/alerts.yaml"))(t)
	write("alerts.yaml", hasten(string(rules)))
	config := write("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [alerts.yaml]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs:
  - job_name: nodes
    authorization: {credentials: %s}
    tls_config: {insecure_skip_verify: true}
    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
`, listener.Addr(), watchSecret))
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address=127.0.0.1:0",
		"--rules.alert.resend-delay=1s", "--log.level=warn")
	out := must.Get(os.Create(filepath.Join(dir, "prometheus.log")))(t)
	cmd.Stdout, cmd.Stderr = out, out
	exited := run(t, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if text, _ := os.ReadFile(out.Name()); t.Failed() {
			t.Logf("Prometheus says: %s", text)
		}
	})
	return p
}

var (
	spans  = regexp.MustCompile(`\[(\d+)([smhd])\]|\b(for:|offset) (\d+)([smhd])\b`)
	second = map[string]int{"s": 1, "m": 60, "h": 3600, "d": 86400}
)

// hasten makes all durations of rules shorter.
func hasten(rules string) string {
	return spans.ReplaceAllStringFunc(rules, func(span string) string {
		m := spans.FindStringSubmatch(span)
		number, unit := m[1]+m[4], m[2]+m[5]
		n, _ := strconv.Atoi(number) // digits
		short := fmt.Sprintf("%dms", n*second[unit]*1000/haste)
		return strings.Replace(span, number+unit, short, 1)
	})
}

// watch makes Prometheus scrape these nodes, by the names of their installations.
func (p *pager) watch(installations map[string][]string) {
	if p == nil {
		return
	}
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	var all []group
	for env, urls := range installations {
		for _, url := range urls {
			scheme, addr, _ := strings.Cut(url, "://")
			all = append(all, group{[]string{addr}, map[string]string{"job": "seqd", "env": env, "__scheme__": scheme}})
		}
	}
	text := must.Get(json.Marshal(all))(p.t)
	must.Do(p.t, os.WriteFile(p.targets+".new", text, 0o600))
	must.Do(p.t, os.Rename(p.targets+".new", p.targets))
}

// receive answers as Alertmanager.
func (p *pager) receive(w http.ResponseWriter, r *http.Request) {
	var posted []alert
	if err := json.NewDecoder(r.Body).Decode(&posted); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range posted {
		p.alerts[fmt.Sprint(posted[i].StartsAt.UnixNano(), posted[i].Labels)] = &posted[i]
	}
}

// since returns the alerts that have begun since then, of these names, or of all.
func (p *pager) since(then time.Time, names ...string) (all []alert) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.alerts {
		if !a.StartsAt.Before(then) && (len(names) == 0 || slices.Contains(names, a.Labels["alertname"])) {
			all = append(all, *a)
		}
	}
	slices.SortFunc(all, func(a, b alert) int { return a.StartsAt.Compare(b.StartsAt) })
	return all
}

// incident is a time in which some alerts must fire.
type incident struct {
	*pager
	began, fires time.Time
	names        []string
}

// expect begins an incident, when none of its alerts fires any more.
func (p *pager) expect(names ...string) *incident {
	i := &incident{pager: p, names: names}
	if p != nil {
		i.cleared()
	}
	i.began = time.Now()
	return i
}

// fired waits until each alert fires. The cause must still be there.
func (i *incident) fired() {
	if i.pager == nil {
		return
	}
	i.t.Helper()
	for _, name := range i.names {
		await.Eventually(i.t, name+" fires", func() error {
			if len(i.since(i.began, name)) == 0 {
				return fmt.Errorf("these fire: %v", i.since(i.began))
			}
			return nil
		})
	}
	i.fires = time.Now()
}

// cleared waits until each alert has ended, after its cause has, and says so. While its cause was
// there, no alert may have fired twice with the same labels.
func (i *incident) cleared() (result string) {
	if i.pager == nil {
		return "alerts NOT CHECKED"
	}
	i.t.Helper()
	often := make(map[string]int)
	for _, a := range i.since(i.began, i.names...) {
		if often[a.String()]++; often[a.String()] > 1 && a.StartsAt.Before(i.fires) {
			i.t.Errorf("%v fired %d times", &a, often[a.String()])
		}
	}
	await.Eventually(i.t, fmt.Sprintf("%q clear", i.names), func() error {
		for _, a := range i.since(i.began, i.names...) {
			if a.EndsAt.After(time.Now()) {
				return fmt.Errorf("%v fires since %v", &a, a.StartsAt)
			}
		}
		return nil
	})
	return strings.Join(i.names, ", ") + " fired once and cleared"
}
