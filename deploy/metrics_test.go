// Package deploy has files for running seqd, and tests that they fit the program and each other.
package deploy

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/compat"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}

// Names of metrics. Names of seqd's metrics are matched without the suffixes of histograms, and do
// not end in an underscore.
var (
	ours   = regexp.MustCompile(`\bseqd_[a-z_]*[a-z]\b`)
	others = regexp.MustCompile(`\b(?:go|process)_[a-z_]*[a-z]\b`)
	part   = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// collected are the metrics of the Go runtime and of the process that may be used. Prometheus'
// client for Go has them on every system that seqd is deployed on.
var collected = []string{"go_goroutines", "go_memstats_heap_inuse_bytes", "process_cpu_seconds_total", "process_max_fds", "process_open_fds",
	"process_resident_memory_bytes"}

// Every metric that is used exists.
func TestMetricsExist(t *testing.T) {
	documented := ours.FindAllString(read(t, "../docs/METRICS.md"), -1)
	for _, file := range []string{"alerts.yaml", "alerts_test.yaml", "dashboard.json"} {
		text := read(t, file)
		used := ours.FindAllString(text, -1)
		if len(used) < 20 {
			t.Errorf("%s uses only %d metrics of seqd", file, len(used))
		}
		for _, name := range used {
			if !slices.Contains(documented, name) && !slices.Contains(documented, part.ReplaceAllString(name, "")) {
				t.Errorf("%s uses %s, which docs/METRICS.md does not have", file, name)
			}
		}
		for _, name := range others.FindAllString(text, -1) {
			if !slices.Contains(collected, name) {
				t.Errorf("%s uses %s, which is not collected", file, name)
			}
		}
	}
}

// rules returns the rules of alerts.yaml.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

func alerts(t *testing.T) (parsed rules) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "alerts.yaml")))
	decoder.KnownFields(true)
	must.Do(t, decoder.Decode(&parsed))
	return parsed
}

// Every alert has a severity, a description and a runbook, and tests in which it fires and does not
// fire.
func TestAlerts(t *testing.T) {
	tests := read(t, "alerts_test.yaml")
	operations, err := os.ReadFile("../docs/OPERATIONS.md")
	if err != nil {
		t.Errorf("the runbook of the alerts: %v", err)
	}
	headings := strings.ToLower(string(operations))
	seen := make(map[string]bool)
	for _, group := range alerts(t).Groups {
		for _, r := range group.Rules {
			if seen[r.Alert] {
				t.Errorf("%s is defined twice", r.Alert)
			}
			seen[r.Alert] = true
			if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s needs severity critical or warning, a summary and a description", r.Alert)
			}
			anchor := strings.ToLower(r.Alert)
			if !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/OPERATIONS.md#"+anchor) {
				t.Errorf("%s has the runbook_url %q", r.Alert, r.Annotations["runbook_url"])
			}
			if n := len(regexp.MustCompile(`(?m)^#+ `+anchor+`$`).FindAllString(headings, -1)); err == nil && n != 1 {
				t.Errorf("docs/OPERATIONS.md has %d sections %s", n, r.Alert)
			}
			if !strings.Contains(tests, `[{value: 1, labels: 'ALERTS{alertname="`+r.Alert+`"`) ||
				!regexp.MustCompile(`\{expr: 'ALERTS\{alertname="`+r.Alert+`",alertstate="firing"\}', eval_time: \w+, exp_samples: \[\]\}`).MatchString(tests) {
				t.Errorf("alerts_test.yaml does not say when %s fires, and when not", r.Alert)
			}
		}
	}
	for _, name := range regexp.MustCompile(`Seqd[A-Z]\w+`).FindAllString(read(t, "alertmanager.yml"), -1) {
		if !seen[name] {
			t.Errorf("alertmanager.yml names %s, which is no alert", name)
		}
	}
	if len(seen) < 30 {
		t.Errorf("there are only %d alerts", len(seen))
	}
}

// What docs/METRICS.md says can be dropped exists, and no alert needs it.
func TestDroppedMetricsAreNotNeeded(t *testing.T) {
	text := read(t, "../docs/METRICS.md")
	var all []string
	for _, line := range regexp.MustCompile(`(?m)^ +regex: (seqd_.*)$`).FindAllStringSubmatch(text, -1) {
		all = append(all, line[1])
	}
	drop := regexp.MustCompile(`^(` + strings.Join(all, "|") + `)$`)
	found := make(map[string]bool)
	for _, name := range ours.FindAllString(text, -1) {
		if drop.MatchString(name) {
			found[name] = true
		}
	}
	must.Equal(t, len(found), 7, "metrics that can be dropped")
	for _, name := range ours.FindAllString(read(t, "alerts.yaml"), -1) {
		if drop.MatchString(name) {
			t.Errorf("alerts.yaml needs %s", name)
		}
	}
}

