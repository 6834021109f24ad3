// Package deploy tests the files in deploy/: what Kubernetes gets from the overlays and from the
// chart, and Docker Compose with Redis.
package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/mongo"
)

// The ports of back ends.
const (
	dns, collector                     = 53, 4318
	postgresPort, mysqlPort            = 5432, 3306
	mongoPort, redisPort, sentinelPort = 27017, 6379, 26379
)

// Every folder beside the base is an overlay, and what it sends passes all checks.
func TestOverlays(t *testing.T) {
	ports := map[string][]int{"mongo": {mongoPort, redisPort, sentinelPort}, "postgres": {postgresPort}, "postgres-redis": {postgresPort, redisPort, sentinelPort}, "mysql": {mysqlPort}}
	folders := must.Get(os.ReadDir(overlays))(t)
	for _, folder := range folders {
		if folder.Name() == "base" {
			continue
		}
		t.Run(folder.Name(), func(t *testing.T) {
			r := overlay(t, folder.Name())
			r.check(t, append([]int{dns, dns, collector}, ports[folder.Name()]...))
			driver, _, _ := strings.Cut(folder.Name(), "-")
			must.Equal(t, r.node(t).Store.Driver, driver, "the store")
			if cfg := r.node(t); cfg.Redis.Configured() != (driver == "mongo" || driver != folder.Name()) || cfg.Redis.Configured() && !cfg.Redis.TLS.Enabled || cfg.Store.Driver == "mongo" && !strings.Contains(cfg.Store.Settings["mongo"].(*mongo.Settings).URI, "tls=true") {
				t.Error("connections to the store or to Redis are not encrypted, or Redis is missing")
			}
			for _, addr := range r.node(t).Redis.Addrs {
				if !strings.HasSuffix(addr, fmt.Sprint(":", sentinelPort)) {
					t.Errorf("the policy lets nodes connect to another port than that of %s", addr)
				}
			}
			if !strings.Contains(read(t, filepath.Join(overlays, "base", "namespace.yaml")), "pod-security.kubernetes.io/enforce: restricted") {
				t.Error("the namespace is not restricted")
			}
			delete(ports, folder.Name())
		})
	}
	if len(ports) > 0 {
		t.Errorf("there is no overlay for %v", slices.Sorted(maps.Keys(ports)))
	}
}

// check does all checks. egress are the ports that nodes may connect to.
func (r *release) check(t *testing.T, egress []int) {
	t.Helper()
	r.checkSelectors(t)
	r.checkPorts(t)
	r.checkNames(t)
	r.checkRestricted(t)
	r.checkConfigurationIsFound(t)
	r.checkStops(t)
	r.checkEgress(t, egress)
	r.checkSecrets(t)
}

// Every selector matches the pods by the same labels.
func (r *release) checkSelectors(t *testing.T) {
	t.Helper()
	labels := r.pod().Labels
	selectors := map[string]map[string]string{"the Service": r.service.Spec.Selector}
	if r.deployment != nil {
		selectors["the Deployment"] = r.deployment.Spec.Selector.MatchLabels
	} else {
		selectors["the StatefulSet"] = r.stateful.Spec.Selector.MatchLabels
	}
	if r.budget != nil {
		selectors["the budget"] = r.budget.Spec.Selector.MatchLabels
	}
	if r.network != nil {
		selectors["the NetworkPolicy"] = r.network.Spec.PodSelector.MatchLabels
	}
	for _, c := range r.pod().Spec.TopologySpreadConstraints {
		selectors["the spread over "+c.TopologyKey] = c.LabelSelector.MatchLabels
	}
	for who, selector := range selectors {
		if len(selector) == 0 || !maps.Equal(selector, labels) {
			t.Errorf("%s selects %v, the labels of the pods are %v", who, selector, labels)
		}
	}
	if r.monitor != nil && !matches(r.monitor.Spec.Selector, r.service.Labels) {
		t.Errorf("the ServiceMonitor selects %v, the labels of the Service are %v", r.monitor.Spec.Selector, r.service.Labels)
	}
}

// matches reports whether a selector, which is not empty, matches labels.
func matches(selector meta.LabelSelector, labels map[string]string) bool {
	for key, value := range selector.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	return len(selector.MatchLabels) > 0 && len(selector.MatchExpressions) == 0
}

