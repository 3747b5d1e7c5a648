// Package imagecache decides which images a node keeps while no pod asks for them: which are removed (image garbage
// collection), and which are pulled before a pod wants them.
//
// # Removal
//
// It decides which images a node removes, and when.
//
// Images go when the disk that they are on is fuller than a threshold, oldest use first, and those that nobody used for
// long. Never those in use, pinned ones, and the images of sandboxes.
//
// # Pulling ahead
//
// It decides which images of a node's lists are pulled before a pod wants them, and when: one at a time, in the order
// of the lists, while no pod waits for an image.
//
//	unknown ──look──► absent ──pull──► present ──removed, or outgrew the disk──► absent, held back
//	                   ▲  └─failed─┐       └──Every has passed──► pull
//	                   └──backoff──┘
package imagecache
