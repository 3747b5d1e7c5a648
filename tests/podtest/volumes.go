// Package podtest makes specs of pods for tests. It needs nothing but the API's types, so the tests of every package can
// use it.
package podtest

import v1 "k8s.io/api/core/v1"

// UseVolumes has the first container mount all volumes of a pod, so that a node brings them up. A container is added if
// there is none.
func UseVolumes(spec *v1.PodSpec) {
	if len(spec.Containers) == 0 {
		spec.Containers = []v1.Container{{Name: "main"}}
	}
	c := &spec.Containers[0]
	c.VolumeMounts = nil
	for i := range spec.Volumes {
		name := spec.Volumes[i].Name
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
}
