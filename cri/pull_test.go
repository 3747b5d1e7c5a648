package cri

import (
	"context"
	"maps"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

func pull(t *testing.T, c *Client, r port.PullImage) (string, error) {
	t.Helper()
	return await(t, func(done func(string, error)) { c.PullImage(t.Context(), r, done) })
}

func TestPullSendsWhoItIsFor(t *testing.T) {
	var got *runtimeapi.PullImageRequest
	f := &fakeRuntime{pull: func(_ context.Context, r *runtimeapi.PullImageRequest) (string, error) {
		got = r
		return "sha256:ab", nil
	}}
	c := dial(t, f, nil)
	pod := testPod()
	pod.Annotations = map[string]string{"example.com/snapshotter": "lazy"}
	ref, err := pull(t, c, port.PullImage{Image: "r.io/a:1", Pod: pod, Auth: &port.ImageAuth{Username: "u", Password: "p"}})
	if err != nil || ref != "sha256:ab" {
		t.Fatalf("%q, %v", ref, err)
	}
	if got.GetImage().GetImage() != "r.io/a:1" || got.GetAuth().GetPassword() != "p" || got.GetSandboxConfig().GetMetadata().GetUid() != "u1" {
		t.Errorf("%v", got)
	}
	if !maps.Equal(got.GetImage().GetAnnotations(), pod.Annotations) {
		t.Errorf("the image has the annotations %v", got.GetImage().GetAnnotations())
	}
	if _, err := pull(t, c, port.PullImage{Image: "r.io/a:1"}); err != nil || got.Auth != nil || got.SandboxConfig != nil {
		t.Errorf("%v, %v", got, err)
	}
}
