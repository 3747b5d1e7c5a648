// Package criproxy stands between an agent and the CRI socket of a real runtime and makes calls go
// wrong on order: hang, come late, fail, or happen without the answer being told.
//
//	agent ──► proxy ──► runtime
//	           │
//	           └ rules: of this pod, this call does that
//
// It passes bytes on and knows no types but to match: a method that is newer than this package
// goes through as it is. Both services and streams (GetContainerEvents) go through.
//
// A call names a container or a sandbox by an ID that only the runtime knows beforehand. The proxy
// reads the answers that give these IDs out, so that a rule can name the pod all the same.
package criproxy
