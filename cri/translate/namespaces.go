package translate

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// namespaces says which Linux namespaces the pod's containers share with each other and with the
// node.
func namespaces(n *Node, pod *v1.Pod, handler string) (*runtimeapi.NamespaceOption, error) {
	o := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if pod.Spec.HostNetwork {
		o.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		o.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		o.Pid = runtimeapi.NamespaceMode_NODE
	case isTrue(pod.Spec.ShareProcessNamespace):
		o.Pid = runtimeapi.NamespaceMode_POD
	}
	users, err := userNamespace(n, pod, handler)
	o.UsernsOptions = users
	return o, err
}

// userNamespace maps the pod's users to IDs of the node that no other pod has (KEP-127). Users
// know two of the errors from the kubelet.
func userNamespace(n *Node, pod *v1.Pod, handler string) (*runtimeapi.UserNamespace, error) {
	if !podspec.OwnUsers(&pod.Spec) {
		return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}, nil
	}
	switch supported := n.can(handler, func(f *v1.NodeRuntimeHandlerFeatures) *bool { return f.UserNamespaces }); {
	case !supported && handler != "":
		return nil, fmt.Errorf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces",
			handler)
	case !supported:
		return nil, errors.New("can't set `spec.hostUsers: false`, runtime does not support user namespaces")
	case n.UserNamespace == nil:
		return nil, errors.New("can't set `spec.hostUsers: false`, this node has no user IDs for pods")
	}
	m, err := n.UserNamespace(pod)
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	ids := []*runtimeapi.IDMapping{{HostId: m.First, ContainerId: 0, Length: m.Length}}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids, Gids: ids}, nil
}
