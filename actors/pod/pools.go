package pod

import (
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// Pools of slots bound the calls that run at once on the machine: those that make a pod, and
// those that take one down. Stopping a container of a running pod, or by force, needs no slot.
const (
	StartPool    = "start"
	TeardownPool = "teardown"
	// LookPool is for inspecting what ran before this agent, and its volumes. There may be
	// hundreds at the agent's start, and nothing depends on one. They come after starts, which
	// users wait for.
	LookPool = "look"
	// LargePool is for creating a container that takes megabytes to create, such as one whose variables expand to that.
	// Each is held in memory twice: as variables, which the request shares, and as what is sent. So there are few at a
	// time, also if they hang, and they wait for each other and not for a start: others never wait for them.
	LargePool = "large"
)

// larges is how many such containers are created at once: two, so that one that hangs does not hold up all others.
const larges = 2

// Pools makes them, with slots for so many starts and looks.
func Pools(starts, looks int) []kernel.Pool {
	return []kernel.Pool{
		{Name: StartPool, Size: starts, MinHold: 400 * time.Millisecond, MaxHold: 5 * time.Second, SlowHold: slowHold},
		{Name: LargePool, Size: larges, MinHold: startDeadline, MaxHold: startDeadline, Unkept: true},
		{Name: TeardownPool, Size: starts, MinHold: time.Second, MaxHold: 5 * time.Second, SlowHold: slowHold},
		{
			Name: LookPool, Size: looks, MinHold: 200 * time.Millisecond, MaxHold: 2 * time.Second, SlowHold: slowHold,
			Behind: StartPool, BehindMax: behindStarts,
		},
	}
}

// slowHold is the duration of a RunPodSandbox on a badly overloaded machine.
const slowHold = 3 * time.Second

// behindStarts is the longest that a look waits for starts to end. The state of running pods must
// be known soon, also on a node that starts one pod after another.
const behindStarts = 3 * time.Second
