package cri

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	ref, err := pull(t, c, port.PullImage{Image: "r.io/a:1", Pod: testPod(), Auth: &port.ImageAuth{Username: "u", Password: "p"}})
	if err != nil || ref != "sha256:ab" {
		t.Fatalf("%q, %v", ref, err)
	}
	if got.GetImage().GetImage() != "r.io/a:1" || got.GetAuth().GetPassword() != "p" || got.GetSandboxConfig().GetMetadata().GetUid() != "u1" {
		t.Errorf("%v", got)
	}
	if _, err := pull(t, c, port.PullImage{Image: "r.io/a:1"}); err != nil || got.Auth != nil || got.SandboxConfig != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestLongPullGoesOnWhileTheRuntimeAnswers(t *testing.T) {
	var asked atomic.Int32
	enough := make(chan struct{})
	f := &fakeRuntime{
		version: func(context.Context) error {
			if asked.Add(1) == 5 {
				close(enough)
			}
			return nil
		},
		pull: func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) {
			select {
			case <-enough:
				return "sha256:ab", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		},
	}
	c := dial(t, f, func(c *Config) { c.PullCheckPeriod = 5 * time.Millisecond })
	if ref, err := pull(t, c, port.PullImage{Image: "big"}); err != nil || ref == "" {
		t.Errorf("%q, %v", ref, err)
	}
}

func TestPullEndsWhenTheRuntimeFallsSilent(t *testing.T) {
	var asked atomic.Int32
	f := &fakeRuntime{
		version: func(context.Context) error {
			if asked.Add(1) > 1 { // Dial asks first
				return status.Error(codes.Internal, "stuck")
			}
			return nil
		},
		pull: func(ctx context.Context, _ *runtimeapi.PullImageRequest) (string, error) { return "", hang(ctx) },
	}
	c := dial(t, f, func(c *Config) { c.PullCheckPeriod = 5 * time.Millisecond })
	_, err := pull(t, c, port.PullImage{Image: "big"})
	wantKind(t, err, port.Deadline)
}
