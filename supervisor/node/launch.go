package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/config/rootdir"
	"github.com/troupe-dev/troupe/supervisor/host"
	"github.com/troupe-dev/troupe/supervisor/host/disk/lockfile"
	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
	"github.com/troupe-dev/troupe/supervisor/internal/again"
	"github.com/troupe-dev/troupe/supervisor/internal/tracing"
	"github.com/troupe-dev/troupe/supervisor/klogsink"
	"github.com/troupe-dev/troupe/supervisor/version"
)

// Run runs a node until ctx ends (nil: pods keep running) or it can't continue.
func Run(ctx context.Context, o Options) error {
	klogsink.Route(o.Log)
	d := newDaemon(o)
	defer d.end()
	told, stop := context.WithCancel(ctx)
	defer stop()
	again.Go(told, func() { d.watchdog.run(told) }, rescue.Answered)
	if up, err := d.up(ctx); !up {
		return err
	}
	return d.serve(ctx)
}

// up makes all steps. It is false if one failed, or if the agent was told to end meanwhile, which is no error. What the
// configuration is warned of comes first: it may be why a step fails. Each step needs what the steps before it made:
//
//	validate ─► warn ─► take a turn (--lock-file) ─► trace ─► reach the runtime ─► claim the root directory
//	         ─► try to listen ─► read what CPUs and memory are assigned ─► make the cgroups of pods
//	         ─► make the root directory a shared mount ─► limit this process ─► reach the apiserver ─► open the host
//	         ─► listen ─► connect the ports ─► name the policies ─► log the configuration ─► start the actors
func (d *nodeDaemon) up(ctx context.Context) (bool, error) {
	d.Log.Info().Str("version", version.Line()).Msg("the node agent starts")
	d.say(d.Config.Warnings())
	for _, step := range []func(context.Context) error{
		d.validate, d.warn, d.takeTurn, d.trace, d.reachRuntime, d.claimRoot, d.tryToListen, d.assignCPUs, d.assignMemory,
		d.makeCgroups, d.shareRoot, d.limitSelf, d.reachAPI, d.openHost, d.listen, d.connectPorts, d.namePolicies,
		d.sayConfig, d.start,
	} {
		var err error
		if ctx.Err() == nil {
			if err = step(ctx); err == nil {
				continue
			}
		}
		err = errors.Join(err, release(d.servers))
		if ctx.Err() == nil {
			return false, err
		}
		// The step that was under way may have been given up, and says so as its error.
		d.Log.Info().AnErr("error", err).Msg("the agent was stopped before its start was complete")
		return false, nil
	}
	return true, nil
}

func (d *nodeDaemon) say(warnings []string) {
	for _, w := range warnings {
		d.Log.Warn().Msg(w)
	}
}

// warn tells what the operator should know of this machine.
func (d *nodeDaemon) warn(context.Context) error {
	d.say(d.machine.warnings(d.Config))
	return nil
}

// closePatience is how long the agent waits, as it ends, for what its start has opened.
const closePatience = 10 * time.Second

// end is close with a limit: a call of a runtime or a driver that hangs must not keep the process.
func (d *nodeDaemon) end() {
	closed := make(chan struct{})
	rescue.Go(context.Background(), func() {
		d.close()
		close(closed)
	}, func(reason string) {
		d.Log.Error().Str("panic", reason).Msg("panic while the agent stopped")
		close(closed)
	})
	select {
	case <-closed:
	case <-time.After(closePatience):
		d.Log.Warn().Dur("after", closePatience).
			Msg("agent stop timed out: servers, clients or files do not close; exiting without waiting for them")
	}
}

func (d *nodeDaemon) close() {
	for i := range d.closers {
		d.closers[len(d.closers)-1-i]()
	}
}

func (d *nodeDaemon) closing(c func() error) {
	d.closers = append(d.closers, func() { _ = c() }) // released with the process in any case
}

// takeTurn waits until no other agent holds the lock file.
func (d *nodeDaemon) takeTurn(ctx context.Context) error {
	path := d.Config.Options().LockFile
	if path == "" {
		return nil
	}
	file, err := lockfile.Take(ctx, path, func() {
		d.Log.Info().Str("path", path).Msg("another process holds the file of --lock-file: waiting until it ends")
	})
	if err != nil {
		return err
	}
	d.closing(file.Close)
	if d.Config.Options().ExitOnLockContention {
		d.contended, err = file.Contended()
	}
	return err
}

// sayConfig logs the configuration with the defaults, the drop-ins and the flags in it, as a kubelet does (since 1.37):
// when nothing has refused the start, so that why it was refused stands alone.
func (d *nodeDaemon) sayConfig(context.Context) error {
	text, err := yaml.Marshal(d.Config.Shown())
	if err == nil {
		d.Log.Info().Str("config", string(text)).Msg("Effective KubeletConfiguration")
	}
	return err
}

// trace begins to export spans, if the configuration says so.
func (d *nodeDaemon) trace(ctx context.Context) (err error) {
	d.traces, err = tracing.Start(ctx, tracing.Config{
		Settings: d.Config.Kubelet().Tracing, Node: d.name, Version: version.Kubernetes(), Log: d.Log,
	})
	d.closers = append(d.closers, d.traces.Close)
	return err
}

