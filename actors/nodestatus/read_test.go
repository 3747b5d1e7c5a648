package nodestatus

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// TestReadForPods: pods hears of what the apiserver has, though the watch is late, and is answered after that. Of
// questions that come while it is read, the last one has another reading.
func TestReadForPods(t *testing.T) {
	r := newRig(t)
	r.start()
	r.Advance(time.Second)
	r.watching = false
	r.put(func(n *v1.Node) { n.Labels = map[string]string{"own": "1", "zone": "b"} })
	r.Forget()
	r.actor.Tell(ReadNode{Number: 1})
	r.Settle()
	for _, number := range []uint64{1, 2, 3} {
		r.actor.Tell(ReadNode{Number: number})
		r.Settle()
	}
	if len(r.reads) > 0 {
		t.Errorf("answered %v before it was read", r.reads)
	}
	r.Advance(time.Millisecond)
	if last := r.seen[len(r.seen)-1]; last.Labels["zone"] != "b" || !slices.Equal(r.reads, []uint64{1}) {
		t.Errorf("answered %v, and labels %v were told", r.reads, last.Labels)
	}
	r.Advance(time.Second)
	if n := r.called("get Node"); n != 2 || !slices.Equal(r.reads, []uint64{1, 3}) {
		t.Errorf("answered %v by %d reads", r.reads, n)
	}
	r.fail = func(string) error { return &port.Error{Kind: port.Unavailable} }
	r.actor.Tell(ReadNode{Number: 4})
	r.Advance(time.Second)
	if !slices.Equal(r.reads, []uint64{1, 3, 4}) {
		t.Errorf("answered %v while the Node can't be read", r.reads)
	}
}
