package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/persist/mysql"
	"github.com/seqd/seqd/persist/postgres"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment"
)

// examples are the values in deploy/helm/examples, and where their nodes may connect to.
var examples = map[string][]int{
	"bolt":           {},
	"postgres":       {postgresPort},
	"mysql":          {mysqlPort},
	"postgres-redis": {postgresPort, redisPort},
}

// helm lint has no complaint about the chart, with its defaults and each example.
func TestChartLint(t *testing.T) {
	longtest.Only(t)
	values := [][]string{nil}
	for name := range examples {
		values = append(values, []string{"--values", example(name)})
	}
	for _, args := range values {
		out, err := exec.Command(tool(t, "helm"), append([]string{"lint", "--strict", helm}, args...)...).CombinedOutput()
		if err != nil || strings.Contains(string(out), "WARNING") {
			t.Errorf("helm lint %q: %v\n%s", args, err, out)
		}
	}
}

func example(name string) string { return filepath.Join(helm, "examples", name+".yaml") }

// The defaults and each example pass the checks of the overlays.
func TestChart(t *testing.T) {
	t.Run("defaults", func(t *testing.T) {
		chart(t, "seqd").check(t, []int{dns, dns, collector, mongoPort, redisPort, sentinelPort})
	})
	files, err := filepath.Glob(example("*"))
	if err != nil || len(files) != len(examples) {
		t.Errorf("there are the examples %q (%v), want %v", files, err, examples)
	}
	for name, ports := range examples {
		t.Run(name, func(t *testing.T) {
			r := chart(t, "seqd", "--values", example(name))
			r.check(t, append([]int{dns, dns, collector}, ports...))
			driver, _, _ := strings.Cut(name, "-")
			if cfg := r.node(t); cfg.Store.Driver != driver || cfg.Redis.Configured() != strings.HasSuffix(name, "-redis") {
				t.Errorf("the nodes run on %s, with Redis: %t", cfg.Store.Driver, cfg.Redis.Configured())
			}
		})
	}
}

// The chart and the overlays give the same nodes: only names and labels differ.
func TestChartIsAsOverlays(t *testing.T) {
	longtest.Only(t)
	for name, args := range map[string][]string{"mongo": nil, "postgres": {"--values", example("postgres")}, "mysql": {"--values", example("mysql")}} {
		t.Run(name, func(t *testing.T) {
			a, b := overlay(t, name), chart(t, "seqd", args...)
			if a, b := podOf(a), podOf(b); !reflect.DeepEqual(a, b) {
				t.Errorf("the pods differ:\n%+v\n%+v", a, b)
			}
			if a, b := a.node(t), b.node(t); !sameSettings(a, b) {
				t.Errorf("the configurations differ:\n%+v\n%+v", a, b)
			}
			if a, b := a.network.Spec.Ingress, b.network.Spec.Ingress; !reflect.DeepEqual(a, b) {
				t.Errorf("callers differ:\n%+v\n%+v", a, b)
			}
		})
	}
}

// podOf returns a pod without what must differ.
func podOf(r *release) core.PodSpec {
	pod := r.pod().Spec
	for i := range pod.TopologySpreadConstraints {
		pod.TopologySpreadConstraints[i].LabelSelector = nil
	}
	pod.Volumes[0].ConfigMap.Name = ""
	c := pod.Containers[0]
	for _, probe := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if probe.HTTPGet.Scheme == core.URISchemeHTTP {
			probe.HTTPGet.Scheme = "" // the default
		}
	}
	return pod
}

// sameSettings compares everything that is not secret.
func sameSettings(a, b *config.Config) bool {
	for _, s := range []*config.Store{&a.Store, &b.Store} {
		s.Settings["mongo"].(*mongo.Settings).URI, s.Settings["postgres"].(*postgres.Settings).URL, s.Settings["mysql"].(*mysql.Settings).DSN = "", "", ""
	}
	a.Redis.Password, a.Redis.SentinelPassword = "", ""
	a.Auth.Tokens, b.Auth.Tokens = nil, nil
	return reflect.DeepEqual(a.Server, b.Server) && reflect.DeepEqual(a.Store, b.Store) && reflect.DeepEqual(a.Redis, b.Redis) &&
		reflect.DeepEqual(a.Auth, b.Auth) && bizTypesOf(a) == bizTypesOf(b)
}

