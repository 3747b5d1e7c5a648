package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// quits is a container that exits with 0 a second after the stop signal, as a worker does that puts
// its work away.
func quits(policy v1.RestartPolicy) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		work("trap 1s then exit 0")(s)
		s.RestartPolicy, s.TerminationGracePeriodSeconds = policy, new(int64(20))
		s.Containers[0].ImagePullPolicy = v1.PullAlways
	}
}

// edited serves the same program under another name, and gives that name to the pod's container.
func (b *bed) edited(t *testing.T, pod string) string {
	t.Helper()
	ref := "troupe.local/demo/work:" + b.name
	b.push(t, ref, "work")
	patch := fmt.Sprintf(`{"spec": {"containers": [{"name": "app", "image": %q}]}}`, ref)
	check.Value(b.admin.CoreV1().Pods(b.name).Patch(t.Context(), pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	return ref
}

// runsAs is nil if the pod's container was restarted once and runs with an image.
func runsAs(ref string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			return fmt.Errorf("it is %s, though nobody has asked it to end", p.Status.Phase)
		}
		if err := ready(p); err != nil {
			return err
		}
		s := p.Status.ContainerStatuses[0]
		return check.That(s.RestartCount == 1 && s.Image == ref, "it has image %s after %d restarts", s.Image, s.RestartCount)
	}
}

// TestEditedImageRestarts: a pod's container is stopped for another image, and exits with 0. It runs
// again, whatever the pod's restart policy makes of the 0, as with the kubelet.
//
//tier:all a repetition of FailedProbeRestarts; podplan decides
func TestEditedImageRestarts(t *testing.T) {
	t.Parallel()
	asKubelet(t, "edited", func(t *testing.T, b *bed, _ bool) {
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
			name := strings.ToLower(string(policy))
			b.create(t, b.pod(name, quits(policy)))
			b.awaitPod(t, name, "is ready", ready)
			ref := b.edited(t, name)
			b.awaitPod(t, name, "runs with the other image", runsAs(ref))
			b.remove(t, name)
		}
	})
}

// TestFailedProbeRestarts: the same of one that is stopped because its liveness probe failed.
//
//tier:real
func TestFailedProbeRestarts(t *testing.T) {
	t.Parallel()
	asKubelet(t, "unwell", func(t *testing.T, b *bed, _ bool) {
		b.create(t, b.pod("unwell", func(s *v1.PodSpec) {
			quits(v1.RestartPolicyOnFailure)(s)
			s.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
			s.Containers[0].LivenessProbe = &v1.Probe{
				PeriodSeconds: 1, FailureThreshold: 1, InitialDelaySeconds: 2,
				ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: strings.Fields("/work turns /data/turns 2")}},
			}
		}))
		b.awaitPod(t, "unwell", "is restarted", func(p *v1.Pod) error {
			return runsAs(lab.WorkImage)(p)
		})
		b.remove(t, "unwell")
	})
}

// TestKilledWhileRestarting: the agent is killed after it has stopped a container for another image, and the
// container ends before there is another agent.
//
//tier:served
func TestKilledWhileRestarting(t *testing.T) {
	t.Parallel()
	b := started(t, "killed-restarting", onServed)
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		name := strings.ToLower(string(policy))
		b.create(t, b.pod(name, quits(policy)))
		p := b.awaitPod(t, name, "is ready", ready)
		_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
		ref := b.edited(t, name)
		b.awaitEvent(t, name, "Killing", "")
		b.kill(t)
		b.await(t, "the container has ended", func() error {
			for _, c := range b.world(t).Containers {
				if c.Id == id && c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
					return fmt.Errorf("it is %s", c.State)
				}
			}
			return nil
		})
		b.start(t)
		b.awaitPod(t, name, "runs with the other image", runsAs(ref))
	}
}

// TestManifestMovedAwayAndBack: the upgrade of a control plane moves manifests away and back. The
// pod ends, and runs again under the same UID, its mirror pod with it; with a kubelet as well.
//
//tier:all a repetition of StaticPod
func TestManifestMovedAwayAndBack(t *testing.T) {
	t.Parallel()
	manifests := t.TempDir()
	onAgents(t, compared(), "moved", func(agent string) []string {
		dir := filepath.Join(manifests, agent)
		check.Fatal(t, os.MkdirAll(dir, 0o755))
		return []string{"staticPodPath: " + dir, "fileCheckFrequency: 1s"}
	}, func(t *testing.T, b *bed, kubelet bool) {
		agent := "troupe"
		if kubelet {
			agent = "kubelet"
		}
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever} {
			if kubelet && policy == v1.RestartPolicyNever {
				continue // it takes the 0 for the end of the pod
			}
			testMoved(t, b, filepath.Join(manifests, agent), policy)
		}
	})
}

const leaver = `apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  restartPolicy: %s
  terminationGracePeriodSeconds: 30
  containers:
  - name: app
    image: %s
    args: [trap, 5s, then, exit, "0"]
`

func testMoved(t *testing.T, b *bed, dir string, policy v1.RestartPolicy) {
	t.Helper()
	short := "moved-" + strings.ToLower(string(policy))
	file, aside, name := filepath.Join(dir, short+".yaml"), filepath.Join(t.TempDir(), "aside"), short+"-"+b.name
	check.Fatal(t, os.WriteFile(file, fmt.Appendf(nil, leaver, short, policy, lab.WorkImage), 0o644))
	inDefault := *b
	inDefault.name = "default"
	first := inDefault.awaitPod(t, name, "is ready", ready)
	check.Fatal(t, os.Rename(file, aside))
	inDefault.awaitEvent(t, name, "Killing", "")
	check.Fatal(t, os.Rename(aside, file))
	second := inDefault.awaitPod(t, name, "runs again", func(p *v1.Pod) error {
		check.OK(ready(p))
		if s := p.Status.ContainerStatuses[0]; s.RestartCount != 1 || s.ContainerID == first.Status.ContainerStatuses[0].ContainerID {
			return fmt.Errorf("%d restarts", s.RestartCount)
		}
		return nil
	})
	if was, is := first.Annotations[v1.MirrorPodAnnotationKey], second.Annotations[v1.MirrorPodAnnotationKey]; was != is {
		t.Errorf("its manifest was %s and is %s", was, is)
	}
	check.Fatal(t, os.Remove(file))
	inDefault.awaitGone(t, name)
}
