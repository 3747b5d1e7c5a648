package scenario

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// File is one scenario.
type File struct {
	// Name is a few words, About a sentence or two.
	Name  string `json:"name"`
	About string `json:"about,omitempty"`
	// Seed is the one to run with if the command line has none.
	Seed   *uint64 `json:"seed,omitempty"`
	Nodes  Nodes   `json:"nodes"`
	Images []Image `json:"images,omitempty"`
	Steps  []Step  `json:"steps"`
}

// Nodes are the machines at the beginning, all alike: n00000, n00001, …
type Nodes struct {
	// Count is how many; the command line may say otherwise.
	Count int `json:"count"`
	// CPU, Memory and Pods are what each has for pods: 32, 128Gi and 110 by default.
	CPU    *resource.Quantity `json:"cpu,omitempty"`
	Memory *resource.Quantity `json:"memory,omitempty"`
	Pods   *int               `json:"pods,omitempty"`
	// Bandwidth of a node's image pulls, in bytes per second.
	Bandwidth *resource.Quantity `json:"bandwidth,omitempty"`
	Labels    map[string]string  `json:"labels,omitempty"`
	// Devices are what device plugins serve on each, by extended resource: example.com/gpu.
	Devices map[string]Devices `json:"devices,omitempty"`
	// CSI are CSI drivers by name: disk.example.com.
	CSI map[string]CSIDriver `json:"csi,omitempty"`
	// NUMANodes are how many NUMA nodes the CPUs and devices of each are spread over; 1 if not given.
	NUMANodes int `json:"numaNodes,omitempty"`
	// CPUManagerPolicy and TopologyManagerPolicy are the agent's settings: none by default.
	CPUManagerPolicy      string `json:"cpuManagerPolicy,omitempty"`
	TopologyManagerPolicy string `json:"topologyManagerPolicy,omitempty"`
}

// Devices are those of one device plugin. Their IDs are 0, 1, …
type Devices struct {
	Count int `json:"count"`
	// Latency is how long the plugin takes to answer, 2 ms if not given, and Boot how long after its machine it starts.
	Latency *metav1.Duration `json:"latency,omitempty"`
	Boot    *metav1.Duration `json:"boot,omitempty"`
}

// Image is one in the registry. Images that are not listed have an ordinary size.
type Image struct {
	Name string            `json:"name"`
	Size resource.Quantity `json:"size"`
}

// Step is one thing that is done; exactly one of the pointers is set.
type Step struct {
	// Line of the file that the step begins on, counted from 1.
	Line int `json:"-"`
	// At is the simulated time, from the begin of the run, before which the step
	// is not done.
	At *metav1.Duration `json:"at,omitempty"`

	Create       *Create          `json:"create,omitempty"`
	Update       *Update          `json:"update,omitempty"`
	Scale        *Scale           `json:"scale,omitempty"`
	Delete       *Delete          `json:"delete,omitempty"`
	AddNodes     *AddNodes        `json:"addNodes,omitempty"`
	Cordon       *OfNodes         `json:"cordon,omitempty"`
	Uncordon     *OfNodes         `json:"uncordon,omitempty"`
	Drain        *OfNodes         `json:"drain,omitempty"`
	Fail         *OfNodes         `json:"fail,omitempty"`
	Recover      *OfNodes         `json:"recover,omitempty"`
	KillAgent    *OfNodes         `json:"killAgent,omitempty"`
	StopPlugin   *OfDevices       `json:"stopPlugin,omitempty"`
	StartPlugin  *OfDevices       `json:"startPlugin,omitempty"`
	FailDevices  *OfDevices       `json:"failDevices,omitempty"`
	HealDevices  *OfDevices       `json:"healDevices,omitempty"`
	StopDriver   *OfDriver        `json:"stopDriver,omitempty"`
	CrashDriver  *OfDriver        `json:"crashDriver,omitempty"`
	StartDriver  *OfDriver        `json:"startDriver,omitempty"`
	FailAttach   *FailAttach      `json:"failAttach,omitempty"`
	HealAttach   *OfDriver        `json:"healAttach,omitempty"`
	Expand       *Expand          `json:"expand,omitempty"`
	OutOfService *OfNodes         `json:"outOfService,omitempty"`
	InService    *OfNodes         `json:"inService,omitempty"`
	APIServer    *APIServer       `json:"apiserver,omitempty"`
	Advance      *metav1.Duration `json:"advance,omitempty"`
	Wait         *Wait            `json:"wait,omitempty"`
	Expect       *Condition       `json:"expect,omitempty"`
	Always       *Condition       `json:"always,omitempty"`
	Release      *Release         `json:"release,omitempty"`
}