// bizTypesOf returns the biz types as text: without functions, which are never equal.
func bizTypesOf(c *config.Config) string {
	text, err := json.Marshal(c.BizTypes)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Every combination of the values that decide what there is passes the checks, under another name
// than the default.
func TestChartCombinations(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	stores := map[string][]int{"bolt": {}, "mongo": {mongoPort}, "postgres": {postgresPort}, "mysql": {mysqlPort}}
	for driver, ports := range stores {
		for _, redis := range []string{"none", "server", "sentinels"} {
			if driver == "bolt" && redis != "none" {
				continue
			}
			for _, parts := range []string{"all", "none"} {
				t.Run(fmt.Sprintf("%s, Redis %s, %s", driver, redis, parts), func(t *testing.T) {
					t.Parallel()
					args := append([]string{"--set", "config.store.driver=" + driver}, partsOf(parts)...)
					want := slices.Concat([]int{dns, dns, collector}, ports)
					switch redis {
					case "none":
						args = append(args, "--set", "config.redis=null")
					case "server":
						args, want = append(args, "--set", "config.redis.masterName=null,config.redis.addrs={redis.data.svc:6379}"), append(want, redisPort)
					case "sentinels":
						want = append(want, redisPort, sentinelPort)
					}
					r := chart(t, "numbers", args...)
					r.check(t, want)
					if got := r.network != nil && r.account != nil && r.monitor != nil; got != (parts == "all") {
						t.Errorf("%s of the parts are there: %+v", parts, r)
					}
					if r.service.Name != "numbers" || r.node(t).Redis.Configured() != (redis != "none") {
						t.Errorf("it is called %s, with Redis: %t", r.service.Name, r.node(t).Redis.Configured())
					}
				})
			}
		}
	}
}

// partsOf are the values that turn everything optional on or off.
func partsOf(parts string) []string {
	on := parts == "all"
	return []string{"--set", fmt.Sprintf("networkPolicy.enabled=%t,podDisruptionBudget.enabled=%[1]t,serviceMonitor.enabled=%[1]t,serviceAccount.create=%[1]t,topologySpread.enabled=%[1]t", on)}
}

// Ports and folders that are configured are those that are opened and mounted.
func TestChartPlaces(t *testing.T) {
	longtest.Only(t)
	r := chart(t, "a", "--values", writeValues(t, `
config:
  server: {addr: "0.0.0.0:9090"}
  redis: {addrs: ["a.data.svc:7001", "b.data.svc:7002"], masterName: null}
  tracing: {endpoint: "http://collector.monitoring.svc:14318/v1/traces"}
extraVolumes: [{name: own, persistentVolumeClaim: {claimName: own}}]
extraVolumeMounts: [{name: own, mountPath: /var/lib/seqd}]
`))
	r.check(t, []int{dns, dns, 14318, mongoPort, 7001, 7002})
	if n := len(r.container(t).VolumeMounts); n != 2 || r.container(t).VolumeMounts[1].Name != "own" {
		t.Errorf("the folder is mounted twice: %+v", r.container(t).VolumeMounts)
	}
	r = chart(t, "a", "--set", "config.redis.addrs={s.data.svc:5000},config.tracing.endpoint=https://collector.example")
	r.check(t, []int{dns, dns, 443, mongoPort, redisPort, 5000})
}

// Metrics need a token where strangers reach the port, unless the values say otherwise.
func TestChartMetrics(t *testing.T) {
	longtest.Only(t)
	for values, want := range map[string]bool{
		"replicas=2": true, "networkPolicy.enabled=false": false, "service.type=LoadBalancer": false, "service.type=NodePort": false,
		"networkPolicy.enabled=false,config.auth.publicMetrics=true": true, "config.auth.publicMetrics=false": false,
	} {
		must.Equal(t, chart(t, "a", "--set", values).node(t).Auth.PublicMetrics, want, "with %s publicMetrics", values)
	}
}

// What is off by default: an Ingress, an autoscaler, alerts and the dashboard.
func TestChartExtras(t *testing.T) {
	longtest.Only(t)
	r := chart(t, "a", "--set", "ingress.enabled=true,ingress.className=nginx,ingress.hosts={seqd.example},autoscaling.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true")
	cfg := r.node(t)
	if in := r.ingress.Spec; in.Rules[0].Host != "seqd.example" || in.Rules[0].HTTP.Paths[0].Backend.Service.Name != "a" || !slices.Contains(cfg.Server.Hosts, "seqd.example") || cfg.Auth.PublicMetrics {
		t.Errorf("the Ingress is %+v, hosts %q, public metrics %t", in, cfg.Server.Hosts, cfg.Auth.PublicMetrics)
	}
	if s := r.autoscaler.Spec; r.deployment.Spec.Replicas != nil || *s.MinReplicas != 2 || s.MaxReplicas != 6 || s.ScaleTargetRef.Name != "a" {
		t.Errorf("the autoscaler is %+v", s)
	}
	var alerts monitoring.PrometheusRuleSpec
	must.Do(t, yaml.Unmarshal([]byte(read(t, "../../deploy/alerts.yaml")), &alerts))
	if !reflect.DeepEqual(r.rule.Spec, alerts) {
		t.Error("the alerts are not those of deploy/alerts.yaml")
	}
	must.Equal(t, r.dashboard.Data["a.json"], read(t, "../../deploy/dashboard.json"), "the dashboard")
	none := chart(t, "a")
	if none.ingress != nil || none.autoscaler != nil || none.rule != nil || none.dashboard != nil {
		t.Errorf("they are there although they are off: %+v", none)
	}
}

// Scheduled snapshots have a volume, unless the values mount one.
func TestChartSnapshots(t *testing.T) {
	longtest.Only(t)
	const scheduled = "config.snapshots.every=1h,config.snapshots.folder=snapshots"
	mounted := func(r *release) (claim, at string) {
		for _, v := range r.pod().Spec.Volumes {
			if v.Name == "snapshots" {
				claim = v.PersistentVolumeClaim.ClaimName
			}
		}
		for _, m := range r.container(t).VolumeMounts {
			if m.Name == "snapshots" && !m.ReadOnly {
				at = m.MountPath
			}
		}
		return claim, at
	}
	for name, tt := range map[string]struct {
		args      []string
		claim, at string
		mode      core.PersistentVolumeAccessMode // "" if no claim is made
	}{
		"none":     {[]string{"--set", "config.snapshots.every=0s,config.snapshots.folder="}, "", "", ""},
		"several":  {[]string{"--set", scheduled}, "a-snapshots", "/var/lib/seqd/snapshots", core.ReadWriteMany},
		"bolt":     {[]string{"--values", example("bolt"), "--set", scheduled}, "a-snapshots", "/var/lib/seqd/snapshots", core.ReadWriteOnce},
		"existing": {[]string{"--set", scheduled + ",snapshotVolume.existingClaim=mine"}, "mine", "/var/lib/seqd/snapshots", ""},
		"own":      {[]string{"--values", writeValues(t, "extraVolumes: [{name: own, emptyDir: {}}]\nextraVolumeMounts: [{name: own, mountPath: /own/}]\n"), "--set", "config.snapshots.every=1h,config.snapshots.folder=/own/s"}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := chart(t, "a", tt.args...)
			if claim, at := mounted(r); claim != tt.claim || at != tt.at {
				t.Errorf("the claim %q is mounted at %q, want %q at %q", claim, at, tt.claim, tt.at)
			}
			r.checkConfigurationIsFound(t)
			if (r.snapshots != nil) != (tt.mode != "") {
				t.Fatalf("the claim is %+v", r.snapshots)
			}
			if r.snapshots == nil {
				return
			}
			if r.snapshots.Name != tt.claim || !slices.Equal(r.snapshots.Spec.AccessModes, []core.PersistentVolumeAccessMode{tt.mode}) || r.snapshots.Annotations["helm.sh/resource-policy"] != "keep" {
				t.Errorf("the claim is %+v", r.snapshots)
			}
			if group := r.pod().Spec.SecurityContext.FSGroup; group == nil || *group != 65532 {
				t.Error("the pod cannot write to the volume")
			}
		})
	}
}

