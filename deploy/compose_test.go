package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// service has the fields of a service of compose.yaml that are checked.
type service struct {
	Image       string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	Ulimits     map[string]int
	Environment map[string]string
	Ports       []string
	Volumes     []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck map[string]any
	StopGrace   time.Duration `yaml:"stop_grace_period"`
}

type composition struct {
	Services map[string]service
	Volumes  map[string]any
}

// compositions are the files for the stores that nodes share, and how many services each has.
var compositions = map[string]int{"compose.yaml": 13, "compose.postgres.yaml": 3, "compose.postgres-redis.yaml": 4, "compose.mysql.yaml": 3}

// eachComposition runs a check of each file.
func eachComposition(t *testing.T, check func(t *testing.T, file string, c composition)) {
	files, err := filepath.Glob("compose*.yaml")
	if err != nil || len(files) != len(compositions) {
		t.Errorf("there are %q (%v), want %v", files, err, compositions)
	}
	for file, services := range compositions {
		t.Run(file, func(t *testing.T) {
			var parsed composition
			must.Do(t, yaml.Unmarshal([]byte(read(t, file)), &parsed))
			if len(parsed.Services) != services {
				t.Fatalf("%d services were parsed, want %d", len(parsed.Services), services)
			}
			check(t, file, parsed)
		})
	}
}

var variable = regexp.MustCompile(`\$\{([A-Z_]+)`)

// environment returns the output of compose/env as variables, parsed as docker compose does.
func environment(t *testing.T) map[string]string {
	t.Helper()
	out := must.Get(exec.Command("compose/env").Output())(t)
	return lines(t, string(out))
}

func lines(t *testing.T, text string) map[string]string {
	t.Helper()
	env := make(map[string]string)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Errorf("%q is not a variable", line)
		}
		env[name] = strings.Trim(value, "'")
	}
	return env
}

// The compositions, the example and the program that generates them have the same variables. The
// example has no secrets.
func TestComposeVariables(t *testing.T) {
	example, made := lines(t, read(t, ".env.example")), environment(t)
	delete(example, "COMPOSE_PROJECT_NAME") // read by docker compose itself
	var all string
	eachComposition(t, func(t *testing.T, file string, _ composition) {
		text := read(t, file)
		all += text
		for _, found := range variable.FindAllStringSubmatch(text, -1) {
			if _, ok := example[found[1]]; !ok {
				t.Errorf("it needs %s, which .env.example does not have", found[1])
			}
			if made[found[1]] == "" {
				t.Errorf("it needs %s, which compose/env does not write", found[1])
			}
		}
	})
	for name, value := range example {
		if !strings.Contains(all, "${"+name) {
			t.Errorf(".env.example has %s, which nothing reads", name)
		}
		if value != "" && name != "VERSION" {
			t.Errorf(".env.example has a value for %s: a copy of it would run with a public secret", name)
		}
	}
}

// Ports are open to this machine only, and containers are hardened.
func TestComposeIsClosed(t *testing.T) {
	eachComposition(t, func(t *testing.T, _ string, c composition) { c.checkClosed(t) })
}

func (c composition) checkClosed(t *testing.T) {
	for name, s := range c.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Ulimits["core"] != 0 || len(s.Ulimits) != 1 {
			t.Errorf("%s is not hardened: %+v", name, s)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s opens %s to other machines", name, port)
			}
		}
		if s.Healthcheck == nil && !strings.HasPrefix(name, "seqd-") { // its image has one
			t.Errorf("%s has no healthcheck", name)
		}
	}
}

// Mounted files exist. Services that others wait for exist too, and have a health check.
func TestComposeRefers(t *testing.T) {
	eachComposition(t, func(t *testing.T, _ string, c composition) { c.checkReferences(t) })
}

func (c composition) checkReferences(t *testing.T) {
	used := make(map[string]bool)
	for name, s := range c.Services {
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			used[source] = true
			if _, known := c.Volumes[source]; !known {
				if info, err := os.Stat(source); err != nil || !info.Mode().IsRegular() {
					t.Errorf("%s mounts %s: %v", name, source, err)
				}
			}
		}
		for other, on := range s.DependsOn {
			if _, known := c.Services[other]; !known || on.Condition != "service_healthy" && on.Condition != "service_completed_successfully" {
				t.Errorf("%s waits for %s to be %q", name, other, on.Condition)
			}
		}
	}
	for volume := range c.Volumes {
		if !used[volume] {
			t.Errorf("nothing uses the volume %s", volume)
		}
	}
}

// withValues replaces variables in a text with their values.
func withValues(text string, env map[string]string) string {
	return regexp.MustCompile(`\$\{([A-Z_]+)[^}]*\}`).ReplaceAllStringFunc(text, func(found string) string { return env[variable.FindStringSubmatch(found)[1]] })
}

