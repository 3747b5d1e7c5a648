// Package controlplane has the other parts of a simulated cluster beside nodes and
// apiserver: a scheduler, workloads, and the node lifecycle controller.
package controlplane
