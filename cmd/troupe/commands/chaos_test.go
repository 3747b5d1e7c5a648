package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
)

// chaosSays runs troupe chaos and gives what it printed and its exit code.
func chaosSays(t *testing.T, args ...string) (string, int, error) {
	t.Helper()
	c := Root()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	if slices.Contains(args, "--json") {
		c.SetErr(io.Discard) // progress, on a busy machine
	}
	c.SetArgs(append([]string{"chaos"}, args...))
	err := c.ExecuteContext(t.Context())
	return out.String(), exitCode(t.Context(), err), err
}

// TestChaosExitCodes: what held, what is stale, what is violated and what can't be run.
func TestChaosExitCodes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "case")
	check.Fatal(t, os.WriteFile(file, []byte("create web main=app\nexplode\n"), 0o600))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", "create web main=app"}, 0, "1 cases, 1 held"},
		{[]string{"run", "create web main=app; fault call StopContainer web/app #1 = hang"}, exitStale, "fault call StopContainer"},
		{[]string{"run", "create web main=app; on web Ready: lose-task web/app; delete web", "--shrink", "2s"}, exitViolated, "violated L01"},
		{[]string{"shrink", "create web main=app"}, exitFailed, "violates no rule"},
		{[]string{"run", "@" + file}, exitFailed, `line 2: "explode"`},
		{[]string{"run", "@" + file + "x"}, exitFailed, "no such file"},
		{[]string{"shrink", "create web main=app", "--shrink=0"}, exitFailed, "give a longer duration"},
		{[]string{"seeds", "7..3"}, exitFailed, "want FROM..TO"},
		{[]string{"seeds", "1..3", "--shard=3/3"}, exitFailed, "part I of N"},
		{[]string{"seeds", "1..3"}, 0, "3 cases"},
		{[]string{"sweep", "no-life"}, exitFailed, "lives are: plain"},
	} {
		out, code, err := chaosSays(t, c.args...)
		if err != nil {
			out += err.Error()
		}
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%v: code %d, want %d, says\n%s", c.args, code, c.code, out)
		}
	}
}

// TestChaosJSON: what programs read, in one spelling.
func TestChaosJSON(t *testing.T) {
	out, code, err := chaosSays(t, "run", "create web main=app; fault call StartContainer web/app #1 = fail", "--json")
	if err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	var got outcomeJSON
	var fields map[string]any
	check.Fatal(t, errors.Join(json.Unmarshal([]byte(out), &got), json.Unmarshal([]byte(out), &fields)))
	if got.Cases != 1 || got.Held != 1 || got.FaultsReached["call fail"] != 1 || len(got.TraceHash) != 16 || got.SimSeconds < 60 {
		t.Errorf("%s", out)
	}
	for _, field := range []string{"cases", "failures", "faultsReached", "simSeconds", "wallSeconds", "traceHash"} {
		if _, is := fields[field]; !is {
			t.Errorf("there is no %s in %s", field, out)
		}
	}
	out, code, _ = chaosSays(t, "run", breaks, "--json", "--shrink=0")
	if code != exitViolated || json.Unmarshal([]byte(out), &got) != nil || got.Failures[0].Rule != "L01" || got.Failures[0].Case != "seed 1; "+breaks {
		t.Errorf("code %d: %s", code, out)
	}
}

// breaks is a case that violates L01: what is lost can't be removed until the runtime is restarted.
const breaks = "create web main=app; on web Ready: lose-task web/app; delete web"

// TestChaosSameForAnyWorkers: programs get the same of one worker and of four.
func TestChaosSameForAnyWorkers(t *testing.T) {
	seen := map[string]string{}
	for _, workers := range []string{"1", "4"} {
		out, _, err := chaosSays(t, "seeds", "1..12", "--json", "--workers", workers)
		var got outcomeJSON
		check.Fatal(t, errors.Join(err, json.Unmarshal([]byte(out), &got)))
		seen[got.TraceHash] = workers
	}
	check.Equal(t, len(seen), 1, "the hashes are %v", seen)
}

