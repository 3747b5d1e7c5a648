package simcri

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// model is what the runtime should have, told in the fewest words: calls are
// made one at a time and nothing goes wrong.
type model struct {
	sandboxes  map[string]*modelSandbox   // by ID
	containers map[string]*modelContainer // by ID
}

type modelSandbox struct {
	pod     string
	attempt uint32
	ready   bool
}

type modelContainer struct {
	sandbox string
	attempt uint32
	state   observed.ContainerState
	code    int32
}

// TestModel compares random sequences of calls with the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		w.MakeImagePresent(testImage, RegistryImage{})
		m := &model{map[string]*modelSandbox{}, map[string]*modelContainer{}}
		pods := []*v1.Pod{aPod("a"), aPod("b", "ignore-term", "true")}
		ids := []string{"none"}
		id := func() string { return rapid.SampledFrom(ids).Draw(rt, "id") }
		want := func(what string, err error, kind port.ErrorKind, works bool) {
			if works && err != nil || !works && (err == nil || port.KindOf(err) != kind) {
				rt.Fatalf("%s gave %v; want it to work: %v, or kind %v", what, err, works, kind)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"run": func(rt *rapid.T) {
				p, attempt := rapid.SampledFrom(pods).Draw(rt, "pod"), uint32(rapid.IntRange(0, 2).Draw(rt, "attempt"))
				free := true
				for _, s := range m.sandboxes {
					free = free && (s.pod != p.Name || s.attempt != attempt)
				}
				got, err := w.run(p, attempt)
				want("run", err, port.NameReserved, free)
				if free {
					ids = append(ids, got)
					m.sandboxes[got] = &modelSandbox{p.Name, attempt, true}
				}
			},
			"create": func(rt *rapid.T) {
				in, attempt := id(), uint32(rapid.IntRange(0, 2).Draw(rt, "attempt"))
				s := m.sandboxes[in]
				if s == nil {
					_, err := w.create(pods[0], in, attempt)
					want("create nowhere", err, port.NotFound, false)
					return
				}
				p := pods[0]
				if s.pod == pods[1].Name {
					p = pods[1]
				}
				free := true
				for _, c := range m.containers {
					free = free && (m.sandboxes[c.sandbox].pod != s.pod || c.attempt != attempt)
				}
				got, err := w.create(p, in, attempt)
				switch {
				case !free:
					want("create again", err, port.NameReserved, false)
				case !s.ready:
					want("create in stopped", err, port.StateConflict, false)
				default:
					want("create", err, port.Other, true)
					ids = append(ids, got)
					m.containers[got] = &modelContainer{sandbox: in, attempt: attempt, state: observed.ContainerCreated}
				}
			},
			"start": func(*rapid.T) {
				of := id()
				c := m.containers[of]
				err := w.startSync(of)
				switch {
				case c == nil:
					want("start nothing", err, port.NotFound, false)
				case c.state != observed.ContainerCreated || !m.sandboxes[c.sandbox].ready:
					want("start", err, port.StateConflict, false)
				default:
					want("start", err, port.Other, true)
					c.state = observed.ContainerRunning
				}
			},
			"stop": func(rt *rapid.T) {
				of, grace := id(), time.Duration(rapid.IntRange(0, 1).Draw(rt, "grace"))*time.Second
				want("stop", w.stop(of, grace), port.Other, true)
				if c := m.containers[of]; c != nil && c.state == observed.ContainerRunning {
					code := int32(143)
					if grace == 0 || m.sandboxes[c.sandbox].pod == "b" {
						code = 137
					}
					c.state, c.code = observed.ContainerExited, code
				}
			},
			"remove": func(*rapid.T) {
				of := id()
				want("remove", w.removeSync(of), port.Other, true)
				delete(m.containers, of)
			},
			"stopSandbox": func(*rapid.T) {
				of := id()
				want("stop sandbox", w.stopSandboxSync(of), port.Other, true)
				if s := m.sandboxes[of]; s != nil {
					s.ready = false
				}
				for _, c := range m.containers {
					if c.sandbox == of && c.state == observed.ContainerRunning {
						c.state, c.code = observed.ContainerExited, 137
					}
				}
			},
			"removeSandbox": func(*rapid.T) {
				of := id()
				want("remove sandbox", w.removeSandboxSync(of), port.Other, true)
				delete(m.sandboxes, of)
				for id, c := range m.containers {
					if c.sandbox == of {
						delete(m.containers, id)
					}
				}
			},
			"": func(rt *rapid.T) { m.compare(rt, w) },
		})
	})
}

func (m *model) compare(rt *rapid.T, w *world) {
	var sandboxes, containers int
	for _, p := range w.Truth().Runtime.Pods {
		for _, s := range p.Sandboxes {
			sandboxes++
			want := m.sandboxes[s.ID]
			if want == nil || want.ready != (s.State == observed.SandboxReady) || want.attempt != s.Attempt || want.pod != s.Pod.Name {
				rt.Fatalf("sandbox is %+v, the model has %+v", s, want)
			}
		}
		for _, c := range p.Containers {
			containers++
			want := m.containers[c.ID]
			if want == nil || want.state != c.State || want.code != c.ExitCode || want.sandbox != c.SandboxID || want.attempt != c.Attempt {
				rt.Fatalf("container is %+v, the model has %s", c, fmt.Sprintf("%+v", want))
			}
		}
	}
	if sandboxes != len(m.sandboxes) || containers != len(m.containers) {
		rt.Fatalf("%d sandboxes and %d containers, the model has %d and %d", sandboxes, containers, len(m.sandboxes), len(m.containers))
	}
}
