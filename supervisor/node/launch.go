package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/apiclient/manifesturl"
	"github.com/troupe-dev/troupe/supervisor/again"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/config/rootdir"
	"github.com/troupe-dev/troupe/supervisor/eventlog"
	"github.com/troupe-dev/troupe/supervisor/host"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/supervisor/host/disk/lockfile"
	policy "github.com/troupe-dev/troupe/supervisor/host/kernel/selinux"
	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
	"github.com/troupe-dev/troupe/supervisor/klogsink"
	"github.com/troupe-dev/troupe/supervisor/metrics"
	"github.com/troupe-dev/troupe/supervisor/tracing"
	"github.com/troupe-dev/troupe/supervisor/version"
)

// launch is a daemon that is being started. Each step needs what the steps before it made:
//
//	validate ─► warn ─► take a turn (--lock-file) ─► trace ─► reach the runtime ─► claim the root directory
//	         ─► try to listen ─► read what CPUs and memory are assigned ─► make the cgroups of pods
//	         ─► make the root directory a shared mount ─► limit this process ─► reach the apiserver ─► open the host
//	         ─► listen ─► connect the ports ─► name the policies ─► log the configuration ─► start the actors
type launch struct {
	options Options
	config  config.Config
	name    string
	machine machine
	static  config.StaticPods
	// fetcher is nil without a manifest URL, and with a wrong one, of which noFetcher says why; apiserver and client are
	// nil without an apiserver.
	fetcher   *manifesturl.Fetcher
	noFetcher error
	apiserver *rest.Config
	client    *kube.Client

	counters *metrics.Metrics
	late     *deferredRecorder
	runtime  *containerRuntime
	root     *rootdir.Dir
	// plugins is the directory of device plugins.
	plugins string
	// states and deviceStates are the state files that a kubelet has too.
	states, deviceStates *checkpoints.Store
	host                 *host.Host
	events               *eventlog.Log
	daemon               *nodeDaemon
	ports                node.Ports
	// serve runs the servers. If it does not come to that, release closes their sockets and ports.
	serve []func(context.Context) error
	// contended is closed when another process wants to have the turn; nil if it does not matter.
	contended <-chan struct{}
	// traces is nil if tracing is off.
	traces   *tracing.Tracing
	watchdog *watchdog
	// closers undo the steps, in the reverse order.
	closers []func()
}

// Run runs a node until ctx ends (nil: pods keep running) or it can't continue.
func Run(ctx context.Context, o Options) error {
	klogsink.Route(o.Log)
	l := newLaunch(o)
	defer l.end()
	told, stop := context.WithCancel(ctx)
	defer stop()
	again.Go(told, func() { l.watchdog.run(told) }, rescue.Answered)
	if up, err := l.up(ctx); !up {
		return err
	}
	return l.daemon.serve(ctx, o, l.serve)
}

func newLaunch(o Options) *launch {
	return &launch{options: o, config: o.Config, watchdog: newWatchdog(o.Log)}
}

// up makes all steps. It is false if one failed, or if the agent was told to end meanwhile, which is no error. What the
// configuration is warned of comes first: it may be why a step fails.
func (l *launch) up(ctx context.Context) (bool, error) {
	l.options.Log.Info().Str("version", version.Line()).Msg("the node agent starts")
	l.say(l.config.Warnings())
	for _, step := range []func(context.Context) error{
		l.validate, l.warn, l.takeTurn, l.trace, l.reachRuntime, l.claimRoot, l.tryToListen, l.assignCPUs, l.assignMemory,
		l.makeCgroups, l.shareRoot, l.limitSelf, l.reachAPI, l.openHost, l.listen, l.connectPorts, l.namePolicies,
		l.sayConfig, l.start,
	} {
		var err error
		if ctx.Err() == nil {
			if err = step(ctx); err == nil {
				continue
			}
		}
		err = errors.Join(err, release(l.serve))
		if ctx.Err() == nil {
			return false, err
		}
		// The step that was under way may have been given up, and says so as its error.
		l.options.Log.Info().AnErr("error", err).Msg("the agent was stopped before its start was complete")
		return false, nil
	}
	return true, nil
}

