package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/seqd/seqd/internal/testing/must"
)

// alertTests has the fields of alerts_test.yaml, as promtool reads them.
type alertTests struct {
	RuleFiles          []string    `yaml:"rule_files"`
	EvaluationInterval string      `yaml:"evaluation_interval"`
	Tests              []alertTest `yaml:"tests"`
}

type alertTest struct {
	Name     string        `yaml:"name"`
	Interval string        `yaml:"interval"`
	Series   []alertSeries `yaml:"input_series"`
	Exprs    []struct {
		Expr     string `yaml:"expr"`
		EvalTime string `yaml:"eval_time"`
		Samples  []struct {
			Value  float64 `yaml:"value"`
			Labels string  `yaml:"labels"`
		} `yaml:"exp_samples"`
	} `yaml:"promql_expr_test,omitempty"`
	Alerts []struct {
		EvalTime string `yaml:"eval_time"`
		Name     string `yaml:"alertname"`
		Expected []struct {
			Labels      map[string]string `yaml:"exp_labels"`
			Annotations map[string]string `yaml:"exp_annotations"`
		} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test,omitempty"`
}

type alertSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// lastly matches how long the last value of a series stays.
var lastly = regexp.MustCompile(`x180$`)

// One Prometheus scrapes two installations: what makes an alert fire in one makes none fire in
// the other, which is well, and the other silences nothing. Each test of alerts_test.yaml runs again
// with the series of both.
func TestTwoInstallations(t *testing.T) {
	promtool := os.Getenv("SEQD_TEST_PROMTOOL")
	if promtool == "" {
		t.Skip("SEQD_TEST_PROMTOOL names no promtool; scripts/long deploy does")
	}
	var tests alertTests
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "alerts_test.yaml")))
	decoder.KnownFields(true)
	must.Do(t, decoder.Decode(&tests))
	well := tests.Tests[0].Series
	for i := range well {
		well[i].Series = strings.Replace(well[i].Series, `job="seqd"`, `job="seqd",env="staging"`, 1)
		well[i].Values = lastly.ReplaceAllString(well[i].Values, "x400")
	}
	both := tests
	both.Tests = nil
	for _, test := range tests.Tests[1:] {
		if test.beside(well) {
			both.Tests = append(both.Tests, test)
		}
	}
	if len(both.Tests) < 45 {
		t.Errorf("only %d of %d tests are run with two installations", len(both.Tests), len(tests.Tests))
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "both.yaml")
	must.Do(t, os.WriteFile(file, must.Get(yaml.Marshal(both))(t), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(folder, "alerts.yaml"), []byte(read(t, "alerts.yaml")), 0o600))
	if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// beside makes the installation of a test the one of prod, and adds another one. ok is false for
// tests that have more than one installation, none, or go on for a day.
func (a *alertTest) beside(other []alertSeries) (ok bool) {
	const one, named = `job="seqd"`, `job="seqd",env="prod"`
	for i := range a.Series {
		s := &a.Series[i]
		if !strings.Contains(s.Series, one) || strings.Contains(s.Series, "env=") || strings.Contains(s.Series, "namespace=") || strings.Contains(s.Values, "x1480") || strings.Contains(s.Values, "x800") {
			return false
		}
		s.Series = strings.Replace(s.Series, one, named, 1)
	}
	for _, e := range a.Exprs {
		if len(e.EvalTime) > len("335m") {
			return false
		}
		for i := range e.Samples {
			e.Samples[i].Labels = strings.Replace(e.Samples[i].Labels, one, named, 1)
		}
	}
	for _, alert := range a.Alerts {
		for _, e := range alert.Expected {
			e.Labels["env"] = "prod"
		}
	}
	a.Series = append(a.Series, other...)
	return true
}
