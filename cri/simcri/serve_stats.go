package simcri

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *server) ContainerStats(
	_ context.Context, q *runtimev1.ContainerStatsRequest,
) (*runtimev1.ContainerStatsResponse, error) {
	if err := s.up(); err != nil {
		return nil, err
	}
	id := s.containerID(q.GetContainerId())
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c := s.r.containers[id]
	if c == nil {
		return nil, status.Error(codes.NotFound, id+": no such container")
	}
	return &runtimev1.ContainerStatsResponse{Stats: s.stats(c)}, nil
}

func (s *server) listStats(f *runtimev1.ContainerStatsFilter) ([]*runtimev1.ContainerStats, error) {
	if err := s.up(); err != nil {
		return nil, err
	}
	var out []*runtimev1.ContainerStats
	s.eachContainer(f.GetId(), f.GetPodSandboxId(), f.GetLabelSelector(), func(c *container) {
		if c.state == containerRunning {
			out = append(out, s.stats(c))
		}
	})
	return out, nil
}

func (s *server) ListContainerStats(
	_ context.Context, q *runtimev1.ListContainerStatsRequest,
) (*runtimev1.ListContainerStatsResponse, error) {
	all, err := s.listStats(q.GetFilter())
	return &runtimev1.ListContainerStatsResponse{Stats: all}, err
}

func (s *server) StreamContainerStats(
	q *runtimev1.StreamContainerStatsRequest, stream grpc.ServerStreamingServer[runtimev1.StreamContainerStatsResponse],
) error {
	all, err := s.listStats(q.GetFilter())
	return inPieces(all, err, func(some []*runtimev1.ContainerStats) error {
		return stream.Send(&runtimev1.StreamContainerStatsResponse{ContainerStats: some})
	})
}

// stats is the resource usage of the container's script.
func (s *server) stats(c *container) *runtimev1.ContainerStats {
	now := s.r.now()
	u := c.usage(s.r.ran(c))
	value := func(n int64) *runtimev1.UInt64Value { return &runtimev1.UInt64Value{Value: uint64(n)} }
	return &runtimev1.ContainerStats{
		Attributes: &runtimev1.ContainerAttributes{
			Id: c.id, Metadata: &runtimev1.ContainerMetadata{Name: c.spec.Name, Attempt: c.attempt},
			Labels: c.labels(), Annotations: c.annotations(),
		},
		Cpu: &runtimev1.CpuUsage{
			Timestamp: now, UsageCoreNanoSeconds: value(int64(u.CPU)), UsageNanoCores: value(u.Millicores * 1e6),
		},
		Memory: &runtimev1.MemoryUsage{
			Timestamp: now, WorkingSetBytes: value(u.MemoryBytes), UsageBytes: value(u.MemoryBytes),
			RssBytes: value(u.MemoryBytes),
		},
		WritableLayer: &runtimev1.FilesystemUsage{Timestamp: now, UsedBytes: value(u.LogBytes), InodesUsed: value(1)},
	}
}
