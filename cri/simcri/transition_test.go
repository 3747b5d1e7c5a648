package simcri

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestTransitionsSayWhy: each end of a container is told with what caused it.
func TestTransitionsSayWhy(t *testing.T) {
	for _, c := range []struct {
		name string
		note []string
		do   func(w *world, sandbox, id string)
		want string
	}{
		{"its end", []string{"run-for", "1s"}, func(w *world, _, _ string) { w.clock.Advance(2 * time.Second) }, "stopped 0 by itself"},
		{"a stop", nil, func(w *world, _, id string) { _ = w.stop(id, time.Minute) }, "stopped 143 by signal"},
		{"a stop that it ignores", []string{"ignore-term", "true"}, func(w *world, _, id string) { _ = w.stop(id, time.Second) },
			"stopped 137 by kill"},
		{"a kill", nil, func(w *world, _, id string) { _ = w.stop(id, 0) }, "stopped 137 by kill"},
		{"its sandbox", nil, func(w *world, sandbox, _ string) { _ = w.stopSandboxSync(sandbox) },
			"stopped 137 with its sandbox; sandbox stopped"},
		{"a removal", nil, func(w *world, _, id string) { _ = w.removeSync(id) }, "stopped 137 with its removal; deleted"},
		{"from outside", nil, func(w *world, _, id string) { _ = w.EndContainer(id, Exit{Code: 3}) }, "stopped 3 from outside"},
		{"no start", []string{"start-error", "no such file"}, func(*world, string, string) {}, "stopped 128 never started"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told []string
			w := newWorld(t, func(cfg *Config) {
				cfg.Observe = func(tr Transition) {
					what := tr.Kind.String()
					switch {
					case tr.Container == "":
						what = "sandbox " + what
					case tr.Kind == observed.ContainerStoppedEvent:
						what = fmt.Sprint(what, " ", tr.ExitCode, " ", tr.Cause)
					}
					if !tr.At.Equal(cfg.Clock.Now()) || tr.Pod.Name != "web" || tr.ID == "" || tr.Sandbox == "" {
						t.Errorf("told %+v", tr)
					}
					told = append(told, what)
				}
			})
			p := aPod("web", c.note...)
			w.MakeImagePresent(testImage, RegistryImage{})
			sandbox, _ := w.run(p, 0)
			id, _ := w.create(p, sandbox, 0)
			_ = w.startSync(id)
			c.do(w, sandbox, id)
			begin := "sandbox created; sandbox started; created; "
			if c.name != "no start" {
				begin += "started; "
			}
			check.Equal(t, strings.Join(told, "; "), begin+c.want, "told")
		})
	}
}
