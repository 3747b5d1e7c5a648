package nodestatus

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// before makes the rig's world that of an agent that was here before.
func (r *rig) before() {
	r.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ResourceVersion: "1", Labels: map[string]string{"own": "1"}}}
	r.version = 1
	name, at := "n1", metav1.NewMicroTime(r.Now().Add(-12*time.Second))
	r.lease = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n1", UID: "u1"}}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &at},
	}
}

func refused(calls ...string) func(string) error {
	return func(call string) error {
		for _, c := range calls {
			if c == call {
				return &port.Error{Kind: port.TooManyRequests}
			}
		}
		return nil
	}
}

// TestLeaseFirst: an agent that starts again renews its lease before anything else, by two calls that
// wait for nothing.
func TestLeaseFirst(t *testing.T) {
	r := newRig(t)
	r.before()
	r.fail = refused("watch")
	r.start()
	r.Advance(3 * time.Millisecond)
	calls := r.Lines()
	if len(calls) < 2 || calls[0] != "get Lease" || calls[1] != "update Lease" {
		t.Errorf("calls %v", calls)
	}
	if at := r.lease.Spec.RenewTime.Time; r.Now().Sub(at) > 2*time.Millisecond {
		t.Errorf("the lease was renewed %v ago", r.Now().Sub(at))
	}
}

// TestWatchRefused: neither the lease nor the node's status waits for the watch of the node; its labels
// and taints are told of as well.
func TestWatchRefused(t *testing.T) {
	for name, calls := range map[string][]string{"the watch": {"watch"}, "every read of the node": {"watch", "get Node"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.before()
			r.fail = refused(calls...)
			r.start()
			for range 100 {
				r.Advance(3 * time.Second)
				if at := r.lease.Spec.RenewTime.Time; r.Now().Sub(at) > 12*time.Second {
					t.Fatalf("the lease was renewed %v ago", r.Now().Sub(at))
				}
			}
			if o := r.lease.OwnerReferences; len(o) != 1 || o[0].UID != "u1" {
				t.Errorf("the lease belongs to %v", o)
			}
			if len(calls) > 1 {
				if n := r.called("get Node"); n < 40 || n > 300 {
					t.Errorf("%d reads in 5 minutes", n)
				}
				r.fail = refused("watch")
				r.Advance(5 * time.Second)
			}
			r.wantReady(true)
			if len(r.seen) != 1 {
				t.Errorf("the node was told of %d times", len(r.seen))
			}
			r.put(func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoExecute}} })
			r.Advance(11 * time.Second)
			if len(r.seen) != 2 || len(r.seen[1].Spec.Taints) != 1 {
				t.Errorf("the taint was not told of: %d", len(r.seen))
			}
		})
	}
}

// TestRegisterWithoutWatch: a node that is not there is registered, and its lease made for it, though
// no watch says that it is not there.
func TestRegisterWithoutWatch(t *testing.T) {
	r := newRig(t)
	r.fail = refused("watch")
	r.start()
	r.Advance(1100 * time.Millisecond)
	r.wantReady(true)
	if r.lease == nil || r.lease.OwnerReferences[0].UID != r.node.UID {
		t.Errorf("the lease is %+v", r.lease)
	}
}

// TestWatchTells: once a watch tells of the node, it is not read any more.
func TestWatchTells(t *testing.T) {
	r := newRig(t)
	r.before()
	r.fail = refused("watch")
	r.start()
	r.Advance(30 * time.Second)
	if n := r.called("get Node"); n < 3 || n > 4 {
		t.Errorf("read %d times in 30 s", n)
	}
	r.fail = func(string) error { return nil }
	r.Advance(time.Minute) // until the next watch
	r.Forget()
	r.Advance(time.Minute)
	if n := r.called("get Node"); n > 0 {
		t.Errorf("read %d times more", n)
	}
}

// TestRestored: the apiserver's store is an older one, and the versions of its objects are lower: what
// it has counts, whether the watch tells of that or the answer to a write.
func TestRestored(t *testing.T) {
	set := func(r *rig, version string) *v1.Node {
		n := r.node.DeepCopy()
		n.ResourceVersion, n.Labels, n.Spec.Unschedulable = version, map[string]string{"own": "1", "backup": "1"}, true
		r.node = n
		return n
	}
	t.Run("told by the watch", func(t *testing.T) {
		r := newRig(t)
		r.before()
		r.version = 500
		r.start()
		r.Advance(15 * time.Second)
		r.watch(port.APIReplaced{Objects: []port.APIObject{set(r, "7")}})
		r.version = 7
		r.Advance(time.Second)
		if last := r.seen[len(r.seen)-1]; last.Labels["backup"] == "" || !last.Spec.Unschedulable {
			t.Errorf("the node of version %s is taken for the newest", last.ResourceVersion)
		}
		r.wantReady(true)
	})
	t.Run("told by a write", func(t *testing.T) {
		r := newRig(t)
		r.before()
		r.version = 500
		r.fail = refused("watch")
		r.start()
		r.Advance(15 * time.Second)
		set(r, "7")
		r.version = 7
		r.fail = refused("watch", "get Node")
		r.Advance(10 * time.Minute)
		if last := r.seen[len(r.seen)-1]; last.Labels["backup"] == "" {
			t.Errorf("the node of version %s is taken for the newest", last.ResourceVersion)
		}
	})
}
