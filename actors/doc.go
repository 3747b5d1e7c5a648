// Package actors is the root of troupe's actors. An actor owns facts, sends and
// receives messages, and performs what the pure functions in decide return.
//
// The tree of a node, with the package of each actor:
//
//	<node>           node        starts and connects the other actors; ends the process if one cannot be kept running
//	├── pods         pods        parent of the actors of pods: starts and stops them, relays hints
//	│   └── <UID> …  pod         one pod: lifecycle, containers, backoff, hooks, status
//	├── podset       podset      registry of the pods of this node: merges sources, admits, stops, resizes
//	├── images       images      one pull per image, a bounded number at once; removes images that nobody uses
//	├── prepull      prepull     images of lists that are pulled before a pod wants them; only if there are such lists
//	├── credentials  credentials  what images are pulled with: plugins; only if Ports.CredentialPlugins is set
//	├── assignments  assignments  CPUs and devices that containers have alone; only if Config.Assign is set
//	├── devices      devices     device plugins; only if Ports.DevicePlugins is set
//	├── claims       claims      ResourceClaims of pods, and DRA drivers; only if Ports.DRADrivers and Ports.API are set
//	├── csi          csi         volumes of CSI drivers, and the CSINode; only if Ports.CSI and Ports.API are set
//	├── volumes      volumes     mounts and unmounts, one lane per volume
//	├── cgroups      cgroups     cgroups of pods and QoS classes; only if Ports.Cgroups is set
//	├── probes       probes      schedules of all probes, one timer
//	├── gc           gc          removes dead containers, sandboxes, directories, logs and log symlinks
//	├── logs         logs        log rotation; only if Ports.Logs is set and containerLogMaxSize is positive
//	├── sources      sources     manifests of a directory and a URL
//	├── pleg         pleg        events and lists of the runtime
//	├── eviction     eviction    shows pressure and evicts pods; only if Ports.Pressure is set
//	├── oom          oom         events of the kernel's OOM killer; only if Ports.OOM is set
//	├── standalone   standalone  what the machine has, without a Node; only if Ports.Facts is set and Ports.API is not
//	├── shutdown     shutdown    ends pods in order while the machine shuts down; only if Ports.Inhibitor is set
//	├── podview      podview     what people and servers ask about pods; spawned with the first message to it
//	│
//	│   and, if Ports.API is set:
//	├── apiobjects   apiobjects  ConfigMaps, Secrets, volume claims and tokens that pods use
//	├── apipods      apipods     the pods of this node in the apiserver
//	├── status       status      writes pod status to the apiserver; deletes terminated pods there
//	├── mirrors      mirrors     mirror pods of static pods
//	└── nodestatus   nodestatus  the Node object and the lease
//
// The other packages here are not actors:
//
//	decide      pure decisions
//	kernel      the actor kernel on protoactor
//	port        what actors need from outside, as interfaces
//	portcall    effects that are one call of a port: deadline, "no answer" error, watches
//	rescue      starts goroutines beside actors; keeps a panic there from ending the process
//	expand      the effect that expands a volume on this node, and says so in its claim
//	checkpoint  effects that read and write a checkpoint file
//	smallmap    a map for few entries
//
// Who sends which message to whom is in node/wiring.txt, which troupe tree --wiring
// prints. Each actor package begins with its messages. A message says who sends it and
// what happens if it is lost, late or repeated. The daemon and the simulations
// connect the ports. tests/arch compares these lists with the folders, and the
// tree and the table with the code.
package actors
