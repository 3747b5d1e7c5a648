// Package admin is the admin endpoint of a running agent: a read-only HTTP server on a
// unix socket in the agent's root directory, the client that the commands use, and a web
// page.
//
//	GET /                     the web page; it reads the paths below
//	GET /v1/tree              the actor tree, from the kernel: no actor has to answer
//	GET /v1/pods              the pods, from the podview actor, and why unhealthy pods are not ready
//	GET /v1/gone              terminated pods that have a timeline
//	GET /v1/events?pod=ns/name    recent events, of one pod or of all
//	GET /v1/timeline?pod=ns/name  what happened to a pod (also: name, or UID)
//	GET /v1/deadletters       the newest messages to stopped actors
//	GET /healthz              ok, while the server answers
//
// Answers are JSON. An error is {"error": "…"} with a status of 400 or more.
//
// Any process that may connect to the socket may read everything: its mode is 0600. A browser
// cannot connect to it: [Web] serves the page on a port of the loopback interface, and relays
// requests that have its secret.
package admin
