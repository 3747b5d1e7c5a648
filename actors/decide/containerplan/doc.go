// Package containerplan decides what a container is created with: its variables, its mounts, the
// container whose processes it shares, and the runtime handler.
//
//	New ─► read Plan.EnvFiles ─► Resolve ─► make Resolved.SubPaths ─► create the container
//
// The steps are pure. The pod's actor makes the calls between them. What speaks the CRI's types is
// in cri/translate.
//
// All errors say that the container cannot be created as its pod asks. Their words are those that
// users know from the kubelet.
package containerplan
