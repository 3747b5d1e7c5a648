package translate

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// namespaces are which Linux namespaces the pod's containers share with each
// other and with the node. The target of an ephemeral container's PID namespace
// (targetContainerName) belongs here later.
func namespaces(n *Node, pod *v1.Pod) (*runtimeapi.NamespaceOption, error) {
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
	users, err := userNamespace(n, pod)
	o.UsernsOptions = users
	return o, err
}

func userNamespace(n *Node, pod *v1.Pod) (*runtimeapi.UserNamespace, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}, nil
	}
	if n.UserNamespace == nil {
		return nil, errors.New("spec.hostUsers is false, but this node has no user namespaces set up")
	}
	m, err := n.UserNamespace(pod)
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: m.UIDs, Gids: m.GIDs}, nil
}