// imageEnv are the variables of the image.
func imageEnv(t *testing.T) (env []string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?m)^ENV (SEQD_\S+)$`).FindAllStringSubmatch(read(t, "../Dockerfile"), -1) {
		env = append(env, found[1])
	}
	return env
}

// configOf returns the configuration of a node of the composition.
func configOf(t *testing.T, s service) *config.Config {
	t.Helper()
	values, env := environment(t), imageEnv(t)
	for name, value := range s.Environment {
		env = append(env, name+"="+withValues(value, values))
	}
	file, _, ok := strings.Cut(s.Volumes[0], ":/etc/seqd/seqd.yaml:ro")
	if !ok {
		t.Fatalf("the configuration is not mounted: %q", s.Volumes)
	}
	return must.Get(config.Load(config.Sources{File: file, Env: env}))(t)
}

// Both nodes start with their configuration, share everything, and have enough time to stop.
func TestComposeNodes(t *testing.T) {
	eachComposition(t, func(t *testing.T, file string, c composition) {
		for _, name := range []string{"seqd-1", "seqd-2"} {
			s := c.Services[name]
			cfg := configOf(t, s)
			if least := cfg.Server.DrainDelay + 2*cfg.Server.StopTimeout; s.StopGrace < least {
				t.Errorf("%s has %s to stop, want at least %s", name, s.StopGrace, least)
			}
			if cfg.Server.Addr != "0.0.0.0:8080" || !cfg.Auth.Enforced() || len(s.Ports) != 1 || !strings.HasSuffix(s.Ports[0], ":8080") {
				t.Errorf("%s listens on %s, publishes %q, asks for tokens: %t", name, cfg.Server.Addr, s.Ports, cfg.Auth.Enforced())
			}
			if !slices.Contains(cfg.Server.Hosts, name) {
				t.Errorf("%s is not in server.hosts, so without tokens it would be rejected", name)
			}
			if !cfg.Store.Shared() {
				t.Errorf("%s has a store of its own", name)
			}
			c.checkStore(t, file, cfg)
		}
	})
}

// checkStore checks that a node finds the store and Redis of its composition.
func (c composition) checkStore(t *testing.T, file string, cfg *config.Config) {
	t.Helper()
	want := map[string]string{"compose.yaml": "mongo", "compose.postgres.yaml": "postgres", "compose.postgres-redis.yaml": "postgres", "compose.mysql.yaml": "mysql"}[file]
	if cfg.Store.Driver != want || cfg.Redis.Configured() != (want == "mongo" || strings.Contains(file, "redis")) {
		t.Errorf("the store is %s, with Redis: %t", cfg.Store.Driver, cfg.Redis.Configured())
	}
	address, _ := config.Setting[string](cfg.Store.Chosen(), map[string]string{"mongo": "uri", "postgres": "url", "mysql": "dsn"}[want])
	host := regexp.MustCompile(`@(?:tcp\()?([a-z0-9-]+):\d+`).FindStringSubmatch(address)
	if host == nil {
		t.Fatalf("%s has no host", address)
	}
	if _, known := c.Services[host[1]]; !known {
		t.Errorf("the store is at %s, which does not exist", host[1])
	}
	for _, addr := range cfg.Redis.Addrs {
		host, port, _ := strings.Cut(addr, ":")
		if _, known := c.Services[host]; !known || (port == "26379") != (cfg.Redis.MasterName != "") {
			t.Errorf("it uses a Redis or a Sentinel at %s, which does not exist", addr)
		}
	}
	if cfg.Redis.MasterName != "" && !strings.Contains(read(t, "compose/redis.sh"), "sentinel monitor "+cfg.Redis.MasterName+" ") {
		t.Errorf("the Sentinels do not know %s", cfg.Redis.MasterName)
	}
}

// Prometheus scrapes both nodes.
func TestComposeScrapes(t *testing.T) {
	for _, name := range []string{"seqd-1", "seqd-2"} {
		if !strings.Contains(read(t, "prometheus.yml"), `"`+name+`:8080"`) {
			t.Errorf("Prometheus does not scrape %s", name)
		}
	}
}

// Grafana finds the data source, and Prometheus the alerts.
func TestComposeWatches(t *testing.T) {
	for file, want := range map[string]string{"compose/grafana-datasource.yaml": "http://prometheus:9090", "prometheus.yml": "rule_files: [alerts.yaml]",
		"compose/grafana-dashboards.yaml": "path: /etc/grafana/dashboards}"} {
		if !strings.Contains(read(t, file), want) {
			t.Errorf("%s does not say %s", file, want)
		}
		if err := yaml.Unmarshal([]byte(read(t, file)), new(map[string]any)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The secrets of callers in compose/env match their tokens, and every run generates new ones.
func TestComposeSecrets(t *testing.T) {
	first, second := environment(t), environment(t)
	var tokens []struct{ Name string }
	if err := json.Unmarshal([]byte(first["SEQD_AUTH_TOKENS"]), &tokens); err != nil || len(tokens) != 2 {
		t.Errorf("the tokens are %v (%v)", tokens, err)
	}
	for name, value := range first {
		if strings.HasSuffix(name, "PASSWORD") || strings.HasSuffix(name, "KEY") || strings.HasSuffix(name, "TOKENS") {
			if len(value) < 48 || value == second[name] {
				t.Errorf("%s is %q, which is too short or not random", name, value)
			}
		}
	}
	ignored := strings.Fields(read(t, filepath.Join("..", ".gitignore")))
	if !slices.Contains(ignored, "/deploy/.env") {
		t.Error("deploy/.env could be committed")
	}
}
