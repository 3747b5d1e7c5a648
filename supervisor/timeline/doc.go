// Package timeline records the history of each pod of a node: messages to its actor,
// calls and their results, events, status changes, and crashes of its actor.
// `troupe timeline` and the web page show it.
//
//	kernel ──Tracer──► Recorder ◄──port.Recorder── actors (events)
//	                      │
//	                      └── Story, Letters ──► supervisor/admin
//
// It is always on, so it is small. A pod has a bounded number of entries: the first and
// the newest are kept, and repeated entries are counted. All pods together have a bounded
// number of bytes. The most recently terminated pods are kept. The recorder calls no
// actor and holds no message: it stores names, times and short texts, which it makes when
// a message arrives. These texts contain no values of environment variables, no contents
// of volumes and no secrets. Errors and events are stored as they are; users see them
// anyway.
package timeline
