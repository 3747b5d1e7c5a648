package contract

import (
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func testExecExitCodes(s *suite) {
	for _, code := range []int32{0, 1, 23} {
		p, command := s.Exec(code, "hello")
		_, _, id := s.running(p)
		got := s.exec(id, command, 20*time.Second).noError()
		if got.ExitCode != code || strings.TrimSpace(string(got.Stdout)) != "hello" {
			s.Errorf("%v gave %d, %q; want %d, hello", command, got.ExitCode, got.Stdout, code)
		}
		check.Equal(s, s.status(id).noError().State, observed.ContainerRunning, "after %v the container", command)
	}
}

func testExecTimeout(s *suite) {
	p, command := s.ExecHangs()
	_, _, id := s.running(p)
	begun := s.Now()
	s.exec(id, command, time.Second).kind(port.Deadline)
	if took := s.Now().Sub(begun); took < time.Second || took > 20*time.Second {
		s.Errorf("it took %v, want about 1s", took)
	}
	check.Equal(s, s.status(id).noError().State, observed.ContainerRunning, "then the container")
}

func testExecNotRunning(s *suite) {
	p, command := s.Exec(0, "hello")
	_, _, id := s.running(p)
	s.stop(id, 0).noError()
	check.Fails(s, check.Err(s.exec(id, command, 5*time.Second).result()), "a command ran in a container that has ended")
}
