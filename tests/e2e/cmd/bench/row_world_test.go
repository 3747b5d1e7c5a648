package main

import "testing"

//tier:unit
func TestBenchmarkMetrics(t *testing.T) {
	m := benchmarkMetrics("goos: linux\nBenchmarkMemory/nodes=10/pods=300-2         \t       1\t 221331 ns/op\t     35369 B/node\t      7093.5 B/pod\nPASS\n")
	if len(m) != 3 || m["B/node"] != 35369 || m["B/pod"] != 7093.5 {
		t.Errorf("%v", m)
	}
}
