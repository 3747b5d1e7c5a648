// Package simapi is an apiserver in memory. It stores the objects that a node uses, with a real
// apiserver's behavior and latency, behind the same port as the client of a real one. Both pass
// tests/contract/apicontract.
//
// It has two interfaces. [Server.Client] is an actor's: asynchronous, with latency, faults, and
// watches that lag, break and start over. The methods of [Server] are for its owner, a simulated
// world with its scheduler, controllers and users: they take no time and fail only for reasons of
// the API.
//
// Its only inputs are a clock and named random streams. On a virtual clock a run is
// single-threaded, and the same calls get the same answers at the same times; on the wall clock
// all methods are safe for concurrent use. It starts no goroutine, except for a context that
// cannot report its end without one.
//
// # Objects
//
// Objects are shared and never changed: by the server, by watchers, by any caller. A new version
// is a copy of the outermost struct that shares all unchanged fields. So 150,000 pods of one
// template have one list of containers, and a history is a list of pointers.
//
// # What is like in a real apiserver
//
// Names and generated names, UIDs, one counter of resource versions, generation
// of pods, optimistic concurrency, UID preconditions, writes that change nothing,
// status apart from the rest, strategic merge patches, finalizers, graceful
// deletion of pods, binding, which fields of a pod never change, which statuses
// may follow which, defaults of pods, times in whole seconds, field and label
// selectors, history of bounded length with 410 Gone, bookmarks, service account
// tokens. The rules are those of Kubernetes v1.36.
//
// # What is missing
//
// Authentication, authorization and admission: a client may do everything.
// Validation beyond the above. Field management: managedFields are not
// kept. Namespaces: every one exists. Controllers: what
// kube-controller-manager would do (garbage collection, node lifecycle, token
// secrets), the world's owner does, or no controller. HTTP: client-go can't connect.
//
// # When a call takes effect
//
// At the end of its latency, in the same instant as its answer, unless a fault delays either
// (AnswerLate, WorkLate). A call whose
// context ends first is answered with Deadline or Canceled at once, and takes
// effect all the same with the chance Config.LateEffect. Callbacks run from
// clock callbacks only, one at a time, never under the server's lock, so they may
// call the server again. They must not block.
package simapi
