package scenarios

import (
	"testing"
	"time"

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
