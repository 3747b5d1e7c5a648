package devices

import (
	"cmp"
	"slices"

	"github.com/troupe-dev/troupe/actors/kernel"
)

func (a *actor) registered(ctx *kernel.Context[Message], m registered) {
	if !a.watch.Heard(m.id) {
		return
	}
	name, p := m.plugin.Resource, a.plugins[m.plugin.Resource]
	if m.plugin.Gone {
		if p != nil && a.part(ctx, p, m.plugin.Endpoint) {
			a.lost(ctx, p, "it has unregistered")
		}
		return
	}
	if p == nil {
		p = &plugin{}
		a.plugins[name] = p
	}
	if a.deps.Counts != nil {
		a.deps.Counts.Registered(name)
	}
	if a.toldAgain(ctx, p, m) {
		return
	}
	if a.part(ctx, p, m.plugin.Endpoint) && p.takeOver() { // it registers again, and others have its resource
		a.tell()
	}
	a.join(ctx, p, m)
}

// toldAgain says whether a plugin is told of only because messages were lost. It is listened to anew.
func (a *actor) toldAgain(ctx *kernel.Context[Message], p *plugin, m registered) bool {
	if m.id != a.again {
		return false
	}
	known := func(o one) bool { return o.served && o.seen != m.id && o.DevicePlugin == m.plugin }
	o := &p.one
	if !known(*o) {
		i := slices.IndexFunc(p.others, known)
		if i < 0 {
			return false
		}
		o = &p.others[i]
	}
	ctx.Cancel(o.watch)
	o.seen, o.watch = m.id, a.list(ctx, m.plugin)
	return true
}

// join begins to listen to a plugin. Until it has listed its devices, those of the one in charge count.
func (a *actor) join(ctx *kernel.Context[Message], p *plugin, m registered) {
	a.turns++
	next := one{DevicePlugin: m.plugin, seen: m.id, turn: a.turns, watch: a.list(ctx, m.plugin)}
	if p.served {
		ctx.Log().Info().Str("resource", string(m.plugin.Resource)).
			Msg("another device plugin of the resource registered; it takes over when it lists its devices")
		p.others = append(p.others, next)
	} else {
		ctx.Log().Info().Str("resource", string(m.plugin.Resource)).Msg("device plugin registered")
		if p.watch != 0 { // it may list its devices before this one
			p.others = append(p.others, p.one)
		}
		// Until its first list, the devices of the plugin before it are not healthy: there may be others.
		next.devices = p.devices
		p.one = next
		a.await(ctx, p)
		p.watch = next.watch
		a.tell()
	}
	if len(p.others) > mostOthers {
		oldest := slices.MinFunc(p.others, func(x, y one) int { return cmp.Compare(x.turn, y.turn) })
		a.part(ctx, p, oldest.Endpoint)
	}
}

// part parts with the plugin at an endpoint, and reports whether it was in charge.
func (a *actor) part(ctx *kernel.Context[Message], p *plugin, endpoint string) (inCharge bool) {
	p.others = slices.DeleteFunc(p.others, func(o one) bool {
		if o.Endpoint == endpoint {
			ctx.Cancel(o.watch)
		}
		return o.Endpoint == endpoint
	})
	if p.watch == 0 || p.Endpoint != endpoint {
		return false
	}
	ctx.Cancel(p.watch)
	p.watch, p.served = 0, false
	return true
}

// takeOver puts the newest of the others that have listed their devices in charge. It reports whether there is one.
func (p *plugin) takeOver() bool {
	newest := -1
	for i, o := range p.others {
		if o.served && (newest < 0 || o.turn > p.others[newest].turn) {
			newest = i
		}
	}
	if newest >= 0 {
		p.charge(newest)
	}
	return newest >= 0
}

// charge puts one of the others in charge. The one before stays by, if there is one.
func (p *plugin) charge(i int) {
	next := p.others[i]
	p.others = slices.Delete(p.others, i, i+1)
	if p.watch != 0 {
		p.others = append(p.others, p.one)
	}
	p.one, p.presence = next, serving
}
