package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/probes"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/cri"
	"github.com/troupe-dev/troupe/supervisor/metrics"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/podtest"
)

var now = time.Unix(1_700_000_000, 0)

func fresh(t *testing.T) *metrics.Metrics {
	t.Helper()
	return check.Value(
		metrics.New(metrics.Config{Node: "n1", Version: "v1.36.6+troupe.devel", CgroupV2: true, Began: now, Booted: now.Add(-time.Minute)}))(t)
}

// system is a kernel of actors that says what a test wants.
type system struct {
	stats  []kernel.KindStats
	counts map[string]kernel.KindCount
}

func (s system) Metrics() []kernel.KindStats { return s.stats }
func (s system) CrashCounts() map[kernel.CrashKind]uint64 {
	return map[kernel.CrashKind]uint64{{Kind: "pod", Decision: kernel.Quarantine}: 2}
}
func (s system) DeadLettersByName() map[string]uint64 { return map[string]uint64{"pod.Probed": 3} }
func (s system) Counts() map[string]kernel.KindCount  { return s.counts }
func (s system) UnderWay() []kernel.KindInFlight {
	return []kernel.KindInFlight{{Kind: "RunPodSandbox", Queued: 1, Started: 2, Oldest: time.Second}}
}
func (s system) Pools() []kernel.PoolState {
	return []kernel.PoolState{{Name: "start", Size: 4, Held: 2, Waiting: 1}}
}

func asked() metrics.Asked {
	return metrics.Asked{
		System: func() metrics.System {
			return system{
				stats: []kernel.KindStats{{Kind: "pod", Actors: 3, Quarantined: 1, Depth: 5, MaxDepth: 4, MaxAge: time.Second, Handled: 100}},
				counts: map[string]kernel.KindCount{
					"SetPodCgroup": {Finished: 2, Total: 3 * time.Second, Within: [len(kernel.EffectBuckets)]uint64{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
					"MountVolume":  {Finished: 1, Expired: 1, Total: time.Second},
				},
			}
		},
		Pods:    func(context.Context) (podview.View, error) { return view, nil },
		Probes:  func(context.Context) ([]probes.Tally, error) { return tallies, nil },
		Volumes: func(context.Context) ([]*v1.Pod, []usage.Pod, error) { return volumePods, volumes, nil },
	}
}

var view = podview.View{Ready: true, Mirrors: 2, Pods: []podview.Pod{
	{Source: "api", Life: "Syncing", Phase: "Running", Ready: true, Containers: []podview.Container{{ID: "1", State: "running"}, {ID: "2", State: "waiting", Last: &podview.End{}}}},
	{Source: "file", Life: "Syncing", Phase: "Pending", Resizing: true, Containers: []podview.Container{{ID: "3", State: "running"}}},
	{Source: "api", Life: "Terminating", Phase: "Running", ResizePending: "Deferred", Priority: new(int32(2_000_000_000)), Containers: []podview.Container{{ID: "4", State: "terminated", Kind: "ephemeral"}}},
	{Source: "api", Life: "Rejected", Phase: "Failed"},
	{Source: "orphan", Life: "Terminating", Phase: "Unknown"},
	{Source: "file", Life: "Terminating", Phase: "Pending", Removed: true},
}}

// volumePods are the pods of volumes: the first runs, the second waits for its volumes, the third has ended.
var volumePods = []*v1.Pod{
	{Spec: volumesOf("a", "own", "later"), Status: v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{ContainerID: "c://1"}}}},
	{Spec: volumesOf("b", "own", "conf", "inline"), Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{}}}},
	{Spec: volumesOf("own"), Status: v1.PodStatus{Phase: v1.PodSucceeded}},
}

func volumesOf(names ...string) (s v1.PodSpec) {
	for _, name := range names {
		v := v1.Volume{Name: name}
		switch name {
		case "own":
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		case "conf":
			v.ConfigMap = &v1.ConfigMapVolumeSource{}
		case "inline":
			v.CSI = &v1.CSIVolumeSource{Driver: "d.example.com"}
		default:
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{}
		}
		s.Volumes = append(s.Volumes, v)
	}
	podtest.UseVolumes(&s)
	s.Volumes = append(s.Volumes, v1.Volume{Name: "unused"})
	return s
}

