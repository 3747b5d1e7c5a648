package cri

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/translate"
)

// pullMisses is how many checks in a row the runtime may leave unanswered before the pull is
// cancelled.
const pullMisses = 2

// PullImage implements port.Runtime. It has no time limit, and the CRI does not report its
// progress: the runtime itself cancels a pull without progress (containerd
// image_pull_progress_timeout, CRI-O pull_progress_timeout). Only the runtime is watched here: if
// it stops answering Version, the pull ends with kind Deadline.
func (c *Client) PullImage(ctx context.Context, r port.PullImage, done func(ref string, err error)) {
	run(c, ctx, call{"PullImage", r.Image, none}, func(ctx context.Context) (string, error) {
		request := &runtimeapi.PullImageRequest{
			Image: &runtimeapi.ImageSpec{Image: r.Image, UserSpecifiedImage: r.Image},
			Auth:  auth(r.Auth),
		}
		if r.Pod != nil {
			request.SandboxConfig = translate.PullContext(r.Pod)
		}
		ctx, watch := c.watchPull(ctx)
		answer, err := c.images.PullImage(ctx, request)
		if silent := watch(); err != nil && silent != nil {
			return "", silent
		}
		return answer.GetImageRef(), err
	}, done)
}

// watchPull cancels the returned context if the runtime stops answering. The returned function
// ends the watch and reports whether that happened.
func (c *Client) watchPull(ctx context.Context) (context.Context, func() error) {
	ctx, cancel := context.WithCancel(ctx)
	silent := make(chan error, 1)
	go func() { silent <- c.answersDuring(ctx, cancel) }()
	return ctx, func() error {
		cancel()
		return <-silent
	}
}

func (c *Client) answersDuring(ctx context.Context, cancel context.CancelFunc) error {
	tick := time.NewTicker(c.config.PullCheckPeriod)
	defer tick.Stop()
	for misses := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := c.answers(ctx); err == nil {
			misses = 0
			continue
		}
		if misses++; misses < pullMisses || ctx.Err() != nil {
			continue
		}
		cancel()
		return &port.Error{
			Kind: port.Deadline, Verb: "PullImage",
			Detail: fmt.Sprintf("the runtime did not answer %d checks in a row, %s apart, during the pull", misses,
				c.config.PullCheckPeriod),
		}
	}
}

func (c *Client) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.deadlines.ask())
	defer cancel()
	_, err := c.version(ctx)
	return err
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
