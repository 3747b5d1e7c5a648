package controlplane

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// judge says what the API should say of a node that was last heard of at heard:
// a changed copy, nil if it says that already. It is the part of the node
// lifecycle controller that users see.
//
//	Ready ──no lease for grace──► Unknown: taints unreachable      ┐ NoSchedule at once,
//	Ready ──agent says so───────► False: taints not-ready          ┘ NoExecute: pods go
//	         ◄──agent is back, says Ready── taints are taken away
func judge(n *v1.Node, heard, now time.Time, grace time.Duration) *v1.Node {
	ready := v1.ConditionUnknown
	at := slices.IndexFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady })
	if at >= 0 {
		ready = n.Status.Conditions[at].Status
	}
	silent := now.Sub(heard) > grace
	if silent {
		ready = v1.ConditionUnknown
	}
	var want []v1.Taint
	for _, t := range n.Spec.Taints {
		if t.Key != v1.TaintNodeUnreachable && t.Key != v1.TaintNodeNotReady {
			want = append(want, t)
		}
	}
	key := ""
	switch ready {
	case v1.ConditionUnknown:
		key = v1.TaintNodeUnreachable
	case v1.ConditionFalse:
		key = v1.TaintNodeNotReady
	case v1.ConditionTrue:
	}
	if key != "" {
		since := metav1.NewTime(now)
		for _, t := range n.Spec.Taints {
			if t.Key == key && t.Effect == v1.TaintEffectNoExecute && t.TimeAdded != nil {
				since = *t.TimeAdded
			}
		}
		want = append(want,
			v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule, TimeAdded: &since},
			v1.Taint{Key: key, Effect: v1.TaintEffectNoExecute, TimeAdded: &since})
	}
	stale := silent && at >= 0 && n.Status.Conditions[at].Status != v1.ConditionUnknown
	if !stale && sameTaints(n.Spec.Taints, want) {
		return nil
	}
	out := *n
	out.Spec.Taints = want
	if stale {
		out.Status.Conditions = slices.Clone(n.Status.Conditions)
		for i := range out.Status.Conditions {
			c := &out.Status.Conditions[i]
			c.Status, c.Reason, c.Message = v1.ConditionUnknown, "NodeStatusUnknown", "The node's agent has stopped reporting."
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
	return &out
}

func sameTaints(a, b []v1.Taint) bool {
	return slices.EqualFunc(a, b, func(a, b v1.Taint) bool {
		return a.Key == b.Key && a.Effect == b.Effect && a.Value == b.Value
	})
}

// goesAt says when a pod has to leave a node with these taints, ok if it has to
// at all (API Toleration.tolerationSeconds).
func goesAt(pod *v1.Pod, taints []v1.Taint) (at time.Time, ok bool) {
	for i := range taints {
		t := &taints[i]
		if t.Effect != v1.TaintEffectNoExecute {
			continue
		}
		added := time.Time{}
		if t.TimeAdded != nil {
			added = t.TimeAdded.Time
		}
		leaves, forever := added, false
		if tolerates(pod, t) {
			leaves, forever = added.Add(patience(pod, t)), lasting(pod, t)
		}
		if !forever && (!ok || leaves.Before(at)) {
			at, ok = leaves, true
		}
	}
	return at, ok
}

// patience is the shortest time for which the pod tolerates the taint.
func patience(pod *v1.Pod, taint *v1.Taint) time.Duration {
	shortest := time.Duration(-1)
	for i := range pod.Spec.Tolerations {
		t := pod.Spec.Tolerations[i]
		one := v1.Pod{Spec: v1.PodSpec{Tolerations: []v1.Toleration{t}}}
		if t.TolerationSeconds == nil || !tolerates(&one, taint) {
			continue
		}
		if d := time.Duration(max(*t.TolerationSeconds, 0)) * time.Second; shortest < 0 || d < shortest {
			shortest = d
		}
	}
	return max(shortest, 0)
}

// lasting: every toleration of the taint is without an end.
func lasting(pod *v1.Pod, taint *v1.Taint) bool {
	return !slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool {
		one := v1.Pod{Spec: v1.PodSpec{Tolerations: []v1.Toleration{t}}}
		return t.TolerationSeconds != nil && tolerates(&one, taint)
	})
}

// defaultTolerations are what the apiserver gives pods that say nothing of
// these taints (admission plugin DefaultTolerationSeconds): five minutes.
func defaultTolerations(spec *v1.PodSpec) []v1.Toleration {
	out := slices.Clone(spec.Tolerations)
	seconds := int64(300)
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		said := slices.ContainsFunc(spec.Tolerations, func(t v1.Toleration) bool {
			return (t.Key == key || t.Key == "" && t.Operator == v1.TolerationOpExists) &&
				(t.Effect == v1.TaintEffectNoExecute || t.Effect == "")
		})
		if !said {
			out = append(out, v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute,
				TolerationSeconds: &seconds})
		}
	}
	return out
}
