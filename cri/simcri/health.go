package simcri

import (
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/probe"
)

// Health is how a container answers probes, by commands and over the network. The zero value
// always passes. Times count from the container's start.
//
//	started ──StartupTime──► serves ──ReadyAfter──► ready ⇄ unready     (ReadyFor, UnreadyFor)
//	                                          any ──UnhealthyAfter──► serves no request
type Health struct {
	// StartupTime is how long it is not serving at all: connections are refused, and probe
	// commands exit with 1.
	StartupTime Dist
	// ReadyAfter is how long its readiness probe fails: 503, NOT_SERVING, 1. A request that
	// several of its probes make counts as a readiness probe too.
	ReadyAfter Dist
	// ReadyFor and UnreadyFor are the alternating times for which it is ready and unready.
	ReadyFor, UnreadyFor Dist
	// UnhealthyAfter is when all its probes begin to fail.
	UnhealthyAfter Dist
	// Delay is added to an answer's latency.
	Delay Dist
	// Hang: no probe is answered.
	Hang bool
}

// vitals are one container's own draws.
type vitals struct {
	startup, ready           time.Duration
	readyFor, unreadyFor     time.Duration
	unhealthy                time.Duration
	mayBeUnhealthy, mayWaver bool
}

// sample draws the random values that are set, and returns nil if none is.
func (h *Health) sample(rng *rand.Rand) *vitals {
	if h.StartupTime.IsZero() && h.ReadyAfter.IsZero() && h.ReadyFor.IsZero() && h.UnhealthyAfter.IsZero() {
		return nil
	}
	return &vitals{
		startup: h.StartupTime.Sample(rng), ready: h.ReadyAfter.Sample(rng),
		readyFor: h.ReadyFor.Sample(rng), unreadyFor: h.UnreadyFor.Sample(rng), mayWaver: !h.ReadyFor.IsZero(),
		unhealthy: h.UnhealthyAfter.Sample(rng), mayBeUnhealthy: !h.UnhealthyAfter.IsZero(),
	}
}

// asking is a set of kinds of probes.
type asking uint8

func (a asking) has(k probe.Kind) bool { return a&(1<<k) != 0 }

// listens reports whether the container answers at all.
func (c *container) listens(ran time.Duration) bool {
	return c.vitals == nil || ran >= c.vitals.startup
}

// serves reports whether a probe of these kinds passes.
func (c *container) serves(kinds asking, ran time.Duration) bool {
	v := c.vitals
	if v == nil {
		return true
	}
	if ran < v.startup || v.mayBeUnhealthy && ran >= v.unhealthy {
		return false
	}
	if !kinds.has(probe.Readiness) {
		return true
	}
	if ran -= v.ready; ran < 0 {
		return false
	}
	cycle := v.readyFor + v.unreadyFor
	return !v.mayWaver || cycle == 0 || ran%cycle < v.readyFor
}

// matching are the kinds of the container's probes that satisfy f.
func (c *container) matching(f func(*v1.Probe) bool) (kinds asking) {
	for k := range probe.Kinds {
		if p := probe.Of(c.spec, k); p != nil && f(p) {
			kinds |= 1 << k
		}
	}
	return kinds
}

// askedBy are the probes that run a command; none if the answer does not depend on it.
func (c *container) askedBy(command []string) asking {
	if h := &c.script.Health; c.vitals == nil && h.Delay.IsZero() && !h.Hang {
		return 0
	}
	return c.matching(func(p *v1.Probe) bool {
		if p.Exec == nil {
			return false
		}
		t, _, err := probe.TargetOf(p, c.spec, "")
		e, is := t.(probe.Exec)
		return err == nil && is && slices.Equal(e.Command, command)
	})
}

// isPort reports whether a probe's port is this port of its container.
func (c *container) isPort(p intstr.IntOrString, n int) bool {
	if p.Type == intstr.Int {
		return p.IntValue() == n
	}
	for i := range c.spec.Ports {
		if c.spec.Ports[i].Name == p.StrVal {
			return int(c.spec.Ports[i].ContainerPort) == n
		}
	}
	return false
}
