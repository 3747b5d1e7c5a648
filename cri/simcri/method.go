package simcri

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Method is one method of port.Runtime, or of port.Network.
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
	UpdateContainer
	UpdateSandbox
	ContainerMemory
	List
	PullImage
	ImageStatus
	ListImages
	RemoveImage
	Events
	ProbeHTTP
	ProbeTCP
	ProbeGRPC
	methodCount
)

var methodNames = [methodCount]string{
	"Version", "Status", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus",
	"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ContainerStatus",
	"ExecSync", "UpdateContainer", "UpdateSandbox", "ContainerMemory", "List", "PullImage", "ImageStatus", "ListImages",
	"RemoveImage", "Events",
	"ProbeHTTP", "ProbeTCP", "ProbeGRPC",
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

// Call is one call, for Config.Fault.
type Call struct {
	Method Method
	// Object is its object, as errors name it: a sandbox's or container's ID, an image's name,
	// host:port, or for a creation, namespace/name of the pod with the container's name.
	Object string
	// Pod is the pod of the object, zero if it has none or it is unknown.
	Pod observed.PodRef
	// Container is the container's name, empty for other objects.
	Container string
	Attempt   uint32
	// Grace is what StopContainer gives before it kills.
	Grace time.Duration
	// Command is the program that ExecSync runs.
	Command string
}

// Fault is what goes wrong with one call. The zero value is nothing. A part of
// a call's work (Partial) is:
//
//	RunPodSandbox      leaves a sandbox that is not ready and keeps its name
//	StopPodSandbox     kills the containers; the sandbox stays ready
//	RemovePodSandbox   removes the containers; the sandbox stays
//	StopContainer      sends the stop signal, no SIGKILL follows
//	any other          does all of its work
type Fault = simport.Fault
