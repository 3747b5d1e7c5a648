package podspec_test

import (
	"math/rand"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func demand(requestCPU, limitCPU, requestMemory, limitMemory string) v1.ResourceRequirements {
	r := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	for _, x := range []struct {
		list  v1.ResourceList
		name  v1.ResourceName
		value string
	}{
		{r.Requests, "cpu", requestCPU}, {r.Limits, "cpu", limitCPU}, {r.Requests, "memory", requestMemory}, {r.Limits, "memory", limitMemory},
	} {
		if x.value != "" {
			x.list[x.name] = resource.MustParse(x.value)
		}
	}
	return r
}

func TestQOS(t *testing.T) {
	full := demand("1", "1", "1Gi", "1Gi")
	for _, c := range []struct {
		name      string
		mutate    func(*v1.PodSpec)
		wantClass v1.PodQOSClass
	}{
		{"nothing", func(*v1.PodSpec) {}, v1.PodQOSBestEffort},
		{"zero", func(s *v1.PodSpec) { s.Containers[0].Resources = demand("0", "", "0", "") }, v1.PodQOSBestEffort},
		{"other resources", func(s *v1.PodSpec) {
			s.Containers[0].Resources.Limits = v1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi")}
		}, v1.PodQOSBestEffort},
		{"one request", func(s *v1.PodSpec) { s.Containers[0].Resources = demand("1", "", "", "") }, v1.PodQOSBurstable},
		{"one limit", func(s *v1.PodSpec) { s.Containers[0].Resources = demand("", "", "1Gi", "1Gi") }, v1.PodQOSBurstable},
		{"all, equal", func(s *v1.PodSpec) { s.Containers[0].Resources = full }, v1.PodQOSGuaranteed},
		{"all, equal in other words", func(s *v1.PodSpec) { s.Containers[0].Resources = demand("1000m", "1", "1024Mi", "1Gi") }, v1.PodQOSGuaranteed},
		{"request below limit", func(s *v1.PodSpec) { s.Containers[0].Resources = demand("1", "2", "1Gi", "1Gi") }, v1.PodQOSBurstable},
		{"init container without", func(s *v1.PodSpec) {
			s.Containers[0].Resources = full
			s.InitContainers = []v1.Container{{Name: "i"}}
		}, v1.PodQOSBurstable},
		{"ephemeral container without", func(s *v1.PodSpec) {
			s.Containers[0].Resources = full
			s.EphemeralContainers = []v1.EphemeralContainer{{}}
		}, v1.PodQOSGuaranteed},
		{"pod as a whole", func(s *v1.PodSpec) { s.Resources = &full }, v1.PodQOSGuaranteed},
		{"pod as a whole, container less", func(s *v1.PodSpec) {
			s.Resources = &full
			s.Containers[0].Resources = demand("500m", "", "", "")
		}, v1.PodQOSGuaranteed},
		{"pod as a whole, but it says nothing", func(s *v1.PodSpec) {
			s.Resources = &v1.ResourceRequirements{}
			s.Containers[0].Resources = full
		}, v1.PodQOSGuaranteed},
		{"pod as a whole, one request", func(s *v1.PodSpec) {
			r := demand("1", "", "", "")
			s.Resources = &r
		}, v1.PodQOSBurstable},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}}
			c.mutate(&pod.Spec)
			check.Equal(t, podspec.QOS(pod), c.wantClass, "got")
		})
	}
}

// TestQOSProperties: the order of containers doesn't matter; a container that
// asks for nothing makes no pod Guaranteed and no BestEffort one anything else.
func TestQOSProperties(t *testing.T) {
	amount := rapid.SampledFrom([]string{"", "0", "1", "2"})
	rapid.Check(t, func(rt *rapid.T) {
		pod := &v1.Pod{}
		for range rapid.IntRange(1, 4).Draw(rt, "containers") {
			c := v1.Container{Resources: demand(amount.Draw(rt, "rc"), amount.Draw(rt, "lc"), amount.Draw(rt, "rm"), amount.Draw(rt, "lm"))}
			if rapid.Bool().Draw(rt, "init") {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
			} else {
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
		}
		class := podspec.QOS(pod)
		other := pod.DeepCopy()
		rand.New(rand.NewSource(rapid.Int64().Draw(rt, "seed"))).Shuffle(len(other.Spec.Containers), func(i, j int) {
			other.Spec.Containers[i], other.Spec.Containers[j] = other.Spec.Containers[j], other.Spec.Containers[i]
		})
		if got := podspec.QOS(other); got != class {
			rt.Fatalf("%s became %s in another order", class, got)
		}
		other.Spec.Containers = append(other.Spec.Containers, v1.Container{})
		want := class
		if class == v1.PodQOSGuaranteed {
			want = v1.PodQOSBurstable
		}
		if got := podspec.QOS(other); got != want {
			rt.Fatalf("%s became %s with one more that asks for nothing", class, got)
		}
	})
}
