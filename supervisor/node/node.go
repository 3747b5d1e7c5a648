// Package node assembles the node daemon: configuration, the ports on this machine, the
// actors, and the servers.
//
// Order: validate → connect the runtime → claim the root directory → try the ports →
// cgroups, mounts, limits → certificate, directories, sockets → actors (restore, admit,
// resume; register, with a kubeconfig) → admin and health endpoints → READY=1.
// What is wrong with the configuration, its files, the runtime, the ports or the state of
// CPUs and memory ends the start before it changes cgroups, mounts, kernel parameters or
// files that are there. Found later, and tried for the first time then: a cgroup that a
// reservation names, and directories, files and sockets that can't be made. An apiserver
// that does not answer or rejects the credential ends no start: the pods keep running.
package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/eventlog"
	"github.com/troupe-dev/troupe/supervisor/healthz"
	"github.com/troupe-dev/troupe/supervisor/metrics"
	"github.com/troupe-dev/troupe/supervisor/timeline"
	"github.com/troupe-dev/troupe/supervisor/tracing"
)

// Options are what a daemon is run with.
type Options struct {
	Config config.Config
	Log    zerolog.Logger
	// PanicPod (namespace/name) makes the actor of that pod panic on every
	// message: to see what a node does then.
	PanicPod string
	// Flags are those of the command line by name, for /flagz.
	Flags map[string]string
}

const (
	manifestTimeout = 30 * time.Second
	keptEvents      = 1000
	healthPatience  = 10 * time.Second
	healthzPeriod   = 5 * time.Second // a kubelet's
	// As the agent ends, it waits for starts, then for its servers, for its actors, and for calls that it has cancelled.
	startPatience  = 10 * time.Second
	serverPatience = 3 * time.Second
	stopPatience   = 5 * time.Second
	leftPatience   = time.Second
)

// socketPathLimit is sun_path without its end (unix(7)).
const socketPathLimit = 107

// nodeDaemon is a node that was started.
type nodeDaemon struct {
	log    zerolog.Logger
	name   string
	system *kernel.System
	agent  *agent.Agent
	fatal  chan *kernel.CrashReport
	// contended is closed when another process opens the file of --lock-file; nil if that does not matter.
	contended <-chan struct{}
	// counters are those of /metrics.
	counters *metrics.Metrics
	// traces is nil if tracing is off.
	traces *tracing.Tracing
	// addresses are the node's in the apiserver, nil while they are not known.
	addresses atomic.Pointer[[]v1.NodeAddress]
	// started is since when this program runs, as /statusz shows.
	started time.Time
	// recorder writes down what happens to pods.
	recorder *timeline.Recorder
	// live says whether the actors answer, and watchdog tells systemd.
	live     liveness
	watchdog *watchdog
}