// Values reach their place.
func TestChartValues(t *testing.T) {
	longtest.Only(t)
	r := chart(t, "a", "--values", writeValues(t, `
replicas: 3
image: {repository: registry.example/seqd, digest: "sha256:`+strings.Repeat("a", 64)+`"}
secretName: own
secretFiles: files
extraEnv: [{name: TZ, value: UTC}]
drain: {delaySeconds: 20, stopSeconds: 30}
config:
  server: {maxCount: 7, tls: {certFile: /tls/tls.crt, keyFile: /tls/tls.key}}
  bizTypes:
    - {name: big, start: 9007199254740991}
    - {name: million, start: 1000000}
extraVolumes: [{name: tls, secret: {secretName: tls}}]
extraVolumeMounts: [{name: tls, mountPath: /tls, readOnly: true}]
serviceMonitor: {enabled: true, labels: {release: prometheus}, tokenSecret: {name: scrape, key: token}}
networkPolicy: {dataPorts: [6432]}
`))
	r.check(t, []int{dns, dns, collector, 6432})
	cfg := r.node(t)
	for i, want := range []int64{9007199254740991, 1000000} {
		must.Equal(t, cfg.BizTypes[i].Settings.(*segment.Settings).Start, want, "the start of %s", cfg.BizTypes[i].Name)
	}
	if len(cfg.BizTypes) != 2 || cfg.Server.MaxCount != 7 || *r.deployment.Spec.Replicas != 3 || *r.pod().Spec.TerminationGracePeriodSeconds != 85 {
		t.Errorf("the configuration is %+v, there are %d replicas", cfg, *r.deployment.Spec.Replicas)
	}
	if c := r.container(t); c.Image != "registry.example/seqd@sha256:"+strings.Repeat("a", 64) || c.EnvFrom[0].SecretRef.Name != "own" ||
		!slices.ContainsFunc(c.Env, func(e core.EnvVar) bool { return e.Name == "TZ" && e.Value == "UTC" }) ||
		!slices.Contains(c.VolumeMounts, core.VolumeMount{Name: "secrets", MountPath: "/etc/seqd-secrets", ReadOnly: true}) {
		t.Errorf("the container is %+v", c)
	}
	if e := r.monitor.Spec.Endpoints[0]; e.Authorization.Credentials.Name != "scrape" || r.monitor.Labels["release"] != "prometheus" {
		t.Errorf("the ServiceMonitor is %+v", r.monitor)
	}
	claim := chart(t, "a", "--values", example("bolt"), "--set", "volume.existingClaim=mine").stateful.Spec
	if len(claim.VolumeClaimTemplates) != 0 || claim.Template.Spec.Volumes[1].PersistentVolumeClaim.ClaimName != "mine" {
		t.Errorf("the claim is not used: %+v", claim)
	}
	agreeing := chart(t, "a", "--values", example("postgres"), "--set", "config.coordination.driver=consul,config.coordination.addrs={consul:8500}")
	agreeing.check(t, []int{dns, dns, collector, postgresPort, 8500})
	open := chart(t, "a", "--values", example("bolt"), "--set", "secretName=,config.auth.mode=none")
	open.check(t, []int{dns, dns, collector})
}