// TestChaosReplay: everything that has cases can be run again, and what is wrong is told with its place.
func TestChaosReplay(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		check.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	report := filepath.Join(dir, "report")
	printed, _, _ := chaosSays(t, "run", breaks, "--shrink=0", "--report", report)
	asJSON, _, _ := chaosSays(t, "run", breaks, "--shrink=0", "--json")
	kept, _, _ := chaosSays(t, "replay", write("again.txt", "seed 1\n"+strings.ReplaceAll(breaks, "; ", "\n")), "--shrink=0")
	for _, c := range []struct {
		file string
		code int
		says string
	}{
		{write("one.txt", "# one case, without a seed\ncreate web main=app\n\nkill-agent\n"), 0, "1 cases, 1 held"},
		{write("two.txt", "seed 1; create web main=app\nseed 2\ncreate web main=app\nseed 1; create web main=app\n"), 0, "2 cases, 2 held"},
		{write("printed.txt", printed), exitViolated, "1 cases, 0 held, 1 violated"},
		{write("kept.txt", kept), exitViolated, "1 cases, 0 held, 1 violated"},
		{write("out.json", asJSON), exitViolated, "1 cases, 0 held, 1 violated"},
		{report, exitViolated, "1 cases, 0 held, 1 violated"},
		{filepath.Join(report, "01-L01.html"), exitViolated, "1 cases, 0 held, 1 violated"},
		{write("stale.txt", "create web main=app\nfault call StopContainer web/app #1 = hang\n"), exitStale, "never happened: fault call StopContainer web/app #1 = hang"},
		{write("bad.txt", "seed 1\ncreate web main=app\n\nseed 2\nexplode\n"), exitFailed, `bad.txt: case at line 4: line 2: "explode"`},
		{write("bad.json", "{"), exitFailed, "not an output of --json"},
		{write("empty.txt", "# nothing\n"), exitFailed, "no case found"},
		{filepath.Join(dir, "none.txt"), exitFailed, "no such file"},
	} {
		out, code, err := chaosSays(t, "replay", c.file, "--shrink=0")
		if err != nil {
			out += err.Error()
		}
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: code %d, want %d, says\n%s", filepath.Base(c.file), code, c.code, out)
		}
	}
}

// TestChaosReport: a page for the case of run, and what can't be written is told before any work.
func TestChaosReport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "held.html")
	if out, code, err := chaosSays(t, "run", "create web main=app", "--report", file); code != 0 {
		t.Fatal(out, err)
	}
	page, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(page), "Case that holds every rule") || !strings.Contains(string(page), "troupe chaos run &#39;seed 1; create web main=app&#39;") {
		t.Errorf("%v, %d bytes", err, len(page))
	}
	for report, want := range map[string]string{
		dir:                                     "the directory is not empty: give another, or FILE.html",
		filepath.Join(dir, "none", "page.html"): "no such file",
		filepath.Join(file, "below"):            "not a directory",
	} {
		if out, code, err := chaosSays(t, "seeds", "1..1000000", "--report", report); code != exitFailed || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: code %d, %v\n%s", report, code, err, out)
		}
	}
}

// TestChaosInterrupted: what was run so far is printed.
func TestChaosInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out bytes.Buffer
	c := Root()
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs([]string{"chaos", "seeds", "1..1000000000"})
	stop()
	err := c.ExecuteContext(ctx)
	if code := exitCode(ctx, err); code != exitInterrupted || !strings.Contains(out.String(), "interrupted: results until then\n") ||
		!strings.Contains(out.String(), " cases, ") {
		t.Errorf("code %d, %v: %s", code, err, &out)
	}
}

// TestChaosProgress: without a terminal it is a line now and then, on stderr.
func TestChaosProgress(t *testing.T) {
	var errs bytes.Buffer
	c := Root()
	c.SetErr(&errs)
	o := check.Value(newOutcome(&chaosFlags{json: true}, c, 3))(t)
	defer o.close()
	faults := []plan.Fault{{Stream: plan.Call, Effect: plan.Effect{Do: plan.Fail}}}
	r := &chaos.Result{Case: &plan.Case{Faults: faults}, Reached: faults}
	o.begin = o.begin.Add(-time.Second)
	o.add(r)
	check.AtMost(t, errs.Len(), 0, "at once: %s", &errs)
	o.told = o.told.Add(-lineEach)
	o.add(r)
	if got := errs.String(); got != "2 of 3 cases, 2 a second, 1s left, 2 faults reached, 2 held, 0 violated, 0 stale\n" {
		t.Errorf("later: %q", got)
	}
}

// TestChaosShards: the parts are the whole, and none has what another has.
func TestChaosShards(t *testing.T) {
	for _, total := range []uint64{0, 1, 7, 100, 1_000_001, math.MaxUint64 - 1} {
		for _, n := range []uint64{1, 2, 3, 8, 100} {
			next := uint64(0)
			for i := range n {
				s := shard{i, n}
				from, to := s.of(total)
				if from != next || to < from || to-from > total/n+1 {
					t.Fatalf("part %s of %d is %d to %d, the one before ended at %d", &s, total, from, to, next)
				}
				next = to
			}
			check.Equal(t, next, total, "%d parts of %d end at %d", n, total, next)
		}
	}
	out, _, err := chaosSays(t, "sweep", "plain", "job", "--shard=40/101", "--json")
	var got outcomeJSON
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil || got.Cases < 5 {
		t.Errorf("a part of a sweep: %v, %d cases", err, got.Cases)
	}
	for _, bad := range []string{"", "1", "3/3", "-1/3", "a/b", "1/0"} {
		check.Fails(t, new(shard).Set(bad), "%q is a part", bad)
	}
}

