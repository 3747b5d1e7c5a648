package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// draDriver is a DRA driver of others for one node, as a process beside the agent.
type draDriver struct {
	*plugin
	bed  *bed
	name string // of the driver and of its device class
}

// draPaths is what such a driver is told of its node.
type draPaths struct{ kubeconfig, plugins, registry, cdi string }

// newDRADriver makes the driver, which is not yet started, and its device class.
func (b *bed) newDRADriver(t *testing.T, name string, command func(draPaths) *exec.Cmd) *draDriver {
	t.Helper()
	kubeconfig := check.Value(b.plane.Kubeconfig(name, "system:masters"))(t)
	at := draPaths{kubeconfig, filepath.Join(b.Root(), "plugins"), filepath.Join(b.Root(), "plugins_registry"), b.lab.CDIDir()}
	check.Fatal(t, errors.Join(os.MkdirAll(filepath.Join(at.plugins, name), 0o750), os.MkdirAll(at.registry, 0o750)))
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", name),
		}}},
	}}
	check.Value(b.admin.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		check.Error(t, b.admin.ResourceV1().DeviceClasses().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	log := filepath.Join(b.Root(), "..", "driver.log")
	d := &draDriver{bed: b, name: name, plugin: newPlugin(t, log, func() *exec.Cmd { return command(at) })}
	t.Cleanup(func() { d.clean(t) })
	return d
}

// clean ends pods before the driver ends: one with a claim waits for its driver, and a test that has failed would wait
// with it.
func (d *draDriver) clean(t *testing.T) {
	if d.bed.PID() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	err := d.bed.admin.CoreV1().Pods(d.bed.name).DeleteCollection(ctx, now, metav1.ListOptions{})
	if err == nil {
		err = lab.Eventually(ctx, patience, "no claim is prepared", func() error {
			left, err := d.bed.prepared()
			if errors.Is(err, os.ErrNotExist) {
				return nil // none ever was
			}
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("prepared are %v", left)
			}
			return err
		})
	}
	if err != nil {
		t.Error(err)
	}
}

// newTestDriver is the DRA driver of the tests of Kubernetes. A container with a claim has a variable for each of its
// requests, and those that the claim asks for.
func (b *bed) newTestDriver(t *testing.T, devices int) *draDriver {
	t.Helper()
	repository := check.Value(lab.Repository())(t)
	binary := check.Value(lab.BuildDRATestDriver(t.Context(), repository, os.Stderr))(t)
	name := b.name + ".cdi.k8s.io"
	return b.newDRADriver(t, name, func(at draPaths) *exec.Cmd {
		return exec.Command(binary, "kubelet-plugin", "-v=5", "--kubeconfig", at.kubeconfig, "--drivername", name,
			"--node-name", b.name, "--datadir", at.plugins, "--plugin-registration-path", at.registry,
			"--cdi-dir", at.cdi, "--num-devices", strconv.Itoa(devices))
	})
}

