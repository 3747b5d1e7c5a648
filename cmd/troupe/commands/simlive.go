package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/klogsink"
	"github.com/troupe-dev/troupe/supervisor/sim/live"
	"github.com/troupe-dev/troupe/supervisor/version"
)

// liveFlags are those of troupe sim that are about a real apiserver.
type liveFlags struct {
	kubeconfig string
	inCluster  bool
	prefix     string
	labels     map[string]string
	taints     []string
	capacity   map[string]string
	name       string
	namespace  string
	identity   string
	lease      time.Duration
	eventQPS   float32
	verbosity  int
}

// only are the names of flags of troupe sim that mean something with a real
// apiserver and without it, --nodes, --duration and --json apart, which mean
// something with both.
var (
	onlyLive = []string{"node-prefix", "node-labels", "node-taints", "node-capacity", "name", "namespace", "identity",
		"lease-duration", "event-qps", "v"}
	onlyVirtual = []string{"pods-per-node", "probe", "seed", "scenario", "report", "record"}
)

func (l *liveFlags) addTo(f *pflag.FlagSet) {
	f.StringVar(&l.kubeconfig, "kubeconfig", "",
		"kubeconfig of a real apiserver where the nodes register; uses the wall clock")
	f.BoolVar(&l.inCluster, "in-cluster", false,
		"like --kubeconfig, with the service account of the pod that runs this process")
	f.StringVar(&l.prefix, "node-prefix", "sim-", "with a real apiserver: prefix of the node names")
	f.StringToStringVar(&l.labels, "node-labels", nil, "with a real apiserver: labels of the nodes")
	f.StringSliceVar(&l.taints, "node-taints", nil,
		"with a real apiserver: taints that keep other pods away, key=value:effect")
	f.StringToStringVar(&l.capacity, "node-capacity", nil,
		"with a real apiserver: capacity of a node (default cpu=32,memory=128Gi,pods=110)")
	f.StringVar(&l.name, "name", "troupe-sim",
		"with a real apiserver: name of the simulation; processes with the same name share its nodes")
	f.StringVar(&l.namespace, "namespace", "",
		"with a real apiserver: namespace of the leases of these processes (default: that of the kubeconfig or the pod)")
	f.StringVar(&l.identity, "identity", "", "with a real apiserver: unique name of this process (default: generated)")
	f.DurationVar(&l.lease, "lease-duration", 15*time.Second,
		"with a real apiserver: time after which other processes take over the nodes of a dead process")
	f.Float32Var(&l.eventQPS, "event-qps", 50, "with a real apiserver: pod events written per second; -1 for no limit")
	f.IntVarP(&l.verbosity, "v", "v", 0,
		"with a real apiserver: log verbosity: 2 includes the logs of the nodes, 4 all details")
}

// chosen reports whether the run is against a real apiserver, and refuses flags that
// mean nothing then, or otherwise.
func (l *liveFlags) chosen(f *pflag.FlagSet) (bool, error) {
	live := f.Changed("kubeconfig") || l.inCluster
	switch {
	case f.Changed("kubeconfig") && l.inCluster:
		return false, errors.New("--kubeconfig and --in-cluster cannot be combined: set one of them")
	case f.Changed("kubeconfig") && l.kubeconfig == "":
		return false, errors.New("--kubeconfig: give the path of a file")
	}
	for _, name := range onlyVirtual {
		if live && f.Changed(name) {
			return false,
				fmt.Errorf("--%s: not supported with a real apiserver: it provides the pods, and a wall-clock run "+
					"cannot be replayed", name)
		}
	}
	for _, name := range onlyLive {
		if !live && f.Changed(name) {
			return false, fmt.Errorf("--%s: needs --kubeconfig or --in-cluster", name)
		}
	}
	return live, nil
}

// credential finds the apiserver, and the namespace of those who do not say one.
func (l *liveFlags) credential() (*rest.Config, string, error) {
	if l.inCluster {
		return kube.InCluster()
	}
	config, err := kube.Load(l.kubeconfig)
	if err != nil {
		return nil, "", err
	}
	namespace, err := kube.Namespace(l.kubeconfig)
	return config, namespace, err
}

func (l *liveFlags) nodeTaints() (out []v1.Taint, err error) {
	for _, text := range l.taints {
		t, err := config.ParseTaint(text)
		if err != nil {
			return nil, fmt.Errorf("--node-taints: %w", err)
		}
		out = append(out, t)
	}
	return out, nil
}

