package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-base/metrics/legacyregistry"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

type families = map[string]*dto.MetricFamily

// metricPaths are where a node shows numbers for Prometheus.
var metricPaths = []string{"/metrics", "/metrics/cadvisor", "/metrics/resource", "/metrics/probes"}

// fetch asks a node, and fails the test unless it answers.
func fetch(t *testing.T, client *http.Client, url, token string) []byte {
	t.Helper()
	request := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer := check.Value(client.Do(request))(t)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v %s", url, answer.Status, err, body)
	}
	return body
}

func parsed(t *testing.T, text []byte) families {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	f := check.Value(parser.TextToMetricFamilies(strings.NewReader(string(text))))(t)
	return f
}

// labelled are the metrics of a family that have all of these labels (a=b).
func labelled(f families, name string, labels ...string) (out []*dto.Metric) {
	for _, m := range f[name].GetMetric() {
		have := map[string]bool{}
		for _, l := range m.Label {
			have[l.GetName()+"="+l.GetValue()] = true
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !have[l] }) {
			out = append(out, m)
		}
	}
	return out
}

// one is the value of the one metric with these labels.
func one(t *testing.T, f families, name string, labels ...string) float64 {
	t.Helper()
	found := labelled(f, name, labels...)
	if len(found) != 1 {
		t.Errorf("%s%v: %d of them, want one", name, labels, len(found))
		return 0
	}
	switch m := found[0]; {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	default:
		return float64(m.Histogram.GetSampleCount())
	}
}

// scraped is what a node showed.
type scraped struct {
	of      map[string]families
	summary stats.Summary
	// faults is what promtool finds, by path.
	faults map[string]string
}

func scrape(t *testing.T, base string) scraped {
	t.Helper()
	s := scraped{of: map[string]families{}, faults: map[string]string{}}
	for _, path := range metricPaths {
		text := fetch(t, http.DefaultClient, base+path, "")
		s.of[path], s.faults[path] = parsed(t, text), faults(t, text)
	}
	check.Fatal(t, json.Unmarshal(fetch(t, http.DefaultClient, base+"/stats/summary", ""), &s.summary))
	return s
}

// faults is what `promtool check metrics` says of a text, and what its successor's rules do; empty if both
// have nothing to say.
func faults(t *testing.T, text []byte) string {
	t.Helper()
	path := check.Value(lab.PromtoolPath())(t)
	cmd := exec.CommandContext(t.Context(), path, "check", "metrics")
	cmd.Stdin = bytes.NewReader(text)
	said, err := cmd.CombinedOutput()
	if err != nil {
		said = append(said, err.Error()...)
	}
	problems := check.Value(promlint.New(bytes.NewReader(text)).Lint())(t)
	for _, p := range problems {
		said = fmt.Appendf(said, "\n%s: %s", p.Metric, p.Text)
	}
	return string(said)
}

// TestMetrics scrapes troupe while pods run, and holds what it says against the kernel's files. Where the real kubelet runs
// beside it, with the same pods, it also lists what of the kubelet's names troupe lacks.
//
//tier:real
func TestMetrics(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.Promtool)
	complete(t)
	var mu sync.Mutex
	all := map[string]scraped{}
	names := compared()
	t.Run("all", func(t *testing.T) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				port := check.Value(lab.FreePort())(t)
				b := joined(t, "metrics-"+name, agentOf(t, name), fmt.Sprintf("readOnlyPort: %d", port))
				s := b.measured(t, fmt.Sprintf("http://127.0.0.1:%d", port), name == "kubelet")
				mu.Lock()
				all[name] = s
				mu.Unlock()
			})
		}
	})
	if len(all) != len(names) {
		return // told already
	}
	if len(all) == 2 {
		compare(t, all["troupe"], all["kubelet"])
	}
	clean(t, all["troupe"], all["kubelet"])
}

