package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// floorNode is the node that the floor's pods are on. Nobody runs it.
const floorNode = "floor"

// readyPatch is the least that has to be said of a pod that runs.
const readyPatch = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`

// clusterFloor runs n pods with no agent: created at the apiserver, made by direct CRI calls so many
// at a time, shown Ready by one write each; then deleted in the same manner. It tells when a client
// saw them Ready and gone.
func (c *bed) clusterFloor(ctx context.Context, n, workers int) (ready, gone samples, err error) {
	defer check.Return(&err)
	marks := check.Must(c.marks())
	all, podNames := make([]*bare, n), names("floor", n)
	for i, name := range podNames {
		all[i] = check.Must(newBare(c.lab, name, marks))
	}
	begin := time.Now()
	check.OK(each(all, func(p *bare) error {
		o, err := c.pod(p.name, floorNode, marks)
		if err == nil {
			_, err = c.client.CoreV1().Pods("default").Create(ctx, o, metav1.CreateOptions{})
		}
		return err
	}))
	err = inOrder(all, workers, func(p *bare) error {
		if err := p.run(ctx, c.lab); err != nil {
			return err
		}
		_, err := c.client.CoreV1().Pods("default").Patch(ctx, p.name, types.StrategicMergePatchType, []byte(readyPatch), metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("floor: %w", err)
	}
	at := check.Must(c.seen.await(ctx, "is Ready", (*history).readyAt, podNames...))
	ready = since(begin, at)
	begin = time.Now()
	check.OK(each(podNames, func(name string) error {
		return c.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{})
	}))
	if err := inOrder(all, workers, func(p *bare) error { return p.end(ctx, c) }); err != nil {
		return nil, nil, fmt.Errorf("floor: %w", err)
	}
	at = check.Must(c.seen.await(ctx, "is gone", (*history).goneAt, podNames...))
	c.seen.drop(podNames...)
	return ready, since(begin, at), c.wipe(ctx, c.lab)
}

// end stops what runs, says how it ended, and lets go of the pod.
func (p *bare) end(ctx context.Context, c *bed) (err error) {
	defer check.Return(&err)
	list, err := c.lab.Runtime().ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: p.sandbox}})
	if err != nil {
		return err
	}
	for _, one := range list.Containers {
		request := &runtimeapi.StopContainerRequest{ContainerId: one.Id, Timeout: *p.pod.Spec.TerminationGracePeriodSeconds}
		check.Must(c.lab.Runtime().StopContainer(ctx, request))
	}
	check.Must(c.lab.Runtime().StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.sandbox}))
	last := fmt.Sprintf(`{"status":{"phase":%q}}`, v1.PodFailed)
	check.Must(c.client.CoreV1().Pods("default").Patch(ctx, p.name, types.StrategicMergePatchType, []byte(last), metav1.PatchOptions{}, "status"))
	return c.client.CoreV1().Pods("default").Delete(ctx, p.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}

// inOrder does something for all, so many at a time, in their order.
func inOrder(list []*bare, workers int, do func(*bare) error) error {
	queue := make(chan *bare, len(list))
	for _, p := range list {
		queue <- p
	}
	close(queue)
	return each(make([]struct{}, workers), func(struct{}) error {
		for p := range queue {
			if err := do(p); err != nil {
				return err
			}
		}
		return nil
	})
}

// bestClusterFloor is how many at a time let all of n be Ready soonest.
func (c *bed) bestClusterFloor(ctx context.Context, n int) (best int, details []string, err error) {
	var least time.Duration
	for _, workers := range []int{2, 3, 4, 6} {
		ready, gone, err := c.clusterFloor(ctx, n, workers)
		if err != nil {
			return 0, nil, err
		}
		line := fmt.Sprintf("floor with %d at a time: all Ready after %s (median pod %s), all gone after %s", workers, ms(ready.max()), ms(ready.median()), ms(gone.max()))
		c.say("  %s", line)
		details = append(details, line)
		if best == 0 || ready.max() < least {
			best, least = workers, ready.max()
		}
	}
	return best, details, nil
}
