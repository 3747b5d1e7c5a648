// Package controlplane is what else a simulated cluster needs beside its nodes
// and its apiserver: a scheduler, workloads, and what is done about nodes that
// are not heard of.
package controlplane
