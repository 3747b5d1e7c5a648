package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/translate"
)

// UpdateContainer implements port.Runtime.
func (c *Client) UpdateContainer(ctx context.Context, r port.UpdateContainer, done func(error)) {
	k := call{"UpdateContainerResources", translate.Object(r.Pod, r.Container.Name), c.deadlines.request}
	run0(c, ctx, k, func(ctx context.Context) error {
		_, err := c.runtime.UpdateContainerResources(ctx, translate.Update(c.config.Node(), &r))
		return err
	}, done)
}

// UpdateSandbox implements port.Runtime.
func (c *Client) UpdateSandbox(ctx context.Context, r port.UpdateSandbox, done func(error)) {
	k := call{"UpdatePodSandboxResources", translate.Object(r.Pod, ""), c.deadlines.request}
	run0(c, ctx, k, func(ctx context.Context) error {
		_, err := c.runtime.UpdatePodSandboxResources(ctx, translate.UpdateSandbox(c.config.Node(), &r))
		return err
	}, done)
}

// SetPodCIDR implements port.PodNetwork.
func (c *Client) SetPodCIDR(ctx context.Context, cidr string, done func(error)) {
	run0(c, ctx, call{"UpdateRuntimeConfig", cidr, c.deadlines.request}, func(ctx context.Context) error {
		_, err := c.runtime.UpdateRuntimeConfig(ctx, &runtimeapi.UpdateRuntimeConfigRequest{
			RuntimeConfig: &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidr}},
		})
		return err
	}, done)
}

// ContainerMemory implements port.Runtime. It is the usage that limits count: the working set
// excludes memory that the kernel can reclaim.
func (c *Client) ContainerMemory(ctx context.Context, id string, done func(int64, error)) {
	run(c, ctx, call{"ContainerStats", id, c.deadlines.request}, func(ctx context.Context) (int64, error) {
		answer, err := c.runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
		return int64(answer.GetStats().GetMemory().GetUsageBytes().GetValue()), err
	}, done)
}
