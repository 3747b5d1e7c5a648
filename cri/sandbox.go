package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/readback"
	"github.com/troupe-dev/troupe/cri/translate"
)

// RunPodSandbox implements port.Runtime. The pod's log directory is made first.
func (c *Client) RunPodSandbox(ctx context.Context, r port.RunPodSandbox, done func(id string, err error)) {
	k := call{"RunPodSandbox", translate.Object(r.Pod, ""), c.deadlines.runSandbox()}
	run(c, ctx, k, func(ctx context.Context) (string, error) {
		node := c.node()
		request, err := translate.Sandbox(node, &r)
		if err != nil {
			return "", err
		}
		if c.config.Notice != nil {
			for _, n := range translate.DNSNotices(node, r.Pod) {
				c.config.Notice(r.Pod, n)
			}
		}
		if err := c.config.MakeDirectory(request.Config.LogDirectory); err != nil {
			return "", err
		}
		answer, err := c.runtime.RunPodSandbox(ctx, request)
		return answer.GetPodSandboxId(), err
	}, done)
}

// StopPodSandbox implements port.Runtime.
func (c *Client) StopPodSandbox(ctx context.Context, id string, done func(error)) {
	run0(c, ctx, call{stopPodSandbox, id, c.deadlines.request}, func(ctx context.Context) error {
		_, err := c.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		return unlessGone(err)
	}, done)
}

// RemovePodSandbox implements port.Runtime.
func (c *Client) RemovePodSandbox(ctx context.Context, id string, done func(error)) {
	run0(c, ctx, call{"RemovePodSandbox", id, c.deadlines.request}, func(ctx context.Context) error {
		_, err := c.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
		return unlessGone(err)
	}, done)
}

// PodSandboxStatus implements port.Runtime. A sandbox of another client is not found.
func (c *Client) PodSandboxStatus(ctx context.Context, id string, done func(observed.Sandbox, error)) {
	k := call{"PodSandboxStatus", id, c.deadlines.inspect()}
	run(c, ctx, k, func(ctx context.Context) (observed.Sandbox, error) {
		answer, err := c.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
		if err != nil {
			return observed.Sandbox{}, err
		}
		s, ok := readback.Sandbox(answer.GetStatus())
		if !ok {
			return s, notOurs(k)
		}
		return s, nil
	}, done)
}
