// Package translate turns a pod into CRI requests: the configuration of its sandbox
// and of its containers.
//
// The request of a container already holds its variables, its mounts on the host and its runtime
// handler: the pod's actor resolved them (actors/decide/containerplan). Here they only get the CRI's
// types.
//
// It is pure. Everything that depends on the node (cluster DNS, the directory
// of profiles, cgroup parents) comes in a Node value. The same pod on
// the same Node gives the same request, byte for byte: lists made from maps are
// sorted.
//
// An impossible request is an error of kind port.InvalidConfig that names the
// field. Users see it as CreateContainerConfigError.
//
// Not implemented: devices and CDI names of device plugins (container.go), and the
// cgroup v2 keys of MemoryQoS (resources.go).
package translate
