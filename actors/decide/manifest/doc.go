// Package manifest turns the bytes of a pod manifest into pods that are ready
// to run, or into problems that name file, field and what to do.
//
// It serves the two sources of static pods, a directory and an HTTP URL
// (KubeletConfiguration staticPodPath and staticPodURL). No apiserver has seen
// these pods, so the package does what one would have done: strict decoding,
// defaulting, validation; and what the kubelet adds for static pods: the name
// suffix, a UID from the content, the config annotations.
//
//	bytes ── Decode ──► Decoded{Pods, Problems}   one file or one answer
//	Decoded… ── Merge ──► State{what to run, what is wrong}
//
// Everything here is pure: same input, same output, and the time is an
// argument. See the package strictyaml for how a document is read.
package manifest
