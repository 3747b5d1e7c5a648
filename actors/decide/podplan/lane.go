package podplan

// LaneKind says what kind of thing a lane is about.
type LaneKind uint8

const (
	LanePod       LaneKind = iota // the pod as a whole: observe it
	LaneSandbox                   // making and stopping its sandbox
	LaneContainer                 // making and starting one container, by name
	LaneStop                      // stopping one container, by ID
	LaneHook                      // hooks in one container, by ID
	LaneInspect                   // reading one container or sandbox, by ID
	LaneMade                      // reading what the runtime made of a container, by ID
	LaneImage                     // the image of one container, by name
	LaneVolumes                   // the volumes of the pod
	LaneCgroup                    // the cgroup of the pod
	LaneClaims                    // the ResourceClaims of the pod
	LaneResize                    // the limits of a running pod and of its containers: one after the other
	LanePlace                     // the CPUs of one container, by ID
	LaneNote                      // what is written down of one container, by ID
)

func (k LaneKind) String() string {
	return [...]string{
		"pod", "sandbox", "container", "stop", "hook", "inspect", "made", "image", "volumes", "cgroup", "claims", "resize",
		"place", "note",
	}[k]
}

// Lane names the thing that an action works on. On one lane, one action runs
// at a time; the plan issues nothing on a busy lane.
type Lane struct {
	Kind LaneKind
	Name string
	// N tells overlapping stops of one container apart (see StopContainer).
	N int
}
