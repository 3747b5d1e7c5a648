package metrics_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestPodStarts(t *testing.T) {
	m := fresh(t)
	events := m.Events(nobody{})
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1", CreationTimestamp: metav1.NewTime(now)}}
	say := func(reason string, after time.Duration) {
		events.Record(port.Event{Pod: p, Reason: reason, At: now.Add(after)})
	}
	say("Pulled", 0) // another of its images was there
	say("Pulling", time.Second)
	say("Pulling", 2*time.Second)
	say("Pulled", 3*time.Second)
	say("Pulled", 5*time.Second)
	say("LifecycleHTTPFallback", 6*time.Second)
	ended := func(from, to time.Duration) v1.ContainerStatus {
		return v1.ContainerStatus{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			StartedAt: metav1.NewTime(now.Add(from)), FinishedAt: metav1.NewTime(now.Add(to)),
		}}}
	}
	m.Started(podset.Started{
		Pod: p, Status: &v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended(5*time.Second, 7*time.Second)}},
		Seen: now.Add(time.Second), At: now.Add(8 * time.Second),
	})
	m.Started(podset.Started{Pod: &v1.Pod{}, Status: &v1.PodStatus{}, Seen: now, At: now.Add(time.Second)}) // a static one
	stateful := p.DeepCopy()
	stateful.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}}}
	m.Started(podset.Started{Pod: stateful, Status: &v1.PodStatus{}, Seen: now, At: now.Add(time.Second)})
	families := scrape(t, m, asked(), "/metrics")
	wantSeries(t, families, []want{{"kubelet_lifecycle_handler_http_fallbacks_total", "", 1}})
	for name, sums := range map[string][2]float64{
		"kubelet_pod_start_duration_seconds":       {3, 9},
		"kubelet_pod_start_total_duration_seconds": {2, 9},
		"kubelet_pod_start_sli_duration_seconds":   {1, 2}, // 8 - 4 - 2
		"kubelet_pod_worker_duration_seconds":      {3, 9},
	} {
		h := families[name].GetMetric()[0].GetHistogram()
		check.Equal(t, [2]float64{float64(h.GetSampleCount()), h.GetSampleSum()}, sums, "%s has", name)
	}
	// The alert KubeletPodStartUpLatencyHigh is for a quantile above 60 s, which a kubelet's buckets never give.
	buckets := families["kubelet_pod_worker_duration_seconds"].GetMetric()[0].GetHistogram().GetBucket()
	check.Equal(t, buckets[len(buckets)-2].GetUpperBound(), 10, "the last bucket but +Inf")
}

func TestNodeStartup(t *testing.T) {
	m := fresh(t)
	a := m.API(&apiserver{})
	names := []string{"pre_kubelet", "pre_registration", "registration", "post_registration"}
	there := func() (out []string) {
		families := scrape(t, m, asked(), "/metrics")
		for _, n := range names {
			if families["kubelet_node_startup_"+n+"_duration_seconds"] != nil {
				out = append(out, n)
			}
		}
		return out
	}
	node := func(status v1.ConditionStatus) *v1.Node {
		return &v1.Node{Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: status}}}}
	}
	key := port.APIKey{Kind: port.NodeKind, Name: "n1"}
	patch := func() {
		a.Patch(t.Context(), port.APIPatch{Key: key, To: node(v1.ConditionTrue)}, func(port.APIObject, error) {})
	}
	for i, step := range []func(){
		func() { a.Create(t.Context(), &v1.Pod{}, func(port.APIObject, error) {}) },
		patch, // of a Node that was there before
		func() { a.Create(t.Context(), node(v1.ConditionFalse), func(port.APIObject, error) {}) },
		patch,
	} {
		step()
		check.Same(t, there(), names[:[]int{0, 0, 3, 4}[i]], "after step %d there", i)
	}
	wantSeries(t, scrape(t, m, asked(), "/metrics"), []want{{"kubelet_node_startup_pre_kubelet_duration_seconds", "", 60}})
}