func (l *liveFlags) nodeCapacity() (v1.ResourceList, error) {
	out := v1.ResourceList{}
	for name, text := range l.capacity { // order-free: a map again
		q, err := resource.ParseQuantity(text)
		if err == nil && q.Sign() < 0 {
			err = errors.New("it is negative")
		}
		if err != nil {
			return nil, fmt.Errorf("--node-capacity: %s=%s: %w", name, text, err)
		}
		out[v1.ResourceName(name)] = q
	}
	return out, nil
}

// processName is unlike that of any other process.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "process"
	}
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	return fmt.Sprintf("%s-%06x", host, rand.Uint32N(1<<24))
}

func (f *simFlags) runLive(c *cobra.Command) error {
	l := &f.live
	if f.options.Duration < 0 {
		return fmt.Errorf("--duration: %v: can't be negative", f.options.Duration)
	}
	if l.eventQPS == 0 || l.eventQPS < 0 && l.eventQPS != -1 {
		return fmt.Errorf("--event-qps: %v: must be more than 0, or -1", l.eventQPS)
	}
	taints, err := l.nodeTaints()
	if err != nil {
		return err
	}
	capacity, err := l.nodeCapacity()
	if err != nil {
		return err
	}
	rest, namespace, err := l.credential()
	if err != nil {
		return err
	}
	// Most of what lives is small and short: memory is worth more here than the CPU
	// that it saves.
	const percent = 60
	debug.SetGCPercent(percent)
	log, nodeLog := l.logs(c.ErrOrStderr())
	klogsink.Route(nodeLog)
	client, err := kube.New(kube.Config{REST: rest, Version: version.Own(), QPS: -1, EventQPS: l.eventQPS,
		EventBurst: 100, Log: log})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := c.Context()
	if f.options.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.options.Duration)
		defer cancel()
	}
	s, err := live.Run(ctx, live.Config{
		API: client, Busy: client.Busy, Load: client.Load, Nodes: f.options.Nodes, Prefix: l.prefix, Labels: l.labels,
		Taints: taints, Capacity: capacity,
		Name: l.name, Namespace: cmp.Or(l.namespace, namespace), Identity: cmp.Or(l.identity, processName()),
		LeaseDuration: l.lease, Log: log, NodeLog: nodeLog,
	})
	if s == nil {
		return err
	}
	s.Interrupted = c.Context().Err() != nil
	if f.json {
		return errors.Join(err, json.NewEncoder(c.OutOrStdout()).Encode(s))
	}
	return errors.Join(err, writeLive(c.OutOrStdout(), s))
}

// logs are what the process has to say, and what its nodes have.
func (l *liveFlags) logs(w io.Writer) (log, nodes zerolog.Logger) {
	zerolog.TimeFieldFormat = time.RFC3339Nano
	zerolog.DurationFieldUnit = time.Second
	log = zerolog.New(zerolog.ConsoleWriter{Out: w, TimeFormat: "2006-01-02T15:04:05.000Z07:00", NoColor: !isTerminal(w)}).
		With().Timestamp().Logger().Level(zerolog.InfoLevel)
	level := zerolog.ErrorLevel
	switch {
	case l.verbosity >= 4:
		level = zerolog.DebugLevel
	case l.verbosity >= 2:
		level = zerolog.InfoLevel
	}
	return log, log.Level(level)
}

// writeLive prints what a run against a real apiserver came to.
func writeLive(w io.Writer, s *live.Summary) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, args...)) // Flush tells
	}
	ms := func(v float64) time.Duration {
		return time.Duration(v * float64(time.Millisecond)).Round(time.Millisecond)
	}
	row("nodes here", "%d of %d", s.NodesHere, s.Nodes)
	row("pods here", "%d, %d running, %d ready", s.Pods, s.PodsRunning, s.PodsReady)
	row("start latency", "p50 %v, p90 %v, p99 %v", ms(s.Start.P50), ms(s.Start.P90), ms(s.Start.P99))
	row("restarts", "%d", s.Restarts)
	row("time", "%v", time.Duration(s.WallSeconds*float64(time.Second)).Round(time.Millisecond))
	row("nodes taken", "%d", s.Taken)
	row("node leases", "longest time between renewals %.1fs, %d renewed late", s.LeaseGapSeconds, s.LeasesLate)
	row("heap", "%.1f MiB", float64(s.HeapBytes)/(1<<20))
	if s.EventsDropped > 0 {
		row("events dropped", "%d", s.EventsDropped)
	}
	if s.Crashes > 0 || s.Fenced > 0 {
		row("problems", "%d actor crashes, process lease lost %d times", s.Crashes, s.Fenced)
	}
	return tw.Flush()
}
