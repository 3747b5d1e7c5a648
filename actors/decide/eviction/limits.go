package eviction

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

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
	_, is := podspec.Limits(pod)[v1.ResourceEphemeralStorage]
	return is
}

// OverLimit says whether a pod uses more disk than its limits, and how it is evicted then. r says which file
// systems there are: layers of containers on one of their own do not count for a container's limit.
func OverLimit(pod *v1.Pod, u *Use, r *Reading, now time.Time) (Victim, bool) {
	if !Limited(pod) {
		return Victim{}, false
	}
	evict := func(signal, format string, args ...any) (Victim, bool) {
		text := fmt.Sprintf(format, args...)
		return Victim{Pod: pod, Signal: signal, Stop: podlife.Stop{
			At: now, Grace: time.Second, Reason: Reason, Message: text, Why: text, Fail: true,
		}}, true
	}
	var sum DiskUse
	sum.add(u.Other)
	for i := range u.Volumes {
		v := &u.Volumes[i]
		sum.add(v.DiskUse)
		for j := range pod.Spec.Volumes {
			if e := pod.Spec.Volumes[j].EmptyDir; pod.Spec.Volumes[j].Name == v.Name && e != nil && e.SizeLimit != nil &&
				e.SizeLimit.Sign() > 0 && e.SizeLimit.CmpInt64(int64(v.Bytes)) < 0 {
				return evict(emptyDirLimit, "Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, e.SizeLimit)
			}
		}
	}
	for i := range u.Containers {
		sum.add(u.Containers[i].Logs)
		sum.add(u.Containers[i].Layer)
	}
	if most, is := podspec.Limits(pod)[v1.ResourceEphemeralStorage]; is && most.CmpInt64(int64(sum.Bytes)) < 0 {
		return evict(podLimit, "Pod ephemeral local storage usage exceeds the total limit of containers %s. ", &most)
	}
	for i := range u.Containers {
		c := &u.Containers[i]
		spec, kind := podspec.Find(&pod.Spec, c.Name)
		if spec == nil || kind != podspec.Main {
			continue
		}
		used := c.Logs
		if !r.SplitImageFS() {
			used.add(c.Layer)
		}
		most := spec.Resources.Limits[v1.ResourceEphemeralStorage]
		if most.Sign() > 0 && most.CmpInt64(int64(used.Bytes)) < 0 {
			return evict(containerLimit, "Container %s exceeded its local ephemeral storage limit %q. ", c.Name, &most)
		}
	}
	return Victim{}, false
}
