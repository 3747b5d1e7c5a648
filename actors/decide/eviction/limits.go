package eviction

import (
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// What metrics show for an eviction by a pod's own limit.
const (
	containerLimit = "ephemeralcontainerfs.limit"
	podLimit       = "ephemeralpodfs.limit"
	emptyDirLimit  = "emptydirfs.limit"
)

// Limited says whether a pod that has not ended limits its use of disk.
func Limited(pod *v1.Pod) bool {
	if podspec.Finished(pod) || podspec.Critical(pod) {
		return false
	}
	for i := range pod.Spec.Volumes {
		if e := pod.Spec.Volumes[i].EmptyDir; e != nil && e.SizeLimit != nil && e.SizeLimit.Sign() > 0 {
			return true
		}
	}
	for c, kind := range podspec.Lasting(&pod.Spec) {
		if kind != podspec.Init && c.Resources.Limits.StorageEphemeral().Sign() > 0 {
			return true
		}
	}
	_, is := together(pod)
	return is
}

// together is the limit of a pod's containers together. Where one of them has none, it may use what it wants, and so
// may the pod: the sum of the others is no limit. Init containers without one don't count, as they end.
func together(pod *v1.Pod) (resource.Quantity, bool) {
	most := podspec.Limits(pod)[v1.ResourceEphemeralStorage]
	is := podspec.Limited(pod, v1.ResourceEphemeralStorage, podspec.Sidecar, podspec.Main) && most.Sign() > 0
	return most, is
}

// bound is one limit of a pod, in bytes, with what the pod uses of it.
type bound struct {
	signal     string
	most, used uint64
	// text says that the limit is exceeded.
	text string
}

// bytesOf is a limit in bytes. Those of 2⁶³ and more, such as 100E, which Value gives as 0, are more than any disk has.
func bytesOf(q *resource.Quantity) uint64 {
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return math.MaxInt64
	}
	return uint64(max(q.Value(), 0))
}

// bounds are the limits of a pod in the order in which they are checked. Layers of containers count wherever they are:
// a kubelet leaves them out if images have a file system of their own, and then the limit of a container is none.
func bounds(pod *v1.Pod, u *Use) (out []bound) {
	var sum DiskUse
	volumes, containers := podspec.VolumesOf(&pod.Spec), podspec.Containers(&pod.Spec)
	sum.add(u.Other)
	for i := range u.Volumes {
		v := &u.Volumes[i]
		sum.add(v.DiskUse)
		spec := volumes(v.Name)
		if spec == nil || spec.EmptyDir == nil {
			continue
		}
		if most := spec.EmptyDir.SizeLimit; most != nil && most.Sign() > 0 {
			out = append(out, bound{emptyDirLimit, bytesOf(most), v.Bytes,
				fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, most)})
		}
	}
	for i := range u.Containers {
		sum.add(u.Containers[i].Logs)
		sum.add(u.Containers[i].Layer)
	}
	if most, is := together(pod); is {
		out = append(out, bound{podLimit, bytesOf(&most), sum.Bytes,
			fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", &most)})
	}
	for i := range u.Containers {
		c := &u.Containers[i]
		spec, kind := containers(c.Name)
		if spec == nil || kind != podspec.Main && kind != podspec.Sidecar {
			continue
		}
		used := c.Logs
		used.add(c.Layer)
		if most := spec.Resources.Limits[v1.ResourceEphemeralStorage]; most.Sign() > 0 {
			out = append(out, bound{containerLimit, bytesOf(&most), used.Bytes,
				fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, &most)})
		}
	}
	return out
}

// OverLimit says whether a pod uses more disk than its limits, and how it is evicted then.
func OverLimit(pod *v1.Pod, u *Use, now time.Time) (Victim, bool) {
	if !Limited(pod) {
		return Victim{}, false
	}
	for _, b := range bounds(pod, u) {
		if b.used > b.most {
			return Victim{Pod: pod, Signal: b.signal, Stop: podlife.Stop{
				At: now, Grace: time.Second, Reason: Reason, Message: b.text, Why: b.text, Fail: true,
			}}, true
		}
	}
	return Victim{}, false
}

// room is how many bytes a pod may add before it is over one of its limits.
func room(pod *v1.Pod, u *Use) uint64 {
	least := uint64(math.MaxUint64)
	for _, b := range bounds(pod, u) {
		least = min(least, b.most-min(b.used, b.most))
	}
	return least
}