func (l *launch) say(warnings []string) {
	for _, w := range warnings {
		l.options.Log.Warn().Msg(w)
	}
}

// warn tells what the operator should know of this machine.
func (l *launch) warn(context.Context) error {
	l.say(l.machine.warnings(l.config))
	return nil
}

// closePatience is how long the agent waits, as it ends, for what its start has opened.
const closePatience = 10 * time.Second

// end is close with a limit: a call of a runtime or a driver that hangs must not keep the process.
func (l *launch) end() {
	closed := make(chan struct{})
	rescue.Go(context.Background(), func() {
		l.close()
		close(closed)
	}, func(reason string) {
		l.options.Log.Error().Str("panic", reason).Msg("panic while the agent stopped")
		close(closed)
	})
	select {
	case <-closed:
	case <-time.After(closePatience):
		l.options.Log.Warn().Dur("after", closePatience).
			Msg("agent stop timed out: servers, clients or files do not close; exiting without waiting for them")
	}
}

func (l *launch) close() {
	for i := range l.closers {
		l.closers[len(l.closers)-1-i]()
	}
}

func (l *launch) closing(c func() error) {
	l.closers = append(l.closers, func() { _ = c() }) // released with the process in any case
}

// takeTurn waits until no other agent holds the lock file.
func (l *launch) takeTurn(ctx context.Context) error {
	path := l.config.Options().LockFile
	if path == "" {
		return nil
	}
	file, err := lockfile.Take(ctx, path, func() {
		l.options.Log.Info().Str("path", path).Msg("another process holds the file of --lock-file: waiting until it ends")
	})
	if err != nil {
		return err
	}
	l.closing(file.Close)
	if l.config.Options().ExitOnLockContention {
		l.contended, err = file.Contended()
	}
	return err
}

// sayConfig logs the configuration with the defaults, the drop-ins and the flags in it, as a kubelet does (since 1.37):
// when nothing has refused the start, so that why it was refused stands alone.
func (l *launch) sayConfig(context.Context) error {
	text, err := yaml.Marshal(l.config.Shown())
	if err == nil {
		l.options.Log.Info().Str("config", string(text)).Msg("Effective KubeletConfiguration")
	}
	return err
}

// trace begins to export spans, if the configuration says so.
func (l *launch) trace(ctx context.Context) (err error) {
	l.traces, err = tracing.Start(ctx, tracing.Config{
		Settings: l.config.Kubelet().Tracing, Node: l.name, Version: version.Kubernetes(), Log: l.options.Log,
	})
	l.closers = append(l.closers, l.traces.Close)
	return err
}

func (l *launch) reachRuntime(ctx context.Context) (err error) {
	l.late = &deferredRecorder{node: l.name}
	l.runtime, err = connect(ctx, l.options, &l.machine, l.name, l.late, l.counters.Runtime, l.traces)
	if err == nil {
		l.closers = append(l.closers, l.runtime.close)
	}
	return err
}

func (l *launch) claimRoot(context.Context) (err error) {
	if l.root, err = rootdir.Claim(l.config.Options().RootDir); err != nil {
		return err
	}
	l.closing(l.root.Close)
	// A checkpoint that can't be read keeps no pod from running that runs already.
	l.plugins = pluginDir(l.config.Options(), config.DefaultDevicePlugins, l.options.Log)
	if l.machine.devices, err = checkpoints.Devices(l.plugins); err != nil {
		l.options.Log.Error().Str("directory", l.plugins).Str("error", err.Error()).
			Msg("cannot read the device plugin checkpoint: " +
				"extended resources are not advertised until their device plugins register or the status of the Node is patched")
	}
	return nil
}

