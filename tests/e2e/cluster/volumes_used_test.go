package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestUnusedVolumes: a pod does not wait for volumes that no container mounts, until an ephemeral container mounts one.
//
//tier:all a repetition of CSIVolume: volumes that no container mounts
func TestUnusedVolumes(t *testing.T) {
	t.Parallel()
	b := started(t, "volumes-unused")
	b.configMap(t, "there", map[string]string{"key": "x"})
	config := func(name string) v1.VolumeSource {
		return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named(name)}}
	}
	b.create(t, b.pod("web", func(s *v1.PodSpec) {
		s.NodeName = b.name // the scheduler waits for claims
		s.Volumes = []v1.Volume{
			volume("used", config("there")),
			volume("later", config("none")),
			volume("driver", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "none.test"}}),
			volume("claim", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "none"}}),
			volume("path", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/no/such/path", Type: new(v1.HostPathDirectory)}}),
			volume("empty", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
		}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("used")}
	}))
	p := b.awaitPod(t, "web", "is ready", ready)
	dir := filepath.Join(b.Root(), "pods", string(p.UID), "volumes")
	if _, err := os.Stat(filepath.Join(dir, "kubernetes.io~empty-dir", "empty")); !os.IsNotExist(err) {
		t.Errorf("an emptyDir that nobody mounts: %v", err)
	}
	if n := b.node(t); len(n.Status.VolumesInUse) != 0 {
		t.Errorf("in use are %v", n.Status.VolumesInUse)
	}

	b.debug(t, p, v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", Image: lab.WorkImage, Args: strings.Fields("cat /later/key then exit 0"),
		VolumeMounts: []v1.VolumeMount{mounted("later")},
	}})
	b.awaitEvent(t, "web", "FailedMount", `MountVolume.SetUp failed for volume "later" : configmap "none" not found`)
	b.configMap(t, "none", map[string]string{"key": "x"})
	p = b.awaitPod(t, "web", "has had a container put into it", func(p *v1.Pod) error {
		for _, s := range p.Status.EphemeralContainerStatuses {
			if end := s.State.Terminated; end != nil && end.ExitCode == 0 {
				return nil
			}
		}
		return os.ErrNotExist
	})
	if s := p.Status.ContainerStatuses[0]; s.RestartCount != 0 || ready(p) != nil {
		t.Errorf("the pod is %s", shown(p))
	}
	b.remove(t, "web")
	b.awaitGone(t, "web")
}

// TestVolumeElsewhere: a PersistentVolume with a nodeAffinity for other nodes is not mounted until the labels of the Node
// fit. A pod that has it goes on when they do not fit any more, also over a restart of the agent.
//
//tier:all a repetition of CSIVolume: an attachment that stays away
func TestVolumeElsewhere(t *testing.T) {
	t.Parallel()
	b := started(t, "volumes-elsewhere")
	label := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata":{"labels":{"volumes.test/zone":` + value + `}}}`)
		check.Value(b.admin.CoreV1().Nodes().Patch(t.Context(), b.name, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	}
	label(`"a"`)
	b.claimed(t, "data", v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: t.TempDir()}},
		NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "volumes.test/zone", Operator: v1.NodeSelectorOpIn, Values: []string{"b"}}},
		}}}},
	})
	// The scheduler would not bring it here.
	b.create(t, b.pod("web", func(s *v1.PodSpec) {
		s.NodeName = b.name
		s.Volumes = []v1.Volume{volume("data", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("data")}
	}))
	b.awaitEvent(t, "web", "FailedMount", `MountVolume.NodeAffinity check failed for volume "`+b.name+`-data" : no matching NodeSelectorTerms`)
	label(`"b"`)
	p := b.awaitPod(t, "web", "is ready", ready)
	label("null")
	b.kill(t)
	b.start(t)
	b.create(t, b.pod("after", nil))
	b.awaitPod(t, "after", "is ready", ready) // so the agent knows of the other one
	if now := b.awaitPod(t, "web", "is ready again", ready); running(now)["app"] != running(p)["app"] {
		t.Errorf("its container is %v, and was %v", running(now), running(p))
	}
	for _, name := range []string{"web", "after"} {
		b.remove(t, name)
	}
	for _, name := range []string{"web", "after"} {
		b.awaitGone(t, name)
	}
}
