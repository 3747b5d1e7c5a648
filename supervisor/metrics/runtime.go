package metrics

import (
	"context"
	"strings"
	"time"
	"unicode"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri"
)

// Runtime counts a call to the runtime: it is what a cri.Config observes with.
func (m *Metrics) Runtime(c cri.Call) {
	if c.Method == "List" { // its two halves are counted
		if c.Object == "" {
			m.relist(c)
		}
		return
	}
	name := operation(c.Method)
	m.operations.WithLabelValues(name).Inc()
	failed := m.operationErrors.WithLabelValues(name) // there from the first call on: a rate needs a 0
	if c.Err != nil {
		failed.Inc()
	}
	if c.Method != "GetContainerEvents" { // which lasts as long as the runtime
		m.operationTimes.WithLabelValues(name).Observe(c.Duration.Seconds())
	}
}

// relist counts a list of all that the runtime has.
func (m *Metrics) relist(c cri.Call) {
	m.relistTimes.Observe(c.Duration.Seconds())
	m.relisted.Set(float64(c.Start.Add(c.Duration).UnixNano()) / 1e9)
	m.mu.Lock()
	last := m.lastList
	if c.Start.After(last) {
		m.lastList = c.Start
	}
	m.mu.Unlock()
	if !last.IsZero() && c.Start.After(last) {
		m.relistInterval.Observe(c.Start.Sub(last).Seconds())
	}
}

// operation is a method of the CRI as a kubelet counts it: RunPodSandbox is
// run_podsandbox.
func operation(method string) string {
	if method == "UpdateContainerResources" {
		return "update_container"
	}
	var b strings.Builder
	for i, r := range strings.ReplaceAll(method, "PodSandbox", "Podsandbox") {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Kinds of containers, as labels have them.
const (
	mainContainer      = "container"
	initContainer      = "init_container"
	ephemeralContainer = "ephemeral_container"
)

// creatingLimit bounds how many containers are remembered between being made and
// being started: one that never is would else be remembered for ever.
const creatingLimit = 4096

// Starts is r with its starts of sandboxes and containers counted.
func (m *Metrics) Starts(r port.Runtime) port.Runtime { return &starts{Runtime: r, metrics: m} }

// starts counts. All else is the runtime's.
type starts struct {
	port.Runtime
	metrics *Metrics
}

// RunPodSandbox implements port.Runtime.
func (s *starts) RunPodSandbox(ctx context.Context, r port.RunPodSandbox, done func(string, error)) {
	m := s.metrics
	own := podspec.OwnUsers(&r.Pod.Spec)
	m.startedPods.Inc()
	if own {
		m.userPods.Inc()
	}
	begun := time.Now()
	s.Runtime.RunPodSandbox(ctx, r, func(id string, err error) {
		m.sandboxTimes.WithLabelValues(r.RuntimeHandler).Observe(time.Since(begun).Seconds())
		if err != nil {
			m.podErrors.Inc()
			m.sandboxErrors.WithLabelValues(r.RuntimeHandler).Inc()
			if own {
				m.userPodErrors.Inc()
			}
		}
		done(id, err)
	})
}

// CreateContainer implements port.Runtime.
func (s *starts) CreateContainer(ctx context.Context, r port.CreateContainer, done func(string, error)) {
	m, kind := s.metrics, kindOf(r.Pod, r.Container.Name)
	m.startedContainers.WithLabelValues(kind).Inc()
	s.Runtime.CreateContainer(ctx, r, func(id string, err error) {
		if err != nil {
			m.containerErrors.WithLabelValues(kind, "CreateContainerError").Inc()
		} else {
			m.remember(id, kind)
		}
		done(id, err)
	})
}

// StartContainer implements port.Runtime.
func (s *starts) StartContainer(ctx context.Context, id string, done func(error)) {
	s.Runtime.StartContainer(ctx, id, func(err error) {
		kind := s.metrics.recall(id)
		if err != nil {
			s.metrics.containerErrors.WithLabelValues(kind, "RunContainerError").Inc()
		}
		done(err)
	})
}

func (m *Metrics) remember(id, kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.creating) >= creatingLimit {
		clear(m.creating)
	}
	m.creating[id] = kind
}

// recall forgets a container, and says of what kind it was: if unknown, of
// the kind that there is most of.
func (m *Metrics) recall(id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	kind, ok := m.creating[id]
	delete(m.creating, id)
	if !ok {
		return mainContainer
	}
	return kind
}

func kindOf(p *v1.Pod, name string) string {
	switch _, kind := podspec.Find(&p.Spec, name); kind {
	case podspec.Init, podspec.Sidecar:
		return initContainer
	case podspec.Ephemeral:
		return ephemeralContainer
	case podspec.Main:
	}
	return mainContainer
}
