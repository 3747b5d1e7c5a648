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
	"runtime"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubelet/pkg/apis"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/host"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/deviceplugins"
	"github.com/troupe-dev/troupe/supervisor/internal/eventlog"
	"github.com/troupe-dev/troupe/supervisor/internal/tracing"
	"github.com/troupe-dev/troupe/supervisor/metrics"
	"github.com/troupe-dev/troupe/supervisor/timeline"
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
	// As the agent ends, it waits for starts, then for its servers, for its actors, and for calls that it has cancelled.
	startPatience  = 10 * time.Second
	serverPatience = 3 * time.Second
	stopPatience   = 5 * time.Second
	leftPatience   = time.Second
)

// socketPathLimit is sun_path without its end (unix(7)).
const socketPathLimit = 107

// nodeDaemon is the node daemon of this process. The steps of its start (launch.go) fill it in, each field once; what
// the actors are started with is in settings alone.
type nodeDaemon struct {
	Options
	// started is since when this program runs, as /statusz shows.
	started time.Time
	// name is that of the node, machine what was found out about this host.
	name    string
	machine machine
	// settings are what the actors are started with: what the configuration says, and what the steps have made.
	settings agent.Config

	// counters are those of /metrics. traces is nil if tracing is off. recorder writes down what happens to pods.
	counters *metrics.Metrics
	traces   *tracing.Tracing
	recorder *timeline.Recorder
	events   *eventlog.Log
	// late has the events that the runtime's client has to tell.
	late    deferredRecorder
	runtime *containerRuntime
	// own are the cgroups of pods, nil if they have none of their own.
	own *podCgroups
	// states and deviceStates are the state files that a kubelet has too.
	states, deviceStates *checkpoints.Store
	// apiserver and client are nil without an apiserver.
	apiserver *rest.Config
	client    *kube.Client
	host      *host.Host
	// plugins are the device plugins of this machine, inventory what they offer.
	plugins   *deviceplugins.Plugins
	inventory inventory

	// servers run until their ctx ends. One whose ctx has ended before closes what it has opened (release).
	servers []func(context.Context) error
	// port is that of the HTTPS server, 0 if there is none.
	port int32
	// closers undo the steps, in the reverse order.
	closers []func()

	system *kernel.System
	agent  *agent.Agent
	fatal  chan *kernel.CrashReport
	// contended is closed when another process opens the file of --lock-file; nil if that does not matter.
	contended <-chan struct{}
	// addresses are the node's in the apiserver, nil while they are not known.
	addresses atomic.Pointer[[]v1.NodeAddress]
	// live says whether the actors answer, and watchdog tells systemd.
	live     liveness
	watchdog *watchdog
}

func newDaemon(o Options) *nodeDaemon {
	d := &nodeDaemon{
		Options: o, started: time.Now(), watchdog: newWatchdog(o.Log), fatal: make(chan *kernel.CrashReport, 1),
	}
	d.live.ask = d.askActors
	return d
}

// serve answers others until ctx ends, run-once is through, or the actors gave up.
func (d *nodeDaemon) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(rescue.With(ctx, d.panicked))
	defer cancel()
	servers := len(d.servers)
	ended := make(chan error, servers)
	for _, f := range d.servers { // one that panics has ended, and with it the agent: systemd starts another
		rescue.Go(ctx, func() { ended <- f(ctx) }, func(reason string) { ended <- errors.New(reason) })
	}
	var err error
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		d.Log.Warn().Str("error", err.Error()).Msg("cannot notify systemd that the node is ready")
	}
	d.watchdog.watch(d.live.check)
	once := make(chan error, 1)
	if d.Config.RunOnce() {
		rescue.Go(ctx, func() { once <- d.untilDone(ctx) }, func(reason string) { once <- errors.New(reason) })
	}
	select {
	case <-ctx.Done():
		d.Log.Info().Msg("the agent is stopping; its pods keep running")
	case <-d.contended:
		d.Log.Info().Msg("another process opened the file of --lock-file: the agent is stopping; its pods keep running")
	case err = <-once:
	case err = <-ended:
		servers--
	case r := <-d.fatal:
		err = fmt.Errorf("actor restart limit reached: %w\n%s", r, r.Stack)
	}
	if _, e := daemon.SdNotify(false, daemon.SdNotifyStopping); e != nil {
		d.Log.Warn().Str("error", e.Error()).Msg("cannot notify systemd that the node is stopping")
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
		d.Log.Debug().Str("error", e.Error()).
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
			d.Log.Warn().Int("servers", servers).Dur("after", serverPatience).
				Msg("agent stop timed out: servers have not ended, for example because a stream hangs; exiting without waiting")
			return err
		}
	}
	return err
}

// panicked tells of a panic on a goroutine that no effect waits for.
func (d *nodeDaemon) panicked(reason string, stack []byte) {
	d.Log.Error().Str("panic", reason).Str("stack", string(stack)).Msg("panic outside the actors")
}

// drain waits for running starts. If the agent's connection closed, the runtime would abort them:
// containerd then leaves a sandbox whose process nothing ends.
func (d *nodeDaemon) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if err := d.agent.Runner.Drain(ctx, pod.StartPool, pod.LargePool); err != nil {
		d.Log.Warn().Str("error", err.Error()).Dur("after", startPatience).
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
	v, err := ask(ctx, "podview", func(reply func(podview.View)) { d.agent.Look(podview.Query{Reply: reply}) })
	if err != nil {
		return v, err
	}
	// No answer is no trouble of the runtime.
	h, _ := ask(ctx, "node", func(reply func(node.Health)) { d.agent.Query(reply) })
	if err := h.Runtime.Err; err != nil {
		v.Runtime = &podview.Runtime{Since: h.Runtime.Since, Message: err.Error()}
	}
	return v, nil
}

// ask asks an actor, which may never answer. send must not block.
func ask[T any](ctx context.Context, actor string, send func(reply func(T))) (T, error) {
	v, err := answer.Of(ctx, func(done func(T, error)) { send(func(v T) { done(v, nil) }) })
	if err != nil {
		return v, fmt.Errorf("the %s actor does not answer: %w: see `troupe tree`", actor, context.Cause(ctx))
	}
	return v, nil
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
		d.Log.Info().Int("pods", len(v.Pods)).Msg("run once: all pods have ended")
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
