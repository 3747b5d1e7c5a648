// Package host opens what pods have on this machine, and puts its parts together. What they do is in the rooms below,
// which don't import it (docs/decisions/0121):
//
//	kernel     what the kernel shows: facts of the node, usage, topology, mounts
//	cgroup     cgroups of pods
//	disk       directories and files of the agent
//	child      the program started again, as a child process
//	volume     port.Host: volumes of pods
//	plugin     plugins and drivers of devices, CSI and credentials, and the registry that finds them
//	pod        files, logs and user IDs of pods
//	probe      probes and HTTP hooks
//	shutdown   systemd-logind
//	pressure   what is left of memory, processes and disks; OOM kills
//	hostcall   makes a function that blocks the answer of a port
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
//	<links>/<name>_<namespace>_<container>-<id>.log         symlink to a log (pod/podlogs)
package host
