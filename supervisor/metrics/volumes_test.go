package metrics

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestManyClaims: a pod with n claims, and as many volumes that were measured.
func TestManyClaims(t *testing.T) {
	linear.Held(t, 1000, func(n int) func() {
		var p v1.Pod
		var used usage.Pod
		for i := range n {
			name := fmt.Sprint("v", i)
			claim := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: claim})
			used.Volumes = append(used.Volumes, usage.Volume{Name: name, Plugin: "kubernetes.io/nfs"})
		}
		p.Spec.Containers = []v1.Container{{Name: "c"}}
		for i := range n {
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: fmt.Sprint("v", i)})
		}
		return func() {
			got := volumeCounts([]*v1.Pod{&p}, []usage.Pod{used})
			check.Equal(t, got[[2]string{"kubernetes.io/nfs", "desired_state_of_world"}], n, "volumes")
		}
	})
}
