package simcri

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// ended waits until a container has exited and gives it and how long it ran.
func (w *world) ended(id string) (observed.Container, time.Duration) {
	w.t.Helper()
	for range 10000 {
		c := check.Value(w.status(id))(w.t)
		if c.State == observed.ContainerExited {
			return c, c.FinishedAt.Sub(c.StartedAt)
		}
		w.clock.Advance(100 * time.Millisecond)
	}
	w.t.Fatal("it does not end")
	panic("unreachable")
}

func TestScriptedEnds(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations []string
		limit       string
		code        int32
		reason      string
		ran         time.Duration
	}{
		{"run-for", []string{"run-for", "3s"}, "", 0, "Completed", 3 * time.Second},
		{"exit-code", []string{"exit-code", "7"}, "", 7, "Error", 0},
		{"both", []string{"exit-code", "7", "run-for", "2s"}, "", 7, "Error", 2 * time.Second},
		{"for one", []string{"run-for", "9s", "app.run-for", "1s", "other.run-for", "5s"}, "", 0, "Completed", time.Second},
		{"crash loop", []string{"crash-loop", "true", "run-for", "1s"}, "", 1, "Error", time.Second},
		{"crash loop with code", []string{"crash-loop", "4", "exit-code", "9"}, "", 9, "Error", 0},
		{"oom", []string{"oom-after", "4s", "run-for", "10s"}, "", 137, "OOMKilled", 4 * time.Second},
		{"oom that shows late", []string{"oom-after", "4s", "oom-late", "1h"}, "", 137, "Error", 4 * time.Second},
		{"oom too late", []string{"oom-after", "40s", "run-for", "1s"}, "", 0, "Completed", time.Second},
		{"growth", []string{"memory", "10Mi", "memory-growth", "10Mi"}, "64Mi", 137, "OOMKilled", 5400 * time.Millisecond},
		{"too large", []string{"memory", "1Gi"}, "64Mi", 137, "OOMKilled", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			p := aPod("p", c.annotations...)
			if c.limit != "" {
				p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(c.limit)}
			}
			_, id := w.running(p)
			got, ran := w.ended(id)
			if got.ExitCode != c.code || got.Reason != c.reason || ran != c.ran {
				t.Errorf("%d, %s after %v; want %d, %s after %v", got.ExitCode, got.Reason, ran, c.code, c.reason, c.ran)
			}
		})
	}
}

// TestOOMShowsLate: the runtime says Error first, and OOMKilled later.
func TestOOMShowsLate(t *testing.T) {
	w := newWorld(t)
	_, id := w.running(aPod("p", "oom-after", "4s", "oom-late", "300ms"))
	w.clock.Advance(4200 * time.Millisecond)
	if c := check.Value(w.status(id))(t); c.ExitCode != 137 || c.Reason != "Error" {
		t.Errorf("after 200 ms: %d, %s", c.ExitCode, c.Reason)
	}
	w.clock.Advance(200 * time.Millisecond)
	if c := check.Value(w.status(id))(t); c.ExitCode != 137 || c.Reason != "OOMKilled" {
		t.Errorf("after 400 ms: %d, %s", c.ExitCode, c.Reason)
	}
}

func TestCrashLoopRecovers(t *testing.T) {
	w := newWorld(t)
	p := aPod("p", "crash-loop", "2")
	sandbox, id := w.running(p)
	w.ended(id)
	for attempt := uint32(1); attempt <= 2; attempt++ {
		id = check.Value(w.create(p, sandbox, attempt))(t)
		check.Fatal(t, w.startSync(id))
		w.clock.Advance(time.Minute)
		c := check.Value(w.status(id))(t)
		want := observed.ContainerExited
		if attempt == 2 {
			want = observed.ContainerRunning
		}
		check.Equal(t, c.State, want, "attempt %d", attempt)
	}
}

func TestScriptedStops(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations []string
		grace       time.Duration
		code        int32
		took        time.Duration // without the latency
	}{
		{"default", nil, 10 * time.Second, 143, 5 * time.Millisecond},
		{"delay", []string{"term-delay", "4s", "term-exit-code", "0"}, 10 * time.Second, 0, 4 * time.Second},
		{"delay past grace", []string{"term-delay", "40s"}, 10 * time.Second, 137, 10 * time.Second},
		{"ignores", []string{"ignore-term", "true"}, 10 * time.Second, 137, 10 * time.Second},
		{"no grace", []string{"term-delay", "4s"}, 0, 137, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			_, id := w.running(aPod("p", c.annotations...))
			begun := w.clock.Now()
			check.Fatal(t, w.stop(id, c.grace))
			took := w.clock.Now().Sub(begun) - time.Millisecond
			got := check.Value(w.status(id))(t)
			if got.ExitCode != c.code || took != c.took {
				t.Errorf("%d after %v, want %d after %v", got.ExitCode, took, c.code, c.took)
			}
		})
	}
}

