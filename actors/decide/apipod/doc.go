// Package apipod decides about the objects of pods in the apiserver: what of their changes concerns their node, which
// mirror pods there must be, and which status is written.
//
// # Mirror pods
//
// It decides which mirror pods the apiserver must have: one for each static pod, so that users and the scheduler see
// it.
//
// # Status
//
// It decides when to write which status of a pod to the apiserver, and when to delete a pod from there.
package apipod
