package simcri

import (
	"errors"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Script is what a started container does. The zero value runs for ever, ends
// at once with code 0 when it gets the stop signal, and answers every exec with 0.
type Script struct {
	// RunFor is how long it runs; zero is for ever. Then it ends with ExitCode.
	RunFor   Dist
	ExitCode int32
	// CrashLoop is how many incarnations (attempt 0 and up) crash, with ExitCode
	// (1 if that is 0) after RunFor (at once if that is zero); those after them
	// run for ever. -1: all crash. 0: it is not a crash loop.
	CrashLoop int32
	// OOMAfter is when the kernel kills it for its memory: 137, OOMKilled. Zero is never.
	OOMAfter Dist

	// StartLatency comes on top of the latency of StartContainer.
	StartLatency Dist
	// StartError makes the start fail with these words.
	StartError string

	// TermDelay is how long it lives on after the stop signal, to end with TermExitCode.
	TermDelay    Dist
	TermExitCode int32
	// IgnoreTERM: only SIGKILL ends it.
	IgnoreTERM bool

	// Answer is what a command run in it gives, unless Exec is set.
	Answer ExecAnswer
	// Exec answers by the command. It is called under the runtime's lock and
	// must not call the runtime.
	Exec func(command []string) ExecAnswer

	// Health is how it answers probes.
	Health Health

	// CPUMillicores is what it burns while it runs.
	CPUMillicores int64
	// MemoryBytes is what it has at the start, MemoryGrowth what comes to that
	// in a second. A container with a memory limit is OOM-killed when it gets there.
	MemoryBytes, MemoryGrowth int64
	// LogRate is what it writes to its log, in bytes per second.
	LogRate int64
}

// ExecAnswer is what one command gives.
type ExecAnswer struct {
	ExitCode       int32
	Stdout, Stderr string
	Delay          Dist
	// Hang: it never ends by itself.
	Hang bool
}

// Starting is a container that is being started.
type Starting struct {
	Pod       *v1.Pod
	Container *v1.Container
	Attempt   uint32
}

// DefaultScript is what a container does if nothing is said of it: it runs for
// ever and dies of SIGTERM within milliseconds, as most servers do.
func DefaultScript() Script {
	return Script{TermDelay: Constant(5 * time.Millisecond), TermExitCode: exitTerminated}
}

var defaultScript = DefaultScript()

// Validate says what of the script can't be.
func (s *Script) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		dist Dist
	}{
		{"RunFor", s.RunFor}, {"OOMAfter", s.OOMAfter}, {"StartLatency", s.StartLatency},
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

// scriptOf finds what the container does that is being started.
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

// Usage is what a container has used of the machine.
type Usage struct {
	CPU         time.Duration // since its start
	Millicores  int64         // now
	MemoryBytes int64         // now
	LogBytes    int64         // written since its start
}

func (c *container) usage(now int64) Usage {
	if c.startedAt == 0 {
		return Usage{}
	}
	end := now
	if c.finishedAt != 0 {
		end = c.finishedAt
	}
	ran := time.Duration(end - c.startedAt)
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
