// Package host implements port.Host on this machine: the directories, the volumes and
// the files of pods. The packages below it are one subject each.
//
// # Layout
//
// It is the kubelet's, so that a node changes from one to the other:
//
//	<root>/pods/<uid>/                                      0750
//	  volumes/kubernetes.io~empty-dir/<volume>              0777, or a tmpfs
//	  plugins/kubernetes.io~empty-dir/<volume>/ready        the volume is complete
//	  containers/<container>/                               0750
//	<logs>/<namespace>_<name>_<uid>/<container>/            0755
//	<links>/<name>_<namespace>_<container>-<id>.log         symlink to a log (podlogs)
//
// # What may hang
//
// A path that a pod names may lie on a file system whose server is dead, and a
// thread that touches it is stuck in the kernel: no signal reaches it, and a
// process with such a thread does not even exit. So whatever may touch a pod's
// mount (to stat a hostPath, to mount or unmount a tmpfs) runs in a child
// process, the program itself started again with a hidden argument; see child.go,
// packages child/filecount for those that count files, and volume/diskuse for when they do.
// What stays below the agent's own directories, on one file system, runs in
// process, so that a pod without such volumes costs no child.
//
// Removal never descends into a mount: mountinfo is looked at first, and each
// directory is opened such that the kernel itself refuses to cross into another
// file system or bind mount; see package disk/agentdir.
package host
