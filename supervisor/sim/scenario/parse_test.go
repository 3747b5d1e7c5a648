package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

const good = `
name: rolling update
seed: 7
nodes: {count: 10, cpu: "4", memory: 16Gi}
images:
- {name: web:v1, size: 40Mi}
steps:
- create: {workload: web, replicas: 60, image: web:v1, cpu: 100m, readiness: 10s, behavior: {start-latency: 2s}}
- wait: {workload: web, ready: 60, within: 2m}
- always: {workload: web, ready: ">=45", waiting: {CrashLoopBackOff: 0}}
- at: 3m
  update: {workload: web, image: web:v2, maxUnavailable: 25%, maxSurge: 3}
- fail: {count: 2}
- recover: {same: true}
- drain: {nodes: [n00003]}
- apiserver: {outage: 5m}
- advance: 1h
- release: {}
`

func TestParse(t *testing.T) {
	f := check.Value(Parse("f.yaml", []byte(good), Given{}))(t)
	if f.Name != "rolling update" || *f.Seed != 7 || f.Nodes.Count != 10 || f.Nodes.CPU.Value() != 4 || len(f.Steps) != 10 {
		t.Errorf("%+v", f)
	}
	if c := f.Steps[0].Create; c.Replicas != 60 || c.CPU.MilliValue() != 100 || c.Readiness.Duration != 10*time.Second || c.Behavior["start-latency"] != "2s" {
		t.Errorf("create: %+v", c)
	}
	if w := f.Steps[1].Wait; w.Workload != "web" || !w.Ready.Holds(60) || w.Ready.Holds(61) || w.Within.Duration != 2*time.Minute {
		t.Errorf("wait: %+v", w)
	}
	if a := f.Steps[2].Always; !a.Ready.Holds(45) || !a.Ready.Holds(60) || a.Ready.Holds(44) || a.Waiting["CrashLoopBackOff"].Holds(1) {
		t.Errorf("always: %+v", a)
	}
	if s := f.Steps[3]; s.Do() != "update" || s.Line != 11 || s.At.Duration != 3*time.Minute || s.Update.MaxSurge.IntValue() != 3 {
		t.Errorf("update: %+v", s)
	}
}

// Each row changes one thing of the good file.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ old, with, want string }{
		{"count: 10", "count: 0", "f.yaml:4: nodes.count: 0: must be from 1 to 100000"},
		{"count: 10", "count: ten", `f.yaml:4: nodes.count: "ten": must be a whole number, not a string`},
		{"count: 10", "cont: 10", "f.yaml:4: nodes.cont: unknown field: did you mean count?"},
		{"memory: 16Gi", "memory: -1", "f.yaml:4: nodes.memory: -1: must be greater than 0"},
		{"name: rolling update", "about: x", "f.yaml: name: must be given: a short title"},
		{"size: 40Mi", "size: big", `f.yaml:6: images[0].size: "big": must be a quantity, like 100m, 64Mi or 2`},
		{"replicas: 60, image", "replicas: -1, image", "f.yaml:8: steps[0].create.replicas: -1: must be from 0 to 5000000"},
		{"image: web:v1, cpu", "cpu", "f.yaml:8: steps[0].create.image: must be given, like web:v1"},
		{"readiness: 10s", "readiness: 10ms", "f.yaml:8: steps[0].create.readiness: 10ms: must be from 1s to 8784h0m0s"},
		{"start-latency: 2s", "start: 2s", "f.yaml:8: steps[0].create.behavior[start]: unknown key; the keys are exit-code,"},
		{"start-latency: 2s", "start-latency: soon", "f.yaml:8: steps[0].create.behavior[start-latency]: "},
		{"start-latency: 2s", "start: ''", "f.yaml:8: steps[0].create.behavior[start]: unknown key"},
		{"wait: {workload: web", "wait: {workload: wob", "f.yaml:9: steps[1].wait.workload: wob was not created by a step above"},
		{"ready: 60, within", "within", "f.yaml:9: steps[1].wait: has no condition: set at least one of pods"},
		{`">=45"`, `">45"`, `f.yaml:10: steps[2].always.ready: ">45": must be a number, like 60, ">=45" or "<=3"`},
		{"at: 3m", "at: soon", `f.yaml:11: steps[3].at: "soon": must be a duration`},
		{"  update: {workload: web, image: web:v2, maxUnavailable: 25%, maxSurge: 3}", "  update: {workload: web}", "f.yaml:12: steps[3].update: changes nothing"},
		{"maxUnavailable: 25%, maxSurge: 3", "maxUnavailable: 0, maxSurge: 0", "f.yaml:12: steps[3].update.maxUnavailable: 0, and maxSurge is 0"},
		{"maxSurge: 3", "maxSurge: lots", "f.yaml:12: steps[3].update.maxSurge: lots: must be a number or a percentage"},
		{"fail: {count: 2}", "fail: {count: 11}", "f.yaml:13: steps[4].fail.count: 11: must be from 1 to 10"},
		{"fail: {count: 2}", "advance: 1s", "f.yaml:14: steps[5].recover.same: no step above selects nodes by count"},
		{"[n00003]", "[n00010]", `f.yaml:15: steps[6].drain.nodes[0]: "n00010": unknown node; the nodes are n00000 to n00009`},
		{"outage: 5m", "outage: 0s", "f.yaml:16: steps[7].apiserver.outage: 0s: must be from 1ms"},
		{"- advance: 1h", "- advance: 1h\n  wait: {ready: 1, within: 1s}", "f.yaml:17: steps[8]: must have exactly one of create"},
		{"- advance: 1h", "- at: 2m\n  advance: 1h", "f.yaml:17: steps[8].at: 2m0s is before the step above, which is at 3m0s or later"},
		{"- release: {}", "- at: 1h2m\n  release: {}", "f.yaml:18: steps[9].at: 1h2m0s is before the step above, which is at 1h3m0s or later"},
		{"{start-latency: 2s}", "{ready-for: 3s}", "f.yaml:8: steps[0].create.behavior: ready-for and unready-for: give both or none"},
		{"image: web:v2, maxUnavailable: 25%", "behavior: {unready-for: 3s}", "f.yaml:12: steps[3].update.behavior: ready-for and unready-for: give both or none"},
		{"- release: {}", "- delete: {workload: web}\n- scale: {workload: web, replicas: 1}", "f.yaml:19: steps[10].scale.workload: web was deleted by a step above"},
		{"maxUnavailable: 25%", "maxUnavailable: 250%", "f.yaml:12: steps[3].update.maxUnavailable: 250%: must be at most 100%"},
		{"image: web:v2", "image: web:v1:v2", `f.yaml:12: steps[3].update.image: couldn't parse image name "web:v1:v2"`},
		{"image: web:v1, cpu", "image: WEB:v1, cpu", `f.yaml:8: steps[0].create.image: couldn't parse image name "WEB:v1"`},
		{"name: web:v1", "name: a b", `f.yaml:6: images[0].name: couldn't parse image name "a b"`},
		{"CrashLoopBackOff: 0", "CrashLoopBackof: 0", "f.yaml:10: steps[2].always.waiting[CrashLoopBackof]: unknown waiting reason; the reasons are ContainerCreating,"},
		{"wait: {workload: web,", "wait: {image: web:v3,", "f.yaml:9: steps[1].wait.image: web:v3: no step uses this image"},
		{"steps:", "step:", "f.yaml:7: step: unknown field: did you mean steps?"},
		{"name:", "name: [", "f.yaml: "},
	} {
		text := strings.Replace(good, c.old, c.with, 1)
		if text == good {
			t.Fatalf("%q is not in the good file", c.old)
		}
		_, err := Parse("f.yaml", []byte(text), Given{})
		e, ok := errors.AsType[*Error](err)
		if !ok || len(e.Problems) == 0 || !strings.HasPrefix(e.Problems[0].String(), c.want) {
			t.Errorf("%s: got %v; want %s", c.with, err, c.want)
		}
	}
}

