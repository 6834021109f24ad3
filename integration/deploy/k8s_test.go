// Package deploy tests the files in deploy/: the Kubernetes manifests, and Docker Compose with
// Redis.
package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

const manifests = "../../deploy/k8s"

// read returns the text of a file.
func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// object decodes a manifest into its type. Unknown and duplicate keys are errors.
func object[T any](t *testing.T, file, apiVersion, kind string) (o T) {
	t.Helper()
	text := []byte(read(t, filepath.Join(manifests, file)))
	var is struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &is); err != nil || is.APIVersion != apiVersion || is.Kind != kind {
		t.Fatalf("%s is a %s %s (%v), want a %s %s", file, is.APIVersion, is.Kind, err, apiVersion, kind)
	}
	if err := yaml.UnmarshalStrict(text, &o); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return o
}

func deployment(t *testing.T) apps.Deployment {
	t.Helper()
	return object[apps.Deployment](t, "deployment.yaml", "apps/v1", "Deployment")
}

func container(t *testing.T) core.Container {
	t.Helper()
	all := deployment(t).Spec.Template.Spec.Containers
	if len(all) != 1 {
		t.Fatalf("there are %d containers, want one", len(all))
	}
	return all[0]
}

// nodeConfig returns the configuration that a pod starts with.
func nodeConfig(t *testing.T) *config.Config {
	t.Helper()
	var env []string
	for _, found := range regexp.MustCompile(`(?m)^ENV (SEQD_\S+)$`).FindAllStringSubmatch(read(t, "../../Dockerfile"), -1) {
		env = append(env, found[1])
	}
	for name, value := range object[core.Secret](t, "secret.example.yaml", "v1", "Secret").StringData {
		env = append(env, name+"="+value)
	}
	for _, v := range container(t).Env {
		env = append(env, v.Name+"="+v.Value)
	}
	cfg, err := config.Load(config.Sources{File: filepath.Join(manifests, "seqd.yaml"), Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Every manifest except the example is among the resources.
func TestKustomization(t *testing.T) {
	var k struct {
		Namespace          string
		Resources          []string
		ConfigMapGenerator []struct {
			Name  string
			Files []string
		}
		Images []struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(manifests, "kustomization.yaml"))), &k); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	known := append(slices.Clone(k.Resources), "kustomization.yaml", "seqd.yaml", "secret.example.yaml")
	for _, file := range files {
		if !slices.Contains(known, filepath.Base(file)) {
			t.Errorf("%s is not among the resources", file)
		}
	}
	if len(known) != len(files) {
		t.Errorf("there are %d files, want %q", len(files), known)
	}
	volumes := deployment(t).Spec.Template.Spec.Volumes
	if len(k.ConfigMapGenerator) != 1 || len(volumes) != 1 || k.ConfigMapGenerator[0].Name != volumes[0].ConfigMap.Name || !slices.Equal(k.ConfigMapGenerator[0].Files, []string{"seqd.yaml"}) {
		t.Errorf("the ConfigMap is %+v, the pod mounts %+v", k.ConfigMapGenerator, volumes)
	}
	if len(k.Images) != 1 || k.Images[0].Name != container(t).Image {
		t.Errorf("the images are %+v, the pod runs %q", k.Images, container(t).Image)
	}
	namespace := object[core.Namespace](t, "namespace.yaml", "v1", "Namespace")
	if namespace.Name != k.Namespace || namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace is %+v, want %s, restricted", namespace.ObjectMeta, k.Namespace)
	}
}

// Every selector matches the pods by the same label.
func TestSelectors(t *testing.T) {
	d := deployment(t)
	labels := d.Spec.Template.Labels
	selectors := map[string]map[string]string{
		"the Deployment":    d.Spec.Selector.MatchLabels,
		"the Service":       object[core.Service](t, "service.yaml", "v1", "Service").Spec.Selector,
		"the budget":        object[policy.PodDisruptionBudget](t, "poddisruptionbudget.yaml", "policy/v1", "PodDisruptionBudget").Spec.Selector.MatchLabels,
		"the NetworkPolicy": object[networking.NetworkPolicy](t, "networkpolicy.yaml", "networking.k8s.io/v1", "NetworkPolicy").Spec.PodSelector.MatchLabels,
	}
	for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
		selectors["the spread over "+c.TopologyKey] = c.LabelSelector.MatchLabels
	}
	if len(selectors) != 6 {
		t.Errorf("there are %d selectors, want 6", len(selectors))
	}
	for who, selector := range selectors {
		if !maps.Equal(selector, labels) {
			t.Errorf("%s selects %v, the labels of the pods are %v", who, selector, labels)
		}
	}
}

// The configuration, the container, the Service, the probes, the scrape and the policy have the
// same port.
func TestPorts(t *testing.T) {
	c, d := container(t), deployment(t)
	_, port, _ := strings.Cut(nodeConfig(t).Server.Addr, ":")
	number := intstr.Parse(port)
	if len(c.Ports) != 1 || c.Ports[0].ContainerPort != number.IntVal {
		t.Fatalf("the container has the ports %+v, and seqd listens on %s", c.Ports, port)
	}
	name := intstr.FromString(c.Ports[0].Name)
	for probe, path := range map[*core.Probe]string{c.StartupProbe: "/healthz", c.LivenessProbe: "/healthz", c.ReadinessProbe: "/readyz"} {
		if probe.HTTPGet.Port != name || probe.HTTPGet.Path != path {
			t.Errorf("a probe asks for %s at %s, want %s at %s", probe.HTTPGet.Path, probe.HTTPGet.Port.String(), path, name.StrVal)
		}
	}
	if ports := object[core.Service](t, "service.yaml", "v1", "Service").Spec.Ports; len(ports) != 1 || ports[0].TargetPort != name {
		t.Errorf("the Service has the ports %+v", ports)
	}
	if d.Spec.Template.Annotations["prometheus.io/port"] != port {
		t.Errorf("the annotations for Prometheus are %v", d.Spec.Template.Annotations)
	}
	for _, rule := range object[networking.NetworkPolicy](t, "networkpolicy.yaml", "networking.k8s.io/v1", "NetworkPolicy").Spec.Ingress {
		if len(rule.Ports) != 1 || *rule.Ports[0].Port != number {
			t.Errorf("callers may use the ports %+v", rule.Ports)
		}
	}
}

