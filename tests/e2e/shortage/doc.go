// Package shortage makes a node short of memory or of disk, and measures how far it went: for tests of evictions, and
// for the benchmark that compares them with the kubelet's.
package shortage
