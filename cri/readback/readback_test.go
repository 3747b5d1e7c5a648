package readback

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

var web = observed.PodRef{UID: "u1", Namespace: "default", Name: "web"}

// kubeletLabels are what a kubelet writes on a container, and, without the
// last, on a sandbox.
func kubeletLabels(container string) map[string]string {
	l := map[string]string{"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1"}
	if container != "" {
		l["io.kubernetes.container.name"] = container
	}
	return l
}

// kubeletAnnotations are what a kubelet v1.36 writes on a container.
func kubeletAnnotations() map[string]string {
	return map[string]string{
		"io.kubernetes.container.hash":                     "1a2b3c",
		"io.kubernetes.container.restartCount":             "3",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.container.preStopHandler":           `{"exec":{"command":["/bin/true"]}}`,
		"io.kubernetes.pod.terminationGracePeriod":         "40",
	}
}

func TestContainerOfAKubelet(t *testing.T) {
	status := &runtimeapi.ContainerStatus{
		Id: "c1", Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 3}, State: runtimeapi.ContainerState_CONTAINER_EXITED,
		CreatedAt: 1e9, StartedAt: 2e9, FinishedAt: 3e9 + 5, ExitCode: 137, Reason: "OOMKilled", Message: "m", LogPath: "/l",
		Image: &runtimeapi.ImageSpec{Image: "sha256:ab", UserSpecifiedImage: "r.io/app:1"}, ImageRef: "r.io/app@sha256:ab",
		Labels: kubeletLabels("app"), Annotations: kubeletAnnotations(),
	}
	want := observed.Container{
		ID: "c1", Pod: web, Name: "app", Attempt: 3, State: observed.ContainerExited, Image: "r.io/app:1", ImageRef: "r.io/app@sha256:ab", SpecHash: "1a2b3c",
		CreatedAt: time.Unix(1, 0).UTC(), Detailed: true, StartedAt: time.Unix(2, 0).UTC(), FinishedAt: time.Unix(3, 5).UTC(), ExitCode: 137,
		Reason: "OOMKilled", Message: "m", LogPath: "/l", GraceSeconds: 40, PreStop: `{"exec":{"command":["/bin/true"]}}`, TerminationMessagePolicy: "File",
	}
	if got, ok := Container(status); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

func mountsMessage(c *runtimeapi.ContainerStatus) {
	c.Annotations["io.kubernetes.container.terminationMessagePath"] = "/dev/termination-log"
	c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/x", HostPath: "/y"}, {ContainerPath: "/dev/termination-log", HostPath: "/kubelet/1a2b3c4d"}}
}

func TestContainerFields(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mutate func(*runtimeapi.ContainerStatus)
		look   func(observed.Container) any
		want   any
	}{
		{"times that are not set", func(c *runtimeapi.ContainerStatus) {}, func(c observed.Container) any { return c.StartedAt.IsZero() && c.FinishedAt.IsZero() }, true},
		{"our hash", func(c *runtimeapi.ContainerStatus) { c.Annotations["troupe.dev/container-spec-hash"] = "h" }, func(c observed.Container) any { return c.SpecHash }, "h"},
		{"a kubelet's hash", func(*runtimeapi.ContainerStatus) {}, func(c observed.Container) any { return c.SpecHash }, "1a2b3c"},
		{"no hash", func(c *runtimeapi.ContainerStatus) { delete(c.Annotations, "io.kubernetes.container.hash") }, func(c observed.Container) any { return c.SpecHash }, ""},
		{"attempt from the annotation", func(*runtimeapi.ContainerStatus) {}, func(c observed.Container) any { return c.Attempt }, uint32(3)},
		{"attempt that is no number", func(c *runtimeapi.ContainerStatus) { c.Annotations["io.kubernetes.container.restartCount"] = "x" }, func(c observed.Container) any { return c.Attempt }, uint32(0)},
		{"image of an older runtime", func(c *runtimeapi.ContainerStatus) { c.Image = &runtimeapi.ImageSpec{Image: "r.io/app:1"} }, func(c observed.Container) any { return c.Image }, "r.io/app:1"},
		{"grace of a delete", func(c *runtimeapi.ContainerStatus) { c.Annotations["io.kubernetes.pod.deletionGracePeriod"] = "0" }, func(c observed.Container) any { return c.GraceSeconds }, int64(0)},
		{"grace by default", func(c *runtimeapi.ContainerStatus) { c.Annotations = nil }, func(c observed.Container) any { return c.GraceSeconds }, int64(30)},
		{"name from the metadata", func(c *runtimeapi.ContainerStatus) {
			delete(c.Labels, "io.kubernetes.container.name")
			c.Metadata = &runtimeapi.ContainerMetadata{Name: "other"}
		}, func(c observed.Container) any { return c.Name }, "other"},
		{"no user", func(*runtimeapi.ContainerStatus) {}, func(c observed.Container) any { return c.User == nil }, true},
		{"a user", func(c *runtimeapi.ContainerStatus) {
			c.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 1, Gid: 2, SupplementalGroups: []int64{2, 3}}}
		}, func(c observed.Container) any { return fmt.Sprint(*c.User) }, fmt.Sprint(v1.LinuxContainerUser{UID: 1, GID: 2, SupplementalGroups: []int64{2, 3}})},
		{"unknown state", func(c *runtimeapi.ContainerStatus) { c.State = 77 }, func(c observed.Container) any { return c.State }, observed.ContainerUnknown},
		{"mounts of which all is read-only", func(c *runtimeapi.ContainerStatus) {
			c.Mounts = []*runtimeapi.Mount{
				{ContainerPath: "/all", Readonly: true, RecursiveReadOnly: true}, {ContainerPath: "/top", Readonly: true}, {ContainerPath: "/rw"},
				{ContainerPath: "/more", Readonly: true, RecursiveReadOnly: true},
			}
		}, func(c observed.Container) any { return c.RecursiveReadOnly }, []string{"/all", "/more"}},
		{"a kubelet's file for its termination message", mountsMessage, func(c observed.Container) any { return c.MessageFile }, "/kubelet/1a2b3c4d"},
		{"ours is known", func(c *runtimeapi.ContainerStatus) {
			mountsMessage(c)
			c.Annotations["troupe.dev/container-spec-hash"] = "h"
		}, func(c observed.Container) any { return c.MessageFile }, ""},
		{"created", func(*runtimeapi.ContainerStatus) {}, func(c observed.Container) any { return c.State }, observed.ContainerCreated},
	} {
		status := &runtimeapi.ContainerStatus{Id: "c1", Labels: kubeletLabels("app"), Annotations: kubeletAnnotations()}
		tt.mutate(status)
		got, ok := Container(status)
		if !ok || !reflect.DeepEqual(tt.look(got), tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.look(got), tt.want)
		}
	}
}

