// Package kube is port.API on a real apiserver, through client-go.
//
//	          ┌──────────── Client ────────────┐
//	actors ──►│ Get Create Update Patch Delete │──► rest client ─┐
//	          │ CreateToken   (call.go)        │                 ├─► one transport ──► apiserver
//	       ◄──│ Watch         (watch.go)       │──► reflector ───┘    (transport.go)
//	others ──►│ Review, Certificate (ask.go)   │──► rest client ─┘
//	          └────────────────────────────────┘
//
// client-go provides the credentials of a kubeconfig, protobuf, streamed lists, and
// resuming and restarting watches. Its timeouts are for clients that can wait; they are
// replaced here, because an agent must reconnect within 5 s after the apiserver returns.
// transport.go detects dead connections. pause.go decides when to retry. Each file gives
// its reasons.
package kube
