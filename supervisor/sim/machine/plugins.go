package machine

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// DevicePlugin is what a simulated device plugin serves.
type DevicePlugin struct {
	// Devices are all that it has. Their IDs are unique.
	Devices []devices.Device
	Options devices.Options
	// Latency is how long it takes to answer, 2 ms if zero.
	Latency time.Duration
	// Boot is how long after the power comes back it registers again.
	Boot time.Duration
}

// Plugins implements port.DevicePlugins: the device plugins of a simulated machine.
//
//	(none) ──Serve──► registered ──Serve, SetHealth──► registered, listed again
//	                   │    ▲
//	                   │    └──Start──┐
//	                   └──Stop──► stopped      (no answer: Unavailable)
//	the loss of power stops all; they start again by themselves, after DevicePlugin.Boot
//	one whose list fails ends, and its process is started again: it registers after pluginRestart
type Plugins struct {
	Calls
	plugins map[v1.ResourceName]*devicePlugin
	// registrations are the watches of the agent, oldest first. One of an agent that was killed has ended.
	registrations []*registration
	// down: the machine has no power.
	down bool
}

type devicePlugin struct {
	DevicePlugin
	name    v1.ResourceName
	runs    bool
	streams []*deviceStream
}

type registration struct {
	ctx   context.Context
	event func(port.DevicePlugin)
}

type deviceStream struct {
	ctx   context.Context
	event func([]devices.Device)
	done  func(error)
	ended bool
}

var _ port.DevicePlugins = (*Plugins)(nil)

func newPlugins(clock simport.Clock) *Plugins {
	return &Plugins{Calls: Calls{clock: clock}, plugins: map[v1.ResourceName]*devicePlugin{}}
}

// The verbs of calls of device plugins.
const (
	watchPlugins = "WatchDevicePlugins"
	listDevices  = "ListDevices"
	preferVerb   = "PreferDevices"
	allocateVerb = "AllocateDevices"
	preStartVerb = "PreStartDevices"
)

// Watches says whether calls with a verb watch device plugins or CSI drivers: they go on for ever.
func Watches(verb string) bool {
	return verb == watchPlugins || verb == listDevices || verb == watchCSI
}

// Serve has a plugin register, or one that is there register again with other devices.
func (p *Plugins) Serve(name v1.ResourceName, d DevicePlugin) {
	d.Devices = sortedDevices(d.Devices)
	p.mu.Lock()
	s := p.plugins[name]
	if s == nil {
		s = &devicePlugin{name: name}
		p.plugins[name] = s
	}
	s.DevicePlugin = d
	p.mu.Unlock()
	p.Start(name)
}

// Start has a plugin register that was stopped, or register again.
func (p *Plugins) Start(name v1.ResourceName) {
	p.mu.Lock()
	s := p.plugins[name]
	if s == nil || p.down {
		p.mu.Unlock()
		return
	}
	ended := s.end()
	s.runs = true
	watches := slices.Clone(p.registrations)
	found := s.registered()
	p.mu.Unlock()
	p.gone(name, ended)
	p.clock.AfterFunc(hostLatency, func() {
		for _, w := range watches {
			if w.ctx.Err() == nil {
				w.event(found)
			}
		}
	})
}

// pluginRestart is how long it takes until a plugin registers again whose list failed.
const pluginRestart = 5 * time.Second

// restart has a plugin register again that nobody listens to.
func (p *Plugins) restart(name v1.ResourceName) {
	p.mu.Lock()
	s := p.plugins[name]
	silent := s != nil && s.runs && !slices.ContainsFunc(s.streams, func(w *deviceStream) bool { return !w.ended })
	p.mu.Unlock()
	if silent {
		p.Start(name)
	}
}

// Stop ends a plugin: its socket is gone, and its calls under way fail.
func (p *Plugins) Stop(name v1.ResourceName) {
	p.mu.Lock()
	s := p.plugins[name]
	if s == nil {
		p.mu.Unlock()
		return
	}
	s.runs = false
	ended := s.end()
	p.mu.Unlock()
	p.gone(name, ended)
}

// SetHealth has a plugin list its devices again, one of them with another health.
func (p *Plugins) SetHealth(name v1.ResourceName, id string, healthy bool) {
	p.mu.Lock()
	s := p.plugins[name]
	if s == nil {
		p.mu.Unlock()
		return
	}
	s.Devices = slices.Clone(s.Devices)
	for i := range s.Devices {
		if s.Devices[i].ID == id {
			s.Devices[i].Healthy = healthy
		}
	}
	streams, list := slices.Clone(s.streams), s.Devices
	p.mu.Unlock()
	p.clock.AfterFunc(hostLatency, func() {
		for _, w := range streams {
			p.mu.Lock()
			ended := w.ended
			p.mu.Unlock()
			if !ended && w.ctx.Err() == nil {
				w.event(list)
			}
		}
	})
}

// Names are the resources of all plugins, sorted.
func (p *Plugins) Names() []v1.ResourceName {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.plugins))
}

// Of is what a plugin serves. It is the zero value of one that is not there.
func (p *Plugins) Of(name v1.ResourceName) DevicePlugin {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.plugins[name]; s != nil {
		return s.DevicePlugin
	}
	return DevicePlugin{}
}

// losePower stops all plugins.
func (p *Plugins) losePower() {
	p.mu.Lock()
	p.down, p.registrations = true, nil
	p.mu.Unlock()
	for _, name := range p.Names() {
		p.Stop(name)
	}
}

// boot starts all plugins, each when it has booted.
func (p *Plugins) boot() {
	p.mu.Lock()
	p.down = false
	p.mu.Unlock()
	for _, name := range p.Names() {
		p.afterBoot(p.Of(name).Boot, func() { p.Start(name) })
	}
}

