package cri

import (
	"context"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/translate"
)

// PullImage implements port.Runtime. It has no time limit: an image may be large and the link slow. The runtime itself
// cancels a pull without progress (containerd image_pull_progress_timeout, CRI-O pull_progress_timeout).
func (c *Client) PullImage(ctx context.Context, r port.PullImage, done func(ref string, err error)) {
	run(c, ctx, call{pullImage, r.Image, none}, func(ctx context.Context) (string, error) {
		request := &runtimeapi.PullImageRequest{
			Image: &runtimeapi.ImageSpec{Image: r.Image, UserSpecifiedImage: r.Image},
			Auth:  auth(r.Auth),
		}
		if r.Pod != nil {
			request.Image.Annotations = r.Pod.Annotations
			request.SandboxConfig = translate.PullContext(c.node(), r.Pod)
		}
		answer, err := c.images.PullImage(ctx, request)
		return answer.GetImageRef(), err
	}, done)
}

// pullKind is the kind of a failed pull. A pull that failed is tried again whatever the registry said, so its message
// is only for people. A code from deep inside, such as DeadlineExceeded for a transfer without progress, is an answer.
func pullKind(code codes.Code, detail string) port.ErrorKind {
	switch {
	case code == codes.Unavailable, loading.MatchString(detail):
		return port.Unavailable
	case badName.MatchString(detail):
		return port.InvalidImageName
	case code == codes.NotFound:
		return port.ImageNotFound
	default:
		return port.Other
	}
}

func auth(a *port.ImageAuth) *runtimeapi.AuthConfig {
	if a == nil {
		return nil
	}
	return &runtimeapi.AuthConfig{
		Username:      a.Username,
		Password:      a.Password,
		Auth:          a.Auth,
		ServerAddress: a.ServerAddress,
		IdentityToken: a.IdentityToken,
		RegistryToken: a.RegistryToken,
	}
}