var volumes = []usage.Pod{
	{UID: "u1", Namespace: "ns", Name: "web", Containers: []usage.Container{{Name: "app", Logs: &usage.Disk{Used: new(uint64(4096))}}, {Name: "new"}},
		Volumes: []usage.Volume{{Name: "a", Namespace: "ns", Claim: "data", Plugin: usage.CSIPlugin("d.example.com"), Disk: usage.Disk{Capacity: new(uint64(10)), Used: new(uint64(4))}, Abnormal: new(true)}, {Name: "own"}}},
	{Volumes: []usage.Volume{{Name: "b", Namespace: "ns", Claim: "data", Disk: usage.Disk{Capacity: new(uint64(10))}}}},
}

var tallies = []probes.Tally{
	{UID: "1", Namespace: "ns", Pod: "web", Container: "app", Kind: probe.Liveness, Passed: 5, Failed: 2, Total: time.Second, Within: [len(probes.Buckets)]uint64{6}},
	{UID: "2", Namespace: "ns", Pod: "web", Container: "app", Kind: probe.Liveness, Passed: 1, Within: [len(probes.Buckets)]uint64{1}},
}

// admissionTimes has a unit that promtool refuses. Only a node that aligns shows it.
const admissionTimes = "kubelet_topology_manager_admission_duration_ms"

// resizeTimes has such a unit too.
const resizeTimes = "kubelet_pod_resize_duration_milliseconds"

// refused are names of the kubelet's that promtool refuses, with the kubelet's types: clients go by both.
var refused = map[string]dto.MetricType{
	admissionTimes:                           dto.MetricType_HISTOGRAM,
	resizeTimes:                              dto.MetricType_HISTOGRAM,
	"kubelet_evictions":                      dto.MetricType_COUNTER,
	"kubelet_preemptions":                    dto.MetricType_COUNTER,
	"kubelet_server_expiration_renew_errors": dto.MetricType_COUNTER,
	"kubelet_certificate_manager_client_expiration_renew_errors": dto.MetricType_COUNTER,
	"kubelet_pod_resources_endpoint_requests_list":               dto.MetricType_COUNTER,
	"kubelet_pod_resources_endpoint_requests_get":                dto.MetricType_COUNTER,
	"kubelet_pod_resources_endpoint_requests_get_allocatable":    dto.MetricType_COUNTER,
	"kubelet_pod_resources_endpoint_errors_list":                 dto.MetricType_COUNTER,
	"kubelet_pod_resources_endpoint_errors_get":                  dto.MetricType_COUNTER,
	"kubelet_pod_resources_endpoint_errors_get_allocatable":      dto.MetricType_COUNTER,
	"kubelet_container_aligned_compute_resources_count":          dto.MetricType_COUNTER,
	"kubelet_container_aligned_compute_resources_failure_count":  dto.MetricType_COUNTER,
	"kubelet_cpu_manager_exclusive_cpu_allocation_count":         dto.MetricType_GAUGE,
}

