// Package manifestdir reads and watches a directory of pod manifests
// (KubeletConfiguration staticPodPath): the hands of the sources actor.
//
// It knows files and nothing of pods. Read gives every file of the directory
// with its bytes, or with what kept it from being read; one bad file never
// hides another. Watch says when it is time to read again.
package manifestdir