func writeValues(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	write(t, file, text)
	return file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
}

// A change of the configuration rolls out; a change of something else does not.
func TestChartRollsOut(t *testing.T) {
	longtest.Only(t)
	sum := func(args ...string) string { return chart(t, "seqd", args...).pod().Annotations["checksum/config"] }
	first := sum()
	if first == "" || sum("--set", "replicas=5") != first || sum("--set", "config.server.maxCount=5") == first {
		t.Error("the checksum does not follow the configuration")
	}
}

// Values that cannot work are refused with a sentence that names them, secrets in the ConfigMap
// above all.
func TestChartRefuses(t *testing.T) {
	longtest.Only(t)
	refused := map[string]string{
		"config.server.drainDelay=1s":                       "config.server.drainDelay",
		"secretName=":                                       "secretName is empty",
		"config.store.driver=memory":                        "/config/store/driver",
		"drain.delaySeconds=3":                              "/drain/delaySeconds",
		"replicas=0":                                        "/replicas",
		"ingress.enabled=true":                              "/ingress/hosts",
		"autoscaling.enabled=true,replicas=9":               "autoscaling.maxReplicas is 6",
		"autoscaling.enabled=true,config.store.driver=bolt": "autoscaling.enabled",
		"replica=3":                                         "replica",
		"config.store.driver=bolt,config.redis=null,config.store.bolt.path=/data/seqd.db": "config.store.bolt.path",
		"config.snapshots.every=1h,config.snapshots.folder=/var/lib/seqd":                 "config.snapshots.folder",
		"config.redis.addrs={redis://seqd:hunter2@redis:6379}":                            "config.redis.addrs[0]",
		"config.bizTypes[0].name=a,config.bizTypes[0].plugins[0].key=hunter2":             "config.bizTypes[0].plugins[0].key",
		"config.segment.rejected[0].url=https://x/hunter2":                                "config.segment.rejected[0].url",
		"config.auth.tokens[0].name=hunter2":                                              "config.auth.tokens",
	}
	for _, key := range secretKeys() {
		refused["config."+key+"=hunter2"] = "config." + key
	}
	if len(refused) < 15 {
		t.Errorf("only %d are tried", len(refused))
	}
	for value, want := range refused {
		_, err := helmTemplate(t, "seqd", "--set", value)
		if err == nil {
			t.Errorf("%s is accepted", value)
			continue
		}
		if text := errorOutput(err); !strings.Contains(text, want) || strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", value, text)
		}
	}
}

