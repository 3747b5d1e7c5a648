package contract

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// The graces here are whole seconds: the CRI has no smaller ones.

func testStopOnTERM(s *suite) {
	_, _, id := s.running(s.EndsOnTERM(0, 0))
	s.stop(id, 20*time.Second).noError()
	if c := s.status(id).noError(); c.State != observed.ContainerExited || c.ExitCode != 0 || c.Reason != "Completed" {
		s.Errorf("container is %+v, want it to have ended by itself with 0", c)
	}
}

// testStopWithinGrace: a program that needs a part of its grace gets it.
func testStopWithinGrace(s *suite) {
	_, _, id := s.running(s.EndsOnTERM(17, time.Second))
	begun := s.Now()
	s.stop(id, 20*time.Second).noError()
	c := s.status(id).noError()
	check.Equal(s, c.ExitCode, 17, "exit code is %d, want the program's own 17", c.ExitCode)
	if took := c.FinishedAt.Sub(begun); took < 900*time.Millisecond || took > 15*time.Second {
		s.Errorf("it took %v, want about 1s", took)
	}
}

func testStopAfterGrace(s *suite) {
	const grace = 2 * time.Second
	_, _, id := s.running(s.IgnoresTERM)
	begun := s.Now()
	s.stop(id, grace).noError()
	c := s.status(id).noError()
	if c.State != observed.ContainerExited || c.ExitCode != 137 || c.Reason != "Error" {
		s.Errorf("container is %+v, want it killed", c)
	}
	if lived := c.FinishedAt.Sub(begun); lived < grace {
		s.Errorf("it was killed after %v, before its grace of %v was over", lived, grace)
	}
}

func testStopZeroGrace(s *suite) {
	_, _, id := s.running(s.EndsOnTERM(0, 10*time.Second))
	begun := s.Now()
	s.stop(id, 0).noError()
	c := s.status(id).noError()
	if c.ExitCode != 137 || c.FinishedAt.Sub(begun) > 5*time.Second {
		s.Errorf("exit code %d after %v, want 137 at once", c.ExitCode, c.FinishedAt.Sub(begun))
	}
}

// testStopShorterOvertakes: a later stop with less grace ends an earlier one.
func testStopShorterOvertakes(s *suite) {
	_, _, id := s.running(s.IgnoresTERM)
	begun := s.Now()
	long := s.stop(id, 50*time.Second)
	s.stop(id, time.Second).noError()
	long.noError()
	c := s.status(id).noError()
	if lived := c.FinishedAt.Sub(begun); c.ExitCode != 137 || lived < time.Second || lived > 20*time.Second {
		s.Errorf("exit code %d after %v, want 137 after about 1s", c.ExitCode, lived)
	}
}

// testStopCanceled: who gives up waiting for a stop has not killed anything.
func testStopCanceled(s *suite) {
	_, _, id := s.running(s.IgnoresTERM)
	ctx, cancel := s.context()
	stop := s.stopCtx(ctx, id, 2*time.Second)
	s.pass(500 * time.Millisecond)
	cancel()
	stop.kind(port.Canceled)
	if c := s.status(id).noError(); c.State != observed.ContainerRunning {
		s.Errorf("container is %+v, want it running within its grace", c)
	}
}

func testStopNotStarted(s *suite) {
	_, _, id := s.created(s.Forever)
	s.stop(id, time.Second).noError()
	if c := s.status(id).noError(); c.State == observed.ContainerRunning {
		s.Errorf("container is %+v", c)
	}
	s.remove(id).noError()
}
