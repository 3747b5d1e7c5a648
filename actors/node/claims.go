package node

import (
	"time"

	"github.com/troupe-dev/troupe/actors/claims"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
)

// claims reports whether ResourceClaims can be prepared on this node.
func (c *Config) claims() bool {
	return c.Ports.DRADrivers != nil && c.Ports.ResourceSlices != nil && c.Ports.API != nil
}

// tellClaims sets the messages of pods to the actor of claims.
func (b *nodeActors) tellClaims(c *Config, d *pod.Deps) {
	if c.claims() {
		d.PrepareClaims = func(m pod.PrepareClaims) { b.claims.Tell(claims.Prepare{PrepareClaims: m}) }
		d.ReleaseClaims = func(m pod.ReleaseClaims) { b.claims.Tell(claims.Release{ReleaseClaims: m}) }
	}
}

// spawnClaims spawns the actor of ResourceClaims.
func (b *nodeActors) spawnClaims(ctx *kernel.Context[Message], c *Config) {
	if !c.claims() {
		return
	}
	b.claims = spawn(ctx, c.Around, "claims", claims.New(&claims.Deps{
		Drivers: c.Ports.DRADrivers, API: c.Ports.API, Slices: c.Ports.ResourceSlices, Files: c.Ports.States,
		Events: c.Ports.Events, Restarted: func() { b.podset.Tell(podset.AskAgain{}) },
		Living: b.living(true),
		Counts: c.Observer, Health: c.DeviceHealth, HealthMessages: c.HealthMessages,
		Backoff: backoff.Policy{Base: time.Second, Max: 30 * time.Second},
	}))
}
