package podspec_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

// everyKind is a pod that has containers of each kind. A main container may have a
// restart policy of its own too.
func everyKind() *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	return &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "first"}, {Name: "side", RestartPolicy: &always}},
		Containers:     []v1.Container{{Name: "app"}, {Name: "other", RestartPolicy: &always}},
		EphemeralContainers: []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}, TargetContainerName: "app"},
		},
	}}
}

func TestContainers(t *testing.T) {
	spec := &everyKind().Spec
	const lasting = "first init, side sidecar, app main, other main"
	for name, c := range map[string]struct {
		each func(*v1.PodSpec, func(*v1.Container, podspec.Kind) bool)
		want string
	}{
		"all":     {func(s *v1.PodSpec, f func(*v1.Container, podspec.Kind) bool) { podspec.All(s)(f) }, lasting + ", debug ephemeral"},
		"lasting": {func(s *v1.PodSpec, f func(*v1.Container, podspec.Kind) bool) { podspec.Lasting(s)(f) }, lasting},
	} {
		t.Run(name, func(t *testing.T) {
			all := strings.Split(c.want, ", ")
			for n := 1; n <= len(all); n++ { // a loop may end at any of them
				var got []string
				c.each(spec, func(ct *v1.Container, kind podspec.Kind) bool {
					got = append(got, fmt.Sprintf("%s %s", ct.Name, kind))
					return len(got) < n
				})
				if want := strings.Join(all[:n], ", "); strings.Join(got, ", ") != want {
					t.Errorf("the first %d: %v, want %s", n, got, want)
				}
			}
		})
	}
}

// TestFind: what is found is the spec's own container, so that a change shows.
func TestFind(t *testing.T) {
	spec := &everyKind().Spec
	for c, kind := range podspec.All(spec) {
		if got, is := podspec.Find(spec, c.Name); got != c || is != kind {
			t.Errorf("%s: got %p %s, want %p %s", c.Name, got, is, c, kind)
		}
	}
	if c, kind := podspec.Find(spec, "none"); c != nil || kind != podspec.Main {
		t.Errorf("got %v %s for a name that the spec does not have", c, kind)
	}
}

func TestContainersAllocateNothing(t *testing.T) {
	spec := &everyKind().Spec
	names := 0
	if n := testing.AllocsPerRun(100, func() {
		for c := range podspec.All(spec) {
			names += len(c.Name)
		}
		_, _ = podspec.Find(spec, "debug")
	}); n != 0 {
		t.Errorf("%v allocations for a loop, want none", n)
	}
}

func TestOrigin(t *testing.T) {
	for name, c := range map[string]struct {
		annotations    map[string]string
		static, mirror bool
	}{
		"of the apiserver":        {nil, false, false},
		"of the apiserver, noted": {map[string]string{podspec.AnnotationSource: "api"}, false, false},
		"of a file":               {map[string]string{podspec.AnnotationSource: "file"}, true, false},
		"of a URL":                {map[string]string{podspec.AnnotationSource: "http"}, true, false},
		"of nothing":              {map[string]string{podspec.AnnotationSource: ""}, true, false},
		"a mirror":                {map[string]string{podspec.AnnotationSource: "file", podspec.AnnotationMirror: "hash"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}}
			if podspec.Static(p) != c.static || podspec.Mirror(p) != c.mirror {
				t.Errorf("static %t, mirror %t, want %t, %t", podspec.Static(p), podspec.Mirror(p), c.static, c.mirror)
			}
		})
	}
	for o, want := range map[podspec.Origin]bool{podspec.File: true, podspec.HTTP: true, podspec.API: false, podspec.Orphan: false} {
		check.Equal(t, o.Static(), want, "%s: static", o)
	}
}

func TestAnnotations(t *testing.T) {
	since := metav1.NewTime(time.Unix(1700000000, 0).UTC())
	for name, c := range map[string]struct {
		have, want map[string]string
		since      *metav1.Time
	}{
		"new":           {nil, map[string]string{podspec.AnnotationSource: "api"}, nil},
		"with a status": {map[string]string{"a": "b"}, map[string]string{"a": "b", podspec.AnnotationSource: "api", podspec.AnnotationSeen: "2023-11-14T22:13:20Z"}, &since},
		"of a manifest": {map[string]string{podspec.AnnotationSource: "file"}, map[string]string{podspec.AnnotationSource: "file"}, &since},
		"told before":   {map[string]string{podspec.AnnotationSource: "api"}, map[string]string{podspec.AnnotationSource: "api"}, &since},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: maps.Clone(c.have)}, Status: v1.PodStatus{StartTime: c.since}}
		if got := podspec.Annotations(p); !maps.Equal(got, c.want) || !maps.Equal(p.Annotations, c.have) {
			t.Errorf("%s: got %v, want %v, and the pod has %v", name, got, c.want, p.Annotations)
		}
	}
}

func TestFinished(t *testing.T) {
	for phase, want := range map[v1.PodPhase]bool{
		"": false, v1.PodPending: false, v1.PodRunning: false, v1.PodUnknown: false, v1.PodSucceeded: true, v1.PodFailed: true,
	} {
		check.Equal(t, podspec.Finished(&v1.Pod{Status: v1.PodStatus{Phase: phase}}), want, "phase %q", phase)
	}
}

func TestGraces(t *testing.T) {
	for name, c := range map[string]struct {
		own, deletion        *int64
		grace, deletionGrace time.Duration
	}{
		"none":                 {nil, nil, 30 * time.Second, 30 * time.Second},
		"its own":              {new(int64(5)), nil, 5 * time.Second, 5 * time.Second},
		"deleted with another": {new(int64(5)), new(int64(1)), 5 * time.Second, time.Second},
		"deleted by force":     {new(int64(5)), new(int64(0)), 5 * time.Second, 0},
		"negative":             {new(int64(-1)), nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: c.deletion}, Spec: v1.PodSpec{TerminationGracePeriodSeconds: c.own}}
			if g, d := podspec.Grace(p), podspec.DeletionGrace(p); g != c.grace || d != c.deletionGrace {
				t.Errorf("%v and %v, want %v and %v", g, d, c.grace, c.deletionGrace)
			}
		})
	}
}

// TestClass: the class that a pod was made with stands, whatever it asks for now. One that only a newer apiserver knows
// does not count.
func TestClass(t *testing.T) {
	p := everyKind()
	check.Equal(t, podspec.Class(p), v1.PodQOSBestEffort, "class")
	p.Status.QOSClass = v1.PodQOSGuaranteed
	check.Count(t, podspec.Class(p), v1.PodQOSGuaranteed, "class %s of a Guaranteed pod")
	p.Status.QOSClass = "Newer"
	check.Equal(t, podspec.Class(p), v1.PodQOSBestEffort, "class of a pod with one that is not known")
}
