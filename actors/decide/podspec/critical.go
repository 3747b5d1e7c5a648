package podspec

import v1 "k8s.io/api/core/v1"

// SystemCritical is the lowest priority of the classes system-cluster-critical and system-node-critical.
const SystemCritical = 2000000000

// SystemNodeCritical is the priority of the class system-node-critical.
const SystemNodeCritical = SystemCritical + 1000

// Critical says whether a node needs the pod: it is static, or has the priority of a system-critical class.
// Such a pod is not evicted for pressure, and is admitted under it.
func Critical(pod *v1.Pod) bool { return Static(pod) || Mirror(pod) || Priority(pod) >= SystemCritical }
