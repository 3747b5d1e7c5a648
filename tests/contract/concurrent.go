package contract

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// testConcurrent runs several pods at once, each step of all of them under way
// at the same time.
func testConcurrent(s *suite) {
	const n = 6
	p := s.Exits(5, 100*time.Millisecond)
	img := s.image(p.Image)

	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = s.pod(p)
	}
	boxes := all(n, func(i int) *pending[string] { return s.run(pods[i], 0) })
	ids := all(n, func(i int) *pending[string] { return s.createFrom(img, pods[i], boxes[i], 0) })
	all(n, func(i int) *pending[struct{}] { return s.start(ids[i]) })
	seen := map[string]bool{}
	for i, id := range ids {
		if seen[id] || seen[boxes[i]] {
			s.Errorf("ID %s or %s was given twice", id, boxes[i])
		}
		seen[id], seen[boxes[i]] = true, true
		if c := s.exited(id); c.ExitCode != 5 || !mayBeIn(c, boxes[i]) || c.Pod.UID != pods[i].UID {
			s.Errorf("container %d is %+v", i, c)
		}
	}
	for _, st := range all(n, func(i int) *pending[observed.Sandbox] { return s.sandboxStatus(boxes[i]) }) {
		if len(st.IPs) == 0 || seen[st.IPs[0]] {
			s.Errorf("sandbox %s has addresses %v, want one of its own", st.ID, st.IPs)
			continue
		}
		seen[st.IPs[0]] = true
	}
	// Two stops of one sandbox at once may get into each other's way (in
	// containerd, when both take the network down). A later one puts it right.
	stops := make([]*pending[struct{}], 2*n)
	for i := range stops {
		stops[i] = s.stopSandbox(boxes[i/2])
	}
	for _, stop := range stops {
		if _, err := stop.result(); err != nil {
			s.Logf("one of two stops at once: %v", err)
		}
	}
	all(n, func(i int) *pending[struct{}] { return s.stopSandbox(boxes[i]) })
	all(n, func(i int) *pending[struct{}] { return s.removeSandbox(boxes[i]) })
	for _, pod := range pods {
		if left := s.list(string(pod.UID)).Pods; len(left) != 0 {
			s.Errorf("after removal there is %+v", left)
		}
	}
}

// all makes n calls and then waits for them.
func all[T any](n int, call func(i int) *pending[T]) []T {
	calls := make([]*pending[T], n)
	for i := range calls {
		calls[i] = call(i)
	}
	out := make([]T, n)
	for i, c := range calls {
		c.s.Helper()
		out[i] = c.noError()
	}
	return out
}
