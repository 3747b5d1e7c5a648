package podresize_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/tests/check"
)

// asks is a pod of one container that asks for this much CPU, with this generation.
func asks(cpu string, generation int64) *v1.Pod {
	p := &v1.Pod{}
	p.Generation = generation
	p.Spec.Containers = []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return p
}

func cpu(p *v1.Pod) string { return p.Spec.Containers[0].Resources.Requests.Cpu().String() }

func TestGrant(t *testing.T) {
	of := func(cpu string) *podresize.Allocation { return podresize.Of(asks(cpu, 1)) }
	pending := func(generation int64) *podresize.Pending { return &podresize.Pending{Generation: generation} }
	for _, c := range []struct {
		name               string
		grant              podresize.Grant
		asks               *v1.Pod
		held               string
		settled, undecided bool
	}{
		{"it has what it asks for", podresize.Grant{Alloc: of("1")}, asks("1", 1), "1", true, false},
		{"it asks for more", podresize.Grant{Alloc: of("1")}, asks("2", 2), "1", false, true},
		{"it is not given that", podresize.Grant{Alloc: of("1"), Pending: pending(2)}, asks("2", 2), "1", false, false},
		{"it asks for something else since", podresize.Grant{Alloc: of("1"), Pending: pending(2)}, asks("3", 3), "1", false, true},
		{"it asks for what it has again", podresize.Grant{Alloc: of("1"), Pending: pending(2)}, asks("1", 3), "1", true, false},
		{"more is being written", podresize.Grant{Alloc: of("1"), Saving: of("2")}, asks("2", 2), "2", false, true},
		{"less is being written", podresize.Grant{Alloc: of("2"), Saving: of("1")}, asks("1", 2), "2", false, true},
		{"it changes its mind while that is written", podresize.Grant{Alloc: of("1"), Saving: of("2")}, asks("1", 3), "2", false, true},
	} {
		check.Equal(t, cpu(c.grant.Held(c.asks)), c.held, "%s: it holds", c.name)
		check.Equal(t, c.grant.Settled(c.asks), c.settled, "%s: settled", c.name)
		check.Equal(t, c.grant.Undecided(c.asks), c.undecided, "%s: undecided", c.name)
	}
}

func TestGrantOfOneThatWasNeverResized(t *testing.T) {
	p := asks("1", 1)
	if g := (podresize.Grant{}); g.Held(p) != p {
		t.Error("it holds something else than it asks for")
	}
	first := podresize.Grant{Saving: podresize.Of(asks("2", 1))}
	check.Count(t, cpu(first.Held(p)), "2", "it holds %s before the first allocation is written")
}

func TestTold(t *testing.T) {
	s := &v1.PodStatus{Conditions: []v1.PodCondition{
		{Type: v1.PodReady, Reason: v1.PodReasonDeferred, ObservedGeneration: 2},
		{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred, ObservedGeneration: 2},
	}}
	for _, c := range []struct {
		name string
		p    podresize.Pending
		want bool
	}{
		{"the status has it, in other words", podresize.Pending{Reason: v1.PodReasonDeferred, Generation: 2, Message: "x"}, true},
		{"for another reason", podresize.Pending{Reason: v1.PodReasonInfeasible, Generation: 2}, false},
		{"of an older generation", podresize.Pending{Reason: v1.PodReasonDeferred, Generation: 3}, false},
	} {
		check.Equal(t, podresize.Told(s, &c.p), c.want, "%s", c.name)
	}
}