// agents are the two that are compared.
func agents() map[string]func() (member.Agent, error) {
	return map[string]func() (member.Agent, error){
		"troupe": func() (member.Agent, error) {
			binary, err := shared.Troupe()
			return member.Troupe(binary), err
		},
		"kubelet": func() (member.Agent, error) {
			repository, err := lab.Repository()
			if err != nil {
				return member.Agent{}, err
			}
			return member.Kubelet(context.Background(), repository, os.Stderr)
		},
	}
}

// agentOf is one of them.
func agentOf(t *testing.T, name string) member.Agent {
	t.Helper()
	a := check.Value(agents()[name]())(t)
	return a
}

// measured runs pods, and scrapes the node.
func (b *bed) measured(t *testing.T, base string, kubelet bool) scraped {
	t.Helper()
	limits := v1.ResourceList{v1.ResourceCPU: resource.MustParse("200m"), v1.ResourceMemory: resource.MustParse("64Mi")}
	b.create(t, b.pod("web", func(s *v1.PodSpec) {
		probe := &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1}
		s.Containers[0].LivenessProbe, s.Containers[0].ReadinessProbe = probe, probe
		s.Containers[0].Resources.Limits = limits
		s.Volumes = []v1.Volume{volume("scratch", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("scratch")}
	}))
	b.create(t, b.pod("busy", work("lines 300000 then sleep")))
	b.awaitPod(t, "web", "is ready", ready)
	b.awaitPod(t, "busy", "runs", phase(v1.PodRunning))
	var s scraped
	b.await(t, "the node has numbers of all", func() error {
		s = scrape(t, base)
		if n := len(labelled(s.of["/metrics/resource"], "container_memory_working_set_bytes", "namespace="+b.name)); n != 2 {
			return fmt.Errorf("of %d containers", n)
		}
		n := len(labelled(s.of["/metrics/probes"], "prober_probe_total", "result=successful"))
		return check.That(n == 2, "of %d probes", n)
	})
	if !kubelet {
		b.alike(t, base, s)
	}
	for _, name := range []string{"web", "busy"} {
		b.remove(t, name)
	}
	for _, name := range []string{"web", "busy"} {
		b.awaitGone(t, name)
	}
	return s
}

// kernelFile reads a number of a cgroup, whatever version the host has.
func kernelFile(t *testing.T, cgroup, v1, v2 string) float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", filepath.Dir(v1), cgroup, filepath.Base(v1)))
	scale := 1.0
	if err != nil {
		name, key, _ := strings.Cut(v2, " ")
		text = check.Value(os.ReadFile(filepath.Join("/sys/fs/cgroup", cgroup, name)))(t)
		if key != "" { // a line of it, in microseconds
			_, rest, _ := strings.Cut(string(text), key+" ")
			line, _, _ := strings.Cut(rest, "\n")
			text, scale = []byte(line), 1000
		}
	}
	n := check.Value(strconv.ParseFloat(strings.TrimSpace(string(text)), 64))(t)
	return n * scale
}

