// Package decide is the root of troupe's pure decisions.
//
// A decision takes plain values (desired state, observed state, time) and
// returns plain values (actions, messages, the time of the next decision).
// Nothing below this folder reads a clock, draws a random number, does I/O,
// logs, or starts a goroutine. So a decision is a table test, and a simulated
// node can be replayed from its seed.
//
// Facts:
//
//	observed     sandboxes, containers and images of the runtime, as plain values
//	podobjects   the API objects that a pod uses, and their known state
//	podspec      what follows from a pod's spec alone: kinds of containers, static, grace, QoS, downward API
//
// Which pods run here:
//
//	manifest     manifest bytes → pods, or a problem that names file and field
//	admit        may this pod run on this node?
//	apipod       pods in the apiserver: what concerns their node, mirror pods, which status is written, and when
//	podresize    resize of running pods: allocate now or later, and the next step
//	podset       which pods begin, stop and come back, and in which order
//
// One pod:
//
//	podlife      Syncing → Terminating → Terminated
//	podplan      desired + observed + now → the next actions
//	podstatus    desired + observed + plan → v1.PodStatus
//	gate         what a container waits for that is to be created, and what people are told meanwhile
//	backoff      time until the next attempt
//	probe        when to probe a container, and what results mean
//	whynot       one sentence that says why a pod is not ready
//
// Inputs of a container:
//
//	isolation    AppArmor profiles, SELinux labels of volumes, and user IDs of user namespaces
//	claims       which ResourceClaims a pod needs and may use, its containers' devices, and the kubelet's checkpoint
//	containerplan what a container is created with: environment, mounts, host name, target, runtime handler
//	devices      which devices of device plugins containers get, and what they are created with for them
//	devicestate  the kubelet's device checkpoint, devices that a pod can't be given, and how devices are
//	imagepull    how pods get their images: pulls, backoff, credentials, and who may use what is there
//
// Volumes:
//
//	podcertificate  when a pod's certificate is requested, and what the signer's answer means
//	csi          what CSI drivers are asked for next for each volume, what the CSINode shows, and migrated kinds
//	blockdevice  how network disks are attached, and how block devices are formatted, checked, mounted and grown
//	volumefiles  files of configMap, secret, downwardAPI and projected volumes
//	volumeplan   how to mount each volume of a pod, how far each is, and what is next
//
// The node:
//
//	imagecache   which images are removed, and which are pulled before a pod wants them
//	eviction     which thresholds are met, what is given up, and which pod is evicted
//	oom          kills in the log of the kernel, and which events they have
//	memory       which containers get memory of their own, from which NUMA nodes, and their state file
//	cpus         which containers get exclusive CPUs, which CPUs, and the state file of the CPU manager
//	containerlogs rotation of container logs, the symlinks to them, and termination messages
//	nodeobject   the Node object, and which nodes the terms of a node selector mean
//	podcgroup    names and limits of cgroups of pods and QoS classes
//	podgc        which dead containers and sandboxes to remove
//	topology     how a machine is built, and from which NUMA nodes a pod gets its exclusive CPUs, memory and devices
//	shutdown     in which order pods end while the machine shuts down
//	usage        resource usage from files of the kernel and from the runtime
//
// tests/arch compares this list with the folders.
package decide
