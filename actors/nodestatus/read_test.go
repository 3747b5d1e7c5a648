package nodestatus

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// TestCloudAddresses: pods hear of the addresses that the controller of a cloud sets, and of no others.
func TestCloudAddresses(t *testing.T) {
	r := newRig(t)
	r.machine.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: "n1"}}
	var told []string
	r.start(func(d *Deps) {
		d.Own.Cloud = true
		d.Addresses = func(now []v1.NodeAddress) { told = append(told, now[len(now)-1].Address) }
	})
	r.Advance(time.Second)
	before := len(r.seen)
	set := func() {
		r.put(func(n *v1.Node) {
			n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "198.51.100.1"}}
		})
		r.Advance(time.Second)
	}
	set()
	if len(r.seen) != before+1 || r.seen[before].Status.Addresses[0].Address != "198.51.100.1" {
		t.Errorf("told %d times", len(r.seen)-before)
	}
	set()
	r.Advance(2 * time.Minute)
	if a := r.node.Status.Addresses; len(r.seen) != before+1 || a[0].Address != "198.51.100.1" {
		t.Errorf("told %d times, the Node has %v", len(r.seen)-before, a)
	}
	if !slices.Equal(told, []string{"n1", "198.51.100.1"}) {
		t.Errorf("the certificate was for %v", told)
	}
}

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
