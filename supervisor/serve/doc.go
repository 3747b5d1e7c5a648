// Package serve is the HTTPS API that an apiserver, kubectl, metrics-server and
// Prometheus call on a node (:10250), and the read-only one without TLS.
//
//	connection ─► TLS, limits ─► which route? ─► who asks? 401 ─► may they? 403 ─► method? 405 ─► its handler
//	                               └─ none: the same questions, as of nodes/proxy, then 404
//
// No answer reveals which paths exist before the client is authenticated: also a path that
// there is not, or one that leads out of the tree, is answered 401 and 403
// first. What a path is guarded by stands beside it, in its Route.
//
// What is asked of pods is asked of their actors, by the functions that the
// routes are given; this package knows no actor.
package serve
