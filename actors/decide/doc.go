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
//	machine      how a machine is built: CPUs, cores, sockets, NUMA nodes
//	podkey       the private key of a pod, which nothing shows
//	podobjects   the API objects that a pod uses, and their known state
//	podspec      what follows from a pod's spec alone: kinds of containers, static, grace, QoS
//
// Which pods run here:
//
//	manifest     manifest bytes → pods, or a problem that names file and field
//	admit        may this pod run on this node?
//	nodeterms    which nodes the terms of a node selector mean
//	apipod       which changes of a pod in the apiserver concern its node
//	mirrorpods   which mirror pods the apiserver must have
//	podresize    resize of running pods: allocate now or later, and the next step
//	podset       which pods begin, stop and come back, and in which order
//
// One pod:
//
//	podlife      Syncing → Terminating → Terminated
//	podplan      desired + observed + now → the next actions
//	podstatus    desired + observed + plan → v1.PodStatus
//	statuswrite  which status to write to the apiserver, and when
//	backoff      time until the next attempt
//	probe        when to probe a container, and what results mean
//	whynot       one sentence that says why a pod is not ready
//
// Inputs of a container:
//
//	apparmor     AppArmor profile
//	claims       which ResourceClaims a pod needs and may use, and which of their devices containers get
//	claimstate   the kubelet's checkpoint of prepared claims
//	containerenv environment
//	containerplan  environment, mounts, target and runtime handler of a container, in pure steps
//	credentialprovider  which credential provider plugins are asked, and for how long their answers count
//	devices      which devices of device plugins containers get, and what they are created with for them
//	devicehealth  how the devices of containers are, for the status of pods
//	devicestate  the kubelet's device checkpoint, and devices that a pod can't be given
//	downward     downward API: fields and resources as text
//	envfile      environment files that containers write
//	expansion    variable references in commands and arguments
//	hostsfile    host name and /etc/hosts
//	imagepull    pull or not, and the time of the next attempt
//	imagestate   what is next for an image and those who wait for it
//	pullahead    which images are pulled before a pod wants them, and when
//	pullrecord   who may use an image that is on the node, by how it was pulled
//	terminationmessage  the termination message of a container
//	resourcelist arithmetic on ResourceList
//	userns       user IDs of a user namespace
//
// Volumes:
//
//	podcertificate  when a pod's certificate is requested, and what the signer's answer means
//	blockfs      how a block device is formatted, checked, mounted and grown, by what blkid found on it
//	csi          what CSI drivers are asked for next for each volume, and what the CSINode shows
//	migration    which CSI volume stands for one of a kind whose driver was in Kubernetes itself
//	emptydir     size and page size of an emptyDir in memory
//	netdisk      how disks of iSCSI and Fibre Channel are attached, and when they may go
//	volumefiles  files of configMap, secret, downwardAPI and projected volumes
//	volumeplan   how to mount each volume of a pod
//	volumestate  how far each volume of a pod is, and what is next
//
// The node:
//
//	imagegc      which images to remove, and when
//	eviction     which thresholds are met, what is given up, and which pod is evicted
//	oom          kills in the log of the kernel, and which events they have
//	assign       what containers get to themselves, over the state of all pods
//	cpustate     the state file of the CPU manager
//	memory       which containers get memory of their own, and from which NUMA nodes
//	memorystate  the state file of the memory manager
//	placement    on which CPUs, and near to which memory, the containers of a pod run
//	cpus         which containers get exclusive CPUs, and which CPUs
//	loglinks     symlinks to container logs
//	logrotate    rotation of one container log
//	nodeobject   the Node object
//	podcgroup    names and limits of cgroups of pods and QoS classes
//	podgc        which dead containers and sandboxes to remove
//	topology     from which NUMA nodes a pod gets its exclusive CPUs, memory and devices
//	selinux      with which SELinux label a volume is mounted
//	shutdown     in which order pods end while the machine shuts down
//	usage        resource usage from files of the kernel and from the runtime
//
// tests/arch compares this list with the folders.
package decide
