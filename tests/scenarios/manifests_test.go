package scenarios

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spec is a pod to be written as a manifest.
type spec struct{ v1.Pod }

// aPod is a pod with one container, app.
func aPod(name string) *spec {
	return emptyPod(name).main("app")
}

func emptyPod(name string) *spec {
	s := &spec{v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
	}}
	return s.grace(5)
}

func (s *spec) main(name string) *spec {
	s.Spec.Containers = append(s.Spec.Containers, v1.Container{Name: name, Image: "registry.test/" + name + ":1"})
	return s
}

func (s *spec) init(name string) *spec {
	s.Spec.InitContainers = append(s.Spec.InitContainers, v1.Container{Name: name, Image: "registry.test/" + name + ":1"})
	return s.script(name, "run-for", "300ms").script(name, "exit-code", "0")
}

func (s *spec) sidecar(name string) *spec {
	always := v1.ContainerRestartPolicyAlways
	s.Spec.InitContainers = append(s.Spec.InitContainers, v1.Container{Name: name, Image: "registry.test/" + name + ":1", RestartPolicy: &always})
	return s
}

// script says what a container does; see simcri.Keys.
func (s *spec) script(container, key, value string) *spec {
	s.Annotations["sim.troupe.dev/"+container+"."+key] = value
	return s
}

func (s *spec) note(key, value string) *spec {
	s.Annotations[key] = value
	return s
}

func (s *spec) image(name string) *spec {
	s.Spec.Containers[0].Image = name
	return s
}

func (s *spec) restarts(p v1.RestartPolicy) *spec {
	s.Spec.RestartPolicy = p
	return s
}

func (s *spec) grace(seconds int64) *spec {
	s.Spec.TerminationGracePeriodSeconds = &seconds
	return s
}

func (s *spec) volume(name string) *spec {
	s.Spec.Volumes = append(s.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	c := &s.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	return s
}

// about is a volume with a file of the pod's name.
func (s *spec) about(name string) *spec {
	s.volume(name)
	s.Spec.Volumes[len(s.Spec.Volumes)-1].VolumeSource = v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{
		Items: []v1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
	}}
	return s
}

// part mounts what lies at a path in a volume.
func (s *spec) part(volume, sub string) *spec {
	c := &s.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: volume, MountPath: "/part/" + sub, SubPath: sub})
	return s
}

func (s *spec) yaml() string {
	data, err := json.Marshal(&s.Pod)
	if err != nil {
		panic(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		panic(err)
	}
	delete(tree, "status")
	delete(tree["metadata"].(map[string]any), "creationTimestamp")
	if data, err = json.Marshal(tree); err != nil {
		panic(err)
	}
	return string(data)
}

// add writes the pod's manifest, its name is that of the pod.
func (w *world) add(specs ...*spec) {
	for _, s := range specs {
		w.watch.want(s)
		w.manifests.Write(s.Name+".yaml", []byte(s.yaml()))
	}
}

// drop removes the manifests of pods.
func (w *world) drop(names ...string) {
	for _, name := range names {
		w.watch.unwant(name)
		w.manifests.Remove(name + ".yaml")
	}
}
