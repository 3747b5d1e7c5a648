package live

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }

func terminated(id string, code int32) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{ContainerID: "simcri://" + id, ExitCode: code, Reason: "Error", StartedAt: at(0), FinishedAt: at(time.Second)}
}

func TestRemains(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(time.Minute)}}
	crashed := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	creating := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	type seen struct {
		name    string
		attempt uint32
		id      string
		state   observed.ContainerState
		code    int32
	}
	for _, c := range []struct {
		name   string
		status v1.PodStatus
		want   []seen // as they are sorted
		// sandbox: "" for none.
		sandbox string
	}{
		{"nothing", v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{{Name: "a", State: creating}}}, nil, ""},
		{"a sandbox only", v1.PodStatus{Phase: v1.PodPending, PodIP: "10.0.0.2", PodIPs: []v1.PodIP{{IP: "10.0.0.2"}}, ContainerStatuses: []v1.ContainerStatus{{Name: "a", State: creating}}}, nil, "Ready"},
		{"running", v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "a", State: running, ContainerID: "simcri://1"}}},
			[]seen{{"a", 0, "1", observed.ContainerRunning, 0}}, "Ready"},
		{"running after a crash", v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
			Name: "a", State: running, ContainerID: "simcri://2", RestartCount: 3, LastTerminationState: v1.ContainerState{Terminated: terminated("1", 7)},
		}}}, []seen{{"a", 3, "2", observed.ContainerRunning, 0}, {"a", 2, "1", observed.ContainerExited, 7}}, "Ready"},
		{"backing off", v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
			Name: "a", State: crashed, ContainerID: "simcri://2", RestartCount: 4, LastTerminationState: v1.ContainerState{Terminated: terminated("2", 7)},
		}}}, []seen{{"a", 4, "2", observed.ContainerExited, 7}}, "Ready"},
		{"init container done", v1.PodStatus{
			Phase:                 v1.PodRunning,
			InitContainerStatuses: []v1.ContainerStatus{{Name: "i", State: v1.ContainerState{Terminated: terminated("1", 0)}, ContainerID: "simcri://1"}},
			ContainerStatuses:     []v1.ContainerStatus{{Name: "a", State: running, ContainerID: "simcri://2"}},
		}, []seen{{"a", 0, "2", observed.ContainerRunning, 0}, {"i", 0, "1", observed.ContainerExited, 0}}, "Ready"},
		{"over", v1.PodStatus{Phase: v1.PodSucceeded, ContainerStatuses: []v1.ContainerStatus{{Name: "a", State: v1.ContainerState{Terminated: terminated("1", 0)}}}},
			[]seen{{"a", 0, "1", observed.ContainerExited, 0}}, "NotReady"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u", CreationTimestamp: at(0)}, Status: c.status}
			got, found := fromStatus(p)
			check.Fatal(t, check.Is(found, (c.sandbox != ""), "found"))
			if !found {
				return
			}
			var have []seen
			for _, o := range got.Containers {
				have = append(have, seen{o.Name, o.Attempt, o.ID, o.State, o.ExitCode})
			}
			check.Deep(t, have, c.want, "containers")
			if s := got.Sandboxes; len(s) != 1 || s[0].State.String() != c.sandbox {
				t.Errorf("sandboxes %+v, want one that is %s", s, c.sandbox)
			}
		})
	}
}