// The configuration, the container, the Service, the probes, the scrape and the policy have the
// same port.
func (r *release) checkPorts(t *testing.T) {
	t.Helper()
	c, cfg := r.container(t), r.node(t)
	_, port, _ := strings.Cut(cfg.Server.Addr, ":")
	number := intstr.Parse(port)
	if len(c.Ports) != 1 || c.Ports[0].ContainerPort != number.IntVal {
		t.Fatalf("the container has the ports %+v, and seqd listens on %s", c.Ports, port)
	}
	name, scheme := intstr.FromString(c.Ports[0].Name), core.URISchemeHTTP
	if cfg.Server.TLS.Configured() {
		scheme = core.URISchemeHTTPS
	}
	for probe, path := range map[*core.Probe]string{c.StartupProbe: "/healthz", c.LivenessProbe: "/healthz", c.ReadinessProbe: "/readyz"} {
		get := probe.HTTPGet
		if get.Port != name || get.Path != path || get.Scheme != scheme && (get.Scheme != "" || scheme != core.URISchemeHTTP) {
			t.Errorf("a probe asks for %+v, want %s %s at %s", get, scheme, path, name.StrVal)
		}
	}
	if ports := r.service.Spec.Ports; len(ports) != 1 || ports[0].TargetPort != name {
		t.Errorf("the Service has the ports %+v", ports)
	}
	annotations := r.pod().Annotations
	switch {
	case r.monitor == nil && (annotations["prometheus.io/port"] != port || annotations["prometheus.io/scrape"] != "true"):
		t.Errorf("the annotations for Prometheus are %v", annotations)
	case r.monitor != nil && annotations["prometheus.io/scrape"] != "":
		t.Errorf("the pods are scraped twice: %v", annotations)
	case r.monitor != nil:
		r.checkMonitor(t, scheme)
	}
	if r.network == nil {
		return
	}
	for _, rule := range r.network.Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) != 1 || *rule.Ports[0].Port != number {
			t.Errorf("callers may use the ports %+v", rule.Ports)
		}
	}
}

// The ServiceMonitor scrapes the port of the Service as the job that alerts ask for.
func (r *release) checkMonitor(t *testing.T, scheme core.URIScheme) {
	t.Helper()
	if len(r.monitor.Spec.Endpoints) != 1 {
		t.Fatalf("the endpoints are %+v", r.monitor.Spec.Endpoints)
	}
	e := r.monitor.Spec.Endpoints[0]
	if e.Port != r.service.Spec.Ports[0].Name || e.Path != "/metrics" || !strings.EqualFold(e.Scheme, string(scheme)) {
		t.Errorf("it scrapes %s %s %s", e.Port, e.Path, e.Scheme)
	}
	if len(e.RelabelConfigs) != 2 || e.RelabelConfigs[0].TargetLabel != "job" || *e.RelabelConfigs[0].Replacement != "seqd" ||
		!strings.Contains(read(t, "../../deploy/alerts.yaml"), `job="seqd"`) {
		t.Errorf("the job is %+v", e.RelabelConfigs)
	}
	if l := e.RelabelConfigs[len(e.RelabelConfigs)-1]; l.TargetLabel != "installation" || *l.Replacement != r.service.Name {
		t.Errorf("the installation is %+v", l)
	}
}

// Without tokens, callers can still reach the Service by each of its names, and probes the pod by
// its address.
func (r *release) checkNames(t *testing.T) {
	t.Helper()
	hosts := r.node(t).Server.Hosts
	for _, domain := range []string{"", "." + r.namespace, "." + r.namespace + ".svc", "." + r.namespace + ".svc.cluster.local"} {
		if !slices.Contains(hosts, r.service.Name+domain) {
			t.Errorf("%s is not in server.hosts %q", r.service.Name+domain, hosts)
		}
	}
	for _, probe := range []*core.Probe{r.container(t).StartupProbe, r.container(t).LivenessProbe, r.container(t).ReadinessProbe} {
		if probe.HTTPGet.Host != "" || len(probe.HTTPGet.HTTPHeaders) > 0 {
			t.Errorf("a probe sends %+v, want the address of the pod as its Host", probe.HTTPGet)
		}
	}
}

// A pod satisfies the restricted profile of Kubernetes, and has a read-only root file system.
func (r *release) checkRestricted(t *testing.T) {
	t.Helper()
	pod, c := r.pod().Spec, r.container(t)
	s := c.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser != 65532 || pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod runs as %+v", pod.SecurityContext)
	}
	if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || s.Privileged != nil || len(s.Capabilities.Add) > 0 {
		t.Errorf("the container runs as %+v", s)
	}
	if *pod.AutomountServiceAccountToken || r.account != nil && (*r.account.AutomountServiceAccountToken || pod.ServiceAccountName != r.account.Name) {
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

// The configuration is mounted where the image looks for it, and every volume that is mounted
// exists.
func (r *release) checkConfigurationIsFound(t *testing.T) {
	t.Helper()
	c, pod := r.container(t), r.pod().Spec
	volumes := make(map[string]bool)
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.Name == "config" && v.ConfigMap.Name != r.config.Name {
			t.Errorf("the ConfigMap is %s, the pod mounts %s", r.config.Name, v.ConfigMap.Name)
		}
	}
	if r.stateful != nil {
		for _, claim := range r.stateful.Spec.VolumeClaimTemplates {
			volumes[claim.Name] = true
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	// relative paths, such as that of stateDir, are relative to this folder
	if !slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == "/var/lib/seqd" && !m.ReadOnly }) {
		t.Errorf("seqd may write nowhere: %+v", c.VolumeMounts)
	}
	if m := c.VolumeMounts[0]; m.Name != "config" || !m.ReadOnly || !strings.Contains(read(t, "../../Dockerfile"), `"`+m.MountPath+`/seqd.yaml"`) {
		t.Errorf("the configuration is mounted at %+v", c.VolumeMounts)
	}
}

