// Package nodestats shows what a node and its pods use, under the names and in
// the shapes that others read it by:
//
//	/metrics/resource   metrics-server: CPU and memory, with when they were read
//	/metrics/cadvisor   dashboards: all that is known of each cgroup and network
//	/stats/summary      k8s.io/kubelet/pkg/apis/stats/v1alpha1
//
// It is read while the request waits (Source), and forgotten after it.
package nodestats