func (d *nodeDaemon) claimRoot(context.Context) error {
	root, err := rootdir.Claim(d.rootDir())
	if err == nil {
		d.closing(root.Close)
	}
	return err
}

// reachAPI makes the client of the apiserver. A node without a certificate asks for one first, or in the background if
// the agent renews it.
func (d *nodeDaemon) reachAPI(ctx context.Context) (err error) {
	if d.apiserver == nil && !d.Config.Standalone() && d.Config.Kubelet().RotateCertificates {
		if d.apiserver, err = bootstrapLater(d.Config, d.Log); err != nil {
			return err
		}
	}
	if d.apiserver == nil && !d.Config.Standalone() {
		if d.apiserver, err = bootstrap(ctx, d.Config, d.name, d.Log, d.counters.Request); err != nil {
			return err
		}
	}
	if d.apiserver == nil {
		return nil
	}
	if d.apiserver, err = adopted(d.Config, d.apiserver, time.Now(), d.Log); err != nil {
		return err
	}
	if d.client, err = dial(d.Config, d.apiserver, d.Log, d.counters.Request); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", d.Config.Options().Kubeconfig, err)
	}
	d.closers = append(d.closers, d.client.Close)
	return nil
}

func (d *nodeDaemon) openHost(ctx context.Context) (err error) {
	d.host, err = host.New(host.Config{
		Root: d.rootDir(), LogRoot: d.Config.PodLogsDir(), ClusterDomain: d.Config.Kubelet().ClusterDomain,
		Measured: d.counters.VolumeMeasured, Room: filesFit,
		Warn: func(event string, fields ...any) { d.Log.Warn().Fields(fields).Msg(event) },
	})
	if err != nil {
		return err
	}
	if d.Config.Gates().Enabled("LocalStorageCapacityIsolationFSQuotaMonitoring") {
		d.useProjectQuotas()
	}
	d.settings.Cluster.PodKeys = d.host
	d.closing(d.host.Close) // nothing is written through it
	d.runtime.giveHost(d.host, d.rootDir(), d.machine.selinux != nil)
	rescue.Go(ctx, func() { d.releaseLeft(ctx) }, rescue.Answered) // a device may hang
	return nil
}

func (d *nodeDaemon) releaseLeft(ctx context.Context) {
	if err := d.host.ReleaseLeft(ctx); err != nil && ctx.Err() == nil {
		d.Log.Warn().Str("error", err.Error()).Msg("cannot release a device or disk of a removed pod: unmount and " +
			"detach it, or restart the agent when nothing uses it")
	}
}

// useProjectQuotas does without where the host can't.
func (d *nodeDaemon) useProjectQuotas() {
	log := d.Log
	err := d.host.UseProjectQuotas(projectquota.Linux{}, projectquota.Etc, func(err error) {
		log.Warn().Str("error", err.Error()).Msg("emptyDir without project quota: its usage is measured by walking its files")
	})
	if err != nil {
		log.Warn().Str("rootDir", d.rootDir()).Str("error", err.Error()).
			Msg("feature gate LocalStorageCapacityIsolationFSQuotaMonitoring has no effect, and emptyDirs are measured by " +
				"walking their files: the file system of the root directory needs project quotas: an ext4 with the features " +
				"quota and project, or an XFS mounted with prjquota")
	}
}

// start starts the actors, with what only they need.
func (d *nodeDaemon) start(context.Context) (err error) {
	d.system, err = kernel.NewSystem(kernel.Config{
		Clock: kernel.WallClock{}, Seed: rand.Uint64(), Log: d.Log, Tracer: d.recorder,
		OnCrash: func(r *kernel.CrashReport) { agent.Crashed(d.system, r) },
		OnFatal: func(r *kernel.CrashReport) {
			select {
			case d.fatal <- r:
			default: // one is enough to end
			}
		},
	})
	if err != nil {
		return err
	}
	c, m, rt, s := d.Config, &d.machine, d.runtime, &d.settings
	s.Name, s.Starts, s.HostIPs, s.RuntimeName = d.name, agent.StartSlots(m.cpus), m.addresses.shown(), rt.version.Name
	s.Observer = observer{d.counters, d.traces, &d.inventory}
	s.Admit.Name, s.Admit.Labels, s.Admit.Allocatable = d.name, m.labels(c, d.name), m.allocatable
	s.Admit.Arch, s.Admit.AppArmor, s.Admit.StrictGroups = runtime.GOARCH, appArmor(), rt.strictGroups
	s.FeaturesUnknown = rt.unknown
	s.Cluster.SELinux, s.Cluster.Own = m.selinux, ownOf(c, m, d.name)
	s.Cluster.Own.Port = d.port
	s.Cluster.Addresses = func(now []v1.NodeAddress) { d.addresses.Store(&now) }
	if d.PanicPod != "" {
		s.Wrap = panicWrap(d.PanicPod, d.name)
	}
	if d.agent, err = agent.Start(d.system, *s); err != nil {
		return err
	}
	d.Log.Info().Str("node", d.name).Str("runtime", rt.version.Name+" "+rt.version.Version).
		Str("rootDir", d.rootDir()).Str("staticPods", s.Sources.Path).Msg("node is up")
	return nil
}
