// Package controlplane has the other parts of a simulated cluster beside nodes and
// apiserver: a scheduler, workloads, the node lifecycle controller, and, with storage
// drivers, what provisions, attaches and expands volumes.
package controlplane