// alike holds what the node says of its containers against the kernel's files, and its paths
// against each other.
func (b *bed) alike(t *testing.T, base string, s scraped) {
	t.Helper()
	cadvisor, node := s.of["/metrics/cadvisor"], s.of["/metrics"]
	for _, pod := range []string{"web", "busy"} {
		p := b.get(t, pod)
		_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
		of := []string{"namespace=" + b.name, "pod=" + pod, "container=app"}
		named := labelled(cadvisor, "container_memory_usage_bytes", append(of, "name="+id, "image="+p.Status.ContainerStatuses[0].Image)...)
		if len(named) != 1 {
			t.Fatalf("%s: no memory of container %s in %v", pod, id, cadvisor["container_memory_usage_bytes"])
		}
		cgroup := ""
		for _, l := range named[0].Label {
			if l.GetName() == "id" {
				cgroup = l.GetValue()
			}
		}
		if !strings.Contains(cgroup, "pod"+string(p.UID)+"/") || !strings.Contains(cgroup, id) {
			t.Errorf("%s: the cgroup of its container is said to be %s", pod, cgroup)
		}
		cpu := func() float64 { return kernelFile(t, cgroup, "cpuacct/cpuacct.usage", "cpu.stat usage_usec") / 1e9 }
		before := cpu()
		again := parsed(t, fetch(t, http.DefaultClient, base+"/metrics/cadvisor", ""))
		short := parsed(t, fetch(t, http.DefaultClient, base+"/metrics/resource", ""))
		after := cpu()
		for path, got := range map[string]float64{
			"/metrics/cadvisor": one(t, again, "container_cpu_usage_seconds_total", of...),
			"/metrics/resource": one(t, short, "container_cpu_usage_seconds_total", of...),
		} {
			if got < before-1e-6 || got > after+1e-6 {
				t.Errorf("%s of %s: %v s of CPU, and the kernel said %v before and %v after", path, pod, got, before, after)
			}
		}
		memory := kernelFile(t, cgroup, "memory/memory.usage_in_bytes", "memory.current")
		if got := one(t, again, "container_memory_usage_bytes", of...); got < memory/2 || got > 2*memory {
			t.Errorf("%s: %v bytes of memory, and the kernel says %v", pod, got, memory)
		}
		if used, set := one(t, again, "container_memory_usage_bytes", of...), one(t, again, "container_memory_working_set_bytes", of...); set > used {
			t.Errorf("%s: a working set of %v of %v bytes", pod, set, used)
		}
		if sent := labelled(cadvisor, "container_network_transmit_bytes_total", "namespace="+b.name, "pod="+pod, "interface=eth0"); len(sent) != 1 {
			t.Errorf("%s: %d interfaces", pod, len(sent))
		}
		if one(t, again, "container_file_descriptors", of...) == 0 {
			t.Errorf("%s: its processes have nothing open", pod)
		}
	}
	if got := one(t, cadvisor, "container_spec_memory_limit_bytes", "pod=web", "container=app", "namespace="+b.name); got != 64<<20 {
		t.Errorf("a limit of %v bytes", got)
	}
	if got := one(t, cadvisor, "container_spec_cpu_quota", "pod=web", "container=app", "namespace="+b.name); got != 20000 {
		t.Errorf("a quota of %v", got)
	}
	for name, want := range map[string]float64{"kubelet_running_pods": 2, "kubelet_started_pods_total": 2, "kubelet_pod_start_sli_duration_seconds": 2, "kubelet_pod_start_duration_seconds": 2} {
		check.Equal(t, one(t, node, name), want, "%s", name)
	}
	if got := one(t, node, "kubelet_runtime_operations_total", "operation_type=run_podsandbox"); got != 2 {
		t.Errorf("%v sandboxes were run", got)
	}
	check.Equal(t, one(t, node, "troupe_scrape_error"), 0, "troupe_scrape_error")
	b.summarized(t, &s.summary)
}

func (b *bed) summarized(t *testing.T, s *stats.Summary) {
	t.Helper()
	if s.Node.NodeName != b.name || s.Node.CPU == nil || s.Node.Memory == nil || s.Node.Fs == nil || s.Node.Runtime == nil ||
		s.Node.Runtime.ImageFs == nil || s.Node.Network == nil || s.Node.Rlimit == nil || len(s.Node.SystemContainers) == 0 {
		t.Errorf("the node's summary: %+v", s.Node)
	}
	check.Fatal(t, check.Is(len(s.Pods), 2, "a summary of %d pods", len(s.Pods)))
	for _, p := range s.Pods {
		if len(p.Containers) != 1 || p.CPU == nil || p.Memory == nil || p.Network == nil || p.Network.Name != "eth0" || p.EphemeralStorage == nil {
			t.Fatalf("pod %s: %+v", p.PodRef.Name, p)
		}
		c := p.Containers[0]
		if c.CPU == nil || c.Memory == nil || c.Rootfs == nil || c.Rootfs.UsedBytes == nil || c.Logs == nil || *c.CPU.UsageCoreNanoSeconds > *p.CPU.UsageCoreNanoSeconds {
			t.Errorf("container of %s: %+v of %+v", p.PodRef.Name, c, p.CPU)
		}
		if p.PodRef.Name == "web" && !slices.ContainsFunc(p.VolumeStats, func(v stats.VolumeStats) bool {
			return v.Name == "scratch" && v.UsedBytes != nil
		}) {
			t.Errorf("volumes of web: %+v", p.VolumeStats)
		}
		if p.PodRef.Name == "busy" && *c.Logs.UsedBytes < 1<<20 {
			t.Errorf("logs of %d bytes", *c.Logs.UsedBytes)
		}
	}
}

