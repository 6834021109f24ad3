package deploy

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

const (
	overlays = "../../deploy/k8s"
	helm     = "../../deploy/helm"
)

// tool returns the file of a program of scripts/tools/kube. Go compiles it at the first call, which
// takes a minute or two, and keeps it in its cache.
func tool(t *testing.T, name string) string {
	t.Helper()
	tools.Lock()
	defer tools.Unlock()
	if tools.files[name] == "" {
		out, err := exec.Command("go", "tool", "-n", "-modfile=../../scripts/tools/kube/go.mod", name).Output()
		if err != nil {
			t.Fatalf("go tool %s: %s", name, errorOutput(err))
		}
		tools.files[name] = strings.TrimSpace(string(out))
	}
	return tools.files[name]
}

var tools = struct {
	sync.Mutex
	files map[string]string // by the name of the program
}{files: make(map[string]string)}

func errorOutput(err error) string {
	if exit, ok := err.(*exec.ExitError); ok {
		return err.Error() + ": " + string(exit.Stderr)
	}
	return err.Error()
}

// release is a set of manifests as it is sent to Kubernetes, decoded.
type release struct {
	namespace  string
	secret     map[string]string // the keys of the Secret that the operator makes
	config     core.ConfigMap
	account    *core.ServiceAccount
	service    core.Service
	budget     *policy.PodDisruptionBudget
	network    *networking.NetworkPolicy
	ingress    *networking.Ingress
	autoscaler *autoscaling.HorizontalPodAutoscaler
	rule       *monitoring.PrometheusRule
	dashboard  *core.ConfigMap
	monitor    *monitoring.ServiceMonitor
	snapshots  *core.PersistentVolumeClaim
	deployment *apps.Deployment // one of these two
	stateful   *apps.StatefulSet
	others     []string // the kinds of all other objects
}

// decoded returns the objects of a stream of manifests. Unknown and duplicate keys are errors.
func decoded(t *testing.T, stream []byte) *release {
	t.Helper()
	r := new(release)
	for document := range bytes.SplitSeq(stream, []byte("\n---\n")) {
		var is struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := yaml.Unmarshal(document, &is); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		var into any
		switch is.APIVersion + " " + is.Kind {
		case "v1 ConfigMap":
			if into = &r.config; strings.HasSuffix(is.Metadata.Name, "-dashboard") {
				into = assign(&r.dashboard)
			}
		case "v1 ServiceAccount":
			into = assign(&r.account)
		case "v1 PersistentVolumeClaim":
			into = assign(&r.snapshots)
		case "v1 Service":
			into = &r.service
		case "policy/v1 PodDisruptionBudget":
			into = assign(&r.budget)
		case "networking.k8s.io/v1 NetworkPolicy":
			into = assign(&r.network)
		case "networking.k8s.io/v1 Ingress":
			into = assign(&r.ingress)
		case "autoscaling/v2 HorizontalPodAutoscaler":
			into = assign(&r.autoscaler)
		case "monitoring.coreos.com/v1 PrometheusRule":
			into = assign(&r.rule)
		case "monitoring.coreos.com/v1 ServiceMonitor":
			into = assign(&r.monitor)
		case "apps/v1 Deployment":
			into = assign(&r.deployment)
		case "apps/v1 StatefulSet":
			into = assign(&r.stateful)
		default:
			into = new(any)
			r.others = append(r.others, is.Kind)
		}
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
	}
	return r
}

// assign makes an object and returns it.
func assign[T any](at **T) *T {
	*at = new(T)
	return *at
}