// TestCounted: what becomes of pods.
func TestCounted(t *testing.T) {
	m := fresh(t)
	c := m
	for _, kind := range []podspec.Kind{podspec.Main, podspec.Main, podspec.Init, podspec.Ephemeral} {
		c.Ended(podstatus.Ending{Kind: kind, Code: 139, Reason: "Error"})
	}
	cpu := &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}
	for _, of := range [][2]*v1.ResourceRequirements{{{}, nil}, {{}, {}}, {{}, cpu}, {cpu, nil}, {cpu, cpu}} {
		p := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Resources: *of[0]}}, Resources: of[1]}}
		c.Admitted(p)
	}
	for _, reason := range []string{"OutOfcpu", "OutOfexample.com/gpu", "OutOfhugepages-2Mi", "NodeAffinity"} {
		c.Rejected(reason)
	}
	c.Resizing(podresize.Change{Resource: v1.ResourceCPU, Requirement: "limits", Operation: "add"})
	c.Infeasible(podresize.Insufficient)
	c.Undeferred(&v1.Pod{}, "accepted", time.Minute)
	got := scrape(t, m, asked(), "/metrics")
	check.Equal(t, got["kubelet_pod_deferred_resize_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleSum(), 60, "seconds")
	wantSeries(t, got, []want{
		{"kubelet_pod_level_resources_admission_total", "config_mode= qos_class=besteffort", 2},
		{"kubelet_pod_level_resources_admission_total", "config_mode=pod_level qos_class=burstable", 1},
		{"kubelet_pod_level_resources_admission_total", "config_mode=container_level qos_class=burstable", 1},
		{"kubelet_pod_level_resources_admission_total", "config_mode=pod_and_container_level qos_class=burstable", 1},
		{"kubelet_admission_rejections_total", "reason=OutOfcpu", 1},
		{"kubelet_admission_rejections_total", "reason=OutOfExtendedResources", 2},
		{"kubelet_admission_rejections_total", "reason=Other", 1},
		{"kubelet_container_requested_resizes_total", "operation=add requirement=limits resource=cpu", 1},
		{"kubelet_pod_infeasible_resizes_total", "reason_detail=insufficient_node_allocatable", 1},
		{"kubelet_pod_deferred_resize_duration_seconds", "priority_bucket=normal resolution=accepted", 1},
		{"kubelet_terminated_containers_total", "container_type=container exit_code=139 reason=Error", 2},
		{"kubelet_terminated_containers_total", "container_type=init_container exit_code=139 reason=Error", 1},
		{"kubelet_terminated_containers_total", "container_type=ephemeral_container exit_code=139 reason=Error", 1},
	})
}

// TestResizeTimes: what events say of resizes and of a pod that is rejected when it has begun.
func TestResizeTimes(t *testing.T) {
	m := fresh(t)
	events := m.Events(nobody{})
	say := func(uid types.UID, reason string, after time.Duration) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		events.Record(port.Event{Pod: p, Reason: reason, At: now.Add(after)})
	}
	say("a", "ResizeCompleted", 0) // of an earlier agent
	say("a", "ResizeDeferred", time.Second)
	say("a", "ResizeStarted", time.Second)
	say("b", "ResizeStarted", time.Second)
	say("b", "ResizeError", 3*time.Second)
	say("b", "ResizeCompleted", 5*time.Second)
	say("b", "ResizeCompleted", 6*time.Second) // of a resize that was not seen
	say("a", "VolumeAttachmentLimitExceeded", 7*time.Second)
	got := scrape(t, m, asked(), "/metrics")
	wantSeries(t, got, []want{
		{resizeTimes, "success=true", 1}, {resizeTimes, "success=false", 1},
		{"kubelet_admission_rejections_total", "reason=VolumeAttachmentLimitExceeded", 1},
	})
	for _, h := range got[resizeTimes].GetMetric() {
		sums := map[string]float64{"true": 4000, "false": 2000}
		check.Equal(t, h.GetHistogram().GetSampleSum(), sums[h.Label[0].GetValue()], "milliseconds of %s", h.Label)
	}
}

// TestResizes: the classes of priorities are a kubelet's.
func TestResizes(t *testing.T) {
	a := asked()
	a.Pods = func(context.Context) (podview.View, error) {
		v := podview.View{Pods: []podview.Pod{{ResizePending: "Infeasible"}}}
		for _, priority := range []int32{2_000_000_000, 1_999_999_999, 100_000, 99_999, 1, 0, -1, -999, -1000} {
			v.Pods = append(v.Pods, podview.Pod{ResizePending: "Infeasible", Priority: &priority})
		}
		return v, nil
	}
	var all []want
	for bucket, n := range map[string]float64{
		"system-critical": 1, "high": 2, "medium": 2, "normal": 2, "low": 2, "very-low": 1,
	} {
		all = append(all, want{"kubelet_pod_pending_resizes", "priority_bucket=" + bucket + " reason=infeasible", n})
	}
	wantSeries(t, scrape(t, fresh(t), a, "/metrics"), all)
}