// secretKeys returns the keys of the configuration that are texts and secret.
func secretKeys() (keys []string) {
	var walk func(prefix string, of reflect.Type)
	walk = func(prefix string, of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			switch key := f.Tag.Get("config"); {
			case key == "" && f.Anonymous:
				walk(prefix, f.Type)
			case key == "" || !f.IsExported():
			case f.Type.Kind() == reflect.Struct:
				walk(prefix+key+".", f.Type)
			case f.Tag.Get("secret") == "true" && f.Type.Kind() == reflect.String:
				keys = append(keys, prefix+key)
			}
		}
	}
	walk("", reflect.TypeFor[config.Config]())
	for name, settings := range driver.Defaults() {
		walk("store."+name+".", reflect.TypeOf(settings).Elem())
	}
	return keys
}

// Every value has a comment or is below one that has, and the schema knows exactly the values that
// there are.
func TestChartSchema(t *testing.T) {
	var values map[string]any
	var schema struct{ Properties map[string]any }
	must.Do(t, yaml.UnmarshalStrict([]byte(read(t, filepath.Join(helm, "values.yaml"))), &values))
	must.Do(t, yaml.Unmarshal([]byte(read(t, filepath.Join(helm, "values.schema.json"))), &schema))
	delete(schema.Properties, "global") // helm's own
	for key := range values {
		if schema.Properties[key] == nil {
			t.Errorf("the schema does not know %s", key)
		}
		delete(schema.Properties, key)
	}
	if len(schema.Properties) > 0 {
		t.Errorf("values.yaml does not have %v", schema.Properties)
	}
}

// The notes after an installation name the Secret's keys for the store that was chosen.
func TestChartNotes(t *testing.T) {
	longtest.Only(t)
	// helm template does not show them, so a copy of the chart has them as a manifest.
	folder := filepath.Join(t.TempDir(), "seqd")
	must.Do(t, exec.Command("cp", "-rL", helm, folder).Run()) // files are links to those of deploy
	write(t, filepath.Join(folder, "templates", "notes.yaml"), `{{ define "notes" }}`+read(t, filepath.Join(helm, "templates", "NOTES.txt"))+
		`{{ end }}notes: {{ include "notes" . | quote }}`)
	for name, want := range map[string]string{"bolt": "", "postgres": "SEQD_STORE_POSTGRES_URL", "mysql": "SEQD_STORE_MYSQL_DSN", "postgres-redis": "SEQD_REDIS_PASSWORD"} {
		out, err := exec.Command(tool(t, "helm"), "template", "seqd", folder, "--namespace", "own", "--show-only", "templates/notes.yaml", "--values", example(name)).Output()
		if err != nil {
			t.Fatal(errorOutput(err))
		}
		var shown struct{ Notes string }
		must.Do(t, yaml.Unmarshal(out, &shown))
		notes := shown.Notes
		if !strings.Contains(notes, "http://seqd.own.svc/seq/order") || !strings.Contains(notes, want) || !strings.Contains(notes, "SEQD_AUTH_TOKENS") {
			t.Errorf("%s:%s", name, notes)
		}
		if found := regexp.MustCompile(`SEQD_(STORE|REDIS)_\w+`).FindAllString(notes, -1); want == "" && len(found) > 0 {
			t.Errorf("%s: the notes name %q", name, found)
		}
	}
}

// With resp.addr the port for Redis clients is opened everywhere: in the pod, the Service and the
// NetworkPolicy.
func TestChartResp(t *testing.T) {
	longtest.Only(t)
	r := chart(t, "seqd", "--set", "config.resp.addr=0.0.0.0:6380")
	const port = 6380
	if ports := r.pod().Spec.Containers[0].Ports; len(ports) != 2 || ports[1].Name != "resp" || ports[1].ContainerPort != port {
		t.Errorf("the ports of the pod are %+v", ports)
	}
	if ports := r.service.Spec.Ports; len(ports) != 2 || ports[1].Port != port || ports[1].TargetPort.StrVal != "resp" {
		t.Errorf("the ports of the Service are %+v", ports)
	}
	if ports := r.network.Spec.Ingress[0].Ports; len(ports) != 2 || ports[1].Port.IntValue() != port {
		t.Errorf("callers reach %+v", ports)
	}
	must.Equal(t, r.node(t).Resp.Addr, "0.0.0.0:6380", "resp.addr")
}
