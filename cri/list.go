package cri

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/labels"
	"github.com/troupe-dev/troupe/cri/readback"
)

// List implements port.Runtime. Sandboxes are read before containers, so a container's sandbox is
// in the list too, unless the sandbox was made in between. A record that can't be read fails no list
// of all pods: its pod is Unread.
func (c *Client) List(ctx context.Context, uid string, done func(observed.Runtime, error)) {
	run(c, ctx, call{"List", uid, c.deadlines.list()}, func(ctx context.Context) (observed.Runtime, error) {
		sandboxes, err := c.listSandboxes(ctx, uid)
		if err != nil {
			return observed.Runtime{}, err
		}
		containers, err := c.listContainers(ctx, uid)
		if err != nil {
			return observed.Runtime{}, err
		}
		list := readback.Runtime(ctx, sandboxes, containers)
		if err := list.Whole(); err != nil && uid != "" { // there is no other pod that could be told of
			return list, &port.Error{Kind: port.Panic, Detail: err.Error()}
		}
		return list, nil
	}, done)
}

func (c *Client) listSandboxes(ctx context.Context, uid string) ([]*runtimeapi.PodSandbox, error) {
	var filter *runtimeapi.PodSandboxFilter
	if uid != "" {
		filter = &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labels.PodUID: uid}}
	}
	return timed(c, call{method: "ListPodSandbox", object: uid}, func() ([]*runtimeapi.PodSandbox, error) {
		stream, err := c.runtime.StreamPodSandboxes(ctx, &runtimeapi.StreamPodSandboxesRequest{Filter: filter})
		return collect(stream, err, (*runtimeapi.StreamPodSandboxesResponse).GetPodSandboxes)
	}, func() ([]*runtimeapi.PodSandbox, error) {
		answer, err := c.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: filter})
		return answer.GetItems(), err
	})
}

func (c *Client) listContainers(ctx context.Context, uid string) ([]*runtimeapi.Container, error) {
	var filter *runtimeapi.ContainerFilter
	if uid != "" {
		filter = &runtimeapi.ContainerFilter{LabelSelector: map[string]string{labels.PodUID: uid}}
	}
	return timed(c, call{method: "ListContainers", object: uid}, func() ([]*runtimeapi.Container, error) {
		stream, err := c.runtime.StreamContainers(ctx, &runtimeapi.StreamContainersRequest{Filter: filter})
		return collect(stream, err, (*runtimeapi.StreamContainersResponse).GetContainers)
	}, func() ([]*runtimeapi.Container, error) {
		answer, err := c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
		return answer.GetContainers(), err
	})
}

// timed is listed for one of the two lists of a List. The observer gets each of them besides the
// whole.
func timed[T any](c *Client, k call, stream, whole func() ([]T, error)) ([]T, error) {
	start := time.Now()
	items, err := listed(c, stream, whole)
	if c.config.Observe != nil {
		c.config.Observe(Call{Method: k.method, Object: k.object, Start: start, Duration: time.Since(start),
			Err: translateError(k, err, nil)})
	}
	return items, err
}

// listed reads a list as a stream, which has no size limit (KEP-5825), or in one answer from a
// runtime without streams.
func listed[T any](c *Client, stream, whole func() ([]T, error)) ([]T, error) {
	if !c.noStreams.Load() {
		items, err := stream()
		if status.Code(err) != codes.Unimplemented {
			return items, err
		}
		c.noStreams.Store(true)
	}
	return whole()
}

// collect reads a stream to its end. An incomplete list is an error.
func collect[R, T any](stream interface{ Recv() (R, error) }, err error, items func(R) []T) ([]T, error) {
	if err != nil {
		return nil, err
	}
	var all []T
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, items(answer)...)
	}
}
