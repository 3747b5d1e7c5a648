package apipod

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func pod() *v1.Pod {
	grace := int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1", ResourceVersion: "7", Generation: 1, Labels: map[string]string{"a": "b"}},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []v1.Container{{Name: "app", Image: "i:1"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: "example.com/gate", Status: v1.ConditionTrue},
		}},
	}
}

func TestSame(t *testing.T) {
	deleted := metav1.NewTime(t0)
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   bool
	}{
		"nothing":               {func(*v1.Pod) {}, true},
		"the version":           {func(p *v1.Pod) { p.ResourceVersion = "8" }, true},
		"our status":            {func(p *v1.Pod) { p.Status.PodIP, p.Status.Conditions[0].Status = "10.0.0.1", v1.ConditionFalse }, true},
		"our condition gone":    {func(p *v1.Pod) { p.Status.Conditions = p.Status.Conditions[1:] }, true},
		"another's condition":   {func(p *v1.Pod) { p.Status.Conditions[1].Status = v1.ConditionFalse }, false},
		"another's gone":        {func(p *v1.Pod) { p.Status.Conditions = p.Status.Conditions[:1] }, false},
		"it has ended":          {func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, false},
		"another pod":           {func(p *v1.Pod) { p.UID = "u2" }, false},
		"the spec":              {func(p *v1.Pod) { p.Generation = 2 }, false},
		"the spec, not counted": {func(p *v1.Pod) { p.Generation, p.Spec.Containers[0].Image = 0, "i:2" }, false},
		"not counted":           {func(p *v1.Pod) { p.Generation = 0 }, true},
		"labels":                {func(p *v1.Pod) { p.Labels = nil }, false},
		"annotations":           {func(p *v1.Pod) { p.Annotations = map[string]string{"x": "y"} }, false},
		"deleted":               {func(p *v1.Pod) { p.DeletionTimestamp = &deleted }, false},
		"grace":                 {func(p *v1.Pod) { p.DeletionGracePeriodSeconds = new(int64) }, false},
		"claims":                {func(p *v1.Pod) { p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu"}} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pod(), pod()
			c.change(b)
			if Same(a, b) != c.want || Same(b, a) != c.want {
				t.Errorf("Same is %v and %v, want %v", Same(a, b), Same(b, a), c.want)
			}
		})
	}
}

func TestStop(t *testing.T) {
	deleted := metav1.NewTime(t0.Add(-time.Hour))
	five, neg := int64(5), int64(-1)
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   time.Duration
		none   bool
	}{
		"not deleted": {change: func(*v1.Pod) {}, none: true},
		"as asked":    {func(p *v1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &deleted, &five }, 5 * time.Second, false},
		"as the spec": {func(p *v1.Pod) { p.DeletionTimestamp = &deleted }, 30 * time.Second, false},
		"default":     {func(p *v1.Pod) { p.DeletionTimestamp, p.Spec.TerminationGracePeriodSeconds = &deleted, nil }, 30 * time.Second, false},
		"negative":    {func(p *v1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &deleted, &neg }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod()
			c.change(p)
			now := t0.Add(time.Second)
			at := t0
			if c.want == 0 {
				at = now // by force
			}
			s := Stop(p, t0, now)
			if (s == nil) != c.none || s != nil && (s.Grace != c.want || !s.At.Equal(at)) {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"7", "7", 0}, {"7", "10", -1}, {"10", "7", 1}, {"", "7", -1}, {"x", "y", -1}, {"x", "x", 0}} {
		check.Equal(t, Compare(c.a, c.b), c.want, "Compare(%q, %q)", c.a, c.b)
	}
}

func TestRestored(t *testing.T) {
	pod := func(uid types.UID, version string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	}
	for _, c := range []struct {
		old, now *v1.Pod
		want     bool
	}{{pod("a", "9"), pod("a", "8"), true}, {pod("a", "9"), pod("a", "10"), false}, {pod("a", "9"), pod("a", "9"), false}, {pod("a", "9"), pod("b", "8"), false}} {
		if got := Restored(c.old, c.now); got != c.want {
			t.Errorf("Restored(%s %s, %s %s) is %v", c.old.UID, c.old.ResourceVersion, c.now.UID, c.now.ResourceVersion, got)
		}
	}
}

// TestInsert: the list stays in order, has one pod of a name, and a list that
// was handed out is never changed.
func TestInsert(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var list []*v1.Pod
		for range rapid.IntRange(0, 12).Draw(rt, "n") {
			p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name:              rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "name"),
				Namespace:         rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "namespace"),
				CreationTimestamp: metav1.NewTime(t0.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "age")) * time.Second)),
			}}
			before := append([]*v1.Pod(nil), list...)
			next, old := Insert(list, p)
			for i := range before {
				if before[i] != list[i] {
					rt.Fatal("the list was changed")
				}
			}
			if i := Index(list, p.Namespace, p.Name); (i >= 0) != (old != nil) || i >= 0 && list[i] != old {
				rt.Fatalf("replaced %v", old)
			}
			list = next
			if i := Index(list, p.Namespace, p.Name); i < 0 || list[i] != p {
				rt.Fatal("it is not there")
			}
			seen := map[string]bool{}
			for i, p := range list {
				if seen[p.Namespace+p.Name] || i > 0 && older(list[i-1], p) > 0 {
					rt.Fatalf("%d is out of order, or there twice", i)
				}
				seen[p.Namespace+p.Name] = true
			}
			for i, p := range Sorted(list) {
				if list[i] != p {
					rt.Fatal("the list isn't sorted")
				}
			}
		}
	})
}

// TestTaken: nobody makes a static pod by an annotation in the apiserver.
func TestTaken(t *testing.T) {
	plain := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"k": "v"}}}
	if Taken(plain) != plain {
		t.Error("a plain pod was copied")
	}
	for _, origin := range []podspec.Origin{podspec.File, podspec.HTTP, ""} {
		forged := plain.DeepCopy()
		forged.Annotations[podspec.AnnotationSource] = string(origin)
		before := forged.DeepCopy()
		got := Taken(forged)
		if podspec.Static(got) || got.Annotations["k"] != "v" || got.Name != "a" {
			t.Errorf("%q: taken as %v", origin, got.Annotations)
		}
		if !apiequality.Semantic.DeepEqual(forged, before) {
			t.Errorf("%q: the shared object was changed", origin)
		}
	}
}
