// Package differ runs the same pods on troupe and on the kubelet, side by side on real containerds, and says what differs
// (docs/decisions/0094):
//
//	features ──► draft ──► pod ──┬──► kubelet ──► proxy ──► containerd ──► seen
//	(of a seed)                  └──► troupe  ──► proxy ──► containerd ──► seen
//	                                                                        │
//	   smallest pod ◄── shrink ◄── again? ◄── known? ◄──── differences ◄────┘
//
// What is seen of a pod is a set of keys with values, in normal form: the requests that the runtime got, the pod's status
// over time, its events, what its containers found around them, its cgroup, and what was left when it had gone. A
// difference that does not come again is a race and is only counted. One that a line of the docs has is known (known.go).
// All others fail the test, with the smallest pod that shows them.
package differ
