// Package kube is port.API on a real apiserver, through client-go.
//
//	          ┌──────────── Client ────────────┐
//	actors ──►│ Get Create Update Patch Delete │──► rest client ─┐
//	          │ CreateToken   (call.go)        │                 ├─► one transport ──► apiserver
//	       ◄──│ Watch         (watch.go)       │──► reflector ───┘    (transport.go)
//	others ──►│ Review, Certificate (ask.go)   │──► rest client ─┘
//	          └────────────────────────────────┘
//
// What client-go does well is left to it: credentials of every kind that a
// kubeconfig can name, protobuf, streamed lists, resuming a watch and starting
// it over. What it does for clients that can wait is replaced here: an agent has
// to be back within 5 s of its apiserver. transport.go finds dead connections,
// pause.go says when to try again, and each gives its reasons.
package kube
