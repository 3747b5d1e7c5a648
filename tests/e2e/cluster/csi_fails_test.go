package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

// unchanged fails the test if a pod's container is another one than before, or was restarted.
func (b *csiBed) unchanged(t *testing.T, p *v1.Pod, when string) {
	t.Helper()
	now := b.get(t, p.Name).Status.ContainerStatuses[0]
	if was := p.Status.ContainerStatuses[0]; now.ContainerID != was.ContainerID || now.RestartCount != was.RestartCount {
		t.Errorf("%s: pod %s has container %s with %d restarts, and had %s", when, p.Name, now.ContainerID, now.RestartCount, was.ContainerID)
	}
}

// TestCSIKilled: the driver is killed and comes back, and the agent is killed in the middle of each call. Pods go on, those
// that wait get their volumes, those that end give them back.
//
//tier:all faults of a driver, which scenarios have on a virtual clock
func TestCSIKilled(t *testing.T) {
	t.Parallel()
	b := newCSIBed(t, "csi-killed", csiAgent(t), nil)
	b.wants(t, "kept", "image", "16Mi")
	kept := b.runs(t, "kept", using("kept"), work("append /v/log x then sleep"))

	b.process.kill(t)
	b.wants(t, "waits", "dir", "1Mi")
	b.create(t, b.pod("waits", changes(using("waits"), work("sleep"))))
	b.process.start(t)
	b.awaitPod(t, "waits", "is ready once the driver is back", ready)
	b.unchanged(t, kept, "the driver was killed")

	methods := []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}
	if agentOfCSI() == "kubelet" {
		// A kubelet of v1.36 forgets a volume whose pod has gone: what is staged stays, and the controller detaches it.
		methods = methods[:3]
	}
	for i, method := range methods {
		name := fmt.Sprint("cut-", i)
		b.wants(t, name, "image", "16Mi")
		v := b.handle(t, name)
		hang := func() { check.Fatal(t, b.driver.Set(t.Context(), csidriver.Fault{Method: method, Hang: true})) }
		if i < 2 {
			hang()
		}
		b.create(t, b.pod(name, changes(using(name), work("append /v/log x then sleep"))))
		if i >= 2 {
			b.awaitPod(t, name, "is ready", ready)
			hang()
			b.remove(t, name)
		}
		b.await(t, method+" is called", func() error {
			return check.That(b.driver.Hanging(t.Context(), method) != 0, "nobody has called it")
		})
		check.Fatal(t, b.member.Kill(t.Context()))
		check.Fatal(t, b.driver.End(t.Context(), method))
		check.Fatal(t, b.member.Start())
		if i < 2 {
			p := b.awaitPod(t, name, "is ready", ready)
			b.awaitText(t, b.inside(t, p, "/v/log"), "x\n")
			b.remove(t, name)
		}
		b.awaitGone(t, name)
		b.await(t, "the volume is unstaged", func() error {
			return check.That(len(b.calls(t, "NodeUnstageVolume", v)) != 0, "it is not")
		})
		b.unchanged(t, kept, "the agent was killed in "+method)
	}
	b.ends(t, "kept")
}

// TestCSIHung: a driver whose calls hang holds up nobody but the pods that want its volumes, and users are told which.
//
//tier:all faults of a driver, which scenarios have on a virtual clock
func TestCSIHung(t *testing.T) {
	t.Parallel()
	b := newCSIBed(t, "csi-hung", csiAgent(t), nil)
	b.wants(t, "hung", "dir", "1Mi")
	alone := b.others(t, "alone")
	check.Fatal(t, b.driver.Set(t.Context(), csidriver.Fault{Method: "NodePublishVolume", Hang: true}))
	b.create(t, b.pod("hung", changes(using("hung"), work("sleep"))))
	b.await(t, "the call hangs", func() error {
		return check.That(b.driver.Hanging(t.Context(), "NodePublishVolume") != 0, "nobody has called it")
	})
	b.others(t, "beside").within(t, alone)
	check.Error(t, usable(b.node(t)))
	check.Error(t, waiting("ContainerCreating")(b.get(t, "hung")))
	check.Fatal(t, b.driver.End(t.Context(), "NodePublishVolume"))
	b.awaitPod(t, "hung", "is ready once the driver answers", ready)
	b.said(t, "hung")

	fault := csidriver.Fault{Method: "NodePublishVolume", Code: codes.Internal, Message: "the disk is on fire", Times: 2}
	check.Fatal(t, b.driver.Set(t.Context(), fault))
	b.wants(t, "fails", "dir", "1Mi")
	b.create(t, b.pod("fails", changes(using("fails"), work("sleep"))))
	b.awaitEvent(t, "fails", "FailedMount", "rpc error: code = Internal desc = the disk is on fire")
	b.awaitPod(t, "fails", "is ready once the driver does not fail", ready)
	b.said(t, "fails")
}

