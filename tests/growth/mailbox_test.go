package growth

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// moreThanAMailbox is how many volumes a pod may have, and more than a mailbox has places.
const moreThanAMailbox = 5000

// TestMoreThanAMailbox: a pod with more CSI volumes than a mailbox has places costs no message, and another pod comes up
// beside it.
func TestMoreThanAMailbox(t *testing.T) {
	for name, driver := range map[string]string{"with a driver": Driver, "without": "missing.example.com"} {
		t.Run(name, func(t *testing.T) {
			w := check.Value(sim.New(sim.Config{Seed: 1, Bare: true, Services: true}))(t)
			for _, o := range theDriver(1) {
				check.Value(w.API().Create(o))(t)
			}
			node := check.Value(w.AddNode(sim.NodeSpec{
				Name: "n", Allocatable: roomy, Cgroups: true, Files: true, Starts: 64,
				CSI: map[string]machine.CSIDriver{Driver: {}},
			}))(t)
			w.Advance(5 * time.Second)
			create := func(name string, n int, driver string) (up func() bool) {
				p := Base(name)
				p.Spec.NodeName = node.Name()
				volumes(func(int) v1.VolumeSource { return inline(driver) })(p, n)
				check.Value(w.API().Create(p))(t)
				return func() bool {
					o, err := w.API().Get(port.APIKey{Kind: port.PodKind, Namespace: p.Namespace, Name: name})
					return err == nil && ready(o.(*v1.Pod))
				}
			}
			greedy := create("greedy", moreThanAMailbox, driver)
			w.Advance(time.Second)
			plain := create("plain", 1, Driver)
			w.RunUntil(10*time.Second, plain)
			check.Equal(t, plain(), true, "the pod beside it is ready")
			if driver == Driver {
				w.RunUntil(time.Minute, greedy)
				check.Equal(t, greedy(), true, "the pod itself is ready")
			}
			check.Equal(t, w.System().Dropped(), 0, "messages that a full mailbox dropped")
			node.KillAgent()
		})
	}
}
