// Package devices is the actor that keeps in touch with the device plugins of the machine (device plugin API
// v1beta1). It knows which devices there are, and tells assignments, which gives them to containers, and nodestatus,
// which shows how many there are.
//
//	device plugins ──Registrations, Devices──► devices ──Snapshot──► assignments, nodestatus
//	pod ──PreStart──► devices ──PreStartContainer──► device plugin
//
// Each plugin has its own watch. One that is gone, hangs or lies is known by its own resource only:
//
//	known from before ─────────────────────────────────────────┐
//	(none) ──registers──► joining ──first list──► served        ▼
//	                         ▲ │                    └─ends──► awaited ──Patience──► gone ──ForgetAfter──► forgotten
//	                         │ └────────────────────ends────────►│                    │                  │
//	                         └───────registers───────────────────┴────────────────────┴──────────────────┘
//
// A plugin whose list ended is not asked for its devices again before it registers again, as by a kubelet: it has said
// that it can't serve them, or it has ended.
//
// A plugin registers again while it is served, too. awaited: pods that need its devices wait for it. gone: such pods
// are refused. forgotten: its devices are not shown any more, and the next agent does not know it, unless pods have
// some of its devices. In all three its devices are not healthy, and nothing that a container has is taken from it.
// Containers with devices of a plugin that wants to know of their start do not start, and others do.
//
// Several plugins may have one resource, for example during a rollout. One of them is in charge: it is asked, and its
// devices are shown.
//
//	another one registers ──► it joins ──first list──► it is in charge ──ends──► the newest that has listed is in charge
//	                                                    └─ the one before stays by
package devices

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Message is what the actor understands.
//
//sumtype:decl
type Message interface{ isDevicesMessage() }

// PreStart tells a plugin that a container with some devices is about to start. From pod. Reply does no more than
// send a message; it gets nil at once if the plugin does not want to know. Lost: the call of the pod runs into its
// deadline, and the container is created later. Twice: as once.
type PreStart struct {
	devices.PreStart
	Reply func(error)
}

// registered is what the watch of registrations tells. id is the watch.
type registered struct {
	id     kernel.EffectID
	plugin port.DevicePlugin
}

// closed is the end of the watch of registrations.
type closed struct {
	id  kernel.EffectID
	err error
}

// listed are the devices of one plugin, told by its watch.
type listed struct {
	id      kernel.EffectID
	name    v1.ResourceName
	devices []devices.Device
}

// gone is the end of the watch of one plugin.
type gone struct {
	id   kernel.EffectID
	name v1.ResourceName
	err  error
}

// told is the result of a PreStart.
type told struct {
	reply func(error)
	err   error
}

// giveUp and forget are this actor's own timers: a plugin was gone for Patience, or ForgetAfter. since is when it went.
type giveUp absence
type forget absence

type absence struct {
	name  v1.ResourceName
	since time.Time
}

// reopen is this actor's own timer after the watch of registrations ended.
type reopen struct{}

func (PreStart) isDevicesMessage()   {}
func (registered) isDevicesMessage() {}
func (closed) isDevicesMessage()     {}
func (listed) isDevicesMessage()     {}
func (gone) isDevicesMessage()       {}
func (told) isDevicesMessage()       {}
func (giveUp) isDevicesMessage()     {}
func (forget) isDevicesMessage()     {}
func (reopen) isDevicesMessage()     {}

// Snapshot is what is known of all plugins. It is never mutated.
type Snapshot struct {
	Inventory devices.Inventory
	// Plugins are those that answer, to be asked for their devices.
	Plugins map[v1.ResourceName]port.DevicePlugin
}

// Deps are what the actor needs.
type Deps struct {
	Plugins port.DevicePlugins
	// Known are resources that device plugins served here before the agent started.
	Known []v1.ResourceName
	// Tell gets what is known, at the start and after each change. It does no more than send messages.
	Tell func(Snapshot)
	// Counts is nil for none.
	Counts Counts
	// Backoff is for sockets that can't be served.
	Backoff backoff.Policy
}

const (
	// Patience is how long a plugin is waited for that is gone, or that has not registered since the agent started. A
	// kubelet refuses pods at once then, also those that it ran before the machine was restarted (kubernetes #118559).
	Patience = time.Minute
	// ForgetAfter is how long the devices of a plugin that is gone are shown as unhealthy, as by a kubelet.
	ForgetAfter = 5 * time.Minute
	// startDeadline bounds PreStartContainer, as a kubelet does.
	startDeadline = 30 * time.Second
	// mostOthers bounds how many plugins of a resource are listened to beside the one in charge.
	mostOthers  = 7
	startVerb   = "PreStartContainer"
	watchKind   = "WatchDevicePlugins"
	devicesKind = "WatchDevices"
)

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &actor{deps: deps, plugins: map[v1.ResourceName]*plugin{}} }
}

