package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestNetworkNotReady: while the node has no network for pods, an event says so in the words that people search for.
func TestNetworkNotReady(t *testing.T) {
	t.Parallel()
	w := newNode(t, 1)
	w.run(time.Second)
	w.fault = func(c simcri.Call) simcri.Fault {
		return simcri.Fault{Fail: c.Method == simcri.RunPodSandbox, Kind: port.NetworkNotReady, Detail: "cni plugin not initialized"}
	}
	w.add(aPod("web"))
	w.run(time.Minute)
	if m := w.lastEvent("web", "NetworkNotReady"); m != "network is not ready: container runtime network not ready: cni plugin not initialized" {
		t.Errorf("users are told %q", m)
	}
	if n := w.count("web", "FailedCreatePodSandBox"); n > 0 {
		t.Errorf("%d events FailedCreatePodSandBox", n)
	}
	w.fault = nil
	w.allUp(2 * time.Minute)
}

// TestListsFail: a runtime says that it is well, and lists nothing. The scheduler must not go on binding pods to the node.
func TestListsFail(t *testing.T) {
	w, c := parallelCluster(t, 1)
	ready := func(want bool, when string) {
		t.Helper()
		if got := nodeobject.Ready(&c.node().Status); got != want {
			t.Errorf("%s: the node is ready: %v, want %v", when, got, want)
		}
	}
	ready(true, "at first")
	w.fault = func(call simcri.Call) simcri.Fault {
		return simcri.Fault{Fail: call.Method == simcri.List, Kind: port.Other, Detail: "received message larger than max"}
	}
	w.run(2 * time.Minute)
	ready(true, "for a while")
	w.run(4 * time.Minute) // a list a minute, as events come
	ready(false, "without a list")
	w.fault = nil
	w.run(time.Minute)
	ready(true, "with lists again")
}