func (d *nodeDaemon) start(
	o Options, m machine, ports node.Ports, rt *containerRuntime, static config.StaticPods,
) error {
	c := o.Config
	var err error
	d.system, err = kernel.NewSystem(kernel.Config{
		Clock: kernel.WallClock{}, Seed: rand.Uint64(), Log: o.Log, Tracer: d.recorder,
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
	settings := agent.Of(c)
	settings.Name, settings.Ports, settings.Starts = d.name, ports, agent.StartSlots(m.cpus)
	settings.HostIPs, settings.RuntimeName, settings.Devices = m.addresses.shown(), rt.version.Name, m.devices
	settings.Providers, _ = c.CredentialProviders()
	settings.Observer = observer{d.counters, d.traces, m.inventory}
	settings.Assign, settings.Memory = m.assign, m.inMemory
	if settings.Cluster.PodCertificates {
		settings.Cluster.PodKeys = m.keys
	}
	settings.DeviceHealth = c.Gates().Enabled("ResourceHealthStatus")
	settings.HealthMessages = c.Gates().Enabled("ResourceHealthStatusMessage")
	admits := &settings.Admit
	admits.Name, admits.Labels, admits.Allocatable = d.name, m.labels(c, d.name), m.allocatable
	admits.Arch, admits.AppArmor, admits.StrictGroups = runtime.GOARCH, appArmor(), rt.strictGroups
	settings.FeaturesUnknown = rt.unknown
	settings.Cluster.SELinux = m.selinux
	settings.Cluster.Own = ownOf(c, &m, d.name)
	settings.Cluster.Addresses = func(now []v1.NodeAddress) { d.addresses.Store(&now) }
	settings.Cgroups = *m.cgroupSettings(c, podcgroup.Cgroupfs)
	if m.own != nil {
		settings.Cgroups = *m.own.settings
	}
	if o.PanicPod != "" {
		settings.Wrap = panicWrap(o.PanicPod, d.name)
	}
	d.agent, err = agent.Start(d.system, settings)
	return err
}

// listen opens the servers' socket and port before anything is started, so that one in use is
// detected before the first change. It returns the servers.
func (d *nodeDaemon) listen(o Options, rootDir string, events *eventlog.Log) ([]func(context.Context) error, error) {
	server, err := admin.Listen(admin.Config{
		Socket: admin.SocketIn(rootDir), Tree: d.tree,
		Pods:     func(ctx context.Context) (podview.View, error) { return d.shown(ctx, events) },
		Events:   func(p string) []admin.EventView { return shownEvents(events.Of(p)) },
		Timeline: d.recorder.Story, Gone: d.recorder.List, Letters: d.recorder.Letters,
	})
	if err != nil {
		return nil, err
	}
	serve := []func(context.Context) error{server.Serve}
	if addr, ok := o.Config.Healthz(); ok {
		// No checks, as with a kubelet: programs kill an agent whose first look here fails.
		c := healthz.Config{Address: addr, Observe: d.counters.Healthcheck}
		if hz, err := healthz.Listen(c); err == nil {
			serve = append(serve, hz.Serve)
		} else {
			d.log.Warn().Str("error", err.Error()).Msg("the health endpoint cannot be served; retrying every 5 seconds")
			serve = append(serve, func(ctx context.Context) error { return healthz.Later(ctx, c, healthzPeriod) })
		}
	}
	return serve, nil
}

// release closes servers that will not run.
func release(serve []func(context.Context) error) (err error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range serve {
		err = errors.Join(err, s(ended))
	}
	return err
}

// serve answers others until ctx ends, run-once is through, or the actors gave up.
func (d *nodeDaemon) serve(ctx context.Context, o Options, serve []func(context.Context) error) error {
	ctx, cancel := context.WithCancel(rescue.With(ctx, d.panicked))
	defer cancel()
	servers := len(serve)
	ended := make(chan error, servers)
	for _, f := range serve { // one that panics has ended, and with it the agent: systemd starts another
		rescue.Go(ctx, func() { ended <- f(ctx) }, func(reason string) { ended <- errors.New(reason) })
	}
	var err error
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		o.Log.Warn().Str("error", err.Error()).Msg("cannot notify systemd that the node is ready")
	}
	d.watchdog.watch(d.live.check)
	once := make(chan error, 1)
	if o.Config.RunOnce() {
		rescue.Go(ctx, func() { once <- d.untilDone(ctx) }, func(reason string) { once <- errors.New(reason) })
	}
	select {
	case <-ctx.Done():
		d.log.Info().Msg("the agent is stopping; its pods keep running")
	case <-d.contended:
		d.log.Info().Msg("another process opened the file of --lock-file: the agent is stopping; its pods keep running")
	case err = <-once:
	case err = <-ended:
		servers--
	case r := <-d.fatal:
		err = fmt.Errorf("actor restart limit reached: %w\n%s", r, r.Stack)
	}
	if _, e := daemon.SdNotify(false, daemon.SdNotifyStopping); e != nil {
		o.Log.Warn().Str("error", e.Error()).Msg("cannot notify systemd that the node is stopping")
	}
	d.drain()
	cancel()
	err = errors.Join(err, d.await(ended, servers))
	stop, cancelStop := context.WithTimeout(context.Background(), stopPatience)
	defer cancelStop()
	err = errors.Join(err, d.system.Shutdown(stop))
	d.agent.Runner.Close() // cancels running calls to the runtime; the next agent reads their outcome
	left, cancelLeft := context.WithTimeout(context.Background(), leftPatience)
	defer cancelLeft()
	if e := d.agent.Runner.Ended(left); e != nil {
		d.log.Debug().Str("error", e.Error()).
			Msg("the agent exits while calls to the runtime or to drivers go on: its next start finds what they have done")
	}
	return err
}

// await waits for servers that were told to end, for a while: a stream that hangs must not keep the agent from ending.
// A kubelet waits for none.
func (d *nodeDaemon) await(ended <-chan error, servers int) (err error) {
	late := time.NewTimer(serverPatience)
	defer late.Stop()
	for ; servers > 0; servers-- {
		select {
		case e := <-ended:
			err = errors.Join(err, e)
		case <-late.C:
			d.log.Warn().Int("servers", servers).Dur("after", serverPatience).
				Msg("agent stop timed out: servers have not ended, for example because a stream hangs; exiting without waiting")
			return err
		}
	}
	return err
}

// panicked tells of a panic on a goroutine that no effect waits for.
func (d *nodeDaemon) panicked(reason string, stack []byte) {
	d.log.Error().Str("panic", reason).Str("stack", string(stack)).Msg("panic outside the actors")
}

// drain waits for running starts. If the agent's connection closed, the runtime would abort them:
// containerd then leaves a sandbox whose process nothing ends.
func (d *nodeDaemon) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if err := d.agent.Runner.Drain(ctx, pod.StartPool, pod.LargePool); err != nil {
		d.log.Warn().Str("error", err.Error()).Dur("after", startPatience).
			Msg("interrupting starts of pods, which have not ended in time: the next start of the agent goes on with them")
	}
}

