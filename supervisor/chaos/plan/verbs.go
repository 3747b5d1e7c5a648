package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Verb is what an operation does.
type Verb string

// The operations.
const (
	Create      Verb = "create"       // a pod, see Shape
	Delete      Verb = "delete"       // a pod, with its grace or grace=SECONDS, or a workload
	Force       Verb = "force"        // delete a pod by force
	Image       Verb = "image"        // give a container another image
	Write       Verb = "write"        // the manifest of a static pod, see Shape
	Remove      Verb = "remove"       // the manifest of a static pod
	Exit        Verb = "exit"         // a running container ends: code=N
	OOM         Verb = "oom"          // a running container is killed for want of memory
	EndSandbox  Verb = "end-sandbox"  // the ready sandbox of a pod dies
	Restart     Verb = "kill-agent"   // the agent is killed, and started again: for=DUR later
	DownRuntime Verb = "kill-runtime" // the runtime is killed, and restarted: for=DUR later
	Power       Verb = "power-cycle"  // the machine loses power: for=DUR
	CutOff      Verb = "cut-off"      // the apiserver can't be reached: for=DUR
	NoAnswers   Verb = "no-answers"   // calls of the apiserver take effect, and nothing comes back: for=DUR
	NoWatches   Verb = "no-watches"   // watches are silent, calls of the apiserver work: for=DUR
	LoseTask    Verb = "lose-task"    // a running container ends unseen, and is in no known state
	Vanish      Verb = "vanish"       // a container, running or ended, is gone from the runtime, and nothing tells
	StepClock   Verb = "step-clock"   // the machine's wall clock is set: by=DUR, back if negative
	Pause       Verb = "pause-agent"  // the agent's process is stopped: for=DUR
	Suspend     Verb = "suspend"      // the whole machine sleeps: for=DUR
	Expire      Verb = "expire"       // the apiserver forgets old versions, and closes all watches
	Use         Verb = "use"          // a container uses memory=SIZE and layer=SIZE from now on, or from its start
	Unused      Verb = "unused-image" // the runtime has an image of size=SIZE more, which nobody uses
	StopPlugin  Verb = "stop-plugin"  // the device plugin ends, and starts again: for=DUR later
	BreakGPUs   Verb = "break-gpus"   // all GPUs are unhealthy: for=DUR
	StopDriver  Verb = "stop-driver"  // the CSI driver ends and its socket is gone; it starts again: for=DUR later
	CrashDriver Verb = "crash-driver" // the process of the CSI driver ends; it starts again: for=DUR later
	Grow        Verb = "expand"       // the volume of claim=NAME is expanded to size=SIZE
	Backup      Verb = "backup"       // the apiserver's store is copied
	Restore     Verb = "restore"      // the apiserver is restored from the last backup
)

// The operations of a cluster.
const (
	Deploy   Verb = "deploy"    // a workload of replicas=N pods, see Shape; again: another number or template
	Replicas Verb = "replicas"  // how many pods a workload has: to=N
	LoseNode Verb = "lose-node" // a machine loses power: for=DUR; without it is taken away for good
	Drain    Verb = "drain"     // no new pods for a node, and its pods are deleted
	Uncordon Verb = "uncordon"  // a node may have new pods again
)

// form is what an operation needs.
type form struct {
	// role: 0 none, 1 a pod, 2 a container.
	role int
	// node: it is about a node: the first if none is given, or one has to be if cluster.
	node bool
	// args are the keys it may have; shape: those of a pod's shape too.
	args  []string
	shape bool
	// api: there must be an apiserver; cluster: nodes and a control plane. single: one pod, no workload. pressure: a
	// node that protects itself. devices: a node with devices. csi: a node with a CSI driver.
	api, cluster, single, pressure, devices, csi bool
}

var (
	forDuration = []string{"for"}
	onNode      = form{node: true, args: forDuration}
	onLink      = form{node: true, args: forDuration, api: true}
)

var forms = map[Verb]form{
	Create: {role: 1, shape: true, api: true}, Write: {role: 1, shape: true},
	Delete: {role: 1, args: []string{"grace"}, api: true}, Force: {role: 1, api: true, single: true},
	Image: {role: 2, args: []string{"to"}, api: true}, Remove: {role: 1, single: true},
	Exit: {role: 2, args: []string{"code"}}, OOM: {role: 2}, EndSandbox: {role: 1},
	Restart: onNode, DownRuntime: onNode, Power: onNode, Pause: onNode, Suspend: onNode,
	LoseTask: {role: 2}, Vanish: {role: 2}, StepClock: {node: true, args: []string{"by"}},
	CutOff: onLink, NoAnswers: onLink, NoWatches: onLink,
	Use: {role: 2, args: []string{"memory", "layer"}, pressure: true}, Unused: {args: []string{"size"}, pressure: true},
	StopPlugin: {node: true, args: forDuration, devices: true}, BreakGPUs: {node: true, args: forDuration, devices: true},
	StopDriver: {node: true, args: forDuration, csi: true}, CrashDriver: {node: true, args: forDuration, csi: true},
	Grow:   {args: []string{"claim", "size"}, csi: true},
	Expire: {api: true}, Backup: {api: true}, Restore: {api: true},
	Deploy: {role: 1, shape: true, cluster: true}, Replicas: {role: 1, args: []string{"to"}, cluster: true},
	LoseNode: {node: true, args: forDuration, cluster: true},
	Drain:    {node: true, cluster: true}, Uncordon: {node: true, cluster: true},
}

// unknownVerb is the error for a word that is no operation.
func unknownVerb(v Verb) error {
	all := make([]string, 0, len(forms))
	for known := range forms { // order-free: they are sorted
		all = append(all, string(known))
	}
	slices.Sort(all)
	return fmt.Errorf("unknown operation %q; operations are %s", v, strings.Join(all, ", "))
}
