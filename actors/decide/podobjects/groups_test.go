package podobjects

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/podtest"
)

// TestGroups: PersistentVolumes say which groups may use them.
func TestGroups(t *testing.T) {
	pv := func(name, gid string) Entry {
		return Entry{Ref: Ref{Kind: Volume, Name: name}, State: Found, Object: &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{gidAnnotation: gid}},
		}}
	}
	both := []Entry{bound("data", "one"), bound("web-scratch", "two")}
	for _, c := range []struct {
		name    string
		change  func(*v1.Pod)
		objects []Entry
		want    []int64
		known   bool
	}{
		{"sorted", claims, append(both, pv("one", "30"), pv("two", "4")), []int64{4, 30}, true},
		{"each once", claims, append(both, pv("one", "30"), pv("two", "30")), []int64{30}, true},
		{"none", claims, append(both, pv("one", ""), pv("two", "staff")), nil, true},
		{"one of its own", func(p *v1.Pod) {
			claims(p)
			p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroups: []int64{30}}
		}, append(both, pv("one", "30"), pv("two", "4")), []int64{4}, true},
		{"a volume that no container uses", func(p *v1.Pod) {
			claims(p)
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}, append(both, pv("one", "30"), pv("two", "4")), []int64{30}, true},
		{"a claim that is not known", claims, []Entry{both[0], pv("one", "30")}, []int64{30}, false},
		{"a volume that is not known", claims, append(both, pv("one", "30")), []int64{30}, false},
		{"a claim that is not bound", claims, []Entry{both[0], bound("web-scratch", ""), pv("one", "30")}, []int64{30}, true},
		{"a claim that is missing", claims, []Entry{
			both[0], {Ref: ref(Claim, "web-scratch"), State: Missing}, pv("one", "30"),
		}, []int64{30}, true},
		{"no claims", func(*v1.Pod) {}, nil, nil, true},
	} {
		p := &v1.Pod{ObjectMeta: object("web", "1"), Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
		c.change(p)
		if len(p.Spec.Containers[0].VolumeMounts) == 0 {
			podtest.UseVolumes(&p.Spec)
		}
		set := NewSet(slices.Clone(c.objects))
		if got := set.Groups(p); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := set.SandboxKnown(p); got != c.known {
			t.Errorf("%s: all is known for the sandbox: %v", c.name, got)
		}
	}
}
