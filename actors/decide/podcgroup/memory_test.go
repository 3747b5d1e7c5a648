package podcgroup

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestContainerMemory has numbers of KEP-2570: memory.high is request + 0.9 × (limit − request), in whole pages.
func TestContainerMemory(t *testing.T) {
	policy := MemoryPolicy{QoS: true, Throttling: 0.9, Allocatable: 1000 * mi}
	tiered := policy
	tiered.Tiered = true
	for _, tt := range []struct {
		name             string
		policy           MemoryPolicy
		requests, limits v1.ResourceList
		least, low, high int64
	}{
		{"nothing asked for, as in the kubelet", policy, nil, nil, 0, 0, NoThrottling},
		{"request and limit", policy, list("", "100Mi"), list("", "200Mi"), 0, 0, 190 * mi},
		{"in whole pages", policy, list("", "100"), list("", "10000"), 0, 0, 8192},
		{"a request alone: of the node", policy, list("", "100Mi"), nil, 0, 0, 910 * mi},
		{"a limit alone", policy, nil, list("", "100Mi"), 0, 0, 90 * mi},
		{"request is limit", policy, list("1", "100Mi"), list("2", "100Mi"), 0, 0, NoThrottling},
		{"too close for a page", policy, list("", "100Mi"), list("", "104857601"), 0, 0, NoThrottling},
		{"more than the node has", policy, list("", "2000Mi"), nil, 0, 0, NoThrottling},
		{"the node's is not known", MemoryPolicy{QoS: true, Throttling: 0.9}, list("", "1Mi"), nil, 0, 0, NoThrottling},
		{"tiered, burstable", tiered, list("", "100Mi"), list("", "200Mi"), 0, 100 * mi, 190 * mi},
		{"tiered, guaranteed", tiered, list("1", "100Mi"), list("1", "100Mi"), 100 * mi, 0, NoThrottling},
		{"tiered, best effort", tiered, nil, nil, 0, 0, NoThrottling},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := podOf(container(tt.requests, tt.limits))
			c := &p.Spec.Containers[0]
			least, low, high := tt.policy.ContainerMemory(p, c, c.Resources.Limits.Memory().Value())
			if least != tt.least || low != tt.low || high != tt.high {
				t.Errorf("min %d, low %d, high %d; want %d, %d, %d", least, low, high, tt.least, tt.low, tt.high)
			}
		})
	}
}

func TestContainerMemoryIsBetweenRequestAndLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := rapid.Int64Range(0, 1<<40).Draw(t, "request")
		limit := request + rapid.Int64Range(0, 1<<40).Draw(t, "more")
		m := MemoryPolicy{QoS: true, Throttling: rapid.Float64Range(0.01, 1).Draw(t, "factor"), Tiered: rapid.Bool().Draw(t, "tiered")}
		p := podOf(container(bytesOf(request), bytesOf(limit)))
		least, low, high := m.ContainerMemory(p, &p.Spec.Containers[0], limit)
		if high != NoThrottling && (high <= request || high > limit || high%4096 != 0) {
			t.Fatalf("memory.high %d with request %d and limit %d", high, request, limit)
		}
		if protected := least + low; protected != 0 && (!m.Tiered || protected != request) {
			t.Fatalf("min %d, low %d with request %d", least, low, request)
		}
	})
}

func bytesOf(n int64) v1.ResourceList {
	return v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(n, resource.BinarySI)}
}

