// Package translate turns a pod into what the Container Runtime Interface asks
// for: the configuration of its sandbox and of its containers.
//
// It is pure. All that the node adds (cluster DNS, node allocatable, profiles'
// directory, cgroup parents) comes in a Node value, so that the same pod on the
// same Node gives the same request, to the byte: lists derived from maps are
// sorted.
//
// What a pod asks for that can't be is an error of kind port.InvalidConfig,
// which users know as CreateContainerConfigError, in words that name the field.
//
// Left for later, each with its place: the target of an ephemeral container's
// PID namespace (namespaces.go), devices and CDI names of device plugins (container.go),
// cgroup v2 keys of MemoryQoS (resources.go).
package translate
