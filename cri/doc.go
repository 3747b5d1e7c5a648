// Package cri is the real container runtime: port.Runtime over gRPC on a unix
// socket, for any runtime that serves the Container Runtime Interface v1
// (tested with containerd).
//
//	Dial ──► Client ──► translate: pod → request      (pure)
//	            │
//	            ├─────► the runtime's socket, one goroutine for each call in
//	            │       flight, a deadline by its kind  (deadlines.go)
//	            │
//	            └─────► readback: answer → observed values (pure)
//	                    errors → port.Error of few kinds  (errors.go)
//
// One family of calls is one file. A call returns at once and calls its done
// exactly once from a goroutine of its own. It fails fast: while the socket is
// gone every call is Unavailable at once, and the connection is back within
// about a second of the runtime.
package cri
