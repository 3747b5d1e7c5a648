package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

const report = `[{"SpecReports": [
 {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
 {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "run", "State": "passed"},
 {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeText": "stop", "State": "failed",
  "Failure": {"Message": "it runs\nstill"}},
 {"LeafNodeType": "It", "LeafNodeText": "swap", "State": "skipped", "Failure": {"Message": "no swap"}},
 {"LeafNodeType": "It", "LeafNodeText": "not asked for", "State": "skipped"},
 {"LeafNodeType": "It", "LeafNodeText": "at the end", "State": "timedout",
  "Failure": {"Message": "A suite timeout occurred"}},
 {"LeafNodeType": "It", "LeafNodeText": "too late", "State": "interrupted"}]}]`

//tier:unit
func TestResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	read := func(text string) []outcome {
		check.Fatal(t, os.WriteFile(file, []byte(text), 0o644))
		return check.Value(readReport(file))(t)
	}
	troupe, kubelet := results{}, results{}
	troupe.add(read(report))
	check.Deep(t, troupe, results{
		"[sig-node] Pods run": {Spec: "[sig-node] Pods run", Group: "[sig-node] Pods", State: passed},
		"[sig-node] Pods stop": {
			Spec: "[sig-node] Pods stop", Group: "[sig-node] Pods", State: failed, Why: "it runs", Failed: 1,
		},
		"swap": {Spec: "swap", State: skipped, Why: "no swap"},
	}, "outcomes")
	kubelet.add(read(strings.ReplaceAll(report, `"failed"`, `"passed"`)))
	var said strings.Builder
	check.Equal(t, compare(&said, troupe, kubelet), 1, "specs that only the kubelet passes")
	check.Equal(t, said.String(), "differs: [sig-node] Pods stop: troupe failed, kubelet passed: it runs\n"+
		"3 specs with both; 1 passed by the kubelet and not by troupe\n", "what is said")
	check.Equal(t, compare(&said, kubelet, troupe), 0, "specs that only the other passes")
	said.Reset()
	kubelet.add([]outcome{{Spec: "only here", State: passed}})
	table(&said, troupe, kubelet)
	check.Equal(t, said.String(), "| specs | ran with both | kubelet passes | troupe passes |\n|---|---|---|---|\n"+
		"|  | 1 | 0 | 0 |\n| [sig-node] Pods | 2 | 2 | 1 |\n", "the table")

	// It passes later, and an earlier run is not forgotten.
	troupe.add(read(strings.ReplaceAll(report, `"failed"`, `"passed"`)))
	check.Fatal(t, troupe.write(file))
	again := results{}
	check.Fatal(t, again.read(file))
	said.Reset()
	again.show(&said, "troupe")
	check.Equal(t, said.String(), "troupe: 2 passed, 0 failed, 1 skipped\n"+
		"  passed, and failed before: [sig-node] Pods stop\n", "what is shown")

	before := strings.Replace(report, `"State": "passed"}`, `"State": "failed", "Failure": {"Message": "no node"}}`, 1)
	check.Fatal(t, os.WriteFile(file, []byte(before), 0o644))
	check.Says(t, check.Err(readReport(file)), "no node", "of a suite that could not begin")
}
