package report

import "time"

// Data is all that a report shows. All times in it are simulated, and counted from the beginning of
// the run; what is of the wall clock says so. Names and texts are shown as they are, whatever is in
// them.
type Data struct {
	// Title is the heading: what the run was about, in a few words. "Simulation" if empty.
	Title string
	// Scenario names the scenario that was run, as the user gave it; empty if there was none.
	Scenario string
	Seed     uint64
	// Command is the command that makes the same run again, the program first. It is shown quoted
	// for a shell. Nothing is shown if it is empty.
	Command []string
	// Version of the program that made the run, as it calls itself: "troupe v1.2.3"; left out if empty.
	Version string
	// Duration is how long the run was, and how long the axis of time is; at most ten years.
	Duration time.Duration
	// Interrupted is true if the run ended before it was done.
	Interrupted bool

	Figures Figures
	// Phases are looks at all pods, in order of time. A look is taken to hold until the next one,
	// and the last one until Duration. Any number will do: long series are averaged for the chart,
	// while peaks are taken from all looks.
	Phases []PhaseSample
	// Starts says how long pods took from being bound to a node to being Ready, each pod once. The
	// order does not matter, and one entry may stand for many pods.
	Starts []Latency
	Heat   Heat
	// Marks are what was done to the world, in any order.
	Marks []Mark
	// Failures are the expectations that were not met, in any order. Empty means that all were.
	Failures []Failure
	// Story is that of a case of troupe chaos, nil for a run of troupe sim: the page shows it in the
	// place of all that is counted.
	Story *Story
	// Expectations is how many were looked at, those that failed among them; 0 if there were none.
	Expectations int
}

// Figures are the numbers at the top, the same that the command prints as a table and as JSON.
type Figures struct {
	// Nodes and Pods that there are at the end.
	Nodes, Pods int
	// PodsRunning are those of Pods whose phase is Running at the end, ready or not.
	PodsRunning int
	// StartP50, StartP90 and StartP99 are percentiles of Data.Starts. They are marked in its
	// histogram. Zero where no pod has started.
	StartP50, StartP90, StartP99 time.Duration
	// Restarts of containers over the whole run.
	Restarts int
	// Messages that actors have handled.
	Messages uint64
	// Wall is how long the run took, on the wall clock.
	Wall time.Duration
	// HeapBytes is the heap in use at the end.
	HeapBytes uint64
	// TraceHash is equal for equal runs. It is shown as it is.
	TraceHash string
}

// Phase is where a pod is in its life, finer than v1.PodPhase: each pod has exactly one at a time.
//
//	Pending ─► Creating ─► NotReady ⇄ Ready
//	                 └─► BackOff ◄──┘   └─► Succeeded, Failed
//	any of them ─► Terminating ─► gone, counted no more
type Phase int

// The phases. Where two would fit, the later in this list is the one.
const (
	// Ready: v1.PodReady is true.
	Ready Phase = iota
	// NotReady: a container runs, but the pod is not ready.
	NotReady
	// Creating: a node has the pod, and none of its containers has run yet (ContainerCreating,
	// PodInitializing).
	Creating
	// Pending: no node has the pod yet.
	Pending
	// BackOff: a container waits to be tried again (CrashLoopBackOff, ImagePullBackOff).
	BackOff
	// Succeeded is v1.PodSucceeded.
	Succeeded
	// Failed is v1.PodFailed.
	Failed
	// Terminating: the pod has a deletion timestamp, and is not gone.
	Terminating

	phaseCount
)

// String is the phase as the report names it.
func (p Phase) String() string {
	switch p {
	case Ready:
		return "Ready"
	case NotReady:
		return "Not ready"
	case Creating:
		return "Creating"
	case Pending:
		return "Pending"
	case BackOff:
		return "Back-off"
	case Succeeded:
		return "Succeeded"
	case Failed:
		return "Failed"
	case Terminating:
		return "Terminating"
	default:
		return "?"
	}
}

// PhaseCounts has a number of pods for each [Phase].
type PhaseCounts [phaseCount]int

// PhaseSample is one look at all pods.
type PhaseSample struct {
	At   time.Duration
	Pods PhaseCounts
}

// Latency says that so many pods took so long to start.
type Latency struct {
	Took time.Duration
	Pods int
}

// Heat says for each node what happened on it, by columns of time of equal width. Any number of nodes
// and columns will do: what is drawn are sums of neighbours. To record a long run in little memory,
// join columns by twos as it continues.
type Heat struct {
	// Column is the width of a column: cell i of each node is [i·Column, (i+1)·Column).
	Column time.Duration
	// Nodes in the order in which they are shown: those beside each other may share a row.
	Nodes []NodeHeat
}

// NodeHeat is one node of [Heat].
type NodeHeat struct {
	Name string
	// Cells begin with the run, and end early for a node that was removed.
	Cells []Cell
}

// Cell sums up one node in one column of time. It is made of sums only, so that cells can be added.
type Cell struct {
	// Looks is how often the node was looked at. A cell without looks is one without the node: not
	// added yet, or removed.
	Looks uint32
	// Down is at how many of the looks the node was not up.
	Down uint32
	// Pods and Ready are summed over the looks: the pods that the node should run, except those that
	// have ended, and those of them that were ready. Invariant: Ready <= Pods.
	Pods, Ready uint64
	// Starts and Restarts are how many pods became ready for the first time, and how many containers
	// were started again, in this time.
	Starts, Restarts uint32
}

// MarkKind says what a [Mark] is.
type MarkKind int

// The kinds of marks.
const (
	// Step is a step of the scenario.
	Step MarkKind = iota
	// Fault is something that was broken on purpose.
	Fault
)

// Mark is something that was done to the world at a time, or for some time.
type Mark struct {
	At time.Duration
	// Until is when it ended; zero if it was a matter of a moment.
	Until time.Duration
	Kind  MarkKind
	// Text says in a few words what it was.
	Text string
	// Where is the place in the scenario, as file:line; may be empty.
	Where string
}

// Failure is an expectation that was not met.
type Failure struct {
	// At is when that was certain.
	At time.Duration
	// Want and Got say what was expected, and what there was instead.
	Want, Got string
	// Where is the place in the scenario, as file:line; may be empty.
	Where string
}