// ourName is a metric's name in our source, or the beginning of some that are put together.
var ourName = regexp.MustCompile(`"((?:kubelet|dra)_\w+)"`)

// complete fails for a metric that the kubelet registers and troupe does not, for no reason. Scrapes can't tell: what has labels
// is not in one before it has happened.
func complete(t *testing.T) {
	t.Helper()
	repository := check.Value(lab.Repository())(t)
	var ours []string
	for _, path := range check.Value(filepath.Glob(filepath.Join(repository, "supervisor/metrics/*.go")))(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, found := range ourName.FindAllStringSubmatch(string(check.Value(os.ReadFile(path))(t)), -1) {
			ours = append(ours, found[1])
		}
	}
	kubeletmetrics.Register()
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		legacyregistry.Registerer().(prometheus.Collector).Describe(all)
	}()
	registered := 0
	for d := range all {
		_, name, _ := strings.Cut(d.String(), `"`)
		name, _, _ = strings.Cut(name, `"`)
		if !strings.HasPrefix(name, "kubelet_") && !strings.HasPrefix(name, "dra_") {
			continue
		}
		registered++
		has := slices.ContainsFunc(ours, func(o string) bool {
			return o == name || strings.HasSuffix(o, "_") && strings.HasPrefix(name, o)
		})
		if !has && lacking("", name) == "" {
			t.Errorf("the kubelet registers %s, and troupe does not, for no reason", name)
		}
	}
	check.AtLeast(t, registered, 50, "metrics that the kubelet registers")
}

// compare lists what of the kubelet's names troupe has not got, and holds the types and labels of those that it has
// against the kubelet's.
func compare(t *testing.T, troupe, kubelet scraped) {
	for _, path := range metricPaths {
		ours, theirs := troupe.of[path], kubelet.of[path]
		missing := 0
		for _, name := range slices.Sorted(maps.Keys(theirs)) {
			if ours[name] != nil {
				if o, k := keys(ours[name]), keys(theirs[name]); !slices.Equal(o, k) && otherLabels[name] == "" {
					t.Errorf("%s: %s has the labels %v, and the kubelet's %v", path, name, o, k)
				}
				check.Equal(t, ours[name].GetType(), theirs[name].GetType(), "%s: the type of %s", path, name)
				continue
			}
			missing++
			if why := lacking(path, name); why == "" {
				t.Errorf("%s: the kubelet has %s, and troupe not, for no reason", path, name)
			}
		}
		t.Logf("%s: of the kubelet's %d names troupe has %d", path, len(theirs), len(theirs)-missing)
	}
}

// unlikeType are names of the kubelet's that promtool refuses for their types: clients go by both.
var unlikeType = []string{
	"container_memory_failcnt", "container_fs_inodes_total", "kubelet_evictions", "kubelet_preemptions",
	"kubelet_cpu_manager_exclusive_cpu_allocation_count", "kubelet_certificate_manager_client_expiration_renew_errors",
}

// clean fails for what promtool finds in what troupe shows, but for names of the kubelet's.
func clean(t *testing.T, troupe, kubelet scraped) {
	for _, path := range metricPaths {
		for line := range strings.Lines(troupe.faults[path]) {
			line = strings.TrimSpace(line)
			name, _, _ := strings.Cut(line, " ")
			if !slices.Contains(unlikeType, strings.TrimSuffix(name, ":")) && line != "exit status 3" {
				t.Errorf("%s: promtool check metrics: %s", path, line)
			}
		}
		t.Logf("%s: promtool check metrics says of the kubelet's: %q", path, kubelet.faults[path])
	}
}

