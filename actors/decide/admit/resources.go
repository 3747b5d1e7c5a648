package admit

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// resources rejects a pod that does not fit on the node: OutOfpods, OutOfcpu, OutOfmemory,
// OutOfephemeral-storage, OutOf<any other>. The first one is the reason, and Short has all.
// A resource outside of kubernetes.io that the node does not have at all is ignored: it may be the cluster's.
func resources(r *Request) *Rejection {
	var no *Rejection
	lack := func(name v1.ResourceName, requested, used, capacity resource.Quantity) {
		if no == nil {
			no = outOf(name, amount(name, requested), amount(name, used), amount(name, capacity))
			no.Short = v1.ResourceList{}
		}
		used.Add(requested)
		used.Sub(capacity)
		no.Short[name] = used
	}
	limit := r.Node.Allocatable.Pods().Value()
	if n := int64(len(r.Others)); limit > 0 && n+1 > limit {
		lack(v1.ResourcePods, count(1), count(n), count(limit))
	}
	asked := podspec.Requests(claims.WithoutBacked(r.Pod)) // a claim gives the others
	var names []string
	for name, q := range asked { // order-free: sorted below
		if q.Sign() > 0 {
			names = append(names, string(name))
		}
	}
	slices.SortFunc(names, byImportance)
	for _, s := range names {
		name := v1.ResourceName(s)
		have, ok := r.Node.Allocatable[name]
		if !ok && (strings.Contains(s, "/") || len(r.Node.Allocatable) == 0) {
			continue
		}
		want := asked[name]
		used := resource.Quantity{}
		for _, o := range r.Others {
			if q, ok := podspec.Requests(o)[name]; ok {
				used.Add(q)
			}
		}
		total := used.DeepCopy()
		total.Add(want)
		if total.Cmp(have) > 0 {
			lack(name, want, used, have)
		}
	}
	return no
}

func count(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// byImportance: cpu, memory, ephemeral-storage, then the others by name.
func byImportance(a, b string) int {
	order := []string{string(v1.ResourceCPU), string(v1.ResourceMemory), string(v1.ResourceEphemeralStorage)}
	i, j := slices.Index(order, a), slices.Index(order, b)
	switch {
	case i >= 0 && j >= 0:
		return i - j
	case i >= 0:
		return -1
	case j >= 0:
		return 1
	default:
		return strings.Compare(a, b)
	}
}

// amount is in thousandths for CPU, in units for the rest.
func amount(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

func outOf(name v1.ResourceName, requested, used, capacity int64) *Rejection {
	return reject(outOfPrefix+string(name), "Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		name, requested, used, capacity)
}
