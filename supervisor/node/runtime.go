package node

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/cri"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/host"
	policy "github.com/troupe-dev/troupe/supervisor/host/kernel/selinux"
	"github.com/troupe-dev/troupe/supervisor/host/pod/accounts"
)

// containerRuntime is the node's container runtime, with its state at the start.
type containerRuntime struct {
	port.Runtime
	version port.RuntimeVersion
	// strictGroups: it can keep an image's groups from a container. unknown: it has not said yet whether it can.
	strictGroups, unknown bool
	// node is what pods are translated with; nil for a simulated runtime. It may be
	// changed until the actors start.
	node *translate.Node
	// users are the IDs of this node that pods may have.
	users isolation.IDRange
}

// reachRuntime connects the runtime, or makes a simulated one.
func (d *nodeDaemon) reachRuntime(ctx context.Context) (err error) {
	c, m := d.Config, &d.machine
	if c.Options().Runtime == config.RuntimeSim {
		rt, err := simcri.New(simcri.Config{
			Clock: kernel.WallClock{},
			Rand:  func(string) *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) },
		})
		d.runtime = &containerRuntime{Runtime: rt, version: port.RuntimeVersion{Name: "simcri", Version: "simulated"},
			strictGroups: true}
		return err
	}
	below := &containerRuntime{node: m.translation(c)}
	if err = below.node.Validate(); err != nil {
		return err
	}
	if below.users, err = userRange(ctx, c, m); err != nil {
		return err
	}
	d.late.node = d.name
	resolver, found := &resolverFile{path: c.ResolvConf(), last: m.resolvConf, none: m.noResolver}, *m
	client, err := cri.Dial(ctx, cri.Config{
		Endpoint: c.RuntimeEndpoint(), ImageEndpoint: c.ImageEndpoint(), RequestTimeout: c.RuntimeRequestTimeout(),
		Node: func() *translate.Node {
			n := *below.node
			n.ResolvConf, n.NoResolvConf = resolver.read()
			found.refresh(&n, c)
			return &n
		},
		MakeDirectory: makeLogDirectory(c.PodLogsDir()),
		Notice:        d.late.notice, Observe: d.counters.Runtime, Dial: d.traces.Dial(),
	})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, client.Close)
	below.Runtime, d.runtime = client, below
	if below.version, err = answer.Of(ctx, func(done func(port.RuntimeVersion, error)) {
		client.Version(ctx, done)
	}); err != nil {
		return err
	}
	below.ask(ctx, statusPatience, d.Log)
	return nil
}

// logMode is that of the directories of logs.
const logMode = 0o755

// makeLogDirectory makes directories of logs below top, and nowhere else: a pod that can write there could have put a
// link on the way.
func makeLogDirectory(top string) func(path string) error {
	return func(path string) error {
		if err := os.MkdirAll(top, logMode); err != nil {
			return err
		}
		below, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		root, err := os.OpenRoot(top)
		if err != nil {
			return err
		}
		defer root.Close() //nolint:errcheck // nothing is held
		if err := root.MkdirAll(below, logMode); err != nil {
			return fmt.Errorf("make the directory of logs %s: %w", path, err)
		}
		return nil
	}
}

// statusPatience is how long the start waits for the status of a runtime that has said its version, and askEvery how
// often it asks.
const (
	statusPatience = 3 * time.Second
	askEvery       = 500 * time.Millisecond
)

// ask finds out what the runtime can do. containerd answers Version before it is ready to answer Status. So that is
// asked for again, first here and later by actors: a kubelet starts without it, and the node is not Ready meanwhile.
func (r *containerRuntime) ask(ctx context.Context, patience time.Duration, log zerolog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		status, err := answer.Of(ctx, func(done func(port.RuntimeStatus, error)) { r.Status(ctx, done) })
		if err == nil {
			f := status.Features
			r.strictGroups = f != nil && f.SupplementalGroupsPolicy != nil && *f.SupplementalGroupsPolicy
			return
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			log.Warn().Str("error", err.Error()).
				Msg("the container runtime answers Version but not Status; starting without its status, and retrying")
			r.unknown = true
			return
		}
	}
}

func userRange(ctx context.Context, c config.Config, m *machine) (isolation.IDRange, error) {
	perPod := uint32(isolation.IDUnit)
	if u := c.Kubelet().UserNamespaces; u != nil && u.IDsPerPod != nil {
		perPod = uint32(*u.IDsPerPod) // validated
	}
	return accounts.Range(ctx, perPod, uint32(c.MaxPods(m.possible))) // CPUs may come
}

// giveHost lets pods have users of their own (hostUsers: false), and labels on their files below root.
func (r *containerRuntime) giveHost(h *host.Host, root string, onSELinux bool) {
	if r.node != nil {
		if onSELinux {
			r.node.FileLabels = policy.FilesBelow(root, h.Mounts).Labels
		}
		r.node.UserNamespace = func(pod *v1.Pod) (isolation.IDMapping, error) { return h.UserNamespace(pod, r.users) }
	}
}

// resolvConfTrouble is what pods will not get of the node's resolver file.
func (r *containerRuntime) resolvConfTrouble(c config.Config) string {
	if r.node == nil || c.ResolvConf() == "" {
		return ""
	}
	return translate.ResolvConfTrouble(r.node, c.ResolvConf())
}

// resolverFile is the node's resolver file. A starting pod gets the current content. While the
// file cannot be read, it gets the last one, if there has been one.
type resolverFile struct {
	path string
	mu   sync.Mutex
	last string
	none error // why there is no last one
}

func (r *resolverFile) read() (string, error) {
	if r.path == "" {
		return "", nil
	}
	data, err := readResolver(r.path)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || r.none != nil {
		r.last, r.none = string(data), err
	}
	return r.last, r.none
}

// maxResolver bounds the resolver file, in bytes, as a kubelet does: it is read for each pod.
const maxResolver = 10 << 20

func readResolver(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxResolver+1))
	if err == nil && len(data) > maxResolver {
		return nil, fmt.Errorf("%s has more than %d MiB", path, maxResolver>>20)
	}
	return data, err
}

// deferredRecorder records what the runtime's client has to say, once there is where to.
type deferredRecorder struct {
	node     string
	recorder atomic.Pointer[port.Recorder]
}

func (l *deferredRecorder) to(r port.Recorder) { l.recorder.Store(&r) }

func (l *deferredRecorder) notice(pod *v1.Pod, n translate.Notice) {
	r := l.recorder.Load()
	if r == nil {
		return // no pod is started before
	}
	now := time.Now()
	(*r).Record(port.Event{Pod: pod, Warning: true, Reason: n.Reason, Message: n.Message, At: now})
	if n.OfNode != "" {
		l.ofNode(n.Reason, n.OfNode)
	}
}

// ofNode records a warning of the node, unless nothing is started yet.
func (l *deferredRecorder) ofNode(reason, message string) {
	if r := l.recorder.Load(); r != nil {
		(*r).Record(port.Event{Node: l.node, Warning: true, Reason: reason, Message: message, At: time.Now()})
	}
}