type actor struct {
	deps *Deps
	// watch is the watch of registrations, watches the number of other watches so far.
	watch portcall.Registrations
	// again is the watch if it was opened because messages were lost: it tells of plugins that are known.
	again   kernel.EffectID
	watches int
	// turns counts registrations.
	turns   int
	plugins map[v1.ResourceName]*plugin
}

// plugin is one resource, with the plugin that is in charge, or was last.
type plugin struct {
	one
	// others have the same resource: older ones that may have to take over, and newer ones that have not listed yet.
	others []one
	// Invariant: serving iff served.
	presence presence
	// gone is since when it does not answer.
	gone time.Time
}

// presence is whether the plugin in charge answers. The diagram is over the package.
type presence uint8

const (
	// awaited: it does not, and is waited for.
	awaited presence = iota
	serving
	// absent: it was gone for Patience.
	absent
	// forgotten: it was gone for ForgetAfter.
	forgotten
)

func (p presence) String() string { return [...]string{"awaited", "serving", "absent", "forgotten"}[p] }

// one is a device plugin.
type one struct {
	port.DevicePlugin
	// watch is its watch, 0 if it is gone; served: the watch has told its devices.
	watch   kernel.EffectID
	served  bool
	devices []devices.Device
	// turn is the number of its registration. seen is the watch of registrations that told of it last.
	turn int
	seen kernel.EffectID
}

// Check implements kernel.Checked.
func (a *actor) Check() error {
	for name, p := range a.plugins { // order-free: any of them is told
		if p.served != (p.presence == serving) {
			return fmt.Errorf("devices: presence: serving iff served: that of %s is %v", name, p.presence)
		}
	}
	return nil
}

// Start implements kernel.Behavior.
func (a *actor) Start(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		if e.Standing {
			ctx.Cancel(e.ID) // of an earlier incarnation
		}
	}
	for _, name := range a.deps.Known {
		p := &plugin{one: one{DevicePlugin: port.DevicePlugin{Resource: name}}}
		a.plugins[name] = p
		a.await(ctx, p)
	}
	a.open(ctx)
	a.tell()
}

// Receive implements kernel.Behavior.
func (a *actor) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case PreStart:
		a.preStart(ctx, m)
	case registered:
		a.registered(ctx, m)
	case closed:
		portcall.CloseRegistrations[Message](ctx, &a.watch, m.id, m.err, "device plugins", a.deps.Backoff, reopen{})
	case listed:
		a.listed(ctx, m)
	case gone:
		a.gone(ctx, m)
	case told:
		m.reply(m.err)
	case giveUp:
		if p := a.plugins[m.name]; p != nil && p.presence == awaited && p.gone.Equal(m.since) {
			p.presence = absent
			a.tell()
		}
	case forget:
		a.forget(ctx, absence(m))
	case reopen:
		a.open(ctx)
	}
}

// Overflowed implements kernel.OverflowHandler: what the watches said may be lost. All are opened again, and meanwhile
// what is known of plugins counts: none of them is gone.
func (a *actor) Overflowed(ctx *kernel.Context[Message]) {
	a.open(ctx)
	a.again = a.watch.ID()
}

// open starts the watch of registrations, and ends any other. It tells of all plugins again.
func (a *actor) open(ctx *kernel.Context[Message]) {
	portcall.OpenRegistrations(ctx, &a.watch, watchKind, a.deps.Plugins.Registrations,
		func(id kernel.EffectID, p port.DevicePlugin) Message { return registered{id, p} },
		func(id kernel.EffectID, err error) Message { return closed{id, err} })
}

func (a *actor) keepOpen(
	ctx *kernel.Context[Message], kind, object string, run func(context.Context, kernel.EffectID, func(Message)),
) kernel.EffectID {
	a.watches++
	return ctx.Do(kernel.Effect[Message]{
		Kind: kind, Object: object, Lane: fmt.Sprintf("watch/%d/%d", ctx.Incarnation(), a.watches), Standing: true, Run: run,
	})
}

// list opens the watch of a plugin's devices.
func (a *actor) list(ctx *kernel.Context[Message], p port.DevicePlugin) kernel.EffectID {
	self, plugins, name := ctx.Self(), a.deps.Plugins, p.Resource
	return a.keepOpen(ctx, devicesKind, string(name), func(c context.Context, id kernel.EffectID, done func(Message)) {
		plugins.Devices(c, p, func(all []devices.Device) { self.Tell(listed{id, name, all}) },
			func(err error) { done(gone{id, name, err}) })
	})
}

