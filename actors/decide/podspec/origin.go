package podspec

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Annotations that every static pod carries. kubeadm, the mirror pod and
// dashboards read them.
const (
	// AnnotationSource is the pod's Origin.
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationHash is the UID: programs find the directories of a mirror pod by it. If the manifest gives no UID, it
	// changes with the manifest: kubeadm waits for that.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationSeen is when the manifest was first seen, RFC 3339 with
	// nanoseconds.
	AnnotationSeen = "kubernetes.io/config.seen"
	// AnnotationMirror marks a mirror pod in the apiserver. A manifest may
	// not have it.
	AnnotationMirror = v1.MirrorPodAnnotationKey
)

// Annotations are those of a pod as programs on the node see them (the runtime, /pods): with where the pod is from and,
// if it has a status, since when the node knows it. A manifest's pod has both already.
func Annotations(pod *v1.Pod) map[string]string {
	out := make(map[string]string, len(pod.Annotations)+2)
	maps.Copy(out, pod.Annotations)
	if _, has := out[AnnotationSource]; has {
		return out
	}
	out[AnnotationSource] = string(API)
	if at := pod.Status.StartTime; at != nil {
		out[AnnotationSeen] = at.Format(time.RFC3339Nano)
	}
	return out
}

// Origin is the kind of a pod's source. The first three are values of AnnotationSource.
type Origin string

const (
	File Origin = "file" // a manifest in the node's directory
	HTTP Origin = "http" // a manifest from the node's URL
	API  Origin = "api"  // the apiserver
	// Orphan: no source has the pod, but the runtime does. Its spec is made from the runtime's data,
	// without hooks and without a grace period.
	Orphan Origin = "orphan"
)

// Static says whether pods of this origin are static: the apiserver has at most a mirror of them.
func (o Origin) Static() bool { return o == File || o == HTTP }

// Static says whether a pod is from a manifest of this node. A pod without the annotation is from
// the apiserver.
func Static(pod *v1.Pod) bool {
	source, has := pod.Annotations[AnnotationSource]
	return has && source != string(API)
}

// Mirror says whether a pod of the apiserver is the mirror of a static one, which is not run.
func Mirror(pod *v1.Pod) bool {
	_, is := pod.Annotations[AnnotationMirror]
	return is
}