// SeqdErrorRatio sees all routes that give numbers, also those of drop-ins. Its codes are
// written from codes.go. The dashboard counts the same.
func TestErrorRatio(t *testing.T) {
	text := read(t, "alerts.yaml")
	routes := regexp.MustCompile(`^(?:` + regexp.MustCompile(`seqd_http_requests_total\{route=~"([^"]*)",code`).FindStringSubmatch(text)[1] + `)$`)
	for _, r := range compat.Routes(compat.Options{Leaf: true, Tinyid: true, CosID: true}) {
		if !routes.MatchString(r.Path) && r.Path != "/machines/:namespace" { // that gives no numbers
			t.Errorf("%s is not among the routes %s", r.Path, routes)
		}
	}
	for _, part := range []string{`route=~"([^"]*)",code`, `code=~"(answers_full[^"]*)"`} {
		if part := regexp.MustCompile(part).FindStringSubmatch(text)[1]; !strings.Contains(read(t, "dashboard.json"), `=~\"`+part+`\"`) {
			t.Errorf("the dashboard does not count %s", part)
		}
	}
}

// Rules keep the labels that tell installations apart: nothing is aggregated by a list of labels,
// and the labels of nodes are left out everywhere in the same words, which sed can extend.
func TestAlertsKeepLabels(t *testing.T) {
	for _, group := range alerts(t).Groups {
		for _, r := range group.Rules {
			if strings.Contains(r.Expr, "by (") || strings.Contains(strings.ReplaceAll(r.Expr, "unless on (job) last_over_time", ""), "on (") {
				t.Errorf("%s drops labels: %s", r.Alert, r.Expr)
			}
			if strings.Count(r.Expr, "(instance") != strings.Count(r.Expr, "(instance, pod, node") {
				t.Errorf("%s: %s", r.Alert, r.Expr)
			}
		}
	}
}

// dashboard has the fields of dashboard.json that are checked.
type dashboard struct {
	Templating struct{ List []struct{ Name string } }
	Panels     []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ UID string }
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		Expr       string
		Datasource struct{ UID string }
	}
}

// Every panel has a description, uses the chosen data source, and selects the chosen job and
// instance.
func TestDashboard(t *testing.T) {
	var d dashboard
	must.Do(t, json.Unmarshal([]byte(read(t, "dashboard.json")), &d))
	var rows, variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if want := []string{"datasource", "job", "instance", "biz_type"}; !slices.Equal(variables, want) {
		t.Errorf("the variables are %q, want %q", variables, want)
	}
	ids := make(map[int]bool)
	for i, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: the id %d is missing or not unique", p.Title, p.ID)
		}
		ids[p.ID] = true
		if i > 0 && overlap(d.Panels[:i], p) {
			t.Errorf("%s covers another panel, or the edge", p.Title)
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		checkPanel(t, p)
	}
	if want := []string{"Overview", "Issuing", "Segments", "Gapless", "Snowflake", "Back ends", "HTTP", "Process"}; !slices.Equal(rows, want) {
		t.Errorf("the rows are %q, want %q", rows, want)
	}
}

// The runbook of SeqdSlow can be followed from the dashboard alone: it names panels, in bold, and
// they exist.
func TestRunbookFollowsDashboard(t *testing.T) {
	var d dashboard
	must.Do(t, json.Unmarshal([]byte(read(t, "dashboard.json")), &d))
	_, section, _ := strings.Cut(read(t, "../docs/OPERATIONS.md"), "\n### SeqdSlow\n")
	section, _, _ = strings.Cut(section, "\n### ")
	named := regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(section, -1)
	for _, name := range named {
		if !slices.ContainsFunc(d.Panels, func(p panel) bool { return p.Title == name[1] }) {
			t.Errorf("the dashboard has no panel %q", name[1])
		}
	}
	if len(named) < 12 {
		t.Errorf("only %d panels are named: %q", len(named), named)
	}
}

// overlap reports whether a panel overlaps one of the others, or exceeds the 24 columns.
func overlap(before []panel, p panel) bool {
	a := p.GridPos
	return a.W < 1 || a.H < 1 || a.X < 0 || a.X+a.W > 24 || slices.ContainsFunc(before, func(other panel) bool {
		b := other.GridPos
		return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
	})
}

// selector matches the name of a metric and what follows it.
var selector = regexp.MustCompile(`\b(?:seqd|go|process)_[a-z_]+(\{[^}]*\})?`)

func checkPanel(t *testing.T, p panel) {
	t.Helper()
	if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
		t.Errorf("panel %d, %q, needs a title, a description, a unit, something to show, and the variable datasource", p.ID, p.Title)
	}
	for _, target := range p.Targets {
		must.Equal(t, target.Datasource.UID, "${datasource}", "%s: the data source of %s", p.Title, target.Expr)
		for _, found := range selector.FindAllStringSubmatch(target.Expr, -1) {
			if !strings.Contains(found[1], `job=~"$job",instance=~"$instance"`) {
				t.Errorf("%s: %s does not select the chosen job and instance", p.Title, found[0])
			}
		}
	}
}
