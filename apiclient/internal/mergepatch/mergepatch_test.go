package mergepatch

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestBetween(t *testing.T) {
	base := func() *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: "5", Labels: map[string]string{"a": "1", "b": "1"}, Finalizers: []string{"f"}},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "x", Image: "i:1"}, {Name: "y", Image: "i:1"}}},
			Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{
				{Type: "Ready", Status: "False"}, {Type: "Other", Status: "True"}}},
		}
	}
	for _, c := range []struct {
		name   string
		status bool
		change func(*v1.Pod)
		want   string
	}{
		{"nothing", false, func(*v1.Pod) {}, `{}`},
		{"what the server owns", false, func(p *v1.Pod) { p.ResourceVersion, p.Generation, p.UID = "6", 2, "v" }, `{}`},
		{"the status", false, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, `{}`},
		{"all but the status", true, func(p *v1.Pod) { p.Labels = nil }, `{}`},
		{"a label", false, func(p *v1.Pod) { p.Labels["a"] = "2" }, `{"metadata":{"labels":{"a":"2"}}}`},
		{"a label less", false, func(p *v1.Pod) { delete(p.Labels, "a") }, `{"metadata":{"labels":{"a":null}}}`},
		{"no labels", false, func(p *v1.Pod) { p.Labels = nil }, `{"metadata":{"labels":{"a":null,"b":null}}}`},
		{"no finalizers", false, func(p *v1.Pod) { p.Finalizers = nil }, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["f"]}}`},
		{"an image", false, func(p *v1.Pod) { p.Spec.Containers[1].Image = "i:2" },
			`{"spec":{"$setElementOrder/containers":[{"name":"x"},{"name":"y"}],"containers":[{"image":"i:2","name":"y"}]}}`},
		{"a condition", true, func(p *v1.Pod) { p.Status.Conditions[0].Status = "True" },
			`{"status":{"$setElementOrder/conditions":[{"type":"Ready"},{"type":"Other"}],"conditions":[{"status":"True","type":"Ready"}]}}`},
		{"no conditions", true, func(p *v1.Pod) { p.Status.Conditions = nil },
			`{"status":{"conditions":[{"$patch":"delete","type":"Other"},{"$patch":"delete","type":"Ready"}]}}`},
		{"a phase", true, func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, `{"status":{"phase":"Running"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := base(), base()
			c.change(to)
			patch := check.Value(Between(port.APIPatch{From: from, To: to, Status: c.status}, &v1.Pod{}))(t)
			check.Equal(t, string(check.Value(json.Marshal(patch))(t)), c.want, "the patch")
		})
	}
}
