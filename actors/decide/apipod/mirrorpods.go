package apipod

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// StaticPod is a static pod of this node.
type StaticPod struct {
	Pod *v1.Pod
	// Life is the attempt number of the first sandbox of the pod's life, 0 in its first life.
	Life uint32
	// HasActor: the pod was begun.
	HasActor bool
}

// Mirrored are the static pods that need a mirror, in order of name. all are in order of age. If
// several have one name, the one that was begun counts, because it has to end first; otherwise the
// oldest. In a later life a pod gets another mirror: its Pod has the life in an annotation.
func Mirrored(all []StaticPod) []*v1.Pod {
	at := map[[2]string]int{}
	var out []*v1.Pod
	for _, s := range all {
		p := s.Pod
		if s.Life != 0 {
			p = manifest.InLife(p, s.Life)
		}
		name := [2]string{p.Namespace, p.Name}
		if i, there := at[name]; !there {
			at[name] = len(out)
			out = append(out, p)
		} else if s.HasActor {
			out[i] = p
		}
	}
	slices.SortFunc(out, byName)
	return out
}

// MirroredCount is how many Mirrored gives.
func MirroredCount(all []StaticPod) int {
	names := map[[2]string]bool{}
	for _, s := range all {
		names[[2]string{s.Pod.Namespace, s.Pod.Name}] = true
	}
	return len(names)
}

func byName(x, y *v1.Pod) int {
	return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
}

// MirrorPair is the static pod and the mirror of one name. One of the two may be nil.
type MirrorPair struct {
	Static, Mirror *v1.Pod
	// Outlived: the mirror has ended, and the static pod runs: the machine was booted again after it had ended its
	// pods, or the pod was admitted after it had been refused. The phase of one API object never goes back (see
	// podstatus.Backwards), so the pod gets another mirror.
	Outlived bool
}

// MirrorVerb is what to do with a pair.
type MirrorVerb uint8

const (
	// KeepMirror: it stays as it is.
	KeepMirror MirrorVerb = iota
	// CreateMirror creates a mirror.
	CreateMirror
	// DeleteMirror deletes the mirror at once. If there is a static pod, a new mirror follows.
	DeleteMirror
)

// MirrorPairs matches static pods and mirrors, in order of name. outlived is the set of mirrors (by UID) of which
// status says that they have ended while their static pods run.
func MirrorPairs(statics, mirrors []*v1.Pod, outlived map[types.UID]bool) []MirrorPair {
	at := map[[2]string]int{}
	var out []MirrorPair
	for _, p := range statics {
		at[[2]string{p.Namespace, p.Name}] = len(out)
		out = append(out, MirrorPair{Static: p})
	}
	for _, p := range mirrors {
		if i, is := at[[2]string{p.Namespace, p.Name}]; is {
			out[i].Mirror, out[i].Outlived = p, outlived[p.UID]
		} else {
			out = append(out, MirrorPair{Mirror: p})
		}
	}
	slices.SortFunc(out, func(a, b MirrorPair) int { return byName(a.any(), b.any()) })
	return out
}

func (p MirrorPair) any() *v1.Pod {
	if p.Static != nil {
		return p.Static
	}
	return p.Mirror
}

// Name is the pair's namespace and name.
func (p MirrorPair) Name() (namespace, name string) { return p.any().Namespace, p.any().Name }

// Stands says whether the mirror is the current one of the static pod, so that its status may be
// written.
func (p MirrorPair) Stands() bool {
	if p.Static == nil || p.Mirror == nil || p.Mirror.DeletionTimestamp != nil || p.Outlived {
		return false
	}
	mirror, static := p.Mirror.Annotations, p.Static.Annotations
	return mirror[podspec.AnnotationMirror] == static[podspec.AnnotationHash] &&
		mirror[manifest.AnnotationManifest] == static[manifest.AnnotationManifest] &&
		mirror[manifest.AnnotationLife] == static[manifest.AnnotationLife]
}

// Do says what to do. Until all is true, which means that every static pod is known, a mirror
// without a static pod stays.
func (p MirrorPair) Do(all bool) MirrorVerb {
	switch {
	case p.Mirror == nil:
		return CreateMirror
	case p.Static == nil && !all, p.Stands():
		return KeepMirror
	default:
		return DeleteMirror
	}
}

// NewMirror is the mirror of a static pod on this node. The apiserver lets a node create it only with the
// node as its owner (NodeRestriction).
func NewMirror(static *v1.Pod, node *v1.Node) *v1.Pod {
	annotations := maps.Clone(static.Annotations)
	annotations[podspec.AnnotationMirror] = static.Annotations[podspec.AnnotationHash]
	controller := true
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: static.Namespace, Name: static.Name, Labels: static.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &controller},
			},
		},
		Spec: static.Spec,
	}
}
