package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra/state"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/supervisor/host/plugin/dradrivers/drivertest"
	"github.com/troupe-dev/troupe/tests/check"
)

// boards is a DRA driver of a bed, with boards of these names. A container that has a board has a variable BOARD_NAME and a device node.
type boards struct {
	*drivertest.Driver
	bed   *bed
	names []string
}

// newBoards makes the driver with its device class, its slice and what containerd wants to know of its boards.
func (b *bed) newBoards(t *testing.T, names ...string) *boards {
	t.Helper()
	driver := b.name + ".example.com"
	spec := fmt.Sprintf("cdiVersion: 0.6.0\nkind: %s/board\ndevices:\n", driver)
	for _, n := range names {
		spec += fmt.Sprintf("- name: %s\n  containerEdits:\n    env: [BOARD_%s=yes]\n    deviceNodes:\n"+
			"    - {path: /dev/board-%s, hostPath: /dev/null}\n", n, n, n)
	}
	check.Fatal(t, errors.Join(
		os.WriteFile(filepath.Join(b.lab.CDIDir(), "board.yaml"), []byte(spec), 0o600),
		os.MkdirAll(filepath.Join(b.Root(), "plugins_registry"), 0o750), os.MkdirAll(filepath.Join(b.Root(), "plugins"), 0o750),
	))
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", driver),
		}}},
	}}
	check.Value(b.admin.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		check.Error(t, b.admin.ResourceV1().DeviceClasses().Delete(context.Background(), driver, metav1.DeleteOptions{}))
	})
	d := &boards{bed: b, names: names}
	d.Driver = &drivertest.Driver{Name: driver, Devices: d.devices}
	d.offer(t)
	return d
}

// offer writes the driver's slice, if it is not there.
func (d *boards) offer(t *testing.T) {
	t.Helper()
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: d.Name, NodeName: &d.bed.name,
		Pool: resourcev1.ResourcePool{Name: d.bed.name, Generation: 1, ResourceSliceCount: 1},
	}}
	for _, n := range d.names {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: n})
	}
	_, err := d.bed.admin.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// serve starts the driver.
func (d *boards) serve(t *testing.T) {
	t.Helper()
	check.Fatal(t, d.Serve(filepath.Join(d.bed.Root(), "plugins_registry", "board.sock"), filepath.Join(d.bed.Root(), "plugins", "b.sock")))
	t.Cleanup(d.Stop)
	d.bed.await(t, "the driver registers", func() error {
		return check.That(d.Notified().GetPluginRegistered(), "not yet")
	})
	d.offer(t)
}

// devices are those that the scheduler has allocated.
func (d *boards) devices(c *api.Claim) (*api.NodePrepareResourceResponse, error) {
	claim, err := d.bed.admin.ResourceV1().ResourceClaims(c.GetNamespace()).Get(context.Background(), c.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := &api.NodePrepareResourceResponse{}
	for _, r := range claim.Status.Allocation.Devices.Results {
		out.Devices = append(out.Devices, &api.Device{
			RequestNames: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device,
			CdiDeviceIds: []string{fmt.Sprintf("%s/board=%s", d.Name, r.Device)},
		})
	}
	return out, nil
}

// say has the driver say how all boards are.
func (d *boards) say(is health.HealthStatus, message string) {
	var all []*health.DeviceHealth
	for _, n := range d.names {
		all = append(all, &health.DeviceHealth{
			Device: &health.DeviceIdentifier{PoolName: d.bed.name, DeviceName: n}, Health: is, Message: message,
		})
	}
	d.Says(all...)
}

// boardIs holds how the status of a pod with one board says that it is.
func (d *boards) boardIs(entry, board string, want v1.ResourceHealthStatus, message string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		got := p.Status.ContainerStatuses[0].AllocatedResourcesStatus
		if len(got) != 1 || string(got[0].Name) != entry || len(got[0].Resources) != 1 ||
			string(got[0].Resources[0].ResourceID) != fmt.Sprintf("%s/board=%s", d.Name, board) ||
			got[0].Resources[0].Health != want || ptr.Deref(got[0].Resources[0].Message, "") != message {
			return fmt.Errorf("allocatedResourcesStatus is %+v; want %s of %s to be %s (%s)", got, board, entry, want, message)
		}
		return nil
	}
}

