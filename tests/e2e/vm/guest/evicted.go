package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// hogs is how many MiB the pod takes that is to be evicted, half of it more than there is for it.
const hogs = 400

// evicted has a pod of the cluster take the memory of the node. The agent goes on afterwards as before the check, but
// for the settings of the earlier ones.
func (h *host) evicted(ctx context.Context) (err error) {
	defer check.Return(&err)
	before := check.Must(node.Look(ctx, h.lab))
	free := check.Must(available())
	threshold := free - hogs/2<<20
	h.settings = fmt.Sprintf("evictionHard: {memory.available: \"%d\"}\nevictionPressureTransitionPeriod: 1s\n", threshold)
	h.flags = clusterFlags
	defer func() {
		h.settings, h.flags = "", nil
		err = errors.Join(err, h.startAgent(ctx))
	}()
	api, err := h.cluster()
	if err == nil {
		err = h.startAgent(ctx)
	}
	if err == nil {
		err = h.evictHog(ctx, api, threshold)
	}
	if err != nil {
		return err
	}
	after, err := node.Look(ctx, h.lab)
	was, is := before.Of("limits").RunningIDs(), after.Of("limits").RunningIDs()
	if err == nil && (len(was) == 0 || !slices.Equal(was, is)) {
		err = fmt.Errorf("of pod limits these ran before: %v\nafter: %v", was, is)
	}
	return err
}

// available is how much memory no process uses and the kernel can have back at once, in bytes: what the
// signal memory.available is about.
func available() (int64, error) {
	free, err := meminfo("MemFree:")
	if err != nil {
		return 0, err
	}
	cache, err := meminfo("Inactive(file):")
	return free + cache, err
}

// evictHog makes the pod and waits until it was evicted.
func (h *host) evictHog(ctx context.Context, api kubernetes.Interface, threshold int64) (err error) {
	defer check.Return(&err)
	const name = "hog"
	pods := api.CoreV1().Pods(metav1.NamespaceDefault)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go tellHowLong(ctx, api, threshold)
	check.Must(pods.Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		NodeName: node.NodeName, TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []v1.Container{{
			Name: "main", Image: lab.WorkImage, Args: []string{"hog", "memory", fmt.Sprint(hogs)},
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("16Mi")}},
		}},
	}}, metav1.CreateOptions{}))
	if err := await(ctx, "the pod that takes the memory is evicted", func() error {
		p := check.Must(pods.Get(ctx, name, metav1.GetOptions{}))
		h.uids[name] = string(p.UID)
		s := &p.Status
		return check.That(s.Phase == v1.PodFailed && s.Reason == "Evicted", "it is %s, %s: %s", s.Phase, s.Reason, s.Message)
	}); err != nil {
		return err
	}
	check.OK(await(ctx, "its cgroup is gone", func() error {
		if _, err := os.Stat(h.podDir("burstable", h.uids[name])); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it is there: %w", err)
		}
		units, err := h.unitsLeft(ctx)
		for _, unit := range units {
			if strings.Contains(unit, strings.ReplaceAll(h.uids[name], "-", "_")) {
				err = errors.Join(err, errors.New(unit))
			}
		}
		return err
	}))
	return deletePods(ctx, api, name)
}

// tellHowLong prints how long after the threshold was met the event of the eviction came. It is no check: the machine
// is as slow as it likes to be.
func tellHowLong(ctx context.Context, api kubernetes.Interface, threshold int64) {
	events, err := api.CoreV1().Events(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{FieldSelector: "reason=Evicted"})
	if err != nil {
		fmt.Printf("--- cannot watch for evictions: %v\n", err)
		return
	}
	defer events.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var met time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-events.ResultChan():
			fmt.Printf("--- from the eviction threshold to the event Evicted: %v (0: seen too late)\n", sinceMet(met))
			return
		case <-tick.C:
			if free, err := available(); err == nil && free < threshold && met.IsZero() {
				met = time.Now()
			}
		}
	}
}

func sinceMet(met time.Time) time.Duration {
	if met.IsZero() {
		return 0
	}
	return time.Since(met).Round(time.Millisecond)
}
