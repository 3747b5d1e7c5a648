package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// LaneKind says what kind of thing a lane is about.
type LaneKind uint8

const (
	LanePod       LaneKind = iota // the pod as a whole: observe it
	LaneSandbox                   // making and stopping its sandbox
	LaneContainer                 // making and starting one container, by name
	LaneStop                      // stopping one container, by ID
	LaneHook                      // hooks in one container, by ID
	LaneInspect                   // reading one container or sandbox, by ID
	LaneImage                     // the image of one container, by name
	LaneVolumes                   // the volumes of the pod
	LaneCgroup                    // the cgroup of the pod
	LaneResize                    // the limits of a pod that runs, and of its containers: one after the other
	LaneNote                      // what is written down of one container, by ID
)

func (k LaneKind) String() string {
	return [...]string{"pod", "sandbox", "container", "stop", "hook", "inspect", "image", "volumes", "cgroup", "resize", "note"}[k]
}

// Lane names the thing that an action works on. On one lane, one action runs
// at a time; the plan issues nothing on a busy lane.
type Lane struct {
	Kind LaneKind
	Name string
	// N tells overlapping stops of one container apart (see StopContainer).
	N int
}

// Action is one thing to do now. The plan only names it; the pod actor's shell
// turns it into an effect or into a message to another actor.
//
//sumtype:decl
type Action interface {
	Lane() Lane
	isAction()
}

// ObservePod reads all sandboxes and containers of the pod from the runtime.
type ObservePod struct{}

// RunSandbox makes the sandbox with this attempt number.
type RunSandbox struct{ Attempt uint32 }

// StopSandbox stops a sandbox and all that still runs in it, and frees its network.
type StopSandbox struct {
	ID  string
	Why string
}

// InspectSandbox reads a sandbox's details (addresses).
type InspectSandbox struct{ ID string }

// EnsureImage asks the images actor for the image of a container, as its pull
// policy says, for the incarnation with this attempt number.
type EnsureImage struct {
	Container string
	Image     string
	Policy    v1.PullPolicy
	Attempt   uint32
}

// MountVolumes asks the volumes actor for all volumes of the pod.
type MountVolumes struct{}

// UnmountVolumes asks the volumes actor to take them down.
type UnmountVolumes struct{}

// EnsureCgroup tells the resources actor of the pod, and asks it for the pod's
// cgroup if Make is set.
type EnsureCgroup struct{ Make bool }

// RemoveCgroup asks the resources actor to remove it.
type RemoveCgroup struct{}

// CreateContainer makes one incarnation of a container.
type CreateContainer struct {
	Name           string
	Kind           podspec.Kind
	Attempt        uint32
	SandboxID      string
	SandboxAttempt uint32
	ImageRef       string
	SpecHash       string
	PodIPs         []string
	// Resources are what it is made with, as far as a resize can change them; nil
	// for a pod that was never resized.
	Resources *observed.Resources
}

// StartContainer starts a created container.
type StartContainer struct {
	Name string
	ID   string
}

// InspectContainer reads a container's details.
type InspectContainer struct {
	Name string
	ID   string
}

// RunPostStart runs the postStart hook of a container that just started, for as
// long as it takes (see Output.EndHooks).
type RunPostStart struct {
	Name    string
	ID      string
	Handler *v1.LifecycleHandler
}

// RunPreStop runs the preStop hook. For Grace, what is left of the grace period,
// the stop signal waits for it; the hook itself may go on until its container is
// dead (see Output.EndHooks).
type RunPreStop struct {
	Name    string
	ID      string
	Handler *v1.LifecycleHandler
	Grace   time.Duration
}

// StopContainer sends the stop signal and kills after Grace. A second one may
// overlap a first whose kill would come later; N counts them.
type StopContainer struct {
	Name  string
	ID    string
	Grace time.Duration
	N     int
	// Why is for people, and ends up in the Killing event.
	Why string
}

// NoteRestart asks the pods actor to write down that a container is stopped in
// order to be restarted (RestartNote).
type NoteRestart struct {
	Name  string
	ID    string
	Cause podlife.RestartCause
}

// RemoveContainer removes a container that was made and can never be started.
type RemoveContainer struct {
	Name string
	ID   string
}

// LookResources reads the limits of the pod's cgroup, and how much memory is in use
// there and in these containers.
type LookResources struct{ IDs []string }

// ResizePod gives the pod's cgroup other limits, after the runtime was told.
type ResizePod struct {
	SandboxID string
	To        observed.Resources
}

// ResizeContainer gives a running container other limits.
type ResizeContainer struct {
	Name string
	ID   string
	To   observed.Resources
}

func (ObservePod) Lane() Lane        { return Lane{Kind: LanePod} }
func (RunSandbox) Lane() Lane        { return Lane{Kind: LaneSandbox} }
func (StopSandbox) Lane() Lane       { return Lane{Kind: LaneSandbox} }
func (a InspectSandbox) Lane() Lane  { return Lane{Kind: LaneInspect, Name: a.ID} }
func (a EnsureImage) Lane() Lane     { return Lane{Kind: LaneImage, Name: a.Container} }
func (MountVolumes) Lane() Lane      { return Lane{Kind: LaneVolumes} }
func (UnmountVolumes) Lane() Lane    { return Lane{Kind: LaneVolumes} }
func (EnsureCgroup) Lane() Lane      { return Lane{Kind: LaneCgroup} }
func (RemoveCgroup) Lane() Lane      { return Lane{Kind: LaneCgroup} }
func (a CreateContainer) Lane() Lane { return Lane{Kind: LaneContainer, Name: a.Name} }
func (a StartContainer) Lane() Lane  { return Lane{Kind: LaneContainer, Name: a.Name} }
func (a InspectContainer) Lane() Lane {
	return Lane{Kind: LaneInspect, Name: a.ID}
}
func (a RunPostStart) Lane() Lane    { return Lane{Kind: LaneHook, Name: a.ID} }
func (a RunPreStop) Lane() Lane      { return Lane{Kind: LaneHook, Name: a.ID} }
func (a StopContainer) Lane() Lane   { return Lane{Kind: LaneStop, Name: a.ID, N: a.N} }
func (a NoteRestart) Lane() Lane     { return Lane{Kind: LaneNote, Name: a.ID} }
func (a RemoveContainer) Lane() Lane { return Lane{Kind: LaneContainer, Name: a.Name} }

func (LookResources) Lane() Lane   { return Lane{Kind: LaneResize} }
func (ResizePod) Lane() Lane       { return Lane{Kind: LaneResize} }
func (ResizeContainer) Lane() Lane { return Lane{Kind: LaneResize} }

func (LookResources) isAction()    {}
func (ResizePod) isAction()        {}
func (ResizeContainer) isAction()  {}
func (ObservePod) isAction()       {}
func (RunSandbox) isAction()       {}
func (StopSandbox) isAction()      {}
func (InspectSandbox) isAction()   {}
func (EnsureImage) isAction()      {}
func (MountVolumes) isAction()     {}
func (UnmountVolumes) isAction()   {}
func (EnsureCgroup) isAction()     {}
func (RemoveCgroup) isAction()     {}
func (CreateContainer) isAction()  {}
func (StartContainer) isAction()   {}
func (InspectContainer) isAction() {}
func (RunPostStart) isAction()     {}
func (RunPreStop) isAction()       {}
func (StopContainer) isAction()    {}
func (NoteRestart) isAction()      {}
func (RemoveContainer) isAction()  {}
