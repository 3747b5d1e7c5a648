package oom

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pod has one container, which runs unless its ID is empty.
func pod(name, id string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	s := v1.ContainerStatus{Name: "app", ContainerID: "containerd://" + id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
	if id == "" {
		s.State, s.ContainerID = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "OOMKilled"}}, "containerd://old"
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{s}
	return p
}

func texts(list []Notice) string {
	var out []string
	for _, n := range list {
		about := "node"
		if n.Pod != nil {
			about = n.Pod.Name + "/" + n.Container
		}
		out = append(out, about+" "+n.Reason+": "+n.Message)
	}
	return strings.Join(out, "\n")
}

func TestMessages(t *testing.T) {
	const c1 = "/kubepods/burstable/pod1-2/c1"
	const keeps = " The container keeps running."
	for _, tt := range []struct {
		name  string
		kills []Kill
		pods  []*v1.Pod
		want  string
	}{
		{"its own limit", []Kill{{PID: 7, Process: "dd", Cgroup: c1, Limit: c1}}, nil,
			"web/app OOMKilling: Process dd (pid 7) was killed by the kernel's OOM killer because the container reached its memory limit." + keeps},
		{"its own limit, systemd", []Kill{{PID: 7, Process: "dd", Cgroup: "/a.slice/cri-containerd-c1.scope/inner", Limit: "/a.slice/cri-containerd-c1.scope"}}, nil,
			"web/app OOMKilling: Process dd (pid 7) was killed by the kernel's OOM killer because the container reached its memory limit." + keeps},
		{"the pod's", []Kill{{PID: 7, Process: "dd", Cgroup: c1, Limit: "/kubepods/burstable/pod1-2"}}, nil,
			"web/app OOMKilling: Process dd (pid 7) was killed by the kernel's OOM killer because the pod reached its memory limit." + keeps},
		{"the pod's, systemd", []Kill{{PID: 7, Process: "dd", Cgroup: "/kubepods.slice/kubepods-pod1_2.slice/crio-c1.scope", Limit: "/kubepods.slice/kubepods-pod1_2.slice"}}, nil,
			"web/app OOMKilling: Process dd (pid 7) was killed by the kernel's OOM killer because the pod reached its memory limit." + keeps},
		{"that of all pods", []Kill{{PID: 7, Process: "dd", Cgroup: c1, Limit: "/kubepods"}}, nil,
			"web/app OOMKilling: Process dd (pid 7) was killed by the kernel's OOM killer because all in cgroup /kubepods reached its memory limit." + keeps},
		{"of the machine", []Kill{{PID: 7, Process: "dd", Cgroup: c1, System: true}}, nil,
			"node SystemOOM: System OOM encountered, victim process: dd, pid: 7\n" +
				"web/app OOMKilling: Process dd (pid 7) was killed by the kernel's OOM killer because the node ran out of memory." + keeps},
		{"of the machine, no pod", []Kill{{PID: 7, Process: "dd", Cgroup: "/system.slice/c1.service", System: true}}, nil,
			"node SystemOOM: System OOM encountered, victim process: dd, pid: 7"},
		{"many", []Kill{{PID: 7, Process: "dd", Cgroup: c1, Limit: c1}, {PID: 8, Process: "x", Cgroup: c1, Limit: c1}, {PID: 9, Process: "y", Cgroup: c1 + "/z", Limit: c1}}, nil,
			"web/app OOMKilling: 3 processes, the last of them y (pid 9), were killed by the kernel's OOM killer because the container reached its memory limit." + keeps},
		{"counted", []Kill{{Container: "c1"}}, nil, "web/app OOMKilling: A process was killed by the kernel's OOM killer." + keeps},
		{"counted, many", []Kill{{Container: "c1", More: 3}}, nil, "web/app OOMKilling: 4 processes were killed by the kernel's OOM killer." + keeps},
		{"the container has ended", []Kill{{PID: 7, Process: "dd", Cgroup: c1, Limit: c1}, {Container: "c1"}}, []*v1.Pod{pod("web", "")}, ""},
		{"no container's", []Kill{{PID: 7, Process: "dd", Cgroup: "/user.slice/c11", Limit: "/user.slice"}, {PID: 8, Process: "x"}}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l Ledger
			pods := tt.pods
			if pods == nil {
				pods = []*v1.Pod{pod("other", "c2"), pod("web", "c1")}
			}
			got := l.Add(tt.kills, began)
			if early := l.Decide(pods, began.Add(Settle-1)); len(early) > 0 {
				t.Errorf("before it was known whether the container has ended: %v", texts(early))
			}
			check.Equal(t, texts(append(got, l.Decide(pods, began.Add(Settle))...)), tt.want, "got")
		})
	}
}

