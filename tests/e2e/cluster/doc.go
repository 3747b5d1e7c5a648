// Package cluster tests troupe as a node of a real cluster: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler on one side, containerd on the other.
//
// The agent is system:node:NAME of the group system:nodes and nobody else; what a
// user does is done with an administrator's client of the test's own. Tests are
// named after that.
package cluster
