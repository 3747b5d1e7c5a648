package cluster

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const manifest = `apiVersion: v1
kind: Pod
metadata:
  name: static
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: %s
    env:
    - name: RELEASE
      value: "%s"
`

// TestStaticPod is shown by a mirror pod, which comes back when it is deleted, changes with the file
// and goes with it, while nobody but the file has a say in what runs.
//
//tier:served
func TestStaticPod(t *testing.T) {
	t.Parallel()
	b := started(t, "static-pod", onServed)
	write := func(release string) {
		t.Helper()
		check.Fatal(t, b.Write("static.yaml", fmt.Sprintf(manifest, lab.WebImage, release)))
	}
	// Static pods are in the namespace default, and have the node's name.
	name := "static-" + b.name
	inDefault := *b
	inDefault.name = "default"
	write("1")
	first := inDefault.awaitPod(t, name, "is ready", ready)
	if first.Annotations[v1.MirrorPodAnnotationKey] == "" || first.Spec.NodeName != b.name || first.OwnerReferences[0].UID != b.node(t).UID {
		t.Errorf("the mirror is %+v", first.ObjectMeta)
	}
	ids := running(first)

	inDefault.remove(t, name)
	second := inDefault.awaitPod(t, name, "is there again", func(p *v1.Pod) error {
		check.OK(another(first.UID)(p))
		return ready(p)
	})
	if got := running(second); got["app"] != ids["app"] || ids["app"] == "" {
		t.Errorf("its container was %v and is %v: the deletion of a mirror is not the pod's", ids, got)
	}

	write("2")
	third := inDefault.awaitPod(t, name, "is the one of the file", func(p *v1.Pod) error {
		if p.Spec.Containers[0].Env[0].Value != "2" {
			return fmt.Errorf("release %s", p.Spec.Containers[0].Env[0].Value)
		}
		return ready(p)
	})
	if got := running(third); got["app"] == ids["app"] {
		t.Error("the old container runs")
	}
	check.Fatal(t, b.Remove("static.yaml"))
	inDefault.awaitGone(t, name)
}
