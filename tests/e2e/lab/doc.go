// Package lab starts a private containerd with a local image registry, for tests, benchmarks and
// demonstrations on a machine that may have a containerd of its own.
//
// Everything a lab makes lies under one directory: containerd's root, state, configuration and
// log, the network namespaces of its pods, CNI configuration and address leases. What the kernel
// keeps elsewhere (a bridge, shim sockets, leftovers in iptables) carries the lab's own name, so
// that [Lab.Cleanup] can find it all again, also after a SIGKILL of containerd or of the process
// that ran the lab.
//
//	Start ──► running ──Stop/Kill──► stopped (containers go on) ──Start──► running
//	                 └──────────────Cleanup──────────────► nothing left on the host
//
// Images are built from the repository's own programs in tests/images and served by a [Registry]
// inside the process, under names such as troupe.local/demo/web:v1. containerd is told to ask that
// registry for every name there is, so that a pull is a real pull and needs no internet.
//
// Beside it there is a [ControlPlane]: etcd, kube-apiserver and, if asked for, kube-controller-manager
// and kube-scheduler, built from their Go modules in the versions of this module's go.mod. A test
// takes one with [ForControlPlaneTest]. [SharePlane] keeps one running, and packages of tests get it by
// [TakeControlPlane].
//
// Programs are built once: those of other modules into .run/bin/<program>-<version>-<hash>, by all that they depend on,
// and those of this repository into .run/bin/<program>-<hash>, by what they are.
//
// Of a test that has failed, [Collect] keeps what shows why in .run/failed; with KEEP=1 in the environment all that it
// has started goes on running. [SizeVariable] says how much tests do.
//
// A test takes a lab with [ForTest], which skips it by name where the machine cannot run one.
package lab
