// Package manifestdir reads and watches a directory of pod manifests
// (KubeletConfiguration staticPodPath) for the sources actor.
//
// It handles files only, and does not decode pods. Read returns every file of the
// directory with its bytes or its read error; one bad file never hides another. Watch
// notifies when the directory should be read again.
package manifestdir
