package eviction

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/actortest"
)

// TestAnnotations: the event of an evicted pod says in annotations what was short; that of the node has none.
func TestAnnotations(t *testing.T) {
	var events actortest.Events
	r := newRig(t, func(d *Deps) {
		events = d.Events.(*rig).NewEvents()
		d.Events = events
	})
	r.memory(50)
	r.notice(nil)
	r.Advance(10 * time.Millisecond)
	events.Want("memory is short", "n1: EvictionThresholdMet: Attempting to reclaim memory",
		"a: Evicted: The node was low on resource: memory. Threshold quantity: 100, available: 50. "+
			"; offending_containers=; offending_containers_usage=; starved_resource=memory")
	r.Forget()
}