// TestSystemStorm: victims of a machine without memory do not flood, and the last are counted.
func TestSystemStorm(t *testing.T) {
	var l Ledger
	var got []Notice
	for i := range 20 {
		got = append(got, l.Add([]Kill{{PID: i + 1, Process: "p", System: true}}, began.Add(time.Duration(i)*time.Second))...)
	}
	check.Equal(t, len(got), atOnce, "%d events at once", len(got))
	at, is := l.Next()
	if !is || !at.Equal(began.Add(Quiet)) {
		t.Errorf("next at %v, %v", at, is)
	}
	if got := texts(l.Decide(nil, at)); got != "node SystemOOM: System OOM encountered 15 more times in 5m0s, victim process: p, pid: 20" {
		t.Error(got)
	}
	if _, is := l.Next(); is {
		t.Error("there is more")
	}
	if got := texts(l.Add([]Kill{{PID: 99, Process: "p", System: true}}, at)); got != "node SystemOOM: System OOM encountered, victim process: p, pid: 99" {
		t.Error(got)
	}
}

func TestSince(t *testing.T) {
	before := Counts{Containers: map[string]uint64{"a": 1, "b": 2, "gone": 3}}
	now := Counts{Containers: map[string]uint64{"a": 1, "b": 5, "new": 1}}
	if got := fmt.Sprint(now.Since(before, []string{"a", "new", "b"})); got != fmt.Sprint([]Kill{{Container: "new"}, {Container: "b", More: 2}}) {
		t.Error(got)
	}
}

// TestLedger: each kill in a container that runs on is in exactly one event; between two events of a container is
// Quiet; and when nothing is left, nothing is waited for.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Ledger
		now := began
		pods := []*v1.Pod{pod("p0", "c0"), pod("p1", "c1"), pod("p2", "c2")}
		killed, said, last := map[string]uint64{}, map[string]uint64{}, map[string]time.Time{}
		take := func(list []Notice) {
			for _, n := range list {
				if n.Pod == nil {
					continue
				}
				name := n.Pod.Name
				if was, is := last[name]; is && now.Sub(was) < Quiet {
					t.Fatalf("%s has an event %v after the last", name, now.Sub(was))
				}
				last[name] = now
				said[name] += counted(n.Message)
			}
		}
		settle := func(until time.Time) {
			for {
				at, is := l.Next()
				if !is || at.After(until) {
					return
				}
				if at.Before(now) {
					t.Fatalf("next at %v, before %v", at, now)
				}
				now = at
				take(l.Decide(pods, now))
				if again, is := l.Next(); is && !again.After(now) {
					t.Fatalf("decided at %v, and is due at %v again", now, again)
				}
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			to := now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second)
			settle(to)
			now = to
			n := rapid.IntRange(0, 2).Draw(t, "container")
			more := rapid.Uint64Range(0, 3).Draw(t, "more")
			take(l.Add([]Kill{{PID: 1, Process: "x", Cgroup: fmt.Sprintf("/k/c%d", n), More: more}}, now))
			killed[fmt.Sprintf("p%d", n)] += 1 + more
		}
		settle(now.Add(time.Hour))
		for name, n := range killed {
			check.Fatal(t, check.Is(said[name], n, "%s: %d killed, %d reported", name, n, said[name]))
		}
		if at, is := l.Next(); is {
			t.Fatalf("still waits until %v", at)
		}
		if len(l.fresh) > 0 {
			t.Fatalf("keeps %d", len(l.fresh))
		}
	})
}

// counted is how many processes a message is about.
func counted(message string) uint64 {
	var n uint64
	if _, err := fmt.Sscanf(message, "%d processes", &n); err != nil {
		return 1
	}
	return n
}
