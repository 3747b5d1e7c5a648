package machine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// CSIDriver is a simulated CSI driver. The zero value stages and expands volumes, and has no limit of them.
type CSIDriver struct {
	// NodeID is what the driver calls the machine; the machine's ID if empty.
	NodeID string
	// MaxVolumes is how many of its volumes can be attached to the machine; 0: no limit.
	MaxVolumes int64
	Topology   map[string]string
	// PublishOnly: it has no calls to stage volumes. Fixed: it does not expand volumes on nodes.
	PublishOnly, Fixed bool
	// Usage is what it says of each of its volumes; nil: it does not measure them.
	Usage *csi.Usage
	// Latency is how long it takes for each call; its usual times if zero.
	Latency time.Duration
	// Boot is how long after the power comes back it registers again.
	Boot time.Duration
}

// CSI implements port.CSI: the CSI drivers of a simulated machine, what they have mounted, and the notes of the agent
// beside that.
//
//	(none) ──Serve──► registered ──Stop──► stopped, socket gone ──Start──► registered
//	                   │    ▲
//	                   │    └──Start──┐
//	                   └──Crash──► dead, socket there (calls are NotCalled)
//	the loss of power stops all; they start again by themselves, after CSIDriver.Boot
//
// A call of a driver for a volume:
//
//	made ──notes are written──► asked ──the driver works──► worked ──directories and notes go (of an undo)──► answered
//	                              │ └──another call of the volume is under way──► NameReserved (gRPC Aborted)
//	                              └──the caller gives up, or is killed──► given up, unless it works late
//
// Notes are on the disk and survive a loss of power. What is staged and published does not.
type CSI struct {
	Calls
	// Changed is told of each call that a driver is asked for, and of each that has worked; may be nil.
	Changed func(CSIChange)

	id      string
	drivers map[string]*csiDriver
	watches []*csiWatch
	// pending are the calls that drivers have not ended.
	pending []*csiCall
	// places are by the directory that the agent has for a staging or publication.
	places map[string]*CSIPlace
	// sizes are those that volumes were expanded to on the node.
	sizes map[csi.Key]int64
	down  bool
}

// CSIPlace is a directory for a staging, or for a publication: that has a pod.
type CSIPlace struct {
	csi.Found
	// Notes are on the disk. Mounted: the driver has the volume there.
	Notes, Mounted bool
	// Stage and Publish are how it was mounted.
	Stage   *csi.Stage
	Publish *csi.Publish
}

// CSIChange is a call of a driver.
type CSIChange struct {
	Op csi.Op
	csi.Key
	Target csi.Target
	// Stages: the driver stages volumes.
	Stages bool
	// Worked: it has worked just now. Otherwise the driver was asked just now, and has not done anything yet.
	Worked bool
	// Stage and Publish are the parameters of these calls.
	Stage   *csi.Stage
	Publish *csi.Publish
}

type csiDriver struct {
	CSIDriver
	name string
	// runs: it answers. registered: its registration socket is there.
	runs, registered bool
}

type csiWatch struct {
	ctx   context.Context
	event func(port.CSIDriver)
}

var _ port.CSI = (*CSI)(nil)

func newCSI(clock simport.Clock, id string) *CSI {
	return &CSI{
		Calls: Calls{clock: clock}, id: id, drivers: map[string]*csiDriver{}, places: map[string]*CSIPlace{},
		sizes: map[csi.Key]int64{},
	}
}

// Serve has a driver register, or one that is there with other properties.
func (c *CSI) Serve(name string, d CSIDriver) {
	c.mu.Lock()
	s := c.drivers[name]
	if s == nil {
		s = &csiDriver{name: name}
		c.drivers[name] = s
	}
	s.CSIDriver = d
	c.mu.Unlock()
	c.Start(name)
}

// Start has a driver register that was stopped or has crashed, or register again.
func (c *CSI) Start(name string) { c.set(name, true, true) }

// Stop ends a driver: its sockets are gone, and its calls under way fail.
func (c *CSI) Stop(name string) { c.set(name, false, false) }

// Crash ends the process of a driver: its calls under way fail, and no other reaches it, but it stays registered.
func (c *CSI) Crash(name string) {
	c.mu.Lock()
	s := c.drivers[name]
	registered := s != nil && s.registered
	c.mu.Unlock()
	c.set(name, false, registered)
}

// set changes whether a driver runs, and whether it is registered.
func (c *CSI) set(name string, runs, registered bool) {
	c.mu.Lock()
	s := c.drivers[name]
	if s == nil || runs && c.down {
		c.mu.Unlock()
		return
	}
	var ended []*csiCall
	for _, p := range c.pending {
		if p.driver == s {
			p.over = true
			ended = append(ended, p)
		}
	}
	tell := runs || registered != s.registered // its sockets have changed
	s.runs, s.registered = runs, registered
	event, watches := s.registration(), slices.Clone(c.watches)
	c.mu.Unlock()
	c.clock.AfterFunc(0, func() {
		for _, p := range ended {
			p.answer(csiFailed(port.Unavailable, p.verb, name, "the connection to the driver was closed"))
		}
	})
	if !tell {
		return
	}
	c.clock.AfterFunc(hostLatency, func() {
		for _, w := range watches {
			if w.ctx.Err() == nil {
				w.event(event)
			}
		}
	})
}

// registration is what is told of a driver.
func (s *csiDriver) registration() port.CSIDriver {
	if !s.registered {
		return port.CSIDriver{Name: s.name, Gone: true}
	}
	return port.CSIDriver{Name: s.name, Endpoint: "/plugins/" + s.name + "/csi.sock"}
}

// Names are the drivers, sorted.
func (c *CSI) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.drivers))
}