// claimSpec asks for a board by each request.
func (d *boards) claimSpec(requests ...string) (out resourcev1.ResourceClaimSpec) {
	for _, r := range requests {
		out.Devices.Requests = append(out.Devices.Requests, resourcev1.DeviceRequest{
			Name: r, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: d.Name},
		})
	}
	return out
}

// with is a pod whose container uses a claim, or one request of it.
func (d *boards) with(name string, claim v1.PodResourceClaim, request string) *v1.Pod {
	claim.Name = "board"
	return d.bed.pod(name, changes(work("sleep"), func(s *v1.PodSpec) {
		s.ResourceClaims = []v1.PodResourceClaim{claim}
		s.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "board", Request: request}}
	}))
}

// boardsIn are the boards that a pod's process has, as it sees them.
func (b *bed) boardsIn(t *testing.T, name string) (out []string) {
	t.Helper()
	pid, env := b.process(t, name)
	for _, v := range env {
		if board, is := strings.CutPrefix(v, "BOARD_"); is {
			board = strings.TrimSuffix(board, "=yes")
			out = append(out, board)
			node, err := os.Stat(fmt.Sprintf("/proc/%d/root/dev/board-%s", pid, board))
			if err != nil || node.Mode()&os.ModeCharDevice == 0 {
				t.Errorf("%s: the device node: %v, %v", name, node, err)
			}
		}
	}
	return out
}

// prepared is what a kubelet would read in the checkpoint: the pods of each claim.
func (b *bed) prepared() (_ map[string]int, err error) {
	defer check.Return(&err)
	data := check.Must(os.ReadFile(filepath.Join(b.Root(), "dra_manager_state")))
	var file state.Checkpoint
	check.OK(file.UnmarshalCheckpoint(data))
	list, err := file.GetClaimInfoStateList()
	out := map[string]int{}
	for _, c := range list {
		out[c.ClaimName] = c.PodUIDs.Len()
	}
	return out, err
}

func (b *bed) awaitPrepared(t *testing.T, what, want string) {
	t.Helper()
	b.await(t, what, func() error {
		got, err := b.prepared()
		if text := fmt.Sprint(got); err == nil && text != want {
			err = fmt.Errorf("prepared are %s, want %s", text, want)
		}
		return err
	})
}

// dynamic is what monitors are told of the claims of a pod: claim, driver, pool and device.
func (b *bed) dynamic(t *testing.T, name string) string {
	t.Helper()
	r := check.Value(b.monitor(t).Get(t.Context(),
		&podresources.GetPodResourcesRequest{PodNamespace: b.name, PodName: name}))(t)
	var out []string
	for _, claim := range r.GetPodResources().GetContainers()[0].GetDynamicResources() {
		for _, c := range claim.GetClaimResources() {
			out = append(out, fmt.Sprintf("%s %s %s/%s", claim.GetClaimName(), c.GetDriverName(), c.GetPoolName(), c.GetDeviceName()))
		}
	}
	return strings.Join(out, ", ")
}

