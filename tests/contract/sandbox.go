package contract

import (
	"net/netip"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func testSandboxLifecycle(s *suite) {
	pod := s.pod(s.Forever)
	id := s.run(pod, 3).noError()
	box := s.sandboxStatus(id).noError()
	want := observed.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	if box.ID != id || box.Pod != want || box.Attempt != 3 || box.State != observed.SandboxReady {
		s.Errorf("sandbox is %+v, want a ready one of %v, attempt 3", box, want)
	}
	if !box.Detailed || box.HostNetwork || box.CreatedAt.IsZero() || box.CreatedAt.After(s.Now()) {
		s.Errorf("inspected sandbox is %+v", box)
	}
	if len(box.IPs) == 0 {
		s.Error("the sandbox has no IP")
	} else if _, err := netip.ParseAddr(box.IPs[0]); err != nil {
		s.Errorf("the sandbox's IP: %v", err)
	}
	for range 2 { // stopping is idempotent
		s.stopSandbox(id).noError()
		check.Equal(s, s.sandboxStatus(id).noError().State, observed.SandboxNotReady, "a stopped sandbox")
	}
	for range 2 { // removing too
		s.removeSandbox(id).noError()
		s.sandboxStatus(id).kind(port.NotFound)
	}
	if left := s.list(string(pod.UID)).Pods; len(left) != 0 {
		s.Errorf("after removal there is %+v", left)
	}
}

func testSandboxNameReserved(s *suite) {
	pod := s.pod(s.Forever)
	first := s.run(pod, 0).noError()
	s.run(pod, 0).kind(port.NameReserved)
	s.stopSandbox(first).noError()
	s.run(pod, 0).kind(port.NameReserved)
	second := s.run(pod, 1).noError()
	if first == second {
		s.Error("two sandboxes have one ID")
	}
	boxes := s.list(string(pod.UID)).Pods[0].Sandboxes
	if len(boxes) != 2 || boxes[0].ID != second || boxes[1].ID != first {
		s.Errorf("sandboxes are %+v, want the newest attempt first", boxes)
	}
	s.removeSandbox(first).noError()
	s.run(pod, 0).noError()
}

// testSandboxNameReservedWhileMade: of two calls at once for one name, one works.
func testSandboxNameReservedWhileMade(s *suite) {
	pod := s.pod(s.Forever)
	a, b := s.run(pod, 0), s.run(pod, 0)
	_, errA := a.result()
	_, errB := b.result()
	if errA != nil {
		errA, errB = errB, errA
	}
	if errA != nil || port.KindOf(errB) != port.NameReserved || errB == nil {
		s.Errorf("of two at once: %v and %v, want one to work and one to be NameReserved", errA, errB)
	}
	if boxes := s.list(string(pod.UID)).Pods[0].Sandboxes; len(boxes) != 1 {
		s.Errorf("sandboxes are %+v, want one", boxes)
	}
}

// noSuchID looks like a runtime's ID.
const noSuchID = "00000000000000000000000000000000000000000000000000000000000000aa"

func testSandboxGone(s *suite) {
	s.sandboxStatus(noSuchID).kind(port.NotFound)
	s.stopSandbox(noSuchID).noError()
	s.removeSandbox(noSuchID).noError()
}

func testSandboxHostNetwork(s *suite) {
	pod := s.pod(s.Forever)
	pod.Spec.HostNetwork = true
	id := s.sandbox(pod)
	if box := s.sandboxStatus(id).noError(); !box.HostNetwork {
		s.Errorf("sandbox is %+v, want one on the host's network", box)
	}
}

func testSandboxStopKills(s *suite) {
	_, sandbox, id := s.running(s.IgnoresTERM)
	s.stopSandbox(sandbox).noError()
	c := s.exited(id)
	check.Equal(s, c.ExitCode, 137, "exit code")
}

func testSandboxRemoveRunning(s *suite) {
	pod, sandbox, id := s.running(s.IgnoresTERM)
	s.removeSandbox(sandbox).noError()
	s.status(id).kind(port.NotFound)
	if left := s.list(string(pod.UID)).Pods; len(left) != 0 {
		s.Errorf("after removal there is %+v", left)
	}
}
