package podset_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

// asks is a pod of the apiserver that asks for this much CPU, with this generation.
func asks(cpu string, generation int64) *v1.Pod {
	p := made("a")
	p.Generation = generation
	q := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	p.Spec.Containers = []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Requests: q, Limits: q}}}
	return p
}

// allocated is the CPU that is in the checkpoint for the pod a.
func (r *rig) allocated() string {
	_, after, found := strings.Cut(string(r.disk["allocations"]), `"limits":{"cpu":"`)
	if !found {
		return ""
	}
	cpu, _, _ := strings.Cut(after, `"`)
	return cpu
}

func resizable(r *rig) {
	r.allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
}

// TestResize: what a pod is given is written down before its actor is told.
func TestResize(t *testing.T) {
	r := newRig(t, 0, resizable)
	r.tells(node, r.listed(""), has(podspec.File, ""), wants(podspec.API, asks("1", 1)))
	r.Forget()
	r.saves.Silent = true
	r.tells(wants(podspec.API, asks("4", 2)))
	r.want("it asks for all that the node has", []string{"a:", "event:"}, "a: assign, look")
	r.answers()
	r.want("that is written", []string{"a:", "event:"}, "event: a ResizeStarted", "a: assign, look")
	check.Count(t, r.allocated(), "4", "the checkpoint has %s CPUs")
}

// TestResizeOfAManifest: a manifest that gives its pod a UID, and is edited to other resources, is a resize as any other,
// also after a restart of the agent.
func TestResizeOfAManifest(t *testing.T) {
	static := func(cpu string) *v1.Pod {
		p := asks(cpu, 0)
		p.Annotations = map[string]string{podspec.AnnotationSource: "file", manifest.AnnotationManifest: cpu}
		return p
	}
	r := newRig(t, 0, resizable)
	r.tells(node, r.listed(""), wants(podspec.API), wants(podspec.File, static("1")))
	r.Forget()
	r.tells(wants(podspec.File, static("2")))
	r.want("there is room", []string{"event:"}, "event: a ResizeStarted")
	check.Count(t, r.allocated(), "2", "the checkpoint has %s CPUs")
	r.tells(wants(podspec.File, static("50")))
	r.want("there is never room", []string{"event:"}, "event: a ResizeInfeasible")
	check.Count(t, r.allocated(), "2", "the checkpoint has %s CPUs, want those that it has")
}

// TestResizeDeferred: the node has not enough now, and it is decided again when another pod has ended.
func TestResizeDeferred(t *testing.T) {
	other := asks("3", 1)
	other.Name, other.UID = "b", "b"
	r := newRig(t, 0, resizable)
	r.tells(node, r.listed(""), has(podspec.File, ""), wants(podspec.API, asks("1", 1), other))
	r.Forget()
	r.tells(wants(podspec.API, asks("2", 2), other), wants(podspec.API, asks("2", 2), other))
	r.want("there is no room", []string{"event:"}, "event: a ResizeDeferred")
	check.Count(t, r.allocated(), "1", "the checkpoint has %s CPUs, want the one that it has")
	r.tells(wants(podspec.API, asks("2", 2)), ends("b", 0, 1))
	r.want("there is", []string{"event:"}, "event: a ResizeStarted")
}

// TestResizeInfeasible: the node never has that much.
func TestResizeInfeasible(t *testing.T) {
	r := newRig(t, 0, resizable)
	r.tells(node, r.listed(""), has(podspec.File, ""), wants(podspec.API, asks("1", 1)), wants(podspec.API, asks("5", 2)))
	r.want("it asks for too much", []string{"event:"}, "event: a ResizeInfeasible")
	r.tells(wants(podspec.API, asks("1", 3)))
	r.want("and then for what it has", []string{"event:"})
}

// TestResizeBound: the CPU of a Guaranteed pod can't change where containers have CPUs of their own, and can on a node that
// only gives out devices.
func TestResizeBound(t *testing.T) {
	for static, want := range map[bool]string{true: "event: a ResizeInfeasible", false: "event: a ResizeStarted"} {
		r := newRig(t, 0, resizable, placing, func(r *rig) { r.places.CPUs = static })
		r.tells(node, r.listed(""), has(podspec.File, ""), wants(podspec.API, guaranteed("1", 1)), gives(1, "a", 0, "0-3", nil))
		r.Forget()
		r.tells(wants(podspec.API, guaranteed("2", 2)))
		r.want("it asks for more", []string{"event:"}, want)
	}
}

// guaranteed is the pod of asks with memory too, which makes it Guaranteed.
func guaranteed(cpu string, generation int64) *v1.Pod {
	p := asks(cpu, generation)
	p.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = resource.MustParse("1Gi")
	p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
	return p
}
