package simapi

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestPodChanges is base + change → what the apiserver says.
func TestPodChanges(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	toleration := v1.Toleration{Key: "k", Operator: v1.TolerationOpExists, TolerationSeconds: seconds(5)}
	gate := v1.PodSchedulingGate{Name: "test/gate"}
	for _, c := range []struct {
		name         string
		base, change func(*v1.Pod)
		// want is what the refusal is about, empty if there is none.
		want string
		gen  int64
	}{
		{name: "labels", change: func(p *v1.Pod) { p.Labels = nil }, gen: 1},
		{name: "what a default puts back", change: func(p *v1.Pod) { p.Spec.Containers[0].TerminationMessagePath = "" }, gen: 1},
		{name: "an image", change: func(p *v1.Pod) { p.Spec.Containers[0].Image = "x:2" }, gen: 2},
		{name: "an init container's image", change: func(p *v1.Pod) { p.Spec.InitContainers[0].Image = "x:2" }, gen: 2},
		{name: "a name", change: func(p *v1.Pod) { p.Spec.Containers[0].Name = "x" }, want: "may not change fields"},
		{name: "one container more", change: func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.InitContainers...) }, want: "may not add or remove containers"},
		{name: "no init container", change: func(p *v1.Pod) { p.Spec.InitContainers = nil }, want: "may not add or remove containers"},
		{name: "node", change: func(p *v1.Pod) { p.Spec.NodeName = "n2" }, want: "may not change fields"},
		{name: "a deadline", change: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = seconds(9) }, gen: 2},
		{name: "a negative deadline", change: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = seconds(-9) }, want: "inclusive"},
		{name: "a shorter deadline", base: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = seconds(9) }, change: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = seconds(8) }, gen: 2},
		{name: "a longer deadline", base: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = seconds(9) }, change: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = seconds(10) }, want: "less than or equal"},
		{name: "no deadline any more", base: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = seconds(9) }, change: func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = nil }, want: "to nil value"},
		{name: "a toleration", change: func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{toleration} }, gen: 2},
		{name: "a toleration's seconds", base: func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{toleration} },
			change: func(p *v1.Pod) { p.Spec.Tolerations[0].TolerationSeconds = nil }, gen: 2},
		{name: "a toleration less", base: func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{toleration} },
			change: func(p *v1.Pod) { p.Spec.Tolerations = nil }, want: "existing toleration"},
		{name: "a negative grace is mended", base: func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = seconds(-1) },
			change: func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = seconds(1) }, gen: 2},
		{name: "a gate opens", base: func(p *v1.Pod) { p.Spec.NodeName, p.Spec.SchedulingGates = "", []v1.PodSchedulingGate{gate} },
			change: func(p *v1.Pod) { p.Spec.SchedulingGates = nil }, gen: 2},
		{name: "a gated pod's selector", base: func(p *v1.Pod) { p.Spec.NodeName, p.Spec.SchedulingGates = "", []v1.PodSchedulingGate{gate} },
			change: func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "1"} }, gen: 2},
		{name: "a gate more", change: func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{gate} }, want: "new scheduling gate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := with(aPod("p", "n1"), func(p *v1.Pod) {
				p.Spec.InitContainers = []v1.Container{{Name: "init", Image: "x:1"}}
				if c.base != nil {
					c.base(p)
				}
			})
			made := w.created(p).(*v1.Pod)
			o, err := w.Update(with(made, c.change))
			switch {
			case c.want != "":
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want a refusal that says %q", err, c.want)
				}
			case err != nil:
				t.Error(err)
			case o.GetGeneration() != c.gen:
				t.Errorf("generation is %d, want %d", o.GetGeneration(), c.gen)
			}
		})
	}
}

// TestObservedGenerationStays: a writer that knows nothing of it does not take it away.
func TestObservedGenerationStays(t *testing.T) {
	w := newWorld(t, nil)
	p := w.created(aPod("p", "n1")).(*v1.Pod)
	p = check.Value(w.UpdateStatus(withStatus(p, runningStatus(p, metav1.NewTime(epoch), 0))))(w).(*v1.Pod)
	plain := *p.Status.DeepCopy()
	plain.ObservedGeneration, plain.Message = 0, "new"
	for i := range plain.Conditions {
		plain.Conditions[i].ObservedGeneration = 0
	}
	got := check.Value(w.UpdateStatus(withStatus(p, plain)))(w).(*v1.Pod).Status
	if got.ObservedGeneration != 1 || got.Conditions[4].ObservedGeneration != 1 || got.Message != "new" {
		t.Errorf("the status is %+v", got)
	}
	check.Equal(t, plain.Conditions[4].ObservedGeneration, 0, "the status that was given was changed")
}

