package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSimJSONAndReport(t *testing.T) {
	dir := t.TempDir()
	page, rec := filepath.Join(dir, "run.html"), filepath.Join(dir, "run.trace")
	out, err := command(t.Context(), "sim", "--nodes=3", "--pods-per-node=4", "--seed=9", "--json", "--report="+page, "--record="+rec)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, field := range []string{"seed", "nodes", "pods", "podsRunning", "simSeconds", "wallSeconds", "messages", "heapBytes", "peakRSSBytes", "startLatencyMs", "traceHash"} {
		if _, there := got[field]; !there {
			t.Errorf("no %s in %s", field, out)
		}
	}
	if got["seed"] != 9.0 || got["nodes"] != 3.0 || got["pods"] != 12.0 || got["podsRunning"] != 12.0 {
		t.Errorf("%s", out)
	}
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), got["traceHash"].(string)) || !strings.Contains(string(html), "troupe sim --seed=9 --nodes=3 --pods-per-node=4") {
		t.Errorf("the report: %v, %d bytes", err, len(html))
	}
	again, err := command(t.Context(), "sim", "replay", rec)
	if err != nil || !strings.Contains(again, "the replay is the same as the recording") || !strings.Contains(again, got["traceHash"].(string)) {
		t.Errorf("replay: %v\n%s", err, again)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What can't be is told in one line, before any work.
func TestSimRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	text := "name: x\nnodes: {count: 2}\nsteps:\n- create: {workload: web, replicas: 1, image: a}\n- wait: {workload: wob, ready: 1, within: 1m}\n"
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--nodes: must be given without a scenario":                             {"sim"},
		"--nodes: 1000000: must be from 1 to 100000":                            {"sim", "--nodes=1000000"},
		bad + ":5: steps[1].wait.workload: wob was not created by a step above": {"sim", "--scenario=" + bad},
		"no such file or directory":                                             {"sim", "--scenario=" + filepath.Join(dir, "none.yaml")},
		"--report: ":                                                            {"sim", "--nodes=1", "--report=" + filepath.Join(dir, "none", "x.html")},
		"--record " + dir + ": there is something else than a file":             {"sim", "--nodes=1", "--record=" + dir},
		"this is no trace":                                                      {"sim", "replay", bad},
	} {
		out, err := command(t.Context(), args...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || out != "" {
			t.Errorf("%v: got %q, %v; want %s", args, out, err, want)
		}
	}
}
