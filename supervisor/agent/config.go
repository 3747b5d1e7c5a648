package agent

import (
	"time"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/logs"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/nodestatus"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/probes"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/supervisor/config"
)

// Config is what an agent is assembled of. Of and Default fill in everything that
// does not depend on the machine. The caller adds Name, Ports, HostIPs, RuntimeName,
// Cgroups, Cluster.Own, and in Admit what the machine is and has.
type Config struct {
	node.Config
	// Starts is how many pods and containers are started at once, see StartSlots.
	// Removals of pods and commands of probes have as many slots, inspections half
	// as many.
	Starts int
	// Pulls is how many images are pulled at once.
	Pulls int
	// Clock is that of the simulated machine; nil for the system's.
	Clock kernel.Clock
}

const (
	crashBackOffBase  = 10 * time.Second
	crashBackOffReset = 10 * time.Minute
	relistFast        = time.Second
	relistSlow        = time.Minute
	gcPeriod          = time.Minute
	// pullDeadline is far beyond any pull: pods share pulls, so one that a runtime has forgotten must not keep its image
	// from all of them for ever.
	pullDeadline  = 24 * time.Hour
	aheadPatience = time.Hour        // how long pods that start may put off a pre-pull
	pullHold      = 5 * time.Minute  // a pull that gets nowhere must not keep others from it
	logHold       = 30 * time.Second // a log on a disk that hangs must not keep others from being rotated
	// manyPulls stands for no limit (serializeImagePulls false, no maxParallelImagePulls).
	manyPulls = 64
	minStarts = 2
	minLooks  = 2
)

// StartSlots is how many starts run at once on a machine with so many CPUs: measured,
// see docs/benchmarks.md.
func StartSlots(cpus int) int { return max(minStarts, cpus*2) }

// Of gives the settings that c asks for.
func Of(c config.Config) Config {
	pulls := int(c.Pulls().Parallel)
	if pulls <= 0 {
		pulls = manyPulls
	}
	k, longest := c.Kubelet(), c.CrashLoopBackOffMax()
	return Config{
		Config: node.Config{
			Admit: admit.Node{OS: "linux", AllowedUnsafeSysctls: k.AllowedUnsafeSysctls},
			Sources: sources.Settings{
				Path: k.StaticPodPath, PathPeriod: k.FileCheckFrequency.Duration,
				URL: k.StaticPodURL, URLPeriod: k.HTTPCheckFrequency.Duration,
			},
			CrashBackOff: backoff.Policy{Base: min(crashBackOffBase, longest), Max: longest, Reset: crashBackOffReset},
			ContainerGC:  c.ContainerGC(),
			ImageGC:      c.ImageGC(),
			Eviction:     c.Eviction(),
			GCPeriod:     gcPeriod, RelistSlow: relistSlow, RelistFast: relistFast,
			PullDeadline: pullDeadline, RequestTimeout: c.RuntimeRequestTimeout(),
			Logs: logs.Settings{
				Policy: c.LogRotation(), Interval: k.ContainerLogMonitorInterval.Duration, Workers: int(*k.ContainerLogMaxWorkers),
			},
			Shutdown:   c.Shutdown(),
			PullPolicy: c.PullVerification(),
			PullAhead:  c.PullAhead(),
			PullRate:   imagepull.NewBucket(c.Pulls().QPS, c.Pulls().Burst),
			PreferIPv6: c.PrefersIPv6(),
			Cluster:    cluster(c),
		},
		Pulls: pulls,
	}
}

// Default gives the settings of an empty configuration, on a machine with so many
// CPUs that its node registers in the API.
func Default(cpus int) Config {
	c := Of(config.Default())
	c.Starts = StartSlots(cpus)
	c.Cluster.Register = true
	return c
}

// cluster is how c shows a node to its apiserver, apart from what the node is.
func cluster(c config.Config) node.Cluster {
	k := c.Kubelet()
	notAttached := ""
	if k.EnableControllerAttachDetach != nil && !*k.EnableControllerAttachDetach {
		notAttached = "enableControllerAttachDetach is false, and nodes attach no CSI volumes themselves: set it to true"
	}
	return node.Cluster{
		Settings: nodestatus.Settings{
			Register: c.RegisterNode(), MaxImages: int(*k.NodeStatusMaxImages),
			StatusPeriod: k.NodeStatusUpdateFrequency.Duration, ReportPeriod: k.NodeStatusReportFrequency.Duration,
			LeaseDuration: time.Duration(k.NodeLeaseDurationSeconds) * time.Second,
		},
		CSI: csi.Settings{
			StatsPeriod: k.VolumeStatsAggPeriod.Duration, VolumeHealth: c.Gates().Enabled("CSIVolumeHealth"),
			NotAttached: notAttached,
		},
		Objects: apiobjects.Settings{
			Detection:       apiobjects.Detection(k.ConfigMapAndSecretChangeDetectionStrategy),
			TrustBundles:    c.Gates().Enabled("ClusterTrustBundle") && c.Gates().Enabled("ClusterTrustBundleProjection"),
			PodCertificates: c.Gates().Enabled("PodCertificateRequest"),
		},
	}
}

// pools are the slots that the effects of the agent share.
func (c *Config) pools() []kernel.Pool {
	pools := append(probes.Pools(c.Starts), pod.Pools(c.Starts, max(minLooks, c.Starts/2))...)
	pools = append(pools,
		kernel.Pool{Name: images.PullPool, Size: c.Pulls, MinHold: pullHold, MaxHold: 3 * pullHold},
		kernel.Pool{
			Name: images.AheadPool, Size: 1, MinHold: pullHold, MaxHold: 3 * pullHold,
			Behind: pod.StartPool, BehindMax: aheadPatience,
		},
		kernel.Pool{Name: logs.Pool, Size: c.Logs.Workers, MinHold: logHold, MaxHold: 3 * logHold, Unkept: true},
	)
	pools = append(pools, credentials.Pools()...)
	return append(pools, apiobjects.Pools()...)
}
