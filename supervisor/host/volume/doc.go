// Package volume implements port.Host on this machine: the directories and the volumes of pods. The packages below it
// are one subject each, and know no Volumes:
//
//	beneath       opens paths that don't lead out of a volume
//	unmount       takes down what is mounted at a path, and within it
//	bindmount     binds a directory into a pod
//	subpath       mounts a part of a volume for a container
//	hostpath      the type of a hostPath
//	fsgroup       gives the files of a volume to a group
//	tmpfs         file systems in memory
//	atomicdir     files of the API, which change all at once
//	podkeys       keys and certificates of pods
//	blockmount    formats and mounts devices
//	blockmap      maps devices into pods
//	netdisks      attaches disks of iSCSI and Fibre Channel
//	projectquota  quotas of emptyDirs
//	diskuse       what directories take of a disk
//	openfiles     what processes have open that was removed
//	lastuse       what volumes took when they were measured
//
// Here are the ports, which use them for the volumes of pods, by file:
//
//	volumes, volume           Volumes, and which kind of volume is made how
//	prepare, unmount          the beginning and the end of a pod
//	leftover, left            what a pod, or an earlier agent, has left
//	children, childops        requests to child processes, and what these do
//	places                    how many at once
//	emptydir, files, podkeys  volumes that the agent fills
//	persistent, group         volumes of claims and of servers, and their group
//	disks*, devices, mapped   disks and devices, mounted once for all pods
//	subpath, bound            parts of volumes
//	csi                       what package csidrivers needs
//	ephemeral, project, filesizes, volumeuse    what volumes take
//
// # What may hang
//
// A path that a pod names may lie on a file system whose server is dead, and a thread that touches it is stuck in the
// kernel: no signal reaches it, and a process with such a thread does not even exit. So whatever may touch a pod's
// mount (to stat a hostPath, to mount or unmount a tmpfs) runs in a child process, the program itself started again
// with a hidden argument; see children.go, package child for how, and packages child/filecount and diskuse for those
// that count files and when they do. What stays below the agent's own directories, on one file system, runs in process,
// so that a pod without such volumes costs no child.
//
// Removal never descends into a mount: mountinfo is looked at first, and each directory is opened such that the kernel
// itself refuses to cross into another file system or bind mount; see package disk/agentdir.
package volume
