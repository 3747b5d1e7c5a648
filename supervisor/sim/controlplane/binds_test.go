package controlplane

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

// No more pods are bound at once than Binds, and all of them in the end.
func TestBinds(t *testing.T) {
	c := newCluster(t, 100)
	c.cp.config.Binds = 30
	at := map[time.Time]int{}
	check.Value(c.api.Watch(simapi.WatchOptions{Select: simapi.Select{Kind: port.PodKind}}, func(e simapi.Event) {
		if p := e.Object.(*v1.Pod); p.Spec.NodeName != "" && p.Status.Phase == v1.PodPending {
			at[c.clock.Now()]++
		}
	}))(c.t)
	check.Fatal(c.t, c.cp.Apply(Workload{Namespace: "default", Name: "web", Replicas: 100, Template: v1.PodTemplateSpec{Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "app", Image: "registry.test/app:1"}},
	}}}))
	c.clock.Advance(100 * time.Millisecond)
	sum := 0
	for when, n := range at {
		sum += n
		check.AtMost(t, n, 30, "%d pods were bound at %v", n, when)
	}
	check.Equal(t, sum, 100, "%d pods were bound", sum)
}
