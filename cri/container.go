package cri

import (
	"context"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/readback"
	"github.com/troupe-dev/troupe/cri/translate"
)

var _ port.LogReopener = (*Client)(nil)

// CreateContainer implements port.Runtime. The container's log directory is
// made first.
func (c *Client) CreateContainer(ctx context.Context, r port.CreateContainer, done func(id string, err error)) {
	k := call{"CreateContainer", translate.Object(r.Pod, r.Container.Name), c.deadlines.request}
	run(c, ctx, k, func(ctx context.Context) (string, error) {
		request, err := translate.Container(c.node(), &r)
		if err != nil {
			return "", err
		}
		log := filepath.Join(request.SandboxConfig.LogDirectory, request.Config.LogPath)
		if err := c.config.MakeDirectory(filepath.Dir(log)); err != nil {
			return "", err
		}
		answer, err := c.runtime.CreateContainer(ctx, request)
		return answer.GetContainerId(), err
	}, done)
}

// StartContainer implements port.Runtime.
func (c *Client) StartContainer(ctx context.Context, id string, done func(error)) {
	run0(c, ctx, call{"StartContainer", id, c.deadlines.request}, func(ctx context.Context) error {
		_, err := c.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
		return err
	}, done)
}

// StopContainer implements port.Runtime. The grace is rounded up to whole seconds.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration, done func(error)) {
	k := call{stopContainer, id, c.deadlines.stopContainer(grace)}
	run0(c, ctx, k, func(ctx context.Context) error {
		_, err := c.runtime.StopContainer(ctx,
			&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: wholeSeconds(grace)})
		return unlessGone(err)
	}, done)
}

// RemoveContainer implements port.Runtime.
func (c *Client) RemoveContainer(ctx context.Context, id string, done func(error)) {
	run0(c, ctx, call{"RemoveContainer", id, c.deadlines.request}, func(ctx context.Context) error {
		_, err := c.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
		return unlessGone(err)
	}, done)
}

// ContainerStatus implements port.Runtime. A container of another client is not found.
func (c *Client) ContainerStatus(ctx context.Context, id string, done func(observed.Container, error)) {
	k := call{"ContainerStatus", id, c.deadlines.inspect()}
	run(c, ctx, k, func(ctx context.Context) (observed.Container, error) {
		answer, err := c.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return observed.Container{}, err
		}
		got, ok := readback.Container(answer.GetStatus())
		if !ok {
			return got, notOurs(k)
		}
		return got, nil
	}, done)
}

// ReopenContainerLog implements port.LogReopener.
func (c *Client) ReopenContainerLog(ctx context.Context, id string, done func(error)) {
	run0(c, ctx, call{"ReopenContainerLog", id, c.deadlines.request}, func(ctx context.Context) error {
		_, err := c.runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
		return err
	}, done)
}