// TestChaosProcesses: several processes with a part each run what one would.
func TestChaosProcesses(t *testing.T) {
	if args := os.Getenv("TROUPE_CHAOS_PART"); args != "" {
		os.Args = append([]string{"troupe"}, strings.Fields(args)...)
		os.Exit(Execute())
	}
	part := func(args string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChaosProcesses$")
		c.Env = append(os.Environ(), "TROUPE_CHAOS_PART=chaos "+args)
		c.Stdout, c.Stderr = new(bytes.Buffer), new(bytes.Buffer)
		check.Fatal(t, c.Start())
		return c
	}
	file := filepath.Join(t.TempDir(), "cases.txt")
	if err := os.WriteFile(file, []byte("seed 1; create a main=app\nseed 2; create a main=app\nseed 3; create a main=app\n"+
		"fault call StartContainer a/app #1 = fail\nseed 4; standalone; write a main=app\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"seeds 1..6", "replay " + file} {
		whole := part(what + " --json")
		var parts []*exec.Cmd
		for i := range 3 {
			parts = append(parts, part(fmt.Sprintf("%s --json --shard=%d/3", what, i)))
		}
		sum := outcomeJSON{FaultsReached: map[string]int{}}
		for _, c := range parts {
			one := ended(t, c)
			sum.Cases += one.Cases
			sum.SimSeconds += one.SimSeconds
			for kind, n := range one.FaultsReached {
				sum.FaultsReached[kind] += n
			}
			if one.Cases == 0 {
				t.Errorf("%s: a part is empty", what)
			}
		}
		want := ended(t, whole)
		if sum.Cases != want.Cases || math.Abs(sum.SimSeconds-want.SimSeconds) > 1e-3 || !maps.Equal(sum.FaultsReached, want.FaultsReached) {
			t.Errorf("%s: the parts are %+v, the whole %+v", what, sum, want)
		}
	}
}

func ended(t *testing.T, c *exec.Cmd) (out outcomeJSON) {
	t.Helper()
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %s", err, c.Stderr)
	}
	if err := json.Unmarshal(c.Stdout.(*bytes.Buffer).Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, c.Stdout)
	}
	return out
}

// TestChaosManifest: the Job for many machines is one, and its parts are all parts of its cases.
func TestChaosManifest(t *testing.T) {
	text := check.Value(os.ReadFile("../../../docs/manifests/troupe-chaos.yaml"))(t)
	var job batchv1.Job
	check.Fatal(t, yaml.UnmarshalStrict(text, &job))
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || *job.Spec.CompletionMode != batchv1.IndexedCompletion {
		t.Errorf("it is a %s %s, %s", job.APIVersion, job.Kind, *job.Spec.CompletionMode)
	}
	c := job.Spec.Template.Spec.Containers[0]
	for i := range *job.Spec.Completions {
		args := slices.Concat(c.Command[1:], c.Args)
		for k, arg := range args {
			args[k] = strings.ReplaceAll(arg, "$(JOB_COMPLETION_INDEX)", fmt.Sprint(i))
		}
		seeds, rest, err := Root().Find(args)
		if err := errors.Join(err, seeds.ParseFlags(rest)); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		_, last, err := seedRange(seeds.Flags().Arg(0))
		if got, want := seeds.Flag("shard").Value.String(), fmt.Sprintf("%d/%d", i, *job.Spec.Completions); err != nil || last < 1000 || got != want {
			t.Errorf("%q: the part is %s, want %s; %v", args, got, want, err)
		}
	}
	if codes := job.Spec.PodFailurePolicy.Rules[0].OnExitCodes; codes.Values[0] != exitViolated || *codes.ContainerName != c.Name {
		t.Errorf("fails for %v of %s", codes.Values, *codes.ContainerName)
	}
}

// TestChaosDocs runs the commands of docs/chaos.md, which print what is there but for the numbers.
func TestChaosDocs(t *testing.T) {
	text := check.Value(os.ReadFile("../../../docs/chaos.md"))(t)
	t.Chdir(t.TempDir())
	numbers := regexp.MustCompile(`\d[\d.]*(ms|[hms][\dhms]*)?`)
	blocks := regexp.MustCompile(`(?m)^    \$ troupe chaos (.*)\n((?:(?:    .*)?\n)*)`).FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 5 {
		t.Fatalf("%d commands", len(blocks))
	}
	for _, b := range blocks {
		var args []string
		for i, part := range strings.Split(b[1], "'") { // what is quoted, and what is not
			if i%2 == 1 {
				args = append(args, part)
			} else {
				args = append(args, strings.Fields(part)...)
			}
		}
		out, _, _ := chaosSays(t, args...)
		if i := strings.LastIndex(out, " cases, "); i >= 0 { // what was covered comes after it
			end, _, _ := strings.Cut(out[i:], "\n")
			out = out[:i] + end
		}
		got := numbers.ReplaceAllString(strings.TrimSpace(out), "N")
		want := numbers.ReplaceAllString(strings.TrimSpace(strings.ReplaceAll(b[2], "\n    ", "\n")), "N")
		if got != want {
			t.Errorf("troupe chaos %s prints\n%s\nthe docs say\n%s", b[1], out, b[2])
		}
	}
}
