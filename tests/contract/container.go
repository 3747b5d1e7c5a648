package contract

import (
	"fmt"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func testContainerLifecycle(s *suite) {
	pod, sandbox, id := s.created(s.Forever)
	c := s.status(id).noError()
	if c.State != observed.ContainerCreated || !c.Detailed || c.ID != id || !mayBeIn(c, sandbox) ||
		c.Pod.UID != pod.UID || c.Name != containerName || c.Attempt != 0 {
		s.Errorf("created container is %+v", c)
	}
	if c.CreatedAt.IsZero() || !c.StartedAt.IsZero() || !c.FinishedAt.IsZero() {
		s.Errorf("created container has times %v, %v, %v", c.CreatedAt, c.StartedAt, c.FinishedAt)
	}
	made := c.User
	if c.ImageRef == "" || c.Image == "" {
		s.Errorf("container has image %q, reference %q", c.Image, c.ImageRef)
	}

	s.start(id).noError()
	c = s.status(id).noError()
	if c.State != observed.ContainerRunning || c.StartedAt.Before(c.CreatedAt) || !c.FinishedAt.IsZero() {
		s.Errorf("running container is %+v", c)
	}

	// A runtime that says who the user is says it of a container that has not started too.
	if !reflect.DeepEqual(c.User, made) || c.User != nil && len(c.User.SupplementalGroups) == 0 {
		s.Errorf("user of the created container is %v, of the running one %v", made, c.User)
	}

	s.stop(id, 0).noError()
	c = s.status(id).noError()
	if c.State != observed.ContainerExited || c.FinishedAt.Before(c.StartedAt) || c.ExitCode != 137 {
		s.Errorf("killed container is %+v", c)
	}
	for range 2 { // stopping and removing are idempotent
		s.stop(id, time.Second).noError()
	}
	for range 2 {
		s.remove(id).noError()
		s.status(id).kind(port.NotFound)
	}
}

func testContainerExitCodes(s *suite) {
	for _, code := range []int32{0, 1, 42, 255} {
		_, _, id := s.running(s.Exits(code, 100*time.Millisecond))
		c := s.exited(id)
		want := "Error"
		if code == 0 {
			want = "Completed"
		}
		if c.ExitCode != code || c.Reason != want {
			s.Errorf("exit %d gave code %d, reason %q; want reason %q", code, c.ExitCode, c.Reason, want)
		}
		if c.StartedAt.IsZero() || !c.FinishedAt.After(c.StartedAt) || c.FinishedAt.After(s.Now()) {
			s.Errorf("exit %d: started %v, finished %v", code, c.StartedAt, c.FinishedAt)
		}
		if again := s.status(id).noError(); again.ExitCode != c.ExitCode || !again.FinishedAt.Equal(c.FinishedAt) {
			s.Errorf("exit %d: then it was %d at %v", code, again.ExitCode, again.FinishedAt)
		}
	}
}

func testContainerNameReserved(s *suite) {
	pod, sandbox, id := s.created(s.Forever)
	s.create(pod, sandbox, 0).kind(port.NameReserved)
	s.remove(id).noError()
	s.create(pod, sandbox, 0).noError()
}

func testContainerNextAttempt(s *suite) {
	pod, sandbox, first := s.running(s.Exits(3, 0))
	s.exited(first)
	second := s.create(pod, sandbox, 1).noError()
	s.start(second).noError()
	s.exited(second)
	of := s.list(string(pod.UID)).Pods[0]
	if len(of.Containers) != 2 || of.Containers[0].ID != second || of.Containers[0].Attempt != 1 || of.Containers[1].ID != first {
		s.Errorf("containers are %+v, want the newest attempt first", of.Containers)
	}
	s.remove(first).noError()
	if left := s.list(string(pod.UID)).Pods[0].Containers; len(left) != 1 || left[0].ID != second {
		s.Errorf("after removal of one there is %+v", left)
	}
}

func testContainerWrongState(s *suite) {
	_, _, id := s.running(s.Forever)
	check.Fails(s, check.Err(s.start(id).result()), "a running container was started again")
	s.stop(id, 0).noError()
	check.Fails(s, check.Err(s.start(id).result()), "an exited container was started again")
	check.Equal(s, s.status(id).noError().State, observed.ContainerExited, "then it")
}

func testContainerImageGone(s *suite) {
	s.removeImage(s.Pullable).noError()
	p := s.Forever
	p.Image = s.Pullable
	pod := s.pod(p)
	sandbox := s.sandbox(pod)
	s.createFrom(observed.Image{ID: fmt.Sprintf("sha256:%064x", 1)}, pod, sandbox, 0).kind(port.ImageNotFound)
	// The name was given back.
	s.create(pod, sandbox, 0).noError()
}

func testContainerSandboxGone(s *suite) {
	pod, sandbox, _ := s.created(s.Forever)
	s.stopSandbox(sandbox).noError()
	check.Fails(s, check.Err(s.create(pod, sandbox, 1).result()), "a container was created in a stopped sandbox")
	s.create(pod, noSuchID, 2).kind(port.NotFound)
}

func testContainerGone(s *suite) {
	s.status(noSuchID).kind(port.NotFound)
	s.start(noSuchID).kind(port.NotFound)
	s.stop(noSuchID, time.Second).noError()
	s.remove(noSuchID).noError()
	s.exec(noSuchID, []string{"true"}, time.Second).kind(port.NotFound)
}

func testContainerRemoveRunning(s *suite) {
	_, _, id := s.running(s.IgnoresTERM)
	s.remove(id).noError()
	s.status(id).kind(port.NotFound)
}

// mayBeIn: a status may leave out whose container it is.
func mayBeIn(c observed.Container, sandbox string) bool {
	return c.SandboxID == "" || c.SandboxID == sandbox
}