func TestScriptedStarts(t *testing.T) {
	w := newWorld(t)
	w.MakeImagePresent(testImage, RegistryImage{})
	slow := aPod("slow", "start-latency", "7s")
	id := check.Value(w.create(slow, check.Value(w.run(slow, 0))(t), 0))(t)
	begun := w.clock.Now()
	check.Fatal(t, w.startSync(id))
	check.Equal(t, w.clock.Now().Sub(begun), 7*time.Second+time.Millisecond, "a slow start took")

	broken := aPod("broken", "start-error", "exec: no such file")
	id = check.Value(w.create(broken, check.Value(w.run(broken, 0))(t), 0))(t)
	err := w.startSync(id)
	wantKind(t, "start", err, port.Other)
	c := check.Value(w.status(id))(t)
	if c.State != observed.ContainerExited || c.ExitCode != 128 || c.Reason != "StartError" || c.Message != "exec: no such file" {
		t.Errorf("after a failed start it is %+v", c)
	}
}

func TestScriptedExec(t *testing.T) {
	w := newWorld(t)
	_, id := w.running(aPod("p", "exec-exit-code", "3", "exec-output", "hi", "exec-delay", "2s"))
	got := check.Value(w.execSync(id, 5*time.Second, "x"))(t)
	if got.ExitCode != 3 || string(got.Stdout) != "hi" {
		t.Errorf("exec gave %+v", got)
	}
	_, err := w.execSync(id, time.Second, "x")
	wantKind(t, "timeout", err, port.Deadline)

	_, hung := w.running(aPod("q", "exec-hang", "true", "run-for", "30s"))
	got = check.Value(w.execSync(hung, 0, "x"))(t)
	check.Equal(t, got.ExitCode, 137, "the container's end gave %+v", got)
}

func TestScriptInGo(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Script = func(s Starting) *Script {
			if s.Pod.Name != "go" {
				return nil
			}
			return &Script{
				RunFor: Constant(time.Minute), ExitCode: int32(s.Attempt) + 5, CPUMillicores: 500, MemoryBytes: 100, LogRate: 10,
				Exec: func(command []string) ExecAnswer { return ExecAnswer{Stdout: strings.Join(command, "+")} },
			}
		}
	})
	_, id := w.running(aPod("go"))
	if got := check.Value(w.execSync(id, 0, "a", "b"))(t); string(got.Stdout) != "a+b" {
		t.Errorf("exec gave %+v", got)
	}
	c, _ := w.ended(id)
	check.Equal(t, c.ExitCode, 5, "exit code")
	if u, ok := w.Usage(id); !ok || u.CPU != 30*time.Second || u.LogBytes != 600 || u.MemoryBytes != 0 {
		t.Errorf("usage is %+v", u)
	}
}

func TestBadAnnotations(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"exit-code", "many", `annotation sim.troupe.dev/exit-code: "many": want an exit code, 0 to 255`},
		{"exit-code", "256", "0 to 255"},
		{"app.run-for", "soon", `annotation sim.troupe.dev/app.run-for: "soon": want a duration such as`},
		{"run-for", "-3s", "negative"},
		{"run-for", "5s..2s", "want 0 <= from <= to"},
		{"crash-loop", "often", "want true, false or how many"},
		{"ignore-term", "perhaps", "want true or false"},
		{"memory", "lots", "want a number of bytes"},
		{"exit-kode", "1", "annotation sim.troupe.dev/exit-kode: unknown key; the keys are exit-code, run-for"},
	} {
		t.Run(c.key+"="+c.value, func(t *testing.T) {
			w := newWorld(t)
			w.MakeImagePresent(testImage, RegistryImage{})
			p := aPod("p", c.key, c.value)
			id := check.Value(w.create(p, check.Value(w.run(p, 0))(t), 0))(t)
			err := w.startSync(id)
			wantKind(t, "start", err, port.InvalidConfig)
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "pod default/p") {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
			if CheckAnnotations(p) == nil {
				t.Error("CheckAnnotations finds nothing wrong")
			}
		})
	}
	if err := CheckAnnotations(aPod("p", "nobody.run-for", "1s")); err == nil || !strings.Contains(err.Error(), `no container "nobody"`) {
		t.Errorf("a container that is not there: %v", err)
	}
	check.Fatal(t, CheckAnnotations(aPod("p", "app.run-for", "1s~4s", "image-size", "1Gi")))
}

// Keys are told without a pod as well: one by one, and together.
func TestCheckKeys(t *testing.T) {
	for want, keys := range map[string]map[string]string{
		"": {"ready-for": "3s", "unready-for": "1s", "exit-code": "3"},
		"ready-for and unready-for: give both or none": {"ready-for": "3s"},
		"run-for: ": {"run-for": "soon"},
		"run: unknown key; the keys are exit-code,": {"run": "1s"},
	} {
		err := CheckKeys(keys)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: got %v; want %s", keys, err, want)
		}
	}
}