func TestForeignersAreNoPods(t *testing.T) {
	for _, missing := range []string{"io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid"} {
		l := kubeletLabels("app")
		delete(l, missing)
		if _, ok := Container(&runtimeapi.ContainerStatus{Labels: l}); ok {
			t.Errorf("a container without %s is taken for ours", missing)
		}
		if _, ok := ListedSandbox(&runtimeapi.PodSandbox{Labels: l}); ok {
			t.Errorf("a sandbox without %s is taken for ours", missing)
		}
	}
	if _, ok := Container(nil); ok {
		t.Error("no status at all is taken for a container")
	}
}

func TestSandbox(t *testing.T) {
	got, ok := Sandbox(&runtimeapi.PodSandboxStatus{
		Id: "s1", Metadata: &runtimeapi.PodSandboxMetadata{Attempt: 2}, State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY, CreatedAt: 1e9,
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.5", AdditionalIps: []*runtimeapi.PodIP{{Ip: "FD00:0::0005"}, {}, {Ip: "none"}, {Ip: "::ffff:10.0.0.6"}}},
		Linux:   &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}}},
		Labels:  kubeletLabels(""), Annotations: map[string]string{"kubernetes.io/config.source": "api"}, RuntimeHandler: "kata",
	})
	want := observed.Sandbox{
		ID: "s1", Pod: web, Attempt: 2, State: observed.SandboxNotReady, CreatedAt: time.Unix(1, 0).UTC(), Source: "api",
		IPs: []string{"10.0.0.5", "fd00::5", "10.0.0.6"}, Detailed: true, HostNetwork: true, RuntimeHandler: "kata",
	}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

func TestRuntimeIsOrdered(t *testing.T) {
	sandbox := func(id, uid string, attempt uint32) *runtimeapi.PodSandbox {
		l := kubeletLabels("")
		l["io.kubernetes.pod.uid"] = uid
		return &runtimeapi.PodSandbox{Id: id, Labels: l, Metadata: &runtimeapi.PodSandboxMetadata{Attempt: attempt}}
	}
	container := func(id, uid, name string, attempt uint32) *runtimeapi.Container {
		l := kubeletLabels(name)
		l["io.kubernetes.pod.uid"] = uid
		return &runtimeapi.Container{Id: id, Labels: l, Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}}
	}
	got := Runtime(t.Context(),
		[]*runtimeapi.PodSandbox{sandbox("s2", "u2", 0), sandbox("s1", "u1", 0), sandbox("s3", "u1", 1), {Id: "foreign"}},
		[]*runtimeapi.Container{container("c1", "u1", "b", 0), container("c2", "u1", "a", 0), container("c3", "u1", "a", 1), container("c4", "u3", "a", 0), {Id: "foreign"}},
	)
	var ids [][]string
	for _, p := range got.Pods {
		line := []string{string(p.Ref.UID)}
		for _, s := range p.Sandboxes {
			line = append(line, s.ID)
		}
		for _, c := range p.Containers {
			line = append(line, c.ID)
		}
		ids = append(ids, line)
	}
	check.Deep(t, ids, [][]string{{"u1", "s3", "s1", "c3", "c2", "c1"}, {"u2", "s2"}, {"u3", "c4"}}, "it")
}