// A pod has enough time to stop, a roll-out does not reduce capacity, and one node can always be
// moved. With bolt there is one node, and its file is on a volume that it may write to.
func (r *release) checkStops(t *testing.T) {
	t.Helper()
	cfg, ready := r.node(t), r.container(t).ReadinessProbe
	least := cfg.Server.DrainDelay + 2*cfg.Server.StopTimeout
	if got := time.Duration(*r.pod().Spec.TerminationGracePeriodSeconds) * time.Second; got < least {
		t.Errorf("a pod has %s to stop, want at least %s", got, least)
	}
	if cfg.Store.Driver == "bolt" {
		must.Equal(t, cfg.Server.DrainDelay, 0, "how long callers wait, although there is no other node,")
		r.checkBolt(t)
		return
	}
	if noticed := time.Duration(ready.PeriodSeconds*ready.FailureThreshold) * time.Second; cfg.Server.DrainDelay <= noticed {
		t.Errorf("the port closes after %s, and balancers notice after %s", cfg.Server.DrainDelay, noticed)
	}
	if r.deployment == nil || r.stateful != nil || !cfg.Store.Shared() {
		t.Fatalf("%s is not run by a Deployment", cfg.Store.Driver)
	}
	if *r.deployment.Spec.Replicas < 2 || r.deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntVal != 0 || r.container(t).Lifecycle != nil {
		t.Errorf("%d replicas are rolled out by %+v", *r.deployment.Spec.Replicas, r.deployment.Spec.Strategy.RollingUpdate)
	}
	if b := r.budget; b != nil && (b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntVal != 1 || b.Spec.MinAvailable != nil) {
		t.Errorf("the budget is %+v", b)
	}
}

func (r *release) checkBolt(t *testing.T) {
	t.Helper()
	if r.stateful == nil || r.deployment != nil || *r.stateful.Spec.Replicas != 1 || r.stateful.Spec.ServiceName != r.service.Name || r.budget != nil {
		t.Fatalf("bolt is not run by a StatefulSet of one pod without a budget: %+v", r)
	}
	store, pod := r.node(t).Store, r.pod().Spec
	file, _ := store.File()
	if !filepath.IsAbs(file) {
		file = filepath.Join("/var/lib/seqd", file)
	}
	if !strings.Contains(read(t, "../../Dockerfile"), "WORKDIR /var/lib/seqd") || *pod.SecurityContext.FSGroup != *pod.SecurityContext.RunAsUser {
		t.Errorf("the pod cannot write to its volume: %+v", pod.SecurityContext)
	}
	mount := r.container(t).VolumeMounts[1]
	if mount.Name != "data" || mount.ReadOnly || !strings.HasPrefix(file, mount.MountPath+"/") {
		t.Errorf("%s is not on the volume: %+v", file, mount)
	}
}

// The policy lets seqd connect to these ports and to no others.
func (r *release) checkEgress(t *testing.T, want []int) {
	t.Helper()
	if r.network == nil {
		return
	}
	spec := r.network.Spec
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
	slices.Sort(want)
	if !slices.Equal(ports, want) || len(spec.PolicyTypes) != 2 || len(spec.Ingress) == 0 {
		t.Errorf("seqd may connect to the ports %v, want %v; the policy types are %v", ports, want, spec.PolicyTypes)
	}
}

// What is secret comes from the Secret alone.
func (r *release) checkSecrets(t *testing.T) {
	t.Helper()
	c := r.container(t)
	if r.node(t).Auth.Enforced() && (len(c.EnvFrom) != 1 || c.EnvFrom[0].SecretRef == nil || c.EnvFrom[0].SecretRef.Name == "") {
		t.Errorf("the variables come from %+v", c.EnvFrom)
	}
	public := must.Get(json.Marshal([]any{r.config, r.pod(), r.service}))(t)
	for key, value := range r.secret {
		if strings.Contains(string(public), value) || strings.Contains(string(public), `"`+key+`"`) {
			t.Errorf("%s is not only in the Secret", key)
		}
	}
	for _, v := range c.Env {
		if strings.HasPrefix(v.Name, "SEQD_") && v.Name != "SEQD_SERVER_ADDR" {
			t.Errorf("%s is set in the pod", v.Name)
		}
	}
}
