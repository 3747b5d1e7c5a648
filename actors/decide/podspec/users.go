package podspec

import v1 "k8s.io/api/core/v1"

// OwnUsers says whether the pod has a user namespace, so that its root is nobody on the node (API
// PodSpec.hostUsers: false, KEP-127).
func OwnUsers(spec *v1.PodSpec) bool { return spec.HostUsers != nil && !*spec.HostUsers }
