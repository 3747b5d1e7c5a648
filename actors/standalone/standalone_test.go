package standalone_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/standalone"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the actor alone. The rig plays the machine and its runtime, and writes down what is told.
type rig struct {
	*actortest.Rig
	actor   *actortest.Actor[standalone.Message]
	machine *port.Machine
	status  port.RuntimeStatus
	// broken is why the machine can't be read, silent why the runtime does not answer.
	broken, silent error
	// asked is how often the runtime was.
	asked int
}

func (r *rig) Machine(_ context.Context, done func(*port.Machine, error)) {
	m, err := r.machine, r.broken
	r.Soon(func() { done(m, err) })
}

func (r *rig) Status(_ context.Context, done func(port.RuntimeStatus, error)) {
	r.asked++
	s, err := r.status, r.silent
	r.Soon(func() { done(s, err) })
}

// seen writes down what is told.
func (r *rig) seen(n *v1.Node) {
	line := fmt.Sprint(n.Name, " ", n.Labels["zone"], " has ", n.Status.Allocatable.Memory())
	for _, a := range n.Status.Addresses {
		line += " at " + a.Address
	}
	if f := n.Status.Features; f != nil {
		line += fmt.Sprint(", strict groups ", *f.SupplementalGroupsPolicy)
	}
	r.Say("%s", line)
}

func has(memory string) *port.Machine {
	list := v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
	return &port.Machine{
		Capacity: list, Allocatable: list, Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.1"}},
	}
}

func newRig(t *testing.T, change func(*rig, *standalone.Deps)) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), machine: has("1Gi")}
	first := r.machine
	d := &standalone.Deps{
		Facts: r, Name: "n1", Labels: map[string]string{"zone": "a"}, Seen: r.seen, Deadline: time.Minute,
		Known: func(m *port.Machine) bool { return m == first },
	}
	change(r, d)
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[standalone.Message]{Name: "standalone", New: standalone.New(d)})
	return r
}

// TestChanges: what the machine has is told when it has changed, and by each incarnation.
func TestChanges(t *testing.T) {
	r := newRig(t, func(*rig, *standalone.Deps) {})
	r.WantAfter("it has what the agent read at its start", 3*time.Minute+time.Second)
	r.machine = has("2Gi")
	r.WantAfter("it has more", time.Minute, "n1 a has 2Gi at 192.0.2.1")
	r.broken, r.machine = errors.New("no meminfo"), has("3Gi")
	r.WantAfter("it can't be read", 2*time.Minute)
	r.broken = nil
	r.WantAfter("it can be read again", time.Minute, "n1 a has 3Gi at 192.0.2.1")
	r.actor.Crash()
	r.WantAfter("the actor restarts", 2*time.Minute, "n1 a has 3Gi at 192.0.2.1")
}

// TestFeatures: a runtime that has not said its features is asked until it does.
func TestFeatures(t *testing.T) {
	r := newRig(t, func(r *rig, d *standalone.Deps) { r.silent, d.Runtime = errors.New("not ready"), r })
	r.WantAfter("it does not answer", time.Minute)
	if r.asked < 5 || r.asked > 7 {
		t.Errorf("asked %d times in a minute", r.asked)
	}
	r.silent, r.status.Features = nil, &v1.NodeFeatures{SupplementalGroupsPolicy: new(true)}
	r.WantAfter("it answers", 10*time.Second, "n1 a has 1Gi at 192.0.2.1, strict groups true")
	r.asked = 0
	r.WantAfter("it is asked no more", time.Minute)
	if r.asked > 0 {
		t.Errorf("asked %d times more", r.asked)
	}
}
