// Package simapi is an apiserver in memory: it keeps the objects that a node
// uses as a real one does, takes as long for a call as a real one would, and
// stands behind the same port as our client of the real one. Both pass
// tests/contract/apicontract.
//
// It has two faces. [Server.Client] gives an actor's: asynchronous, with latency,
// faults, and watches that lag, break and start over. The methods of [Server]
// itself are its owner's, a simulated world with its scheduler, controllers and
// users: they take no time and never fail but for a reason of the API's.
//
// It is driven by a clock and by named random streams and by nothing else. On a
// virtual clock a run is single-threaded and the same calls give the same
// answers at the same times; on the wall clock all methods are safe for
// concurrent use. Nothing in it starts a goroutine, but a context that can't
// tell of its end without one.
//
// # Objects
//
// Objects are shared and never changed: by the server, by watchers, by whoever
// gets or gives one. A new version is a copy of the outermost struct that shares
// all that did not change. So 150,000 pods made of one template have one list of
// containers, and a history is a list of pointers.
//
// # What is as in the real one
//
// Names and generated names, UIDs, one counter of resource versions, generation
// of pods, optimistic concurrency, UID preconditions, writes that change nothing,
// status apart from the rest, strategic merge patches, finalizers, graceful
// deletion of pods, binding, which fields of a pod never change, which statuses
// may follow which, defaults of pods, times in whole seconds, field and label
// selectors, history of bounded length with 410 Gone, bookmarks, service account
// tokens. The rules are those of Kubernetes v1.36.
//
// # What is not there
//
// Authentication, authorization and admission: a client may do everything.
// Validation beyond the above. Field management: managedFields are not
// kept. Namespaces: every one exists. Controllers: what
// kube-controller-manager would do (garbage collection, node lifecycle, token
// secrets), the world's owner does, or no controller. HTTP: client-go can't connect.
//
// # When a call takes effect
//
// At the end of its latency, in the same instant as its answer. A call whose
// context ends first is answered with Deadline or Canceled at once, and takes
// effect all the same with the chance Config.LateEffect. Callbacks run from
// clock callbacks only, one at a time, never under the server's lock, so they may
// call the server again. They must not block.
package simapi