// claimSpec asks for a device by each request and, with a color, for the variable user_color of the test driver.
func (d *draDriver) claimSpec(color string, requests ...string) (out resourcev1.ResourceClaimSpec) {
	for _, r := range requests {
		out.Devices.Requests = append(out.Devices.Requests, resourcev1.DeviceRequest{
			Name: r, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: d.name},
		})
	}
	if color == "" {
		return out
	}
	out.Devices.Config = []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
		Opaque: &resourcev1.OpaqueDeviceConfiguration{
			Driver: d.name, Parameters: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"color":%q}`, color)},
		},
	}}}
	return out
}

// template makes a template for a claim of each pod's own.
func (d *draDriver) template(t *testing.T, name, color string, requests ...string) {
	t.Helper()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: d.claimSpec(color, requests...)}}
	check.Value(d.bed.admin.ResourceV1().ResourceClaimTemplates(d.bed.name).Create(t.Context(), template, metav1.CreateOptions{}))(t)
}

// claiming makes the first container of a pod use a claim, or one request of it.
func claiming(claim v1.PodResourceClaim, request string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		claim.Name = "device"
		s.ResourceClaims = []v1.PodResourceClaim{claim}
		s.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "device", Request: request}}
	}
}

// variables are those of the driver that a pod's container has.
func (b *bed) variables(t *testing.T, name string) (out []string) {
	t.Helper()
	_, env := b.process(t, name)
	for _, v := range env {
		if strings.HasPrefix(v, "claim_") || strings.HasPrefix(v, "user_") {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// variablesOf are those of a container with these requests of a claim.
func variablesOf(claim, color string, requests ...string) (out []string) {
	for _, r := range requests {
		out = append(out, "claim_"+strings.ReplaceAll(claim+"-"+r, "-", "_")+"=true")
	}
	return append(out, "user_color="+color)
}

// wantVariables holds the variables of the driver that a pod's container has.
func (b *bed) wantVariables(t *testing.T, name string, want ...string) {
	t.Helper()
	check.Same(t, b.variables(t, name), want, "pod %s has the variables", name)
}

// TestDRATestDriver: pods get the devices of the DRA driver of Kubernetes' own tests. The driver is killed, the pods
// run on, and others get devices when it is there again.
//
//tier:real
func TestDRATestDriver(t *testing.T) {
	t.Parallel()
	b := started(t, "dra-driver")
	d := b.newTestDriver(t, 4)
	shared := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Spec: d.claimSpec("red", "one", "two")}
	check.Value(b.admin.ResourceV1().ResourceClaims(b.name).Create(t.Context(), shared, metav1.CreateOptions{}))(t)
	d.template(t, "own", "blue", "mine")
	d.start(t)
	ofShared, own := v1.PodResourceClaim{ResourceClaimName: new("shared")}, v1.PodResourceClaim{ResourceClaimTemplateName: new("own")}
	b.create(t, b.pod("first", changes(work("sleep"), claiming(ofShared, ""))))
	b.create(t, b.pod("second", changes(work("sleep"), claiming(ofShared, "two"))))
	b.create(t, b.pod("third", changes(work("sleep"), claiming(own, ""))))
	b.create(t, b.pod("without", work("sleep")))
	ids := map[string]string{}
	for _, name := range []string{"first", "second", "third", "without"} {
		ids[name] = b.awaitPod(t, name, "is ready", ready).Status.ContainerStatuses[0].ContainerID
	}
	made := *b.get(t, "third").Status.ResourceClaimStatuses[0].ResourceClaimName
	b.wantVariables(t, "first", variablesOf("shared", "red", "one", "two")...)
	b.wantVariables(t, "second", variablesOf("shared", "red", "two")...)
	b.wantVariables(t, "third", variablesOf(made, "blue", "mine")...)
	b.wantVariables(t, "without")
	all, one, mine := b.dynamic(t, "first"), b.dynamic(t, "second"), b.dynamic(t, "third")
	if !strings.Contains(all, one) || one == "" || mine == "" || strings.Count(all, d.name) != 2 ||
		strings.Contains(all, mine[strings.LastIndex(mine, "/"):]) {
		t.Errorf("monitors are told of %q, %q and %q", all, one, mine)
	}
	t.Logf("devices: %q, %q and %q", all, one, mine)
	b.awaitPrepared(t, "the checkpoint has all", fmt.Sprintf("map[shared:2 %s:1]", made))
	b.remove(t, "third")
	b.awaitGone(t, "third")
	if files, err := filepath.Glob(filepath.Join(b.lab.CDIDir(), "*-mine.json")); err != nil || len(files) > 0 {
		t.Errorf("the driver did not unprepare: %v, %v", files, err)
	}

	d.kill(t)
	d.start(t)
	b.create(t, b.pod("fourth", changes(work("sleep"), claiming(own, ""))))
	b.awaitPod(t, "fourth", "is ready", ready)
	for _, name := range []string{"first", "second", "without"} {
		if s := b.get(t, name).Status.ContainerStatuses[0]; s.ContainerID != ids[name] || s.RestartCount != 0 {
			t.Errorf("pod %s had container %s and is %+v", name, ids[name], s)
		}
	}
	for _, name := range []string{"first", "second", "fourth"} {
		b.remove(t, name)
	}
	for _, name := range []string{"first", "second", "fourth"} {
		b.awaitGone(t, name)
	}
	b.awaitPrepared(t, "nothing is left", "map[]")
}

// exampleVariable is the path of dra-example-kubeletplugin of sigs.k8s.io/dra-example-driver, which is no dependency
// of ours. Without it, nobody wants TestDRAExampleDriver.
const exampleVariable = "TROUPE_DRA_EXAMPLE_DRIVER"

// TestDRAExampleDriver: the example driver of kubernetes-sigs gives each pod a GPU of its own. It is killed, and remembers by
// itself what it has prepared; pods run on, and the next one gets the GPU that is free.
//
//tier:all a driver of third parties; DRATestDriver has the seam
func TestDRAExampleDriver(t *testing.T) {
	t.Parallel()
	binary := lab.Asked(t, exampleVariable, "the driver is no dependency of ours")
	b := started(t, "dra-example")
	name := b.name + ".example.com"
	d := b.newDRADriver(t, name, func(at draPaths) *exec.Cmd {
		return exec.Command(binary, "--kubeconfig", at.kubeconfig, "--driver-name", name, "--node-name", b.name, "--cdi-root", at.cdi,
			"--kubelet-plugins-directory-path", at.plugins, "--kubelet-registrar-directory-path", at.registry, "--num-devices", "2")
	})
	d.template(t, "single-gpu", "", "gpu")
	d.start(t)
	gpuOf := map[string]string{}
	run := func(name string) {
		t.Helper()
		p := b.awaitPod(t, name, "is ready", ready)
		_, env := b.process(t, name)
		var seen []string
		for _, v := range env {
			if _, gpu, is := strings.Cut(v, "=gpu-"); is && strings.HasPrefix(v, "GPU_DEVICE_") {
				seen = append(seen, "gpu-"+gpu)
			}
		}
		want := fmt.Sprintf("%s %s %s/%s", *p.Status.ResourceClaimStatuses[0].ResourceClaimName, d.name, b.name, strings.Join(seen, " "))
		if told := b.dynamic(t, name); told != want || len(seen) != 1 {
			t.Errorf("pod %s sees %v, monitors are told of %q", name, seen, told)
		}
		gpuOf[name] = strings.Join(seen, " ")
	}
	own := v1.PodResourceClaim{ResourceClaimTemplateName: new("single-gpu")}
	for _, name := range []string{"pod0", "pod1", "pod2"} {
		b.create(t, b.pod(name, changes(work("sleep"), claiming(own, ""))))
		if name != "pod2" {
			run(name)
		}
	}
	before := b.get(t, "pod1").Status.ContainerStatuses[0].ContainerID
	d.kill(t)
	d.start(t)
	b.remove(t, "pod0")
	run("pod2")
	t.Logf("GPUs: %v", gpuOf)
	if gpuOf["pod2"] != gpuOf["pod0"] || gpuOf["pod1"] == gpuOf["pod0"] {
		t.Errorf("GPUs: %v", gpuOf)
	}
	if s := b.get(t, "pod1").Status.ContainerStatuses[0]; s.ContainerID != before || s.RestartCount != 0 {
		t.Errorf("pod1 had container %s and is %+v", before, s)
	}
	for _, name := range []string{"pod1", "pod2"} {
		b.remove(t, name)
		b.awaitGone(t, name)
	}
	b.awaitPrepared(t, "nothing is left", "map[]")
}
