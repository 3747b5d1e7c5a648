package cri

import (
	"cmp"
	"context"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ port.Usage = (*Client)(nil)

// ContainerUsage implements port.Usage.
func (c *Client) ContainerUsage(ctx context.Context, done func([]usage.Container, error)) {
	run(c, ctx, call{"ListContainerStats", "", c.deadlines.list()}, func(ctx context.Context) ([]usage.Container, error) {
		all, err := listed(c, func() ([]*runtimeapi.ContainerStats, error) {
			stream, err := c.runtime.StreamContainerStats(ctx, &runtimeapi.StreamContainerStatsRequest{})
			return collect(stream, err, (*runtimeapi.StreamContainerStatsResponse).GetContainerStats)
		}, func() ([]*runtimeapi.ContainerStats, error) {
			answer, err := c.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
			return answer.GetStats(), err
		})
		if err != nil {
			return nil, err
		}
		out := make([]usage.Container, len(all))
		for i, s := range all {
			out[i] = containerUsage(s)
		}
		slices.SortFunc(out, func(a, b usage.Container) int { return cmp.Compare(a.RuntimeID, b.RuntimeID) })
		return out, nil
	}, done)
}

// containerUsage converts the runtime's statistics. Missing values are unknown.
func containerUsage(s *runtimeapi.ContainerStats) usage.Container {
	out := usage.Container{RuntimeID: s.GetAttributes().GetId(), Name: s.GetAttributes().GetMetadata().GetName()}
	if c := s.GetCpu(); c.GetUsageCoreNanoSeconds() != nil {
		out.Cgroup.At = time.Unix(0, c.GetTimestamp())
		out.Cgroup.CPU = &usage.CPU{Usage: time.Duration(c.GetUsageCoreNanoSeconds().GetValue())}
		if n := c.GetUsageNanoCores(); n != nil {
			out.Cgroup.CPU.Rate = new(n.GetValue())
		}
	}
	if m := s.GetMemory(); m.GetWorkingSetBytes() != nil {
		out.Cgroup.At = time.Unix(0, m.GetTimestamp())
		out.Cgroup.Memory = &usage.Memory{
			Usage: m.GetUsageBytes().GetValue(), WorkingSet: m.GetWorkingSetBytes().GetValue(), RSS: m.GetRssBytes().GetValue(),
			Faults: m.GetPageFaults().GetValue(), MajorFaults: m.GetMajorPageFaults().GetValue(),
		}
	}
	if w := s.GetSwap(); w.GetSwapUsageBytes() != nil {
		out.Cgroup.Swap = &usage.Swap{Usage: w.GetSwapUsageBytes().GetValue(), Limit: usage.NoLimit}
		if n := w.GetSwapAvailableBytes(); n != nil {
			out.Cgroup.Swap.Limit = out.Cgroup.Swap.Usage + n.GetValue()
		}
	}
	if l := s.GetWritableLayer(); l.GetUsedBytes() != nil {
		out.Rootfs = &usage.Disk{
			At: time.Unix(0, l.GetTimestamp()), Used: new(l.GetUsedBytes().GetValue()),
			InodesUsed: new(l.GetInodesUsed().GetValue()),
		}
	}
	return out
}

// Disks implements port.Usage.
func (c *Client) Disks(ctx context.Context, done func(images, layers port.DiskUse, err error)) {
	type both struct{ images, layers port.DiskUse }
	run(c, ctx, call{"ImageFsInfo", "", c.deadlines.ask()}, func(ctx context.Context) (both, error) {
		answer, err := c.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
		return both{diskUse(answer.GetImageFilesystems()), diskUse(answer.GetContainerFilesystems())}, err
	}, func(b both, err error) { done(b.images, b.layers, err) })
}

// diskUse is the first one: runtimes have only one so far.
func diskUse(all []*runtimeapi.FilesystemUsage) (d port.DiskUse) {
	if len(all) > 0 {
		d.Mountpoint = all[0].GetFsId().GetMountpoint()
		d.Bytes, d.Inodes = all[0].GetUsedBytes().GetValue(), all[0].GetInodesUsed().GetValue()
	}
	return d
}
