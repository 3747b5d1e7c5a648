// Package admin shows a running agent to people: a read-only HTTP server on a
// unix socket in the agent's root directory, and the client that the commands
// use.
//
//	GET /v1/tree              the live tree of actors, answered without asking any
//	GET /v1/pods              the pods, as their actor sees them
//	GET /v1/events?pod=ns/name  recent events, of one pod or of all
//	GET /healthz              ok, while the server answers
//
// Answers are JSON. An error is {"error": "…"} with a status of 400 or more.
package admin
