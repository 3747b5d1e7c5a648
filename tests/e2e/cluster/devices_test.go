package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const (
	gpu    v1.ResourceName = "nvidia.com/gpu"
	dongle v1.ResourceName = "example.com/dongle"
)

// advertise patches the status of the Node, as in the task "Advertise Extended Resources for a Node".
func (b *bed) advertise(t *testing.T, name v1.ResourceName, n int) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"capacity":{%q:"%d"},"allocatable":{%q:"%d"}}}`, name, n, name, n)
	check.Value(
		b.admin.CoreV1().Nodes().Patch(t.Context(), b.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))(t)
}

// shows is nil if the Node shows so many of a resource.
func shows(name v1.ResourceName, want int64) func(*v1.Node) error {
	return func(n *v1.Node) error {
		c, is := n.Status.Capacity[name]
		if a := n.Status.Allocatable[name]; !is || c.Value() != want || a.Value() != want {
			return fmt.Errorf("%s: capacity %s, allocatable %s, want %d", name, c.String(), a.String(), want)
		}
		return nil
	}
}

// bound is a pod that no scheduler sees, with so many of an extended resource.
func (b *bed) bound(name string, of v1.ResourceName, n string) *v1.Pod {
	return b.pod(name, func(s *v1.PodSpec) {
		s.NodeName = b.name
		if of != "" {
			list := v1.ResourceList{of: resource.MustParse(n)}
			s.Containers[0].Resources = v1.ResourceRequirements{Limits: list, Requests: list}
		}
	})
}

// awaitRefused waits until a pod was not admitted, with a message that has all words.
func (b *bed) awaitRefused(t *testing.T, name, reason string, words ...string) {
	t.Helper()
	p := b.awaitPod(t, name, "is refused", phase(v1.PodFailed))
	if p.Status.Reason != reason || len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].ContainerID != "" {
		t.Errorf("%s: %s: %s, containers %v", name, p.Status.Reason, p.Status.Message, p.Status.ContainerStatuses)
	}
	for _, w := range words {
		check.Has(t, p.Status.Message, w, "%s: the message does not have %s: %s", name, w, p.Status.Message)
	}
	t.Logf("%s %s: %s", name, p.Status.Reason, p.Status.Message)
}

// TestChangeoverWithDevices: a kubelet leaves a node with eight GPUs, a pod that has one, and its checkpoint, which is
// written by the kubelet's own code.
//
//tier:all the kubelet runs beside
func TestChangeoverWithDevices(t *testing.T) {
	t.Parallel()
	b := started(t, "devices")
	b.advertise(t, gpu, 8)
	b.advertise(t, dongle, 2)
	b.awaitNode(t, "shows GPUs", shows(gpu, 8))
	b.create(t, b.bound("trains", gpu, "1"))
	trains := b.awaitPod(t, "trains", "is ready", ready)
	b.kill(t)
	b.leaveDevices(t, trains)

	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Spec: resourcev1.ResourceClaimSpec{
		Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"},
		}}},
	}}
	check.Value(b.admin.ResourceV1().ResourceClaims(b.name).Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	claims := b.bound("claims", "", "")
	claims.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("shared")}}
	claims.Spec.InitContainers = []v1.Container{{Name: "first", Image: claims.Spec.Containers[0].Image,
		Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "gpu"}}}}}
	b.create(t, claims)
	b.create(t, b.bound("late", gpu, "1"))
	b.create(t, b.bound("plugged", dongle, "1"))

	before := b.node(t)
	seen := check.Value(b.admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + b.name, ResourceVersion: before.ResourceVersion,
	}))(t)
	defer seen.Stop()
	b.start(t)
	for e := range seen.ResultChan() {
		n, is := e.Object.(*v1.Node)
		if !is {
			t.Fatalf("%+v", e)
		}
		beat, last := condition(n, v1.NodeReady).LastHeartbeatTime, condition(before, v1.NodeReady).LastHeartbeatTime
		if beat.Equal(&last) && shows(gpu, 8)(n) == nil {
			continue // others change the Node too; a heartbeat has whole seconds
		}
		if err := errors.Join(shows(gpu, 0)(n), shows(dongle, 2)(n)); err != nil {
			t.Errorf("the first write of the status: %v", err)
		}
		break
	}
	check.Fatal(t, lab.Eventually(t.Context(), 2*patience, "the plugin is not waited for any more", func() error {
		return phase(v1.PodFailed)(b.get(t, "late"))
	}))
	b.awaitRefused(t, "late", "UnexpectedAdmissionError", `container "app"`, "resources.limits[nvidia.com/gpu]", "no device plugin serves it")
	b.awaitEvent(t, "claims", "FailedPrepareDynamicResources", `ResourceClaim "shared" is not allocated`)
	b.awaitPod(t, "plugged", "is ready", ready)
	b.create(t, b.bound("greedy", dongle, "2"))
	b.awaitRefused(t, "greedy", "OutOfexample.com/dongle", "requested: 2, used: 1, capacity: 2")
	after := b.awaitPod(t, "trains", "is ready", ready)
	if was, is := trains.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]; was.ContainerID != is.ContainerID || is.RestartCount != 0 {
		t.Errorf("the pod that has a GPU was %+v and is %+v", was, is)
	}
	b.wantDevices(t, map[string]string{"trains": "nvidia.com/gpu[GPU-2]@1", "plugged": "", "claims": ""})
}

// leaveDevices writes what a kubelet knows of its plugin, and of the GPU that it gave to a pod.
func (b *bed) leaveDevices(t *testing.T, p *v1.Pod) {
	t.Helper()
	data, err := checkpoint.New([]checkpoint.PodDevicesEntry{{
		PodUID: string(p.UID), ContainerName: "app", ResourceName: string(gpu),
		DeviceIDs: checkpoint.DevicesPerNUMA{1: {"GPU-2"}}, AllocResp: []byte{},
	}}, map[string][]string{string(gpu): {"GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5", "GPU-6", "GPU-7", "GPU-8"}}).MarshalCheckpoint()
	dir := filepath.Join(b.Root(), "device-plugins")
	if err = errors.Join(err, os.MkdirAll(dir, 0o755)); err == nil {
		err = os.WriteFile(filepath.Join(dir, "kubelet_internal_checkpoint"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantDevices asks as a monitor does, and holds the devices of pods against want.
func (b *bed) wantDevices(t *testing.T, want map[string]string) {
	t.Helper()
	list := check.Value(b.monitor(t).List(t.Context(), &podresources.ListPodResourcesRequest{}))(t)
	got := map[string]string{}
	for _, p := range list.GetPodResources() {
		got[p.GetName()] = ""
		for _, d := range p.GetContainers()[0].GetDevices() {
			got[p.GetName()] += fmt.Sprintf("%s%v", d.GetResourceName(), d.GetDeviceIds())
			for _, n := range d.GetTopology().GetNodes() {
				got[p.GetName()] += fmt.Sprintf("@%d", n.GetID())
			}
		}
	}
	check.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "devices %v, want %v", got, want)
}

// TestDevicesGone: a machine comes back with a new disk. Its Node still advertises GPUs, and nobody knows whose they
// were. What an operator adds afterwards stays, also when the agent is restarted.
//
//tier:served
func TestDevicesGone(t *testing.T) {
	t.Parallel()
	b := newBed(t, "devices-gone", onServed)
	// The label is what pods of the bed select: the agent sets its own only where it makes the Node.
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.name, Labels: map[string]string{"test": b.name}}}
	check.Value(b.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}))(t)
	b.advertise(t, gpu, 8)
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	check.Error(t, shows(gpu, 0)(b.node(t)))
	b.create(t, b.bound("late", gpu, "1"))
	b.awaitRefused(t, "late", "OutOfnvidia.com/gpu", "requested: 1, used: 0, capacity: 0")
	b.await(t, "the reset is noted", func() error {
		_, err := os.Stat(filepath.Join(b.Root(), "checkpoints", "extendedresources.json"))
		return err
	})
	b.advertise(t, dongle, 2)
	b.kill(t)
	b.start(t)
	b.create(t, b.bound("plugged", dongle, "1"))
	b.awaitPod(t, "plugged", "is ready", ready)
	check.Error(t, errors.Join(shows(gpu, 0)(b.node(t)), shows(dongle, 2)(b.node(t))))
}