// TestClaims: pods with ResourceClaims that the scheduler allocates wait for their driver, and get their devices. A claim
// is prepared once for all its pods, and unprepared after the last, also if the agent was down then.
//
//tier:all a repetition of DRATestDriver with a scheduler
func TestClaims(t *testing.T) {
	t.Parallel()
	b := started(t, "claims")
	d := b.newBoards(t, "a", "b", "c")
	shared := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Spec: d.claimSpec("one", "two")}
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "own"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: d.claimSpec("one")}}
	_, err := b.admin.ResourceV1().ResourceClaims(b.name).Create(t.Context(), shared, metav1.CreateOptions{})
	_, other := b.admin.ResourceV1().ResourceClaimTemplates(b.name).Create(t.Context(), template, metav1.CreateOptions{})
	check.Fatal(t, errors.Join(err, other))
	b.create(t, d.with("first", v1.PodResourceClaim{ResourceClaimName: new("shared")}, ""))
	b.awaitEvent(t, "first", "FailedPrepareDynamicResources", "DRA driver "+d.Name+" is not registered on this node")
	check.Error(t, phase(v1.PodPending)(b.get(t, "first")))
	d.say(health.HealthStatus_HEALTHY, "")
	d.serve(t)
	b.awaitPod(t, "first", "is ready", ready)
	b.create(t, d.with("second", v1.PodResourceClaim{ResourceClaimName: new("shared")}, "two"))
	b.create(t, d.with("third", v1.PodResourceClaim{ResourceClaimTemplateName: new("own")}, "one"))
	b.awaitPod(t, "second", "is ready", ready)
	b.awaitPod(t, "third", "is ready", ready)
	all, one, own := b.boardsIn(t, "first"), b.boardsIn(t, "second"), b.boardsIn(t, "third")
	if len(all) != 2 || len(one) != 1 || len(own) != 1 || !slices.Contains(all, one[0]) || slices.Contains(all, own[0]) {
		t.Errorf("first has boards %v, second %v, third %v", all, one, own)
	}
	if n := slices.Index(d.Calls(), "prepare "+b.name+"/shared"); n < 0 ||
		slices.Contains(d.Calls()[n+1:], "prepare "+b.name+"/shared") {
		t.Errorf("the driver got %v; want the shared claim to be prepared once", d.Calls())
	}
	check.Equal(t, b.dynamic(t, "second"), fmt.Sprintf("shared %s %s/%s", d.Name, b.name, one[0]), "monitors are told of")
	d.say(health.HealthStatus_HEALTHY, "")
	b.awaitPod(t, "second", "shows that its board is healthy", d.boardIs("claim:board/two", one[0], v1.ResourceHealthStatusHealthy, ""))
	d.say(health.HealthStatus_UNHEALTHY, "too hot")
	b.awaitPod(t, "second", "shows that its board is unhealthy",
		d.boardIs("claim:board/two", one[0], v1.ResourceHealthStatusUnhealthy, "too hot"))
	made := *b.get(t, "third").Status.ResourceClaimStatuses[0].ResourceClaimName
	b.awaitPrepared(t, "the checkpoint has all", fmt.Sprintf("map[shared:2 %s:1]", made))

	b.remove(t, "first")
	b.awaitGone(t, "first")
	b.awaitPrepared(t, "the other pod of the claim goes on", fmt.Sprintf("map[shared:1 %s:1]", made))
	b.remove(t, "third")
	b.awaitGone(t, "third")
	if c := d.Calls(); c[len(c)-1] != "unprepare "+b.name+"/"+made {
		t.Errorf("the driver got %v; want the claim of the pod to be unprepared before it is gone", c)
	}

	// The agent is killed, and the pod goes while it is down.
	before := b.get(t, "second")
	b.kill(t)
	b.start(t)
	b.create(t, d.with("fourth", v1.PodResourceClaim{ResourceClaimTemplateName: new("own")}, ""))
	b.awaitPod(t, "fourth", "is ready", ready)
	was, is := before.Status.ContainerStatuses[0], b.awaitPod(t, "second", "is ready", ready).Status.ContainerStatuses[0]
	if was.ContainerID != is.ContainerID || is.RestartCount != 0 {
		t.Errorf("the pod with the claim was %+v and is %+v", was, is)
	}
	b.kill(t)
	check.Fatal(t, b.admin.CoreV1().Pods(b.name).Delete(t.Context(), "second", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	b.start(t)
	b.await(t, "the shared claim is unprepared", func() error {
		if !slices.Contains(d.Calls(), "unprepare "+b.name+"/shared") {
			return fmt.Errorf("the driver got %v", d.Calls())
		}
		return nil
	})
	b.awaitPrepared(t, "the checkpoint has the last", fmt.Sprintf("map[%s:1]",
		*b.get(t, "fourth").Status.ResourceClaimStatuses[0].ResourceClaimName))

	// A driver that is killed leaves its sockets. What it offers is taken back after a while.
	d.Kill()
	b.await(t, "its slices are deleted", func() error {
		_, err := b.admin.ResourceV1().ResourceSlices().Get(t.Context(), d.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("the slice is there"))
	})
	b.remove(t, "fourth")
	b.awaitEvent(t, "fourth", "FailedUnprepareDynamicResources", "DRA driver "+d.Name+" is not registered on this node")
	d.serve(t)
	b.awaitGone(t, "fourth")
	b.awaitPrepared(t, "nothing is left", "map[]")
}