// tree calls no actor, so it shows an actor that hangs.
func (d *nodeDaemon) tree() admin.Tree {
	return admin.Tree{
		Node: d.name, At: time.Now(), Actors: d.system.Snapshot(d.name), Pools: d.agent.Runner.Pools(),
		DeadLetters: d.system.DeadLetters(), Dropped: d.system.Dropped(), Crashes: d.system.Crashes(),
		Goroutines: runtime.NumGoroutine(),
	}
}

func (d *nodeDaemon) pods(ctx context.Context) (podview.View, error) {
	got := make(chan podview.View, 1)
	d.agent.Look(podview.Query{Reply: func(v podview.View) { got <- v }})
	select {
	case v := <-got:
		v.Runtime = d.runtimeTrouble(ctx)
		return v, nil
	case <-ctx.Done():
		return podview.View{}, fmt.Errorf("the podview actor does not answer: %w: see `troupe tree`", ctx.Err())
	}
}

// runtimeTrouble is nil while the runtime answers, or if the node actor does not.
func (d *nodeDaemon) runtimeTrouble(ctx context.Context) *podview.Runtime {
	got := make(chan node.Health, 1)
	d.agent.Query(func(h node.Health) { got <- h })
	select {
	case h := <-got:
		if err := h.Runtime.Err; err != nil {
			return &podview.Runtime{Since: h.Runtime.Since, Message: err.Error()}
		}
	case <-ctx.Done():
	}
	return nil
}

// untilDone waits until every pod has ended (runOnce).
func (d *nodeDaemon) untilDone(ctx context.Context) error {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		v, err := d.pods(ctx)
		if err != nil || !v.Ready {
			continue
		}
		done, failed := true, 0
		for _, p := range v.Pods {
			ended := p.Life == "Terminated" || p.Life == "Rejected"
			done = done && ended
			if ended && p.Phase == string(v1.PodFailed) {
				failed++
			}
		}
		if !done {
			continue
		}
		if failed > 0 || len(v.Problems) > 0 {
			return fmt.Errorf("run once: %d of %d pods failed, %d manifests were invalid", failed, len(v.Pods), len(v.Problems))
		}
		d.log.Info().Int("pods", len(v.Pods)).Msg("run once: all pods have ended")
		return nil
	}
}

func shownEvents(in []eventlog.Entry) []admin.EventView {
	out := make([]admin.EventView, len(in))
	for i, e := range in {
		out[i] = admin.EventView{At: e.At, Pod: e.Pod, Container: e.Container, Warning: e.Warning,
			Reason: e.Reason, Message: e.Message}
	}
	return out
}

func quotaPeriod(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

// labels are those that the node registers with, and that a pod's node selector is matched with until it is known what
// others have made of them. One of --node-labels replaces a default.
func (m machine) labels(c config.Config, name string) map[string]string {
	l := map[string]string{
		v1.LabelHostname: name,
		// As in the kubelet: older tools and charts select nodes by these.
		apis.LabelOS: runtime.GOOS, apis.LabelArch: runtime.GOARCH,
	}
	maps.Copy(l, c.Options().NodeLabels)
	l[v1.LabelOSStable], l[v1.LabelArchStable] = runtime.GOOS, runtime.GOARCH
	return l
}