// gone handles the end of a plugin's list.
func (a *actor) gone(ctx *kernel.Context[Message], m gone) {
	p := a.plugins[m.name]
	switch {
	case p == nil:
	case p.watch == m.id:
		p.watch, p.served = 0, false
		a.lost(ctx, p, m.err.Error())
	default:
		p.others = slices.DeleteFunc(p.others, func(o one) bool { return o.watch == m.id })
	}
}

func (a *actor) listed(ctx *kernel.Context[Message], m listed) {
	p := a.plugins[m.name]
	if p == nil || p.watch == m.id && p.served && devices.Same(p.devices, m.devices) {
		return // plugins repeat their lists, and nobody need look at all devices for that
	}
	if p.watch != m.id {
		i := slices.IndexFunc(p.others, func(o one) bool { return o.watch == m.id })
		if i < 0 {
			return
		}
		o := &p.others[i]
		o.served, o.devices = true, m.devices
		if p.served && o.turn < p.turn {
			return // it may have to take over
		}
		p.charge(i)
	}
	p.served, p.presence, p.devices = true, serving, m.devices
	healthy := 0
	for _, d := range m.devices {
		if d.Healthy {
			healthy++
		}
	}
	ctx.Log().Info().Str("resource", string(m.name)).Int("devices", len(m.devices)).Int("healthy", healthy).
		Msg("device plugin listed its devices")
	a.tell()
}

// lost notes that the plugin in charge is gone. Another one takes over. Without, its devices are not healthy from now
// on.
func (a *actor) lost(ctx *kernel.Context[Message], p *plugin, why string) {
	if p.takeOver() {
		ctx.Log().Info().Str("resource", string(p.Resource)).Str("error", why).
			Msg("device plugin disconnected: another plugin of the same resource takes over")
		a.tell()
		return
	}
	a.await(ctx, p)
	ctx.Log().Warn().Str("resource", string(p.Resource)).Str("error", why).
		Msg("device plugin disconnected: its devices are unhealthy until it registers again; containers keep theirs")
	a.tell()
}

// await begins to wait for a plugin.
func (a *actor) await(ctx *kernel.Context[Message], p *plugin) {
	p.watch, p.served, p.presence, p.gone = 0, false, awaited, ctx.Now()
	ctx.After(Patience, giveUp{p.Resource, p.gone})
	ctx.After(ForgetAfter, forget{p.Resource, p.gone})
}

func (a *actor) forget(ctx *kernel.Context[Message], m absence) {
	p := a.plugins[m.name]
	if p == nil || p.presence == serving || !p.gone.Equal(m.since) {
		return // it has come back
	}
	ctx.Log().Warn().Str("resource", string(m.name)).Dur("gone", ForgetAfter).
		Msg("device plugin did not register again: its resource is removed from the Node")
	p.devices, p.presence = nil, forgotten
	a.tell()
}

func (a *actor) tell() {
	s := Snapshot{Inventory: devices.Inventory{}, Plugins: map[v1.ResourceName]port.DevicePlugin{}}
	for name, p := range a.plugins { // order-free: a map again
		s.Inventory[name] = &devices.Resource{Devices: p.devices, Options: p.Options, Served: p.served,
			Awaited: p.presence == awaited, Forgotten: p.presence == forgotten}
		if p.served {
			s.Plugins[name] = p.DevicePlugin
		}
	}
	a.deps.Tell(s)
}

// preStart asks a plugin that wants to be asked, and waits for it for as long as it is gone: it may have to clear the
// devices of what the container before has left in them. What nobody knows to want that is not waited for when it is
// gone for long: the container has its devices already.
func (a *actor) preStart(ctx *kernel.Context[Message], m PreStart) {
	p := a.plugins[m.Resource]
	switch {
	case p != nil && !p.served && (p.Options.PreStart || p.presence == awaited && p.Endpoint == ""): // or nobody knows
		m.Reply(&port.Error{Kind: port.Unavailable, Verb: startVerb, Object: string(m.Resource),
			Detail: "the device plugin is not running"})
		return
	case p != nil && p.presence == awaited:
		m.Reply(nil)
		return
	case p == nil || !p.served:
		ctx.Log().Warn().Str("resource", string(m.Resource)).
			Msg("starting a container without PreStartContainer: the device plugin of its devices is not running")
		m.Reply(nil)
		return
	case !p.Options.PreStart:
		m.Reply(nil)
		return
	}
	plugins, of := a.deps.Plugins, p.DevicePlugin
	a.watches++
	portcall.Do0(ctx, kernel.Effect[Message]{
		Kind: startVerb, Object: string(m.Resource), Deadline: startDeadline,
		Lane: fmt.Sprintf("call/%d/%d", ctx.Incarnation(), a.watches),
	}, func(c context.Context, done func(error)) { plugins.PreStart(c, of, m.IDs, done) },
		func(_ kernel.EffectID, err error) Message { return told{m.Reply, err} })
}
