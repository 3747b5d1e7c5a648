package contract

import (
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

func testExecExitCodes(s *suite) {
	for _, code := range []int32{0, 1, 23} {
		p, command := s.Exec(code, "hello")
		_, _, id := s.running(p)
		got := s.exec(id, command, 20*time.Second).noError()
		if got.ExitCode != code || strings.TrimSpace(string(got.Stdout)) != "hello" {
			s.Errorf("%v gave %d, %q; want %d, hello", command, got.ExitCode, got.Stdout, code)
		}
		if c := s.status(id).noError(); c.State != observed.ContainerRunning {
			s.Errorf("after %v the container is %v", command, c.State)
		}
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
	if c := s.status(id).noError(); c.State != observed.ContainerRunning {
		s.Errorf("then the container is %v", c.State)
	}
}

func testExecNotRunning(s *suite) {
	p, command := s.Exec(0, "hello")
	_, _, id := s.running(p)
	s.stop(id, 0).noError()
	if _, err := s.exec(id, command, 5*time.Second).result(); err == nil {
		s.Error("a command ran in a container that has ended")
	}
}