// registered is what the plugin registers as.
func (s *devicePlugin) registered() port.DevicePlugin {
	return port.DevicePlugin{Resource: s.name, Endpoint: "/device-plugins/" + path(s.name), Options: s.Options}
}

func path(name v1.ResourceName) string { return strings.ReplaceAll(string(name), "/", "_") + ".sock" }

// end takes the streams of a plugin away, for gone.
func (s *devicePlugin) end() []*deviceStream {
	ended := s.streams
	s.streams = nil
	return ended
}

// gone tells streams that their plugin has gone.
func (p *Plugins) gone(name v1.ResourceName, streams []*deviceStream) {
	p.clock.AfterFunc(0, func() {
		for _, w := range streams {
			p.endStream(w, unavailable(listDevices, name, "the plugin has gone"))
		}
	})
}

func (p *Plugins) endStream(w *deviceStream, err error) {
	p.mu.Lock()
	ended := w.ended
	w.ended = true
	p.mu.Unlock()
	if !ended {
		w.done(err)
	}
}

// running is a plugin that answers.
func (p *Plugins) running(verb string, name v1.ResourceName) (*devicePlugin, error) {
	s := p.plugins[name]
	if s == nil || !s.runs {
		return nil, unavailable(verb, name, "connection refused")
	}
	return s, nil
}

func unavailable(verb string, name v1.ResourceName, detail string) error {
	return &port.Error{Kind: port.Unavailable, Verb: verb, Object: string(name), Detail: detail}
}

// ask makes a call of a plugin.
func (p *Plugins) ask(
	ctx context.Context, verb string, name v1.ResourceName, done func(error), f func(*devicePlugin) error,
) {
	latency := hostLatency
	if l := p.Of(name).Latency; l > 0 {
		latency = l
	}
	p.do(ctx, Call{Verb: verb, Name: string(name)}, latency, done, func() error {
		s, err := p.running(verb, name)
		if err != nil {
			return err
		}
		return f(s)
	})
}

// Registrations implements port.DevicePlugins.
func (p *Plugins) Registrations(ctx context.Context, event func(port.DevicePlugin), done func(error)) {
	p.do(ctx, Call{Verb: watchPlugins}, hostLatency, func(err error) {
		if err != nil {
			done(err)
			return
		}
		w := &registration{ctx, event}
		p.mu.Lock()
		over := func(r *registration) bool { return r.ctx.Err() != nil }
		p.registrations = append(slices.DeleteFunc(p.registrations, over), w)
		var found []port.DevicePlugin
		for _, name := range slices.Sorted(maps.Keys(p.plugins)) {
			if s := p.plugins[name]; s.runs {
				found = append(found, s.registered())
			}
		}
		p.mu.Unlock()
		for _, f := range found {
			event(f)
		}
		simport.OnEnd(ctx, func() { done(canceled(watchPlugins)) })
	}, func() error { return nil })
}

func canceled(verb string) error {
	return &port.Error{Kind: port.Canceled, Verb: verb, Detail: "the caller gave up"}
}

// Devices implements port.DevicePlugins.
func (p *Plugins) Devices(ctx context.Context, of port.DevicePlugin, event func([]devices.Device), done func(error)) {
	w := &deviceStream{ctx: ctx, event: event, done: done}
	var list []devices.Device
	p.ask(ctx, listDevices, of.Resource, func(err error) {
		if err != nil {
			fails := ctx.Err() == nil // the caller has not given up; its context ends with the answer
			p.endStream(w, err)
			if fails {
				p.clock.AfterFunc(pluginRestart, func() { p.restart(of.Resource) })
			}
			return
		}
		event(list)
		simport.OnEnd(ctx, func() { p.endStream(w, canceled(listDevices)) })
	}, func(s *devicePlugin) error {
		s.streams = append(slices.DeleteFunc(s.streams, func(w *deviceStream) bool { return w.ended }), w)
		list = s.Devices
		return nil
	})
}

// Prefer implements port.DevicePlugins: the plugin prefers the last devices.
func (p *Plugins) Prefer(ctx context.Context, of port.DevicePlugin, q devices.Question, done func([]string, error)) {
	var ids []string
	p.ask(ctx, preferVerb, of.Resource, func(err error) { done(ids, err) }, func(*devicePlugin) error {
		ids = slices.Clone(q.Must)
		for _, id := range slices.Backward(q.Available) {
			if len(ids) < q.Size && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return nil
	})
}

// Allocate implements port.DevicePlugins. A container finds its devices in its environment.
func (p *Plugins) Allocate(ctx context.Context, of port.DevicePlugin, ids []string, done func([]byte, error)) {
	var answer []byte
	p.ask(ctx, allocateVerb, of.Resource, func(err error) { done(answer, err) }, func(s *devicePlugin) (err error) {
		for _, id := range ids {
			if !slices.ContainsFunc(s.Devices, func(d devices.Device) bool { return d.ID == id }) {
				return &port.Error{Verb: allocateVerb, Object: string(s.name), Detail: "there is no device " + id}
			}
		}
		answer, err = proto.MarshalOptions{Deterministic: true}.Marshal(&api.ContainerAllocateResponse{
			Envs: map[string]string{string(s.name): strings.Join(ids, ",")},
		})
		return err
	})
}

// PreStart implements port.DevicePlugins.
func (p *Plugins) PreStart(ctx context.Context, of port.DevicePlugin, _ []string, done func(error)) {
	p.ask(ctx, preStartVerb, of.Resource, done, func(*devicePlugin) error { return nil })
}

func sortedDevices(list []devices.Device) []devices.Device {
	return slices.SortedFunc(slices.Values(list), func(a, b devices.Device) int { return strings.Compare(a.ID, b.ID) })
}