// TestSwap has the example of KEP-2400: a tenth of the node's memory gets a tenth of its swap.
func TestSwap(t *testing.T) {
	limited := MemoryPolicy{LimitedSwap: true, Capacity: 1000 * mi, Swap: 500 * mi}
	priority := int32(2000000000)
	for _, tt := range []struct {
		name             string
		policy           MemoryPolicy
		requests, limits v1.ResourceList
		change           func(*v1.Pod)
		want             int64
	}{
		{"a tenth", limited, list("", "100Mi"), nil, nil, 50 * mi},
		{"with a limit", limited, list("", "100Mi"), list("", "200Mi"), nil, 50 * mi},
		{"no swap by default", MemoryPolicy{Capacity: 1000 * mi, Swap: 500 * mi}, list("", "100Mi"), nil, nil, 0},
		{"guaranteed", limited, list("1", "100Mi"), list("1", "100Mi"), nil, 0},
		{"best effort", limited, nil, nil, nil, 0},
		{"burstable, and memory is not", limited, list("1", "100Mi"), list("2", "100Mi"), nil, 0},
		{"burstable by its CPU", limited, list("1", ""), nil, nil, 0},
		{"more than the node has", limited, list("", "1001Mi"), nil, nil, 0},
		{"all that the node has", limited, list("", "1000Mi"), nil, nil, 500 * mi},
		{"no swap here", MemoryPolicy{LimitedSwap: true, Capacity: 1000 * mi}, list("", "100Mi"), nil, nil, 0},
		{"critical", limited, list("", "100Mi"), nil, func(p *v1.Pod) { p.Spec.Priority = &priority }, 0},
		{"static", limited, list("", "100Mi"), nil, func(p *v1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := podOf(container(tt.requests, tt.limits))
			if tt.change != nil {
				tt.change(p)
			}
			check.Equal(t, tt.policy.ContainerSwap(p, &p.Spec.Containers[0]), tt.want, "it")
		})
	}
}

// TestSwapIsShared: containers that fit on a node never have more swap together than the node.
func TestSwapIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := MemoryPolicy{LimitedSwap: true, Capacity: rapid.Int64Range(1, 1<<45).Draw(t, "memory"), Swap: rapid.Int64Range(0, 1<<45).Draw(t, "swap")}
		left, sum := m.Capacity, int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "containers") {
			request := rapid.Int64Range(0, left).Draw(t, "request")
			left -= request
			p := podOf(container(bytesOf(request), nil))
			sum += m.ContainerSwap(p, &p.Spec.Containers[0])
		}
		if sum > m.Swap {
			t.Fatalf("%d of %d", sum, m.Swap)
		}
	})
}

// TestProtection: what is protected of pods, of their classes, and of what is reserved.
func TestProtection(t *testing.T) {
	guaranteed := podOf(container(list("1", "100Mi"), list("1", "100Mi")))
	burstable := podOf(container(list("1", "10Mi"), nil))
	light := podOf(container(list("1", ""), nil))
	best := podOf(container(nil, nil))
	type pair struct{ least, low int64 }
	for _, tt := range []struct {
		name                                                    string
		policy                                                  MemoryPolicy
		guaranteed, burstable, light, best, top, class, reserve pair
	}{
		{"off", MemoryPolicy{Tiered: true}, pair{}, pair{}, pair{}, pair{}, pair{}, pair{}, pair{}},
		{"throttling alone", MemoryPolicy{QoS: true}, pair{-1, -1}, pair{-1, -1}, pair{-1, -1}, pair{}, pair{-1, -1}, pair{0, -1}, pair{2048 * mi, 0}},
		{"tiered", MemoryPolicy{QoS: true, Tiered: true}, pair{100 * mi, -1}, pair{-1, 10 * mi}, pair{-1, -1}, pair{}, pair{110 * mi, 10 * mi},
			pair{0, 10 * mi}, pair{2048 * mi, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Settings{Policy: tt.policy, Reserved: list("1", "2Gi")}
			of := func(v Values) pair { return pair{v.MemoryMin, v.MemoryLow} }
			var sums Sums
			for _, p := range []*v1.Pod{guaranteed, burstable, light, best} {
				sums.Add(ShareOf(p), 1)
			}
			classes := s.ClassValues(sums)
			got := []pair{
				of(s.PodValues(guaranteed)), of(s.PodValues(burstable)), of(s.PodValues(light)), of(s.PodValues(best)), of(classes.Top),
				of(classes.Burstable), of(s.ReservedValues(s.Reserved, false)), of(s.Resized(guaranteed, s.PodResources(guaranteed))),
			}
			for i, want := range []pair{tt.guaranteed, tt.burstable, tt.light, tt.best, tt.top, tt.class, tt.reserve, tt.guaranteed} {
				check.Equal(t, got[i], want, "%d", i)
			}
			if sums.Add(ShareOf(guaranteed), 1); tt.policy.Tiered && tt.policy.QoS == s.ClassValues(sums).Equal(classes) {
				t.Error("another pod changes nothing")
			}
		})
	}
}