// keys are the names of the labels of a family.
func keys(f *dto.MetricFamily) []string {
	all := map[string]bool{}
	for _, m := range f.Metric {
		for _, l := range m.Label {
			all[l.GetName()] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// otherLabels are names of which troupe knows less than the kubelet, with why.
var otherLabels = map[string]string{
	"kubernetes_build_info": "when it was built is not in the binary, nor whether the tree was clean",
	"machine_cpu_cores":     "the IDs of the machine are in the node's status",
	"machine_memory_bytes":  "the IDs of the machine are in the node's status",
	"machine_swap_bytes":    "the IDs of the machine are in the node's status",
}

// lack says why names that begin so are not there.
var lack = []struct{ prefix, why string }{
	{"go_", "the Go runtime's metrics are those of client_golang's default set"},
	{"process_", "those of the process are client_golang's"},
	{"aggregator_", "of an apiserver's library"},
	{"apiserver_", "of an apiserver's library"},
	{"workqueue_", "troupe has no work queues: see troupe_mailbox_*"},
	{"registered_metrics_total", "of Kubernetes' metrics library"},
	{"disabled_metrics_total", "of Kubernetes' metrics library"},
	{"hidden_metrics_total", "of Kubernetes' metrics library"},
	{"cardinality_enforcement_", "of Kubernetes' metrics library"},
	{"kubernetes_feature_enabled", "gates are at /configz and /flagz"},
	{"force_cleaned_failed_volume_", "of the kubelet's volume reconciler"},
	{"reconstruct_volume_", "of the kubelet's volume reconciler"},
	{"volume_operation_total_seconds", "of the kubelet's volume reconciler"},
	{"rest_client_", "of client-go's own transport and its exec plugins; sizes and the limiter's waits are not counted"},
	{"kubelet_volume_metric_collection_", "volumes are measured when /stats/summary is asked for"},
	{"kubelet_topology_manager_admission_duration_ms", "only where pods are aligned: promtool check metrics refuses its unit"},
	{"kubelet_evented_pleg_", "the event stream is an effect: troupe_effects_in_flight{kind=\"GetContainerEvents\"}"},
	{"kubelet_pleg_discard_events", "there is no channel that can be full: see troupe_messages_dropped_total"},
	{"kubelet_pleg_pod_relist_", "one pod is looked at by calls of its own: see kubelet_runtime_operations_*"},
	{"kubelet_image_manager_", "see kubelet_runtime_operations_total{operation_type=\"pull_image\"}"},
	{"kubelet_imagemanager_inmemory_", "all records are in memory: see kubelet_imagemanager_ondisk_pulledrecords"},
	{"kubelet_sleep_action_terminated_early_total", "see troupe_effect_duration_seconds"},
	{"kubelet_metrics_provider", "of the kubelet's choice between cAdvisor and the runtime"},
	{"kubelet_orphan_pod_cleaned_volumes", "see troupe_effect_duration_seconds{kind=\"UnmountPod\"}"},
	{"kubelet_orphaned_runtime_pods_total", "see kubelet_working_pods{config=\"runtime_only\"}"},
	{"kubelet_restarted_pods_total", "of static pods with the UID of one that ended: not counted"},
	{"kubelet_pod_deferred_accepted_resizes_total", "all resizes that wait are tried when anything changes: see kubelet_pod_deferred_resize_duration_seconds_count{resolution=\"accepted\"}"},
	{"kubelet_started_host_process_containers_", "of Windows"},
	{"kubelet_pod_watch_events_dropped_total", "see troupe_messages_dropped_total"},
	{"kubelet_pod_worker_start_duration_seconds", "a pod's actor has its first message at once: see troupe_mailbox_oldest_message_age_seconds"},
	{"kubelet_first_network_pod_start_sli_duration_seconds", "internal to the kubelet's own tests"},
	{"cadvisor_version_info", "there is no cAdvisor in it"},
	{"container_cpu_cfs_burst_", "no pod is given a burst"},
	{"container_cpu_load_", "needs a netlink socket for each cgroup"},
	{"container_tasks_state", "needs a netlink socket for each cgroup"},
	{"container_health_state", "of Docker's health checks"},
	{"container_fs_", "of other disks than the node's, and of the iocost controller: the node exporter has them"},
	{"container_memory_total_", "parts of the page cache: see container_memory_cache and the working set"},
	{"machine_", "the machine's topology: the node exporter has it"},
}

func lacking(_, name string) string {
	for _, l := range lack {
		if strings.HasPrefix(name, l.prefix) {
			return l.why
		}
	}
	return ""
}

// TestTop asks as metrics-server does: with the token of a service account that may get nodes/metrics
// and no more, over HTTPS, twice, and makes of it what kubectl top shows.
//
//tier:real
func TestTop(t *testing.T) {
	t.Parallel()
	p := plane(t)
	b := started(t, "top", func(s *setup) { s.plane = p; serves(s) })
	ctx := t.Context()
	b.create(t, b.pod("web", nil))
	b.awaitPod(t, "web", "is ready", ready)
	token := b.account(t, ctx, "reader", "nodes/metrics", "get")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // --kubelet-insecure-tls
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("https://127.0.0.1:%d/metrics/resource", b.node(t).Status.DaemonEndpoints.KubeletEndpoint.Port)
	ask := func() families { return parsed(t, fetch(t, client, url, token)) }
	first := ask()
	var second families
	b.await(t, "the second reading is a later one", func() error {
		second = ask()
		before, after := first["node_cpu_usage_seconds_total"].Metric[0], second["node_cpu_usage_seconds_total"].Metric[0]
		if after.GetTimestampMs() < before.GetTimestampMs()+1000 {
			return fmt.Errorf("%d ms", after.GetTimestampMs()-before.GetTimestampMs())
		}
		return nil
	})
	for name, labels := range map[string][]string{
		"node_cpu_usage_seconds_total": nil, "container_cpu_usage_seconds_total": {"pod=web", "container=app", "namespace=" + b.name},
	} {
		before, after := labelled(first, name, labels...), labelled(second, name, labels...)
		if len(before) != 1 || len(after) != 1 || after[0].GetTimestampMs() <= before[0].GetTimestampMs() || after[0].Counter.GetValue() < before[0].Counter.GetValue() {
			t.Errorf("%s: %v, then %v", name, before, after)
		}
	}
	for name, labels := range map[string][]string{
		"node_memory_working_set_bytes": nil, "container_memory_working_set_bytes": {"pod=web", "container=app"}, "container_start_time_seconds": {"pod=web", "container=app"},
	} {
		if one(t, second, name, labels...) <= 0 {
			t.Errorf("%s is not above 0", name)
		}
	}
	// What it may not.
	for path, want := range map[string]int{"/stats/summary": 403, "/pods": 403, "/metrics": 200, "/metrics/cadvisor": 200} {
		request := check.Value(
			http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/metrics/resource")+path, nil))(t)
		request.Header.Set("Authorization", "Bearer "+token)
		answer := check.Value(client.Do(request))(t)
		answer.Body.Close()
		check.Equal(t, answer.StatusCode, want, "%s: %s", path, answer.Status)
	}
}

// account makes a service account that may do something with a resource, of all nodes or in all namespaces, and gives
// its token.
func (b *bed) account(t *testing.T, ctx context.Context, name, of string, verbs ...string) string {
	t.Helper()
	name = b.name + "-" + name
	check.Value(b.admin.CoreV1().ServiceAccounts(b.name).Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{of}, Verbs: verbs}}}
	check.Value(b.admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}))(t)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.name, Name: name}},
	}
	check.Value(b.admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}))(t)
	resource, sub, _ := strings.Cut(of, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + b.name + ":" + name,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verbs[0], Resource: resource, Subresource: sub, Name: b.name},
	}}
	b.await(t, "the apiserver knows the role", func() error { // an agent that is told no keeps it for a while
		said, err := b.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !said.Status.Allowed {
			err = errors.New(said.Status.Reason)
		}
		return err
	})
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(time.Hour / time.Second))}}
	answer := check.Value(b.admin.CoreV1().ServiceAccounts(b.name).CreateToken(ctx, name, request, metav1.CreateOptions{}))(t)
	return answer.Status.Token
}
