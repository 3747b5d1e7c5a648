package simcri

import (
	"errors"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Script is the behavior of a started container. The zero value runs forever, ends at once with
// code 0 on the stop signal, and answers every exec with 0.
type Script struct {
	// RunFor is how long it runs; zero is forever. Then it ends with ExitCode.
	RunFor   Dist
	ExitCode int32
	// CrashLoop is the number of incarnations (attempt 0 and up) that crash, with ExitCode (1 if
	// that is 0) after RunFor (at once if that is zero); later ones run forever. -1: all crash.
	// 0: it is not a crash loop.
	CrashLoop int32
	// OOMAfter is when it is OOM-killed: 137, OOMKilled. Zero is never.
	OOMAfter Dist
	// OOMLate is how long after an OOM kill the runtime hears that it was one; until then the reason
	// is Error. Zero is at once.
	OOMLate Dist

	// StartLatency is added to the latency of StartContainer.
	StartLatency Dist
	// StartError makes the start fail with this message.
	StartError string

	// TermDelay is the time from the stop signal to its end with TermExitCode.
	TermDelay    Dist
	TermExitCode int32
	// IgnoreTERM: only SIGKILL ends it.
	IgnoreTERM bool

	// Answer is the result of a command in it, unless Exec is set.
	Answer ExecAnswer
	// Exec returns the result by command. It is called under the runtime's lock and must not call
	// the runtime.
	Exec func(command []string) ExecAnswer

	// Health is how it answers probes.
	Health Health

	// CPUMillicores is its CPU usage while it runs.
	CPUMillicores int64
	// MemoryBytes is its memory at the start, MemoryGrowth the growth per second. It is
	// OOM-killed when it reaches its memory limit.
	MemoryBytes, MemoryGrowth int64
	// LogRate is its log output, in bytes per second.
	LogRate int64
}

// ExecAnswer is the result of one command.
type ExecAnswer struct {
	ExitCode       int32
	Stdout, Stderr string
	Delay          Dist
	// Hang: it never ends by itself.
	Hang bool
}

// Starting is a container that is about to start.
type Starting struct {
	Pod       *v1.Pod
	Container *v1.Container
	Attempt   uint32
}

// DefaultScript is for containers without a script: it runs forever and ends within milliseconds
// of SIGTERM, like most servers.
func DefaultScript() Script {
	return Script{TermDelay: Constant(5 * time.Millisecond), TermExitCode: exitTerminated}
}

var defaultScript = DefaultScript()

// Validate returns what is wrong with the script.
func (s *Script) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		dist Dist
	}{
		{"RunFor", s.RunFor}, {"OOMAfter", s.OOMAfter}, {"OOMLate", s.OOMLate}, {"StartLatency", s.StartLatency},
		{"TermDelay", s.TermDelay}, {"Answer.Delay", s.Answer.Delay},
		{"Health.StartupTime", s.Health.StartupTime}, {"Health.ReadyAfter", s.Health.ReadyAfter},
		{"Health.ReadyFor", s.Health.ReadyFor}, {"Health.UnreadyFor", s.Health.UnreadyFor},
		{"Health.UnhealthyAfter", s.Health.UnhealthyAfter}, {"Health.Delay", s.Health.Delay},
	} {
		if err := d.dist.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.name, err))
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"CPUMillicores", s.CPUMillicores}, {"MemoryBytes", s.MemoryBytes},
		{"MemoryGrowth", s.MemoryGrowth}, {"LogRate", s.LogRate}, {"CrashLoop+1", int64(s.CrashLoop) + 1},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s: %d is negative", n.name, n.value))
		}
	}
	if s.Health.ReadyFor.IsZero() != s.Health.UnreadyFor.IsZero() {
		errs = append(errs, errors.New("Health.ReadyFor and Health.UnreadyFor: give both or none"))
	}
	return errors.Join(errs...)
}

// scriptOf finds the script of a container that starts.
func (r *Runtime) scriptOf(c *container) (*Script, error) {
	if r.cfg.Script != nil {
		if s := r.cfg.Script(Starting{Pod: c.sandbox.asked, Container: c.spec, Attempt: c.attempt}); s != nil {
			if err := s.Validate(); err != nil {
				return nil, fmt.Errorf("script of container %s of pod %s: %w", c.spec.Name, c.sandbox.pod.ref, err)
			}
			return s, nil
		}
	}
	return scriptFromAnnotations(r.base, c.sandbox.pod.ref, c.sandbox.of.annotations, c.spec.Name)
}

// end is how a container ends by itself, and when, counted from its start.
func (s *Script) end(c *container, r *Runtime) (after time.Duration, code int32, reason exitReason, ends bool) {
	switch {
	case s.CrashLoop < 0 || s.CrashLoop > 0 && int64(c.attempt) < int64(s.CrashLoop):
		after, code, ends = s.RunFor.Sample(r.scr), s.ExitCode, true
		if code == 0 {
			code = 1
		}
	case s.CrashLoop == 0 && !s.RunFor.IsZero():
		after, code, ends = s.RunFor.Sample(r.scr), s.ExitCode, true
	}
	reason = reasonOf(code)
	oom := func(at time.Duration) {
		if !ends || at < after {
			after, code, reason, ends = at, exitKilled, reasonOOMKilled, true
		}
	}
	if !s.OOMAfter.IsZero() {
		oom(s.OOMAfter.Sample(r.scr))
	}
	if limit := memoryLimit(c.spec); limit > 0 {
		if s.MemoryBytes >= limit {
			oom(0)
		} else if s.MemoryGrowth > 0 {
			seconds := float64(limit-s.MemoryBytes) / float64(s.MemoryGrowth)
			oom(time.Duration(min(math.Ceil(seconds*float64(time.Second)), math.MaxInt64/2)))
		}
	}
	return after, code, reason, ends
}

func (s *Script) exec(command []string) ExecAnswer {
	if s.Exec != nil {
		return s.Exec(command)
	}
	return s.Answer
}

// Usage is a container's resource usage.
type Usage struct {
	CPU         time.Duration // since its start
	Millicores  int64         // now
	MemoryBytes int64         // now
	LogBytes    int64         // written since its start
}

// usage is what it uses after it ran for so long.
func (c *container) usage(ran time.Duration) Usage {
	if c.startedAt == 0 {
		return Usage{}
	}
	s := c.script
	u := Usage{
		CPU:      time.Duration(float64(ran) * float64(s.CPUMillicores) / 1000),
		LogBytes: int64(ran.Seconds() * float64(s.LogRate)),
	}
	if c.state == containerRunning {
		u.Millicores = s.CPUMillicores
		u.MemoryBytes = s.MemoryBytes + int64(ran.Seconds()*float64(s.MemoryGrowth))
	}
	return u
}
