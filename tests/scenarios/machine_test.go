package scenarios

import (
	"maps"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestMachineChanges: memory and huge pages are added to a machine, and it gets another address. What the Node shows of
// it holds at once: pods are admitted by it, have the new address, and are limited together to what there is.
func TestMachineChanges(t *testing.T) {
	w, c := parallelCluster(t, 1, allocatable("4", "8Gi"))
	c.create(sized("old", "500m", "128Mi"))
	w.until(time.Minute, "it is up", func() bool { return c.ready("old") })

	const pages = v1.ResourceName(v1.ResourceHugePagesPrefix + "2Mi")
	now := *w.facts.Get()
	now.Allocatable = maps.Clone(now.Allocatable)
	now.Allocatable[v1.ResourceMemory], now.Allocatable[pages] = resource.MustParse("16Gi"), resource.MustParse("64Mi")
	now.Capacity = now.Allocatable
	now.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.77"}}
	w.facts.Set(&now)
	w.until(2*time.Minute, "the Node shows it", func() bool {
		s := c.node().Status
		return s.Allocatable.Memory().String() == "16Gi" && len(s.Addresses) == 1 && s.Addresses[0].Address == "192.0.2.77"
	})
	large := sized("large", "1", "12Gi")
	for _, l := range []v1.ResourceList{large.Spec.Containers[0].Resources.Limits, large.Spec.Containers[0].Resources.Requests} {
		l[pages] = resource.MustParse("64Mi")
	}
	c.create(large)
	w.until(time.Minute, "there is room for a large pod", func() bool { return c.ready("large") })
	w.until(time.Minute, "pods show the new address", func() bool {
		return c.get("old").Status.HostIP == "192.0.2.77" && c.get("large").Status.HostIP == "192.0.2.77"
	})
	w.until(time.Minute, "all pods together may use the new memory", func() bool {
		return w.cgroups.Values()["/kubepods"].Memory == 16<<30
	})
	check.Count(t, c.restarts("old", "app"), 0, "a container was restarted %d times")
	w.clusterQuiet()
}

// TestMachineChangesAlone: so it is on a node without an apiserver, also for a static pod that was refused before.
func TestMachineChangesAlone(t *testing.T) {
	t.Parallel()
	w := newNode(t, 1, allocatable("4", "8Gi"))
	w.add(sized("small", "500m", "128Mi"))
	w.until(time.Minute, "it is up", func() bool { return w.ready("small") })
	w.add(sized("large", "1", "12Gi"))
	w.until(time.Minute, "there is no room for a large pod", func() bool { return w.pod("large").Life == "Rejected" })
	now := *w.facts.Get()
	now.Allocatable = maps.Clone(now.Allocatable)
	now.Allocatable[v1.ResourceMemory] = resource.MustParse("16Gi")
	now.Capacity = now.Allocatable
	w.facts.Set(&now)
	w.until(2*time.Minute, "there is room", func() bool { return w.ready("large") })
	w.until(time.Minute, "all pods together may use the new memory", func() bool {
		return w.cgroups.Values()["/kubepods"].Memory == 16<<30
	})
	w.quiet()
}
