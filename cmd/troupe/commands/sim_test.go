package commands

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
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
	check.Fatal(t, os.WriteFile(bad, []byte(text), 0o600))
	bad2, good, cut := filepath.Join(dir, "list.yaml"), filepath.Join(dir, "good.yaml"), filepath.Join(dir, "cut.trace")
	for file, text := range map[string]string{bad2: "- a: 1\n- b: 2\n", good: "name: x\nnodes: {count: 2}\nsteps:\n- drain: {nodes: [n00005]}\n"} {
		check.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
	}
	if _, err := command(t.Context(), "sim", "--scenario="+good, "--nodes=10", "--record="+cut); err != nil {
		t.Fatal(err) // it is good with so many nodes
	}
	if trace, err := os.ReadFile(cut); err != nil || os.WriteFile(cut, trace[:len(trace)-5], 0o600) != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--nodes: must be set if there is no scenario":                           {"sim"},
		"--nodes: 1000000: must be from 1 to 100000":                             {"sim", "--nodes=1000000"},
		bad + ":5: steps[1].wait.workload: wob was not created by a step above":  {"sim", "--scenario=" + bad},
		"no such file or directory":                                              {"sim", "--scenario=" + filepath.Join(dir, "none.yaml")},
		"--report " + filepath.Join(dir, "none", "x.html") + ": no such file":    {"sim", "--nodes=1", "--report=" + filepath.Join(dir, "none", "x.html")},
		"--record " + dir + ": the path exists and is not a file":                {"sim", "--nodes=1", "--record=" + dir},
		bad + ": this is not a recording":                                        {"sim", "replay", bad},
		"--record " + dir + "/./x: is the same file as --report: choose another": {"sim", "--nodes=1", "--report=" + filepath.Join(dir, "x"), "--record=" + dir + "/./x"},
		"--report " + bad + ": is the same file as --scenario: choose another":   {"sim", "--scenario=" + bad, "--report=" + bad},
		bad2 + ": [{\"a\":1},{\"b\":2}]: must be a map, not a list":              {"sim", "--scenario=" + bad2},
		"--pods-per-node: 111: a node has capacity for 110":                      {"sim", "--nodes=10", "--pods-per-node=111"},
		good + ":4: steps[0].drain.nodes[0]: \"n00005\": unknown node":           {"sim", "--scenario=" + good},
		cut + ": the recording is truncated":                                     {"sim", "replay", cut},
	} {
		out, err := command(t.Context(), args...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || out != "" {
			t.Errorf("%v: got %q, %v; want %s", args, out, err, want)
		}
	}
}

// How a run ended shows: cut short by its duration, or by a signal.
func TestSimEndsEarly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	text := "name: x\nnodes: {count: 1}\nsteps:\n- advance: 1m\n- expect: {pods: 0}\n"
	check.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
	_, err := command(t.Context(), "sim", "--scenario="+file, "--duration=10s")
	if want := "--duration 10s ended the run before its scenario: 2 of 2 steps were not done"; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	out, err := command(ended, "sim", "--scenario="+file)
	if !errors.Is(err, errInterrupted) || !strings.Contains(out, "interrupted: partial results") || exitCode(ended, err) != 130 {
		t.Errorf("%v: %s", err, out)
	}
}
