package pod

import (
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// Pools of slots that bound how much runs at once on the machine: what makes a
// pod, and what takes it down. A container that is stopped while its pod goes on,
// or by force, waits for none.
const (
	StartPool    = "start"
	TeardownPool = "teardown"
	// LookPool is for looks at what ran before this agent did, and at its volumes:
	// there may be hundreds of them at its start, and nothing waits for any. They come
	// after starts, for which somebody waits.
	LookPool = "look"
)

// Pools makes them, for so many starts and so many looks at once.
func Pools(starts, looks int) []kernel.Pool {
	return []kernel.Pool{
		{Name: StartPool, Size: starts, MinHold: 400 * time.Millisecond, MaxHold: 5 * time.Second, SlowHold: slowHold},
		{Name: TeardownPool, Size: starts, MinHold: time.Second, MaxHold: 5 * time.Second, SlowHold: slowHold},
		{
			Name: LookPool, Size: looks, MinHold: 200 * time.Millisecond, MaxHold: 2 * time.Second, SlowHold: slowHold,
			Behind: StartPool, BehindMax: behindStarts,
		},
	}
}

// slowHold is what a RunPodSandbox takes on a machine that has far too much to do.
const slowHold = 3 * time.Second

// behindStarts is how long a look waits at the most until nothing is being started:
// what runs is to be known soon, also on a node that starts one pod after another.
const behindStarts = 3 * time.Second