// TestOneBadRecord: a record that can't be read loses the list its pod, and no other one.
func TestOneBadRecord(t *testing.T) {
	labelled := func(uid string) map[string]string {
		l := kubeletLabels("a")
		l["io.kubernetes.pod.uid"] = uid
		return l
	}
	reads := func(c *runtimeapi.Container) (observed.Container, bool) {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
			panic("no such state")
		}
		return ListedContainer(c)
	}
	got := group(t.Context(),
		[]*runtimeapi.PodSandbox{{Id: "s1", Labels: labelled("u1")}, {Id: "s2", Labels: labelled("u2")}},
		[]*runtimeapi.Container{
			{Id: "c1", Labels: labelled("u1")}, {Id: "c2", Labels: labelled("u2"), State: runtimeapi.ContainerState_CONTAINER_UNKNOWN},
			{Id: "c3", Labels: labelled("u2")}, {Id: "foreign", State: runtimeapi.ContainerState_CONTAINER_UNKNOWN},
		}, ListedSandbox, reads)
	if len(got.Pods) != 1 || got.Pods[0].Ref.UID != "u1" || len(got.Pods[0].Containers) != 1 {
		t.Errorf("it has %+v", got.Pods)
	}
	check.Equal(t, len(got.Unread), 1, "pods that can't be read")
	check.Equal(t, got.Unread[0].UID, "u2", "the pod that can't be read")
	check.Says(t, got.Whole(), "container c2: panic: no such state", "it")
}

func TestImage(t *testing.T) {
	got := Image(&runtimeapi.Image{Id: "i", RepoTags: []string{"t"}, RepoDigests: []string{"d"}, Size: 5, Pinned: true, Uid: &runtimeapi.Int64Value{Value: 0}})
	if got.ID != "i" || got.SizeBytes != 5 || !got.Pinned || got.UID == nil || *got.UID != 0 {
		t.Errorf("%+v", got)
	}
	if got := Image(&runtimeapi.Image{Username: "www"}); got.UID != nil || got.Username != "www" {
		t.Errorf("%+v", got)
	}
}

func TestEvent(t *testing.T) {
	ours := &runtimeapi.PodSandboxStatus{Labels: kubeletLabels("")}
	for _, tt := range []struct {
		name string
		in   *runtimeapi.ContainerEventResponse
		want port.RuntimeEvent
		ok   bool
	}{
		{"created", &runtimeapi.ContainerEventResponse{ContainerId: "c", CreatedAt: 1e9, PodSandboxStatus: ours},
			port.RuntimeEvent{Kind: observed.ContainerCreatedEvent, ContainerID: "c", Pod: web, At: time.Unix(1, 0).UTC()}, true},
		{"started", &runtimeapi.ContainerEventResponse{ContainerId: "c", ContainerEventType: 1, PodSandboxStatus: ours}, port.RuntimeEvent{Kind: observed.ContainerStartedEvent, ContainerID: "c", Pod: web}, true},
		{"stopped, the pod from a container", &runtimeapi.ContainerEventResponse{ContainerId: "c", ContainerEventType: 2, ContainersStatuses: []*runtimeapi.ContainerStatus{{Labels: kubeletLabels("app")}}},
			port.RuntimeEvent{Kind: observed.ContainerStoppedEvent, ContainerID: "c", Pod: web}, true},
		{"deleted, with nothing left", &runtimeapi.ContainerEventResponse{ContainerId: "s", ContainerEventType: 3}, port.RuntimeEvent{Kind: observed.ContainerDeletedEvent, ContainerID: "s"}, true},
		{"foreign", &runtimeapi.ContainerEventResponse{ContainerId: "c", PodSandboxStatus: &runtimeapi.PodSandboxStatus{}}, port.RuntimeEvent{}, false},
		{"of a kind to come", &runtimeapi.ContainerEventResponse{ContainerId: "c", ContainerEventType: 9, PodSandboxStatus: ours}, port.RuntimeEvent{}, false},
	} {
		got, ok := Event(tt.in)
		if ok != tt.ok || (ok && got != tt.want) {
			t.Errorf("%s: %+v, %v, want %+v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}
