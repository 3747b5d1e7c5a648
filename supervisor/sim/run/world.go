package run

import (
	"time"

	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
)

// World is what a run needs of a simulated world.
type World interface {
	// Server is its apiserver, Clock its time.
	Server() *simapi.Server
	Clock() simapi.Clock
	// RunUntil lets time pass until cond holds (true) or limit has passed (false).
	// cond is asked after everything that happens.
	RunUntil(limit time.Duration, cond func() bool) bool
	// AddNode adds a machine with a running agent.
	AddNode(name string, kind scenario.Nodes) error
	// FailNode turns a machine off, RecoverNode on again: all its containers are
	// gone then. KillAgent kills the agent alone, which its machine starts again.
	FailNode(name string) error
	RecoverNode(name string) error
	KillAgent(name string) error
	// SetImage sets what an image in the registry weighs, in bytes.
	SetImage(name string, size int64)
	// Draw gives n different numbers below of, from a random stream of the run's.
	Draw(n, of int) []int
	// Messages is how many messages actors have handled, Hash the trace so far.
	Messages() uint64
	Hash() uint64
}
