package pod_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// TestOneMoreVolume: a volume that only an ephemeral container mounts is asked for when there is such a container, which
// waits for it. An answer about the older version of the pod does not count.
func TestOneMoreVolume(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}}
	p.Spec.RestartPolicy = v1.RestartPolicyAlways
	p.Spec.Volumes = []v1.Volume{{Name: "used"}, {Name: "more"}}
	p.Spec.Containers = []v1.Container{{Name: "app", Image: "img", VolumeMounts: []v1.VolumeMount{{Name: "used", MountPath: "/used"}}}}
	r := newRig(t, p, nil)
	var asked []pod.MountVolumes
	r.mount = func(m pod.MountVolumes) { asked = append(asked, m) }
	up := func(m pod.MountVolumes) {
		a := pod.VolumesAnswer{Volumes: volumeplan.Volumes{State: volumeplan.Up}}
		paths := smallmap.Map[string, string]{}
		for v := range podspec.Volumes(&m.Pod.Spec) {
			paths.Set(v.Name, "/"+v.Name)
		}
		a.Paths = paths
		m.ReplyTo.Tell(a)
	}
	runs := func(name string) bool {
		c, is := r.rt.Find("u1", name)
		return is && c.State == observed.ContainerRunning
	}
	r.until(time.Second, "asked", func() bool { return len(asked) == 1 })
	up(asked[0])
	r.until(10*time.Second, "it runs", func() bool { return runs("app") })
	debugged := p.DeepCopy()
	debugged.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", Image: "img", VolumeMounts: []v1.VolumeMount{{Name: "more", MountPath: "/more"}},
	}}}
	r.assign.Pod = debugged
	r.actor.Tell(r.assign)
	r.until(time.Second, "asked again", func() bool { return len(asked) == 2 })
	if asked[1].Pod != debugged {
		t.Error("the older version of the pod was asked for")
	}
	if len(asked[0].Paths) > 0 || asked[1].Paths.At("used") != "/used" {
		t.Errorf("the pod says that it has %v, then %v", asked[0].Paths, asked[1].Paths)
	}
	up(asked[0])
	r.RunUntil(r.Now().Add(30*time.Second), func() bool { return false })
	if runs("debug") || !runs("app") {
		t.Fatalf("before the volume is there, debug runs: %v, app runs: %v", runs("debug"), runs("app"))
	}
	up(asked[1])
	r.until(10*time.Second, "the ephemeral container runs", func() bool { return runs("debug") })
	for _, e := range r.events {
		if e.Reason == "Failed" {
			t.Errorf("%s: %s", e.Reason, e.Message)
		}
	}
}