// Of is what a driver is. It is the zero value of one that is not there.
func (c *CSI) Of(name string) CSIDriver {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.drivers[name]; s != nil {
		return s.CSIDriver
	}
	return CSIDriver{}
}

// Places are all directories for stagings and publications, in the order of their names.
func (c *CSI) Places() (out []CSIPlace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.places)) {
		out = append(out, *c.places[name])
	}
	return out
}

// Size is what a volume was last expanded to on the node, in bytes; 0: it was not.
func (c *CSI) Size(k csi.Key) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sizes[k]
}

// left says what there is of a pod, empty for nothing.
func (c *CSI) left(uid types.UID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.places)) {
		if c.places[name].Target.Pod == uid {
			return name
		}
	}
	return ""
}

// losePower ends all drivers and mounts.
func (c *CSI) losePower() {
	c.mu.Lock()
	c.down, c.watches, c.pending = true, nil, nil
	for _, s := range c.drivers { // order-free: each on its own
		s.runs, s.registered = false, false
	}
	for _, p := range c.places { // order-free: each on its own
		p.Mounted, p.Stage, p.Publish = false, nil, nil
	}
	c.mu.Unlock()
}

// boot starts all drivers, each when it has booted.
func (c *CSI) boot() {
	c.mu.Lock()
	c.down = false
	c.mu.Unlock()
	for _, name := range c.Names() {
		c.afterBoot(c.Of(name).Boot, func() { c.Start(name) })
	}
}

// Drivers implements port.CSI.
func (c *CSI) Drivers(ctx context.Context, event func(port.CSIDriver), done func(error)) {
	c.do(ctx, Call{Verb: watchCSI}, hostLatency, func(err error) {
		if err != nil {
			done(err)
			return
		}
		c.mu.Lock()
		over := func(w *csiWatch) bool { return w.ctx.Err() != nil }
		c.watches = append(slices.DeleteFunc(c.watches, over), &csiWatch{ctx, event})
		var found []port.CSIDriver
		for _, name := range slices.Sorted(maps.Keys(c.drivers)) {
			if s := c.drivers[name]; s.registered {
				found = append(found, s.registration())
			}
		}
		c.mu.Unlock()
		for _, d := range found {
			event(d)
		}
		simport.OnEnd(ctx, func() { done(canceled(watchCSI)) })
	}, func() error { return nil })
}

// NodeInfo implements port.CSI.
func (c *CSI) NodeInfo(ctx context.Context, d port.CSIDriver, done func(csi.Info, error)) {
	var info csi.Info
	answer := func(err error) { done(info, err) }
	c.do(ctx, Call{Verb: infoVerb, Name: d.Name}, cmp.Or(c.Of(d.Name).Latency, infoLatency), answer, func() error {
		s := c.drivers[d.Name]
		switch {
		case s == nil || !s.registered:
			return unregistered(infoVerb, d.Name)
		case !s.runs:
			return csiFailed(port.Unavailable, infoVerb, d.Name, "connection refused")
		}
		info = csi.Info{
			NodeID: cmp.Or(s.NodeID, c.id), MaxVolumes: s.MaxVolumes, Topology: maps.Clone(s.Topology),
		}
		return nil
	})
}

// FoundVolumes implements port.CSI.
func (c *CSI) FoundVolumes(ctx context.Context, done func([]csi.Found, []csi.Lost, []string, error)) {
	var found []csi.Found
	c.do(ctx, Call{Verb: foundVerb}, hostLatency, func(err error) { done(found, nil, nil, err) }, func() error {
		for _, name := range slices.Sorted(maps.Keys(c.places)) {
			found = append(found, c.places[name].Found)
		}
		return nil
	})
}

// VolumeStats implements port.CSI.
func (c *CSI) VolumeStats(ctx context.Context, d port.CSIDriver, r csi.Measure, done func(csi.Usage, error)) {
	call := Call{Verb: statsVerb, Pod: string(r.Pod), Volume: r.Name, Name: r.String()}
	var usage csi.Usage
	c.do(ctx, call, infoLatency, func(err error) { done(usage, err) }, func() error {
		s, err := c.reached(statsVerb, d.Name)
		switch {
		case err != nil:
			return err
		case s.Usage == nil:
			return csiFailed(port.Unsupported, statsVerb, d.Name, "the driver does not say how full its volumes are")
		}
		usage = *s.Usage
		return nil
	})
}

// reached is a driver that answers; otherwise it was asked for nothing.
func (c *CSI) reached(verb, name string) (*csiDriver, error) {
	s := c.drivers[name]
	switch {
	case s == nil || !s.registered:
		return nil, unregistered(verb, name)
	case !s.runs:
		return nil, csiFailed(port.NotCalled, verb, name,
			"the driver does not answer NodeGetCapabilities: connection refused")
	}
	return s, nil
}

func unregistered(verb, name string) error {
	return csiFailed(port.NotCalled, verb, name, "the driver is not registered on this node")
}

func csiFailed(kind port.ErrorKind, verb, driver, detail string) error {
	return &port.Error{Kind: kind, Verb: verb, Object: driver, Detail: detail}
}

// csiPath is the directory for a staging or publication, in the kubelet's layout.
func csiPath(f *csi.Found) string {
	const block = "/plugins/kubernetes.io/csi/volumeDevices/"
	pod := string(f.Target.Pod)
	switch {
	case pod != "" && f.Block:
		return block + "publish/" + f.Target.Name + "/" + pod
	case pod != "":
		return "/pods/" + pod + "/volumes/kubernetes.io~csi/" + f.Target.Name + "/mount"
	case f.Block:
		return block + "staging/" + f.Target.Name
	default:
		return "/plugins/kubernetes.io/csi/" + f.Driver + "/" + strings.ReplaceAll(f.Handle, "/", "_") + "/globalmount"
	}
}