// csiPods are pods of each kind that use volumes of a driver, by name.
type csiPods map[string]*v1.Pod

// add makes one of each kind, whose names begin with a name, and waits until they are ready: with a file system, a device, a
// volume of their own, a part of a volume, and three with one volume.
func (b *csiBed) add(t *testing.T, pods csiPods, name string) {
	t.Helper()
	device := func(s *v1.PodSpec) {
		claim := &v1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-dev"}
		s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{PersistentVolumeClaim: claim})}
		s.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "v", DevicePath: "/dev/vol"}}
	}
	inline := func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: b.driver.Name}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("v")}
	}
	writes := work("append /v/log x then sleep")
	b.wants(t, name, "image", "16Mi")
	b.wants(t, name+"-dev", "dir", "16Mi", block)
	b.wants(t, name+"-sub", "image", "16Mi")
	b.wants(t, name+"-shared", "image", "16Mi")
	made := map[string]func(*v1.PodSpec){
		name:               changes(using(name), writes),
		name + "-dev":      changes(device, work("sleep")),
		name + "-inline":   changes(inline, writes),
		name + "-sub":      changes(using(name+"-sub", part("/part", "a/b")), whole, work("append /part/log x then sleep")),
		name + "-shared-0": changes(using(name+"-shared"), writes),
		name + "-shared-1": changes(using(name+"-shared"), work("await /v/log then sleep")),
		name + "-shared-2": changes(using(name+"-shared"), work("await /v/log then sleep")),
	}
	for pod, spec := range made {
		b.create(t, b.pod(pod, spec))
	}
	for pod := range made {
		pods[pod] = b.awaitPod(t, pod, "is ready", ready)
	}
}

// end deletes all pods whose names begin with one of these, and waits until they are gone.
func (b *csiBed) end(t *testing.T, pods csiPods, names ...string) {
	t.Helper()
	var gone []string
	for pod := range pods {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(pod, name) }) {
			b.remove(t, pod)
			gone = append(gone, pod)
			delete(pods, pod)
		}
	}
	for _, pod := range gone {
		b.awaitGone(t, pod)
	}
}

// TestCSIChangeover: a node goes from the kubelet to troupe and back while 21 pods have volumes. No container is restarted,
// each agent ends the pods of the other, and nothing stays: no mount, no directory, no loop device.
//
//tier:all the kubelet runs beside
func TestCSIChangeover(t *testing.T) {
	t.Parallel()
	kubelet, troupe := agentOf(t, "kubelet").OwnPlugins(), agentOf(t, "troupe")
	b := newCSIBed(t, "csi-changeover", kubelet, nil)
	pods := csiPods{}
	hold := func(when string) {
		t.Helper()
		for _, p := range pods {
			b.unchanged(t, p, when)
		}
		t.Logf("%s: %d pods go on", when, len(pods))
	}
	to := func(agent member.Agent) {
		t.Helper()
		check.Fatal(t, errors.Join(b.member.Kill(t.Context()), b.member.Configure(agent, ""), b.member.Start()))
	}
	b.add(t, pods, "kept")
	b.add(t, pods, "other")
	b.add(t, pods, "of-kubelet")
	staged := len(b.calls(t, "NodeStageVolume", ""))
	to(troupe)
	b.add(t, pods, "of-troupe")
	hold("troupe")
	// Both agents stage once again what they find after a start. The driver refuses to stage anything differently.
	if n := len(b.calls(t, "NodeStageVolume", "")); n > 2*staged+4 {
		t.Errorf("volumes were staged %d times, %d before, for four volumes more", n, staged)
	}
	b.end(t, pods, "of-kubelet")
	hold("troupe has ended the pods of the kubelet")
	to(kubelet)
	b.add(t, pods, "again")
	hold("the kubelet")
	b.end(t, pods, "of-troupe", "kept")
	hold("the kubelet has ended the pods of troupe")
}