// What is good only together with other steps.
func TestGoodTogether(t *testing.T) {
	for _, with := range []string{
		"- delete: {workload: web}\n- wait: {workload: web, pods: 0, within: 1m}\n- release: {workload: web}",
		"- update: {workload: web, behavior: {ready-for: 3s, unready-for: 1s}}\n- update: {workload: web, behavior: {unready-for: 2s}}",
		"- update: {workload: web, image: web:v3, maxSurge: 250%}\n- expect: {image: web:v3, ready: 60}",
	} {
		if _, err := Parse("f.yaml", []byte(strings.Replace(good, "- release: {}", with, 1)), Given{}); err != nil {
			t.Errorf("%s: %v", with, err)
		}
	}
}

// The command line is part of what the steps are checked with.
func TestGiven(t *testing.T) {
	for _, c := range []struct {
		old, with string
		given     Given
		want      string
	}{
		{"", "", Given{Nodes: 4}, ""},
		{"", "", Given{Nodes: 3}, `f.yaml:15: steps[6].drain.nodes[0]: "n00003": unknown node; the nodes are n00000 to n00002`},
		{"fail: {count: 2}", "fail: {count: 5}", Given{Nodes: 4}, "f.yaml:13: steps[4].fail.count: 5: must be from 1 to 4"},
		{"n00003", "n00015", Given{Nodes: 16}, ""},
		{"n00003", "n00015", Given{}, `f.yaml:15: steps[6].drain.nodes[0]: "n00015"`},
		{"workload: web", "workload: pods", Given{OwnPods: true}, "f.yaml:8: steps[0].create.workload: pods is used by --pods-per-node: choose another name"},
		{"- wait: {workload: web, ready", "- wait: {image: 'registry.test/app:v1', ready", Given{OwnPods: true}, ""},
	} {
		_, err := Parse("f.yaml", []byte(strings.Replace(good, c.old, c.with, 1)), c.given)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s, %+v: got %v; want %s", c.with, c.given, err, c.want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	check.Fatal(t, os.WriteFile(large, make([]byte, maxSize+1), 0o600))
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file", dir: "not a regular file", large: "a scenario has at most",
	} {
		check.Says(t, check.Err(Load(path, Given{})), want, "%s: got", path)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("steps: [{wait: {ready: 1, within: 1s}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data, Given{})
		if (file == nil) == (err == nil) {
			t.Fatalf("file %v, error %v", file, err)
		}
	})
}
