package metrics_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
)

// TestImageVolumes: an image is requested once for each container, and each of its mounts counts.
func TestImageVolumes(t *testing.T) {
	m, below := fresh(t), &runtime{}
	mounts := []containerplan.Mount{
		{Name: "model", Image: "sha256:1"}, {Name: "model", Image: "sha256:1", ImageSubPath: "a"}, {Name: "data", HostPath: "/d"},
	}
	for _, below.err = range []error{
		nil, &port.Error{Detail: "ImageVolumeMountFailed: no"}, &port.Error{Detail: "no ImageVolumeMountFailed"}, nil,
	} {
		p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
		m.Starts(below).CreateContainer(t.Context(), port.CreateContainer{Pod: p, Container: &p.Spec.Containers[0], Mounts: mounts},
			func(string, error) {})
	}
	wantSeries(t, scrape(t, m, asked(), "/metrics"), []want{
		{"kubelet_image_volume_requested_total", "", 4},
		{"kubelet_image_volume_mounted_succeed_total", "", 6},
		{"kubelet_image_volume_mounted_errors_total", "", 2},
	})
}