// overlay returns what kubectl apply -k would send for a folder of deploy/k8s, as the operator gets
// it who copied the example of the Secret.
func overlay(t *testing.T, name string) *release {
	t.Helper()
	cmd := exec.Command(tool(t, "kustomize"), "build", filepath.Join(overlays, name))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kustomize build %s: %s", name, errorOutput(err))
	}
	r := decoded(t, out)
	var secret core.Secret
	must.Do(t, yaml.UnmarshalStrict([]byte(read(t, filepath.Join(overlays, name, "secret.example.yaml"))), &secret))
	r.secret, r.namespace = secret.StringData, secret.Namespace
	for _, object := range []meta.Object{&r.config, r.account, &r.service, r.budget, r.network, r.deployment, &secret} {
		must.Equal(t, object.GetNamespace(), r.namespace, "the namespace of %s %s", name, object.GetName())
	}
	if secret.Name != "seqd" || !slices.Equal(r.others, []string{"Namespace"}) {
		t.Errorf("the Secret is called %s, and there are %q", secret.Name, r.others)
	}
	return r
}

// secrets are the keys that the chart's operator puts into the Secret.
var secrets = map[string]string{
	"bolt":     "",
	"mongo":    "SEQD_STORE_MONGO_URI=mongodb://seqd:x@mongo.data.svc:27017/?replicaSet=seqd",
	"postgres": "SEQD_STORE_POSTGRES_URL=postgres://seqd:x@postgres.data.svc:5432/seqd?sslmode=verify-full",
	"mysql":    "SEQD_STORE_MYSQL_DSN=seqd:x@tcp(mysql.data.svc:3306)/seqd?tls=true",
}

const oneToken = `[{"name":"shop","sha256":"0000000000000000000000000000000000000000000000000000000000000001","scopes":["issue:*"]}]`

// helmTemplate runs helm template for a release called name.
func helmTemplate(t *testing.T, name string, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command(tool(t, "helm"), append([]string{"template", name, helm, "--namespace", "seqd"}, args...)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	return cmd.Output()
}

// chart returns what helm install would send for a release called name.
func chart(t *testing.T, name string, args ...string) *release {
	t.Helper()
	out, err := helmTemplate(t, name, args...)
	if err != nil {
		t.Fatalf("helm template %q: %s", args, errorOutput(err))
	}
	r := decoded(t, bytes.TrimPrefix(out, []byte("---\n")))
	if len(r.others) > 0 {
		t.Errorf("there are objects of the kinds %q", r.others)
	}
	r.namespace, r.secret = "seqd", map[string]string{"SEQD_AUTH_TOKENS": oneToken}
	var store struct{ Store struct{ Driver string } }
	must.Do(t, yaml.Unmarshal([]byte(r.config.Data["seqd.yaml"]), &store))
	if key, value, ok := strings.Cut(secrets[store.Store.Driver], "="); ok {
		r.secret[key] = value
	}
	return r
}

// pod is the template of the nodes.
func (r *release) pod() core.PodTemplateSpec {
	if r.stateful != nil {
		return r.stateful.Spec.Template
	}
	return r.deployment.Spec.Template
}

func (r *release) container(t *testing.T) core.Container {
	t.Helper()
	all := r.pod().Spec.Containers
	if len(all) != 1 {
		t.Fatalf("there are %d containers, want one", len(all))
	}
	return all[0]
}

// node returns the configuration that a pod starts with: seqd's own loader reads the ConfigMap,
// with the variables of the image, the Secret and the pod.
func (r *release) node(t *testing.T) *config.Config {
	t.Helper()
	var env []string
	for _, found := range regexp.MustCompile(`(?m)^ENV (SEQD_\S+)$`).FindAllStringSubmatch(read(t, "../../Dockerfile"), -1) {
		env = append(env, found[1])
	}
	if len(r.container(t).EnvFrom) > 0 {
		for _, name := range slices.Sorted(maps.Keys(r.secret)) {
			env = append(env, name+"="+r.secret[name])
		}
	}
	for _, v := range r.container(t).Env {
		env = append(env, v.Name+"="+v.Value)
	}
	if len(r.config.Data) != 1 {
		t.Fatalf("the ConfigMap has %q", slices.Sorted(maps.Keys(r.config.Data)))
	}
	file := filepath.Join(t.TempDir(), "seqd.yaml")
	must.Do(t, os.WriteFile(file, []byte(r.config.Data["seqd.yaml"]), 0o600))
	return must.Get(config.Load(config.Sources{File: file, Env: env}))(t)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}
