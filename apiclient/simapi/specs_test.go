package simapi

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// TestTemplatesThatArePast: pods of one template share its lists; what is
// remembered of templates follows what there is of pods, not what there was.
func TestTemplatesThatArePast(t *testing.T) {
	w := newWorld(t, nil)
	now := int64(0)
	pod := func(name string, list []v1.Container) *v1.Pod {
		o, err := w.Create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.PodSpec{Containers: list}})
		if err != nil {
			t.Fatal(err)
		}
		return o.(*v1.Pod)
	}
	lasting := []v1.Container{{Name: "main", Image: "lasting:1"}}
	first := pod("first", lasting)
	for i := range 20 * fewSpecs {
		p := pod("p", []v1.Container{{Name: "main", Image: fmt.Sprint("rolled:", i)}})
		if err := w.Delete(port.APIDelete{Key: port.APIKey{Kind: port.PodKind, Namespace: p.Namespace, Name: p.Name}, Grace: &now}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.specs.filled); n > fewSpecs {
		t.Errorf("%d templates are remembered for one pod", n)
	}
	if second := pod("second", lasting); &second.Spec.Containers[0] != &first.Spec.Containers[0] {
		t.Error("a template that is in use was forgotten")
	}
	for i := range 3 * maxSpecs {
		pod(fmt.Sprint("own-", i), []v1.Container{{Name: "main", Image: "own:1"}})
	}
	if n := len(w.specs.filled); n > maxSpecs {
		t.Errorf("%d templates are remembered", n)
	}
}
