// Package timeline writes down what happens to each pod of a node: what its
// actor was told, what calls were made for it and how they ended, what users
// were told, what its status said, and where its actor crashed. It is what
// `troupe timeline` and the web page show.
//
//	kernel ──Tracer──► Recorder ◄──port.Recorder── actors (events)
//	                      │
//	                      └── Story, Letters ──► supervisor/admin
//
// It is always on, and so it is small: a pod has a bounded number of entries, of
// which the first and the newest are kept, what repeats is counted, all pods
// together have a bounded number of bytes, and of pods that have ended the last
// ones are kept. It calls no actor and holds no message: what it keeps are names,
// times and short texts that are made when the message comes. No value of an
// environment, no content of a volume and no secret is in a text that it makes;
// errors and events are kept as they are, which users see anyway.
package timeline
