package controlplane

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func testNode(ready v1.ConditionStatus, taints ...v1.Taint) *v1.Node {
	return &v1.Node{
		Spec:   v1.NodeSpec{Taints: taints},
		Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}, {Type: v1.NodeDiskPressure, Status: v1.ConditionFalse}}},
	}
}

func lost(key string, ago time.Duration) []v1.Taint {
	at := metav1.NewTime(t0.Add(-ago))
	return []v1.Taint{{Key: key, Effect: v1.TaintEffectNoSchedule, TimeAdded: &at}, {Key: key, Effect: v1.TaintEffectNoExecute, TimeAdded: &at}}
}

func TestJudge(t *testing.T) {
	own := v1.Taint{Key: "own", Effect: v1.TaintEffectNoSchedule}
	for name, c := range map[string]struct {
		node   *v1.Node
		silent time.Duration
		same   bool
		ready  v1.ConditionStatus
		taints []v1.Taint
	}{
		"well":           {testNode(v1.ConditionTrue, own), 10 * time.Second, true, "", nil},
		"just in time":   {testNode(v1.ConditionTrue), 50 * time.Second, true, "", nil},
		"lost":           {testNode(v1.ConditionTrue, own), 51 * time.Second, false, v1.ConditionUnknown, append([]v1.Taint{own}, lost(v1.TaintNodeUnreachable, 0)...)},
		"still lost":     {testNode(v1.ConditionUnknown, lost(v1.TaintNodeUnreachable, time.Minute)...), time.Hour, true, "", nil},
		"back":           {testNode(v1.ConditionTrue, append(lost(v1.TaintNodeUnreachable, time.Minute), own)...), time.Second, false, v1.ConditionTrue, []v1.Taint{own}},
		"says not ready": {testNode(v1.ConditionFalse), time.Second, false, v1.ConditionFalse, lost(v1.TaintNodeNotReady, 0)},
		"lost after that": {testNode(v1.ConditionFalse, lost(v1.TaintNodeNotReady, time.Minute)...), time.Hour, false, v1.ConditionUnknown,
			lost(v1.TaintNodeUnreachable, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(c.node, t0.Add(-c.silent), t0, 50*time.Second)
			if (got == nil) != c.same {
				t.Fatalf("got %+v", got)
			}
			if c.same {
				return
			}
			if got.Status.Conditions[0].Status != c.ready || !sameTaints(got.Spec.Taints, c.taints) {
				t.Errorf("got %s, %+v; want %s, %+v", got.Status.Conditions[0].Status, got.Spec.Taints, c.ready, c.taints)
			}
			if again := judge(got, t0.Add(-c.silent), t0, 50*time.Second); again != nil {
				t.Errorf("judged again: %+v", again)
			}
		})
	}
}

func TestGoesAt(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	unreachable := lost(v1.TaintNodeUnreachable, time.Minute)
	def := defaultTolerations(&v1.PodSpec{})
	if len(def) != 2 || len(defaultTolerations(&v1.PodSpec{Tolerations: def})) != 2 {
		t.Errorf("defaults are %+v", def)
	}
	for name, c := range map[string]struct {
		tolerations []v1.Toleration
		taints      []v1.Taint
		after       time.Duration // since the taint
		stays       bool
	}{
		"no taint":          {nil, nil, 0, true},
		"not for this":      {nil, unreachable[:1], 0, true},
		"not tolerated":     {nil, unreachable, 0, false},
		"default":           {def, unreachable, 5 * time.Minute, false},
		"for ever":          {[]v1.Toleration{{Operator: v1.TolerationOpExists}}, unreachable, 0, true},
		"the shorter":       {append([]v1.Toleration{{Operator: v1.TolerationOpExists, TolerationSeconds: seconds(10)}}, def...), unreachable, 10 * time.Second, false},
		"negative is now":   {[]v1.Toleration{{Operator: v1.TolerationOpExists, TolerationSeconds: seconds(-1)}}, unreachable, 0, false},
		"one of two taints": {def, append(unreachable, v1.Taint{Key: "x", Effect: v1.TaintEffectNoExecute, TimeAdded: unreachable[0].TimeAdded}), 0, false},
	} {
		at, goes := goesAt(&v1.Pod{Spec: v1.PodSpec{Tolerations: c.tolerations}}, c.taints)
		if goes == c.stays || goes && at.Sub(t0.Add(-time.Minute)) != c.after {
			t.Errorf("%s: goes %v at %v", name, goes, at.Sub(t0.Add(-time.Minute)))
		}
	}
}
