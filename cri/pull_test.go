package cri

import (
	"context"
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/tests/check"
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
	c := dial(t, f, func(config *Config) {
		config.Node = func() *translate.Node {
			return &translate.Node{CgroupParent: func(p *v1.Pod) string { return "/pods/" + string(p.UID) }}
		}
	})
	pod := testPod()
	pod.Annotations = map[string]string{"example.com/snapshotter": "lazy"}
	ref, err := pull(t, c, port.PullImage{Image: "r.io/a:1", Pod: pod, Auth: &port.ImageAuth{Username: "u", Password: "p"}})
	if err != nil || ref != "sha256:ab" {
		t.Fatalf("%q, %v", ref, err)
	}
	if got.GetImage().GetImage() != "r.io/a:1" || got.GetAuth().GetPassword() != "p" || got.GetSandboxConfig().GetMetadata().GetUid() != "u1" {
		t.Errorf("%v", got)
	}
	check.Equal(t, got.GetSandboxConfig().GetLinux().GetCgroupParent(), "/pods/u1", "the pod's cgroup")
	if !maps.Equal(got.GetImage().GetAnnotations(), pod.Annotations) {
		t.Errorf("the image has the annotations %v", got.GetImage().GetAnnotations())
	}
	if _, err := pull(t, c, port.PullImage{Image: "r.io/a:1"}); err != nil || got.Auth != nil || got.SandboxConfig != nil {
		t.Errorf("%v, %v", got, err)
	}
}
