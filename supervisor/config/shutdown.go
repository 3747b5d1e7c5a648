package config

import (
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/shutdown"
)

// Shutdown is how pods end while the machine shuts down; none: a shutdown does not wait for them.
// (shutdownGracePeriod, shutdownGracePeriodCriticalPods, shutdownGracePeriodByPodPriority)
func (c Config) Shutdown() shutdown.Groups {
	k := &c.kubelet
	if !c.gates.Enabled("GracefulNodeShutdown") {
		return nil
	}
	if len(k.ShutdownGracePeriodByPodPriority) == 0 || !c.gates.Enabled("GracefulNodeShutdownBasedOnPodPriority") {
		return shutdown.TwoGroups(k.ShutdownGracePeriod.Duration, k.ShutdownGracePeriodCriticalPods.Duration)
	}
	groups := make([]shutdown.Group, len(k.ShutdownGracePeriodByPodPriority))
	for i, p := range k.ShutdownGracePeriodByPodPriority {
		groups[i] = shutdown.Group{Priority: p.Priority, Period: podspec.Seconds(p.ShutdownGracePeriodSeconds)}
	}
	return shutdown.ByPriority(groups)
}