// reachAPI makes the client of the apiserver. A node without a certificate asks for one first, or in the background if
// the agent renews it.
func (l *launch) reachAPI(ctx context.Context) (err error) {
	if l.apiserver == nil && !l.config.Standalone() && l.config.Kubelet().RotateCertificates {
		if l.apiserver, err = bootstrapLater(l.config, l.options.Log); err != nil {
			return err
		}
	}
	if l.apiserver == nil && !l.config.Standalone() {
		if l.apiserver, err = bootstrap(ctx, l.config, l.name, l.options.Log, l.counters.Request); err != nil {
			return err
		}
	}
	if l.apiserver == nil {
		return nil
	}
	if l.apiserver, err = adopted(l.config, l.apiserver, time.Now(), l.options.Log); err != nil {
		return err
	}
	if l.client, err = dial(l.config, l.apiserver, l.options.Log, l.counters.Request); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", l.config.Options().Kubeconfig, err)
	}
	l.closers = append(l.closers, l.client.Close)
	return nil
}

func (l *launch) openHost(ctx context.Context) (err error) {
	l.host, err = host.New(host.Config{
		Root: l.root.Path(), LogRoot: l.config.PodLogsDir(), ClusterDomain: l.config.Kubelet().ClusterDomain,
		Measured: l.counters.VolumeMeasured, Room: filesFit, Warn: l.warnEvent,
	})
	if err != nil {
		return err
	}
	if l.config.Gates().Enabled("LocalStorageCapacityIsolationFSQuotaMonitoring") {
		l.useProjectQuotas()
	}
	if l.onRealMachine() {
		l.labelPlugins()
	}
	l.closing(l.host.Close) // nothing is written through it
	l.runtime.giveHost(l.host, l.root.Path(), l.machine.selinux != nil)
	rescue.Go(ctx, func() { l.releaseLeft(ctx) }, rescue.Answered) // a device may hang
	return nil
}

func (l *launch) releaseLeft(ctx context.Context) {
	if err := l.host.ReleaseLeft(ctx); err != nil && ctx.Err() == nil {
		l.options.Log.Warn().Str("error", err.Error()).Msg("cannot release a device or disk of a removed pod: unmount and " +
			"detach it, or restart the agent when nothing uses it")
	}
}

// labelPlugins lets plugins in containers without privileges make their sockets on a host with SELinux.
func (l *launch) labelPlugins() {
	root := l.root.Path()
	for _, err := range policy.Machine().LabelPlugins(
		filepath.Join(root, "plugins"), filepath.Join(root, "plugins_registry"), l.plugins) {
		l.options.Log.Warn().Str("error", err.Error()).
			Msg("cannot set the SELinux label of a plugin directory: unprivileged plugins may not work")
	}
}

// useProjectQuotas does without where the host can't.
func (l *launch) useProjectQuotas() {
	log := l.options.Log
	err := l.host.UseProjectQuotas(projectquota.Linux{}, projectquota.Etc, func(err error) {
		log.Warn().Str("error", err.Error()).Msg("emptyDir without project quota: its usage is measured by walking its files")
	})
	if err != nil {
		log.Warn().Str("rootDir", l.root.Path()).Str("error", err.Error()).
			Msg("feature gate LocalStorageCapacityIsolationFSQuotaMonitoring has no effect, and emptyDirs are measured by " +
				"walking their files: the file system of the root directory needs project quotas: an ext4 with the features " +
				"quota and project, or an XFS mounted with prjquota")
	}
}

func (l *launch) start(context.Context) error {
	l.machine.keys = l.host
	if err := l.daemon.start(l.options, l.machine, l.ports, l.runtime, l.static); err != nil {
		return err
	}
	runtime := l.runtime.version
	l.options.Log.Info().Str("node", l.name).Str("runtime", runtime.Name+" "+runtime.Version).
		Str("rootDir", l.root.Path()).Str("staticPods", l.static.Path).Msg("node is up")
	return nil
}