// Create makes a workload: pods that are alike and are made again when they go.
type Create struct {
	Workload string `json:"workload"`
	// Kind is Deployment, which is the default, or StatefulSet.
	Kind     string `json:"kind,omitempty"`
	Replicas int    `json:"replicas"`
	// PodManagementPolicy of a StatefulSet: OrderedReady, which is the default, or Parallel.
	PodManagementPolicy string `json:"podManagementPolicy,omitempty"`
	// Volumes are what each pod of a StatefulSet has for itself, mounted at /NAME (volumeClaimTemplates).
	Volumes map[string]Volume `json:"volumes,omitempty"`
	// Image of the one container that each pod has, named like the workload.
	Image  string             `json:"image"`
	CPU    *resource.Quantity `json:"cpu,omitempty"`
	Memory *resource.Quantity `json:"memory,omitempty"`
	// MemoryLimit is what the container is killed at (OOM).
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// Devices are extended resources that the container gets, by name.
	Devices map[string]int `json:"devices,omitempty"`
	// Guaranteed makes limits of cpu and memory, which are both given then (QoS class Guaranteed).
	Guaranteed    bool             `json:"guaranteed,omitempty"`
	RestartPolicy v1.RestartPolicy `json:"restartPolicy,omitempty"`
	GracePeriod   *metav1.Duration `json:"gracePeriod,omitempty"`
	// Readiness is the period of an HTTP readiness probe; none if not given.
	Readiness *metav1.Duration `json:"readiness,omitempty"`
	// Behavior are annotations sim.troupe.dev/…, without that prefix (simcri.Keys).
	Behavior map[string]string `json:"behavior,omitempty"`
}

// Update changes a workload's pods, some at a time.
type Update struct {
	Workload string `json:"workload"`
	Image    string `json:"image,omitempty"`
	// Behavior is changed where it is given; an empty value takes a key away.
	Behavior map[string]string `json:"behavior,omitempty"`
	// MaxSurge and MaxUnavailable are numbers or percentages of the replicas, 25%
	// both if not given (API RollingUpdateDeployment). Not for a StatefulSet.
	MaxSurge       *intstr.IntOrString `json:"maxSurge,omitempty"`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Scale changes how many pods a workload has.
type Scale struct {
	Workload string `json:"workload"`
	Replicas int    `json:"replicas"`
}

// Delete removes a workload and its pods.
type Delete struct {
	Workload string `json:"workload"`
	// Claims removes the claims of its pods and their volumes as well. Otherwise another workload of the name gets them.
	Claims bool `json:"claims,omitempty"`
}

// AddNodes adds more machines of the kind that the scenario began with.
type AddNodes struct {
	Count int `json:"count"`
}

// OfNodes names nodes, or says how many of them, drawn by the seed.
type OfNodes struct {
	Nodes []string `json:"nodes,omitempty"`
	Count int      `json:"count,omitempty"`
	// Same takes those that the last step with a count drew.
	Same bool `json:"same,omitempty"`
}

// OfDevices names a device plugin on some nodes, or devices of it.
type OfDevices struct {
	OfNodes  `json:",inline"`
	Resource string `json:"resource"`
	// Devices are how many of each node, those with the lowest IDs; all if not given. Not for plugins.
	Devices int `json:"devices,omitempty"`
}

// APIServer is unreachable for every node for Outage.
type APIServer struct {
	Outage metav1.Duration `json:"outage"`
}

// Condition is what is held against the pods of a workload, or all pods
// without one. What is not given is not looked at.
type Condition struct {
	Workload string `json:"workload,omitempty"`
	// Image leaves out pods with another.
	Image string `json:"image,omitempty"`
	// Pods there are, Running and Ready ones, and those being deleted.
	Pods        *Number `json:"pods,omitempty"`
	Running     *Number `json:"running,omitempty"`
	Ready       *Number `json:"ready,omitempty"`
	Succeeded   *Number `json:"succeeded,omitempty"`
	Failed      *Number `json:"failed,omitempty"`
	Terminating *Number `json:"terminating,omitempty"`
	// Restarts are those of all their containers together.
	Restarts *Number `json:"restarts,omitempty"`
	// Waiting are containers that wait, by reason: CrashLoopBackOff, ….
	Waiting map[string]Number `json:"waiting,omitempty"`
	// Attached are VolumeAttachments that say so; one that is being detached counts until it is gone. Bound are claims
	// with a volume, Resizing those whose volume is not as large as they ask for yet. Image does not matter to them.
	Attached *Number `json:"attached,omitempty"`
	Bound    *Number `json:"bound,omitempty"`
	Resizing *Number `json:"resizing,omitempty"`
	// NodesReady are nodes that are Ready in the API.
	NodesReady *Number `json:"nodesReady,omitempty"`
}

// Wait lets time pass until a condition holds.
type Wait struct {
	Condition `json:",inline"`
	// Within is how long it may take.
	Within metav1.Duration `json:"within"`
}

// Release ends every `always` about a workload, all of them without one.
type Release struct {
	Workload string `json:"workload,omitempty"`
}
