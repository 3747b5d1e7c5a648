package controlplane

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// pods reads a row of pods: n and N are of the new template, not ready and
// ready, o and O of an old one, d is being deleted, f has failed, u is unbound.
func pods(text string) []*v1.Pod {
	var out []*v1.Pod
	for i, c := range text {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%c%d", c, i), Labels: map[string]string{}}, Spec: v1.PodSpec{NodeName: "x"}}
		if strings.ContainsRune("nNu", c) {
			p.Labels["new"] = "yes"
		}
		if strings.ContainsRune("NO", c) {
			setReady(p)
		}
		switch c {
		case 'd':
			p.DeletionTimestamp = &metav1.Time{}
		case 'f':
			p.Status.Phase = v1.PodFailed
		case 'u':
			p.Spec.NodeName = ""
		}
		out = append(out, p)
	}
	return out
}

func setReady(p *v1.Pod) {
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
}

func isNew(p *v1.Pod) bool { return p.Labels["new"] != "" }

func TestStep(t *testing.T) {
	for _, c := range []struct {
		replicas       int
		surge, missing string
		pods           string
		make           int
		remove         string
	}{
		{3, "", "", "", 3, ""},
		{3, "", "", "NnN", 0, ""},
		{3, "", "", "Nd", 2, ""},
		{3, "", "", "NNf", 1, ""},
		{0, "", "", "NN", 0, "N0 N1"},
		{2, "", "", "NnNu", 0, "u3 n1"},
		{4, "25%", "25%", "OOOO", 1, "O0"},
		{4, "1", "0", "OOOO", 1, ""},
		{4, "0", "1", "OOOO", 0, "O0"},
		{4, "0", "0", "OOOO", 0, "O0"},
		{4, "1", "0", "OOOOn", 0, ""},
		{4, "1", "0", "OOOON", 0, "O0"},
		{4, "1", "0", "OOON", 1, ""},
		{4, "1", "1", "ooOO", 1, "o0 o1"},
		{4, "1", "1", "NNNO", 1, "O3"},
		{4, "1", "1", "NNNNO", 0, "O4"},
		{2, "1", "1", "OOOOOO", 0, "O0 O1 O2 O3 O4"},
	} {
		share := func(s string) *intstr.IntOrString {
			if s == "" {
				return nil
			}
			v := intstr.Parse(s)
			return &v
		}
		w := Workload{Replicas: c.replicas, MaxSurge: share(c.surge), MaxUnavailable: share(c.missing)}
		n, remove := w.step(pods(c.pods), isNew)
		var names []string
		for _, p := range remove {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); n != c.make || got != c.remove {
			t.Errorf("%d replicas, surge %q, unavailable %q, pods %q: make %d, remove %q; want %d, %q",
				c.replicas, c.surge, c.missing, c.pods, n, got, c.make, c.remove)
		}
	}
}

// Whatever becomes ready, and when: never more pods than allowed, never fewer
// ready than allowed once all were, and the end is all new.
func TestRollout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		surge, missing := intstr.FromInt32(rapid.Int32Range(0, 4).Draw(t, "surge")), intstr.FromInt32(rapid.Int32Range(0, 4).Draw(t, "unavailable"))
		w := Workload{Replicas: rapid.IntRange(1, 12).Draw(t, "replicas"), MaxSurge: &surge, MaxUnavailable: &missing}
		more, fewer := w.limits()
		all := pods(strings.Repeat("O", w.Replicas))
		for round := 0; ; round++ {
			if round > 1000 {
				t.Fatal("it does not come to an end")
			}
			n, remove := w.step(all, isNew)
			for _, p := range remove {
				for i := range all {
					if all[i] == p {
						all = append(all[:i:i], all[i+1:]...)
						break
					}
				}
			}
			for i := range n {
				p := pods("n")[0]
				p.Name = fmt.Sprintf("new-%d-%d", round, i)
				all = append(all, p)
			}
			ready, fresh := 0, 0
			for _, p := range all {
				if podReady(p) {
					ready++
				}
				if isNew(p) {
					fresh++
				}
			}
			if len(all) > w.Replicas+more || ready < w.Replicas-fewer {
				t.Fatalf("%d pods, %d ready of %d; surge %d, unavailable %d", len(all), ready, w.Replicas, more, fewer)
			}
			if fresh == w.Replicas && len(all) == fresh && ready == fresh {
				return
			}
			for _, p := range all {
				if !podReady(p) && rapid.Bool().Draw(t, "becomes ready") {
					setReady(p)
				}
			}
		}
	})
}
