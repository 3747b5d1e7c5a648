// Package serve is the HTTPS API that an apiserver, kubectl, metrics-server and
// Prometheus call on a node (:10250), and the read-only one without TLS.
//
//	connection ─► TLS, limits ─► which route? ─► who asks? 401 ─► may they? 403 ─► method? 405 ─► its handler
//	                               └─ none: the same questions, as of nodes/proxy, then 404
//
// No answer reveals which paths exist before the client is authenticated: unknown paths, and
// paths that lead out of the tree, are also answered 401 or 403 first. Each Route names the
// access that it requires.
//
// The routes get functions that ask the actors about pods; this package knows no actor.
package serve