// Without tokens, callers can still reach the Service by each of its names, and probes the pod by
// its address.
func TestNames(t *testing.T) {
	service, namespace := object[core.Service](t, "service.yaml", "v1", "Service").Name, object[core.Namespace](t, "namespace.yaml", "v1", "Namespace").Name
	hosts := nodeConfig(t).Server.Hosts
	for _, domain := range []string{"", "." + namespace, "." + namespace + ".svc", "." + namespace + ".svc.cluster.local"} {
		if !slices.Contains(hosts, service+domain) {
			t.Errorf("%s is not in server.hosts %q", service+domain, hosts)
		}
	}
	for _, probe := range []*core.Probe{container(t).StartupProbe, container(t).LivenessProbe, container(t).ReadinessProbe} {
		if probe.HTTPGet.Host != "" || len(probe.HTTPGet.HTTPHeaders) > 0 {
			t.Errorf("a probe sends %+v, want the address of the pod as its Host", probe.HTTPGet)
		}
	}
}

// A pod satisfies the restricted profile of Kubernetes, and has a read-only root file system.
func TestRestricted(t *testing.T) {
	pod, c := deployment(t).Spec.Template.Spec, container(t)
	s := c.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser != 65532 || pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod runs as %+v", pod.SecurityContext)
	}
	if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || s.Privileged != nil || len(s.Capabilities.Add) > 0 {
		t.Errorf("the container runs as %+v", s)
	}
	account := object[core.ServiceAccount](t, "serviceaccount.yaml", "v1", "ServiceAccount")
	if *account.AutomountServiceAccountToken || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != account.Name {
		t.Error("the pod gets a token of Kubernetes")
	}
	if *pod.EnableServiceLinks {
		t.Error("the Service sets variables that begin with SEQD_, with which seqd does not start")
	}
	for _, resource := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
		request, limit := c.Resources.Requests[resource], c.Resources.Limits[resource]
		if request.IsZero() || limit.Cmp(request) < 0 {
			t.Errorf("%s is requested as %s and limited to %s", resource, &request, &limit)
		}
	}
}

// The configuration is mounted where the image looks for it, and the Secret is that of the example.
func TestConfigurationIsFound(t *testing.T) {
	c := container(t)
	if len(c.VolumeMounts) != 1 || !strings.Contains(read(t, "../../Dockerfile"), `"`+c.VolumeMounts[0].MountPath+`/seqd.yaml"`) {
		t.Errorf("the configuration is mounted at %+v", c.VolumeMounts)
	}
	if len(c.EnvFrom) != 1 || c.EnvFrom[0].SecretRef.Name != object[core.Secret](t, "secret.example.yaml", "v1", "Secret").Name {
		t.Errorf("the variables come from %+v", c.EnvFrom)
	}
}

// A pod has enough time to stop, a roll-out does not reduce capacity, and one node can always be
// moved.
func TestStopsAndRollOuts(t *testing.T) {
	d, cfg := deployment(t), nodeConfig(t)
	least := cfg.Server.DrainDelay + 2*cfg.Server.StopTimeout
	if got := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; got < least {
		t.Errorf("a pod has %s to stop, want at least %s", got, least)
	}
	ready := container(t).ReadinessProbe
	if noticed := time.Duration(ready.PeriodSeconds*ready.FailureThreshold) * time.Second; cfg.Server.DrainDelay <= noticed {
		t.Errorf("the port closes after %s, and balancers notice after %s", cfg.Server.DrainDelay, noticed)
	}
	if *d.Spec.Replicas < 2 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntVal != 0 || container(t).Lifecycle != nil {
		t.Errorf("%d replicas are rolled out by %+v", *d.Spec.Replicas, d.Spec.Strategy.RollingUpdate)
	}
	budget := object[policy.PodDisruptionBudget](t, "poddisruptionbudget.yaml", "policy/v1", "PodDisruptionBudget").Spec
	if budget.MaxUnavailable == nil || budget.MaxUnavailable.IntVal != 1 || budget.MinAvailable != nil {
		t.Errorf("the budget is %+v", budget)
	}
}

// The policy lets seqd connect to DNS, Redis, Sentinels, MongoDB and the collector, and to nothing
// else.
func TestEgress(t *testing.T) {
	spec := object[networking.NetworkPolicy](t, "networkpolicy.yaml", "networking.k8s.io/v1", "NetworkPolicy").Spec
	var ports []int
	for _, rule := range spec.Egress {
		if len(rule.To) == 0 || len(rule.Ports) == 0 {
			t.Errorf("a rule allows all destinations: %+v", rule)
		}
		for _, p := range rule.Ports {
			ports = append(ports, p.Port.IntValue())
		}
	}
	slices.Sort(ports)
	if want := []int{53, 53, 4318, 6379, 26379, 27017}; !slices.Equal(ports, want) || len(spec.PolicyTypes) != 2 {
		t.Errorf("seqd may connect to the ports %v, want %v; the policy types are %v", ports, want, spec.PolicyTypes)
	}
}