// scrape asks a path, and has what it says checked.
func scrape(t *testing.T, m *metrics.Metrics, a metrics.Asked, path string) map[string]*dto.MetricFamily {
	t.Helper()
	for _, r := range m.Routes(a) {
		check.Error(t, r.Validate())
		if r.Path != path {
			continue
		}
		w := httptest.NewRecorder()
		r.Handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		check.Fatal(t, check.Is(w.Code, 200, "%s: %d %s", path, w.Code, w.Body))
		text := w.Body.String()
		problems := check.Value(promlint.New(strings.NewReader(text)).Lint())(t)
		for _, p := range problems {
			if _, is := refused[p.Metric]; !is {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families := check.Value(parser.TextToMetricFamilies(strings.NewReader(text)))(t)
		for name, of := range refused {
			if f := families[name]; f != nil {
				check.Equal(t, f.GetType(), of, "the type of %s", name)
			}
		}
		return families
	}
	t.Fatal("there is no " + path)
	return nil
}

// value is that of the one metric with such labels (a=b c=d).
func value(t *testing.T, families map[string]*dto.MetricFamily, name, labels string) float64 {
	t.Helper()
	for _, m := range families[name].GetMetric() {
		var have []string
		for _, l := range m.Label {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(have, " ") != labels {
			continue
		}
		switch {
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		}
	}
	t.Errorf("there is no %s{%s} in %v", name, labels, families[name])
	return -1
}

// want is one value to be found.
type want struct {
	name, labels string
	value        float64
}

func wantSeries(t *testing.T, families map[string]*dto.MetricFamily, all []want) {
	t.Helper()
	for _, w := range all {
		check.Equal(t, value(t, families, w.name, w.labels), w.value, "%s{%s}", w.name, w.labels)
	}
}

func TestWhatIsAskedAtAScrape(t *testing.T) {
	wantSeries(t, scrape(t, fresh(t), asked(), "/metrics"), []want{
		{"kubelet_node_name", "node=n1", 1},
		{"volume_manager_total_volumes", "plugin_name=kubernetes.io/csi:d.example.com state=desired_state_of_world", 2},
		{"volume_manager_total_volumes", "plugin_name=kubernetes.io/csi:d.example.com state=actual_state_of_world", 1},
		{"volume_manager_total_volumes", "plugin_name=kubernetes.io/empty-dir state=desired_state_of_world", 2},
		{"volume_manager_total_volumes", "plugin_name=kubernetes.io/empty-dir state=actual_state_of_world", 1},
		{"volume_manager_total_volumes", "plugin_name=kubernetes.io/configmap state=desired_state_of_world", 1},
		{"volume_manager_total_volumes", "plugin_name=unknown state=desired_state_of_world", 2},
		{"kubelet_cgroup_version", "", 2},
		{"kubelet_running_pods", "", 3},
		{"kubelet_running_containers", "container_state=running", 2},
		{"kubelet_running_containers", "container_state=exited", 2},
		{"kubelet_desired_pods", "static=", 3},
		{"kubelet_desired_pods", "static=true", 1},
		{"kubelet_active_pods", "static=", 2},
		{"kubelet_working_pods", "config=desired lifecycle=sync static=true", 1},
		{"kubelet_working_pods", "config=desired lifecycle=terminating static=", 1},
		{"kubelet_working_pods", "config=orphan lifecycle=terminating static=true", 1},
		{"kubelet_working_pods", "config=orphan lifecycle=sync static=", 0},
		{"kubelet_working_pods", "config=runtime_only lifecycle=terminating static=unknown", 1},
		{"kubelet_working_pods", "config=runtime_only lifecycle=terminated static=unknown", 0},
		{"kubelet_active_pods", "static=true", 1},
		{"kubelet_mirror_pods", "", 2},
		{"kubelet_pod_pending_resizes", "priority_bucket=system-critical reason=deferred", 1},
		{"kubelet_pod_in_progress_resizes", "", 1},
		{"kubelet_managed_ephemeral_containers", "", 1},
		{"troupe_pods_ready", "", 1},
		{"troupe_ready", "", 1},
		{"troupe_scrape_error", "", 0},
		{"kubelet_volume_stats_capacity_bytes", "namespace=ns persistentvolumeclaim=data", 10},
		{"kubelet_volume_stats_used_bytes", "namespace=ns persistentvolumeclaim=data", 4},
		{"kubelet_volume_stats_health_status_abnormal", "namespace=ns persistentvolumeclaim=data", 1},
		{"kubelet_container_log_filesystem_used_bytes", "container=app namespace=ns pod=web uid=u1", 4096},
		{"troupe_actors", "kind=pod state=running", 2},
		{"troupe_actors", "kind=pod state=quarantined", 1},
		{"troupe_mailbox_messages", "kind=pod", 5},
		{"troupe_mailbox_oldest_message_age_seconds", "kind=pod", 1},
		{"troupe_actor_crashes_total", "decision=quarantine kind=pod", 2},
		{"troupe_dead_letters_total", "message=pod.Probed", 3},
		{"troupe_effects_in_flight", "kind=RunPodSandbox phase=running", 2},
		{"troupe_effect_oldest_age_seconds", "kind=RunPodSandbox", 1},
		{"troupe_effect_duration_seconds", "kind=SetPodCgroup", 2},
		{"troupe_effects_ended_total", "how=expired kind=MountVolume", 1},
		{"kubelet_cgroup_manager_duration_seconds", "operation_type=create", 2},
		{"troupe_pool_waiting", "pool=start", 1},
	})
}

// A node whose actors do not answer still shows what its kernel knows.
func TestNobodyAnswers(t *testing.T) {
	a := asked()
	a.Pods = func(context.Context) (podview.View, error) { return podview.View{}, errors.New("no answer") }
	families := scrape(t, fresh(t), a, "/metrics")
	wantSeries(t, families, []want{{"troupe_scrape_error", "", 1}, {"troupe_mailbox_messages", "kind=pod", 5}})
	if f := families["kubelet_running_pods"]; f != nil {
		t.Errorf("told what nobody knows: %v", f)
	}
}

func TestCalls(t *testing.T) {
	m := fresh(t)
	at := now
	call := func(method, object string, took time.Duration, err error) {
		at = at.Add(10 * time.Second)
		m.Runtime(cri.Call{Method: method, Object: object, Start: at, Duration: took, Err: err})
	}
	call("List", "", 20*time.Millisecond, nil)
	call("List", "", 20*time.Millisecond, nil)
	call("List", "one pod", time.Second, nil)
	call("ListPodSandbox", "", time.Millisecond, nil)
	call("RunPodSandbox", "ns/web", time.Second, nil)
	call("RunPodSandbox", "ns/web", time.Second, errors.New("no"))
	call("UpdateContainerResources", "1", time.Second, nil)
	call("GetContainerEvents", "", time.Hour, errors.New("ended"))
	m.Request(kube.Request{Method: "GET", Host: "10.0.0.1:6443", Code: 200, Took: time.Millisecond})
	m.Request(kube.Request{Method: "GET", Host: "10.0.0.1:6443"})
	families := scrape(t, m, asked(), "/metrics")
	wantSeries(t, families, []want{
		{"kubelet_pleg_relist_duration_seconds", "", 2},
		{"kubelet_pleg_relist_interval_seconds", "", 1},
		{"kubelet_runtime_operations_total", "operation_type=list_podsandbox", 1},
		{"kubelet_runtime_operations_total", "operation_type=run_podsandbox", 2},
		{"kubelet_runtime_operations_errors_total", "operation_type=run_podsandbox", 1},
		{"kubelet_runtime_operations_duration_seconds", "operation_type=run_podsandbox", 2},
		{"kubelet_runtime_operations_total", "operation_type=update_container", 1},
		{"kubelet_runtime_operations_errors_total", "operation_type=get_container_events", 1},
		{"rest_client_requests_total", "code=200 host=10.0.0.1:6443 method=GET", 1},
		{"rest_client_requests_total", "code=<error> host=10.0.0.1:6443 method=GET", 1},
		{"rest_client_request_duration_seconds", "host=10.0.0.1:6443 verb=GET", 2},
	})
	if n := len(families["kubelet_runtime_operations_duration_seconds"].GetMetric()); n != 3 {
		t.Errorf("%d kinds of calls have durations, want 3: a stream has none", n)
	}
}

// TestOldRuntime: a runtime that does not tell its cgroup driver.
func TestOldRuntime(t *testing.T) {
	const name = "kubelet_cri_losing_support"
	m := fresh(t)
	m.Runtime(cri.Call{Method: "RuntimeConfig"})
	m.Runtime(cri.Call{Method: "RuntimeConfig", Err: &port.Error{Kind: port.Unavailable}})
	m.Runtime(cri.Call{Method: "Version", Err: &port.Error{Kind: port.Unsupported}})
	if got := scrape(t, m, asked(), "/metrics")[name]; got != nil {
		t.Errorf("of a runtime that tells: %v", got)
	}
	m.Runtime(cri.Call{Method: "RuntimeConfig", Err: &port.Error{Kind: port.Unsupported}})
	wantSeries(t, scrape(t, m, asked(), "/metrics"), []want{{name, "version=1.38.0", 1}})
}

// TestPodResources: requests to the podresources API, by the version that was asked.
func TestPodResources(t *testing.T) {
	m := fresh(t)
	for _, method := range []string{"List", "Get", "GetAllocatableResources", "new"} {
		m.PodResourcesAsked("v1", method, method == "Get")
	}
	m.PodResourcesAsked("v1alpha1", "List", false)
	got := scrape(t, m, asked(), "/metrics")
	const of = "kubelet_pod_resources_endpoint_"
	wantSeries(t, got, []want{
		{of + "requests_total", "server_api_version=v1", 4},
		{of + "requests_list", "server_api_version=v1", 1},
		{of + "requests_list", "server_api_version=v1alpha1", 1},
		{of + "requests_get", "server_api_version=v1", 1},
		{of + "requests_get_allocatable", "server_api_version=v1", 1},
		{of + "errors_get", "server_api_version=v1", 1},
	})
	if f := got[of+"errors_list"]; f != nil {
		t.Errorf("a failure that was none: %v", f)
	}
}

// runtime does what a test says, at once.
type runtime struct {
	port.Runtime
	err error
}

func (r *runtime) RunPodSandbox(_ context.Context, _ port.RunPodSandbox, done func(string, error)) {
	done("s", r.err)
}

func (r *runtime) CreateContainer(_ context.Context, c port.CreateContainer, done func(string, error)) {
	done("id-"+c.Container.Name, r.err)
}

func (r *runtime) StartContainer(_ context.Context, _ string, done func(error)) { done(r.err) }

func TestStarts(t *testing.T) {
	m := fresh(t)
	below := &runtime{}
	s := m.Starts(below)
	p := &v1.Pod{Spec: v1.PodSpec{
		HostUsers: new(false), InitContainers: []v1.Container{{Name: "init"}}, Containers: []v1.Container{{Name: "app"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
	}}
	start := func(name string, err error) {
		s.CreateContainer(t.Context(), port.CreateContainer{Pod: p, Container: &v1.Container{Name: name}, SandboxID: "s1"}, func(id string, e error) {
			below.err = err
			s.StartContainer(t.Context(), id, func(error) {})
			below.err = nil
		})
	}
	s.RunPodSandbox(t.Context(), port.RunPodSandbox{Pod: p}, func(string, error) {})
	for _, name := range []string{"init", "app", "debug"} {
		start(name, nil)
	}
	no := errors.New("no")
	start("init", no)
	below.err = no
	s.RunPodSandbox(t.Context(), port.RunPodSandbox{Pod: p}, func(string, error) {})
	s.CreateContainer(t.Context(), port.CreateContainer{Pod: p, Container: &v1.Container{Name: "app"}}, func(string, error) {})
	wantSeries(t, scrape(t, m, asked(), "/metrics"), []want{
		{"kubelet_started_pods_total", "", 2},
		{"kubelet_started_pods_errors_total", "", 1},
		{"kubelet_started_user_namespaced_pods_total", "", 2},
		{"kubelet_run_podsandbox_duration_seconds", "runtime_handler=", 2},
		{"kubelet_run_podsandbox_errors_total", "runtime_handler=", 1},
		{"kubelet_started_containers_total", "container_type=init_container", 2},
		{"kubelet_started_containers_total", "container_type=container", 2},
		{"kubelet_started_containers_total", "container_type=ephemeral_container", 1},
		{"kubelet_started_containers_errors_total", "code=RunContainerError container_type=init_container", 1},
		{"kubelet_started_containers_errors_total", "code=CreateContainerError container_type=container", 1},
	})
}

// TestStartsOfOwnUsers: of a pod with users of its own, a container that can't be made or started is told once for each
// sandbox, and later failures of a container that ran are not.
func TestStartsOfOwnUsers(t *testing.T) {
	for name, tt := range map[string]struct {
		hostUsers         *bool
		created, started  error
		attempt           uint32
		sandboxes         []string
		errorsOfUsersPods float64
	}{
		"all is well":                {new(false), nil, nil, 0, []string{"s1"}, 0},
		"it can't be made":           {new(false), errors.New("no"), nil, 0, []string{"s1"}, 1},
		"it can't be started":        {new(false), nil, errors.New("no"), 0, []string{"s1"}, 1},
		"tried again":                {new(false), nil, errors.New("no"), 0, []string{"s1", "s1"}, 1},
		"tried in another sandbox":   {new(false), nil, errors.New("no"), 0, []string{"s1", "s2"}, 2},
		"it has run before":          {new(false), nil, errors.New("no"), 1, []string{"s1"}, 0},
		"it has the users of others": {nil, nil, errors.New("no"), 0, []string{"s1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, below := fresh(t), &runtime{}
			s := m.Starts(below)
			p := &v1.Pod{Spec: v1.PodSpec{HostUsers: tt.hostUsers, Containers: []v1.Container{{Name: "app"}}}}
			for _, sandbox := range tt.sandboxes {
				below.err = tt.created
				to := port.CreateContainer{Pod: p, Container: &p.Spec.Containers[0], SandboxID: sandbox, Attempt: tt.attempt}
				s.CreateContainer(t.Context(), to, func(id string, err error) {
					if below.err = tt.started; err == nil {
						s.StartContainer(t.Context(), id, func(error) {})
					}
				})
			}
			wantSeries(t, scrape(t, m, asked(), "/metrics"), []want{
				{"kubelet_started_user_namespaced_pods_errors_total", "", tt.errorsOfUsersPods},
			})
		})
	}
}

type nobody struct{}

func (nobody) Record(port.Event) {}

// apiserver takes all.
type apiserver struct{ port.API }

func (*apiserver) Create(_ context.Context, o port.APIObject, done func(port.APIObject, error)) {
	done(o, nil)
}

func (*apiserver) Patch(_ context.Context, p port.APIPatch, done func(port.APIObject, error)) {
	done(p.To, nil)
}

func TestProbes(t *testing.T) {
	wantSeries(t, scrape(t, fresh(t), asked(), "/metrics/probes"), []want{
		{"prober_probe_total", "container=app namespace=ns pod=web pod_uid=1 probe_type=Liveness result=successful", 5},
		{"prober_probe_total", "container=app namespace=ns pod=web pod_uid=1 probe_type=Liveness result=failed", 2},
		{"prober_probe_total", "container=app namespace=ns pod=web pod_uid=2 probe_type=Liveness result=successful", 1},
		{"prober_probe_duration_seconds", "container=app namespace=ns pod=web probe_type=Liveness", 1},
	})
}

// TestSLIs: the checks of /healthz that were asked for.
func TestSLIs(t *testing.T) {
	m := fresh(t)
	m.Healthcheck("syncloop", nil)
	m.Healthcheck("syncloop", errors.New("the pods actor is stuck"))
	wantSeries(t, scrape(t, m, asked(), "/metrics/slis"), []want{
		{"kubernetes_healthcheck", "name=syncloop type=healthz", 0},
		{"kubernetes_healthchecks_total", "name=syncloop status=error type=healthz", 1},
		{"kubernetes_healthchecks_total", "name=syncloop status=success type=healthz", 1},
		{"process_start_time_seconds", "", float64(now.Unix())},
	})

	for _, r := range m.Routes(asked()) {
		if r.Path == "/metrics/slis" {
			if !slices.Contains(r.Methods, http.MethodDelete) {
				t.Errorf("methods: %v", r.Methods)
			}
			w := httptest.NewRecorder()
			r.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, r.Path, nil))
			if w.Code != http.StatusOK || w.Body.String() != "metrics reset\n" {
				t.Errorf("%d %q", w.Code, w.Body)
			}
		}
	}
	left := scrape(t, m, asked(), "/metrics/slis")
	if left["kubernetes_healthcheck"] != nil || left["kubernetes_healthchecks_total"] != nil {
		t.Errorf("after a reset: %v", left)
	}
}

// TestAssigned: what containers get to themselves, and what not.
func TestAssigned(t *testing.T) {
	m := fresh(t)
	a := m
	cores, node := cpus.Alignment{Scope: "container", Boundary: cpus.PhysicalCPU}, cpus.Alignment{Scope: "pod", Boundary: cpus.NUMANode}
	cache := cpus.Alignment{Scope: "container", Boundary: cpus.UncoreCache}
	const aligned, misaligned = "kubelet_container_aligned_compute_resources_count", "kubelet_container_aligned_compute_resources_failure_count"
	if got := scrape(t, m, asked(), "/metrics"); got[aligned] != nil || got[misaligned] != nil || got[admissionTimes] != nil {
		t.Error("alignments are counted of a node that aligns nothing")
	}
	a.Alignments([]cpus.Alignment{cores, cache, node}, []cpus.Alignment{cores, node})
	a.Alignments([]cpus.Alignment{node}, nil) // the actor starts again
	none := scrape(t, m, asked(), "/metrics")
	wantSeries(t, none, []want{{aligned, "boundary=uncore_cache scope=container", 0}, {misaligned, "boundary=numa_node scope=pod", 0}, {admissionTimes, "", 0}})
	check.Count(t, len(none[misaligned].GetMetric()), 2, "%d failures are counted")
	a.Decided(assignments.Decision{CPUs: 2, Memory: 1, Aligned: true, Took: time.Second, Alignments: map[cpus.Alignment]int{cores: 2, cache: 1, node: 1}})
	a.Decided(assignments.Decision{CPUs: 1, Rejected: &admit.Rejection{Of: v1.ResourceCPU}, Misaligned: cores})
	a.Decided(assignments.Decision{Memory: 1, Aligned: true, Rejected: &admit.Rejection{Of: v1.ResourceMemory}})
	a.Decided(assignments.Decision{Aligned: true, Rejected: topology.Rejection("pod", false), Misaligned: node})
	a.Decided(assignments.Decision{Rejected: admit.Unexpected(errors.New("no device plugin"))})
	a.Shared(6, map[int]int{0: 1, 1: 1})
	a.Shared(3, map[int]int{0: 5, 1: 0})
	a.Allocated("example.com/gpu", time.Second)
	m.Registered("example.com/gpu")
	got := scrape(t, m, asked(), "/metrics")
	check.Equal(t, got[admissionTimes].GetMetric()[0].GetHistogram().GetSampleSum(), 1000., "milliseconds")
	wantSeries(t, got, []want{
		{admissionTimes, "", 5},
		{"kubelet_cpu_manager_pinning_requests_total", "", 3},
		{"kubelet_cpu_manager_pinning_errors_total", "", 1},
		{"kubelet_cpu_manager_shared_pool_size_millicores", "", 3000},
		{"kubelet_cpu_manager_exclusive_cpu_allocation_count", "", 5},
		{"kubelet_memory_manager_pinning_requests_total", "", 2},
		{"kubelet_memory_manager_pinning_errors_total", "", 1},
		{"kubelet_topology_manager_admission_requests_total", "", 5},
		{"kubelet_topology_manager_admission_errors_total", "", 2},
		{"kubelet_cpu_manager_allocation_per_numa", "numa_node=0", 5},
		{"kubelet_cpu_manager_allocation_per_numa", "numa_node=1", 0},
		{aligned, "boundary=physical_cpu scope=container", 2},
		{aligned, "boundary=uncore_cache scope=container", 1},
		{aligned, "boundary=numa_node scope=pod", 1},
		{misaligned, "boundary=physical_cpu scope=container", 1},
		{misaligned, "boundary=numa_node scope=pod", 1},
		{"kubelet_device_plugin_registration_total", "resource_name=example.com/gpu", 1},
		{"kubelet_device_plugin_alloc_duration_seconds", "resource_name=example.com/gpu", 1},
	})
}

// TestClaims: what became of ResourceClaims. Drivers without any are not shown any more.
func TestClaims(t *testing.T) {
	m := fresh(t)
	c := m
	c.Prepared(time.Second, true)
	c.Prepared(time.Second, false)
	c.Unprepared(time.Second, false)
	c.InUse(9, map[string]int{"gone.example.com": 9})
	c.InUse(2, map[string]int{"gpu.example.com": 1})
	m.DriverCalled("gpu.example.com", "/v1.DRAPlugin/NodePrepareResources", "OK", time.Second)
	got := scrape(t, m, asked(), "/metrics")
	wantSeries(t, got, []want{
		{"dra_operations_duration_seconds", "is_error=true operation_name=PrepareResources", 1},
		{"dra_operations_duration_seconds", "is_error=false operation_name=PrepareResources", 1},
		{"dra_operations_duration_seconds", "is_error=false operation_name=UnprepareResources", 1},
		{"dra_resource_claims_in_use", "driver_name=<any>", 2},
		{"dra_resource_claims_in_use", "driver_name=gpu.example.com", 1},
		{"dra_grpc_operations_duration_seconds",
			"driver_name=gpu.example.com grpc_status_code=OK method_name=/v1.DRAPlugin/NodePrepareResources", 1},
	})
	check.Count(t, len(got["dra_resource_claims_in_use"].GetMetric()), 2, "%d gauges of claims in use")
}

// TestProtection: what the node gave up to protect itself.
func TestProtection(t *testing.T) {
	m := fresh(t)
	m.ImageRemoved(imagecache.Old)
	m.Evicted("memory.available")
	m.StatsAge("memory.available", 250*time.Millisecond)
	m.Preempted(v1.ResourceCPU)
	m.VolumeMeasured("fsquota", time.Millisecond)
	wantSeries(t, scrape(t, m, asked(), "/metrics"), []want{
		{"kubelet_image_garbage_collected_total", "reason=age", 1},
		{"kubelet_evictions", "eviction_signal=memory.available", 1},
		{"kubelet_eviction_stats_age_seconds", "eviction_signal=memory.available", 1},
		{"kubelet_preemptions", "preemption_signal=cpu", 1},
		{"kubelet_volume_metric_collection_duration_seconds", "metric_source=fsquota", 1},
	})
}
