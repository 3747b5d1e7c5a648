package simcri

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// Method is one method of port.Runtime.
type Method uint8

const (
	Version Method = iota
	Status
	RunPodSandbox
	StopPodSandbox
	RemovePodSandbox
	PodSandboxStatus
	CreateContainer
	StartContainer
	StopContainer
	RemoveContainer
	ContainerStatus
	ExecSync
	List
	PullImage
	ImageStatus
	ListImages
	RemoveImage
	Events
	methodCount
)

var methodNames = [methodCount]string{
	"Version", "Status", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus",
	"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ContainerStatus",
	"ExecSync", "List", "PullImage", "ImageStatus", "ListImages", "RemoveImage", "Events",
}

// Methods are all methods, in order.
func Methods() []Method {
	all := make([]Method, methodCount)
	for i := range all {
		all[i] = Method(i)
	}
	return all
}

func (m Method) String() string {
	if m < methodCount {
		return methodNames[m]
	}
	return "invalid"
}

// Call is one call as Config.Fault sees it.
type Call struct {
	Method Method
	// Object is what it is about, as an error names it: a sandbox's or
	// container's ID, an image's name, or for what is to be made, namespace/name
	// of the pod with the container's name.
	Object string
	// Pod is whose object it is, zero if it is nobody's or unknown.
	Pod observed.PodRef
	// Container is the container's name, empty if it is about none.
	Container string
	Attempt   uint32
}

// Fault is what goes wrong with one call. The zero value is nothing.
type Fault struct {
	// Fail gives an error of Kind and nothing takes effect.
	Fail   bool
	Kind   port.ErrorKind
	Detail string
	// Latency comes on top of the call's own.
	Latency time.Duration
	// Hang: nothing happens and no answer comes, until the context ends or the
	// runtime is killed.
	Hang bool
	// LoseReply: the call takes effect and no answer comes.
	LoseReply bool
	// Partial: the call does a part of its work and then fails with Kind:
	//
	//	RunPodSandbox      leaves a sandbox that is not ready and keeps its name
	//	StopPodSandbox     kills the containers; the sandbox stays ready
	//	RemovePodSandbox   removes the containers; the sandbox stays
	//	StopContainer      sends the stop signal, no SIGKILL follows
	//	any other          does all of its work
	Partial bool
}