// TestOwnerReads: objects by their own types.
func TestOwnerReads(t *testing.T) {
	w := newWorld(t, nil)
	w.created(aPod("a", "n1"))
	w.created(aPod("b", "n2"))
	p, err := Object[*v1.Pod](w.Server, "default", "a")
	if err != nil || p.Spec.NodeName != "n1" {
		t.Errorf("gave %+v, %v", p, err)
	}
	if _, err := Object[*v1.Node](w.Server, "", "a"); !apierrors.IsNotFound(err) {
		t.Errorf("what isn't there: %v", err)
	}
	if _, err := Objects[*v1.Pod](w.Server, Select{Field: "?"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a bad selector: %v", err)
	}
	st := w.Stats()
	if st.Objects[port.PodKind] != 2 || len(st.Objects) != 1 || st.Version != 3 {
		t.Errorf("stats are %+v", st)
	}
	for _, v := range Verbs() {
		if v.String() == "invalid" {
			t.Errorf("verb %d has no name", v)
		}
	}
}

// TestAddresses: what a status may say of addresses.
func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.PodStatus)
		ok     bool
		want   string // podIP and podIPs
	}{
		{"one", func(s *v1.PodStatus) {}, true, "10.88.0.7 [{10.88.0.7}]"},
		{"both families", func(s *v1.PodStatus) { s.PodIPs = append(s.PodIPs, v1.PodIP{IP: "fd00::7"}) }, true, "10.88.0.7 [{10.88.0.7} {fd00::7}]"},
		{"two of a family", func(s *v1.PodStatus) { s.PodIPs = append(s.PodIPs, v1.PodIP{IP: "10.88.0.8"}) }, false, ""},
		{"none that is one", func(s *v1.PodStatus) { s.PodIP, s.PodIPs = "x", nil }, false, ""},
		{"no list", func(s *v1.PodStatus) { s.PodIPs = nil }, true, "10.88.0.7 [{10.88.0.7}]"},
		{"only a list", func(s *v1.PodStatus) { s.PodIP = "" }, true, "10.88.0.7 [{10.88.0.7}]"},
		{"another than the list's", func(s *v1.PodStatus) { s.PodIP = "10.88.0.9" }, true, "10.88.0.9 [{10.88.0.9}]"},
		{"none", func(s *v1.PodStatus) { s.PodIP, s.PodIPs = "", nil }, true, " []"},
		{"another host's", func(s *v1.PodStatus) { s.HostIP = "192.0.2.2" }, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := w.created(aPod("p", "n1")).(*v1.Pod)
			s := runningStatus(p, metav1.NewTime(epoch), 0)
			c.change(&s)
			o, err := w.UpdateStatus(withStatus(p, s))
			if !c.ok {
				if !apierrors.IsInvalid(err) {
					t.Errorf("%v, want invalid", err)
				}
				return
			}
			check.Fatal(w, err)
			if got := o.(*v1.Pod).Status; fmt.Sprint(got.PodIP, " ", got.PodIPs) != c.want {
				t.Errorf("%s %v, want %s", got.PodIP, got.PodIPs, c.want)
			}
		})
	}
}

// TestKeysTwice: a list that is merged by a key has each key once.
func TestKeysTwice(t *testing.T) {
	w := newWorld(t, nil)
	p := w.created(aPod("p", "n1")).(*v1.Pod)
	s := p.Status
	s.Conditions = []v1.PodCondition{{Type: "test/a", Status: v1.ConditionTrue}}
	p = check.Value(w.UpdateStatus(withStatus(p, s)))(w).(*v1.Pod)
	s.Conditions = []v1.PodCondition{{Type: "test/a", Status: v1.ConditionTrue}, {Type: "test/a", Status: v1.ConditionFalse}}
	if got := check.Value(w.Patch(port.APIPatch{Key: podKey("p"), From: p, To: withStatus(p, s), Status: true}))(w).(*v1.Pod).Status.Conditions; len(got) != 1 {
		t.Errorf("conditions are %+v", got)
	}
}
