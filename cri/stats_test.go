package cri

import (
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestContainerUsage(t *testing.T) {
	value := func(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }
	who := &runtimeapi.ContainerAttributes{Id: "c1", Metadata: &runtimeapi.ContainerMetadata{Name: "app"}}
	known := usage.Container{RuntimeID: "c1", Name: "app"}
	for name, tt := range map[string]struct {
		in   *runtimeapi.ContainerStats
		want func(*usage.Container)
	}{
		"nothing is known":    {&runtimeapi.ContainerStats{Attributes: who}, func(*usage.Container) {}},
		"cpu without a value": {&runtimeapi.ContainerStats{Attributes: who, Cpu: &runtimeapi.CpuUsage{Timestamp: 5}}, func(*usage.Container) {}},
		"cpu": {
			&runtimeapi.ContainerStats{Attributes: who, Cpu: &runtimeapi.CpuUsage{Timestamp: 5, UsageCoreNanoSeconds: value(7), UsageNanoCores: value(3)}},
			func(c *usage.Container) {
				c.Cgroup.At, c.Cgroup.CPU = time.Unix(0, 5), &usage.CPU{Usage: 7, Rate: new(uint64(3))}
			},
		},
		"memory": {
			&runtimeapi.ContainerStats{Attributes: who, Memory: &runtimeapi.MemoryUsage{
				Timestamp: 5, WorkingSetBytes: value(1), UsageBytes: value(2), RssBytes: value(3), PageFaults: value(4), MajorPageFaults: value(5),
			}},
			func(c *usage.Container) {
				c.Cgroup.At = time.Unix(0, 5)
				c.Cgroup.Memory = &usage.Memory{WorkingSet: 1, Usage: 2, RSS: 3, Faults: 4, MajorFaults: 5}
			},
		},
		"swap": {
			&runtimeapi.ContainerStats{Attributes: who, Swap: &runtimeapi.SwapUsage{SwapUsageBytes: value(1), SwapAvailableBytes: value(9)}},
			func(c *usage.Container) { c.Cgroup.Swap = &usage.Swap{Usage: 1, Limit: 10} },
		},
		"swap without a limit": {
			&runtimeapi.ContainerStats{Attributes: who, Swap: &runtimeapi.SwapUsage{SwapUsageBytes: value(1)}},
			func(c *usage.Container) { c.Cgroup.Swap = &usage.Swap{Usage: 1, Limit: usage.NoLimit} },
		},
		"a layer": {
			&runtimeapi.ContainerStats{Attributes: who, WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: 5, UsedBytes: value(1), InodesUsed: value(2)}},
			func(c *usage.Container) {
				c.Rootfs = &usage.Disk{At: time.Unix(0, 5), Used: new(uint64(1)), InodesUsed: new(uint64(2))}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := known
			tt.want(&want)
			check.Deep(t, containerUsage(tt.in), want, "it")
		})
	}
	check.Equal(t, diskUse(nil), (port.DiskUse{}), "a runtime that says nothing of disks")
}
