package csi

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// show writes what drivers say of this node: the CSINode, and labels and an annotation of the Node.
func (a *actor) show(ctx *kernel.Context[Message]) {
	if a.node == nil || a.showing.Busy() || a.version == a.written {
		return
	}
	api, node, infos, version := a.deps.API, a.node, maps.Clone(a.infos), a.version
	e := kernel.Effect[Message]{Kind: "UpdateCSINode", Object: a.deps.Node, Lane: "csinode", Deadline: apiDeadline}
	a.showing.Begin(portcall.Do(ctx, e, func(c context.Context, done func(shown, error)) {
		m := shown{version: version, refused: map[string]string{}}
		labelNode(c, api, node, infos, m.refused, func(err error) {
			if err != nil {
				done(m, err)
				return
			}
			writeCSINode(c, api, node, infos, m.refused, func(others []string, err error) {
				m.others = others
				done(m, err)
			})
		})
	}, func(id kernel.EffectID, m shown, err error) Message {
		m.id, m.err = id, err
		return m
	}))
}

// check has what drivers say of this node compared with what the apiserver has, from time to time: somebody may have
// deleted the CSINode or a label. What is right is not written again.
func (a *actor) check(ctx *kernel.Context[Message]) {
	if ctx.Now().Sub(a.checked) < checkEvery {
		return
	}
	first := a.checked.IsZero()
	a.checked = ctx.Now()
	for _, info := range a.infos { // order-free: any
		if info != nil && !first {
			a.version++
			a.show(ctx)
			return
		}
	}
}

// labelNode writes what drivers say into the Node. A driver that can't be shown is taken out of infos, and refused says
// why.
func labelNode(
	c context.Context, api API, node *v1.Node, infos map[string]*decide.Info, refused map[string]string, done func(error),
) {
	key := port.APIKey{Kind: port.NodeKind, Name: node.Name}
	api.Get(c, key, func(o port.APIObject, err error) {
		if err != nil {
			done(err)
			return
		}
		have := o.(*v1.Node)
		decide.Refuse(have, infos, refused)
		apart(infos, refused, func(some map[string]*decide.Info, then func(error)) {
			to, differs, err := decide.Labelled(have, some)
			if err != nil || !differs {
				then(err)
				return
			}
			api.Patch(c, port.APIPatch{Key: key, From: have, To: to}, func(o port.APIObject, err error) {
				if err == nil {
					have = o.(*v1.Node)
				}
				then(err)
			})
		}, done)
	})
}

// writeCSINode writes it into the CSINode, which is made if it is not there. others are the drivers that it has beside.
func writeCSINode(
	c context.Context, api API, node *v1.Node, infos map[string]*decide.Info, refused map[string]string,
	done func(others []string, err error),
) {
	begin := func(have *storagev1.CSINode, is bool) {
		var others []string
		for i := range have.Spec.Drivers {
			if _, mine := infos[have.Spec.Drivers[i].Name]; !mine {
				others = append(others, have.Spec.Drivers[i].Name)
			}
		}
		apart(infos, refused, func(some map[string]*decide.Info, then func(error)) {
			to, differs := decide.Node(have, node.UID, some)
			wrote := func(o port.APIObject, err error) {
				if err == nil {
					have, is = o.(*storagev1.CSINode), true
				}
				then(err)
			}
			switch {
			case !is:
				api.Create(c, to, wrote)
			case differs:
				api.Update(c, to, wrote)
			default:
				then(nil)
			}
		}, func(err error) { done(others, err) })
	}
	api.Get(c, port.APIKey{Kind: port.CSINodeKind, Name: node.Name}, func(o port.APIObject, err error) {
		switch {
		case err == nil:
			begin(o.(*storagev1.CSINode), true)
		case port.KindOf(err) == port.NotFound:
			begin(decide.NewNode(node.Name, node.UID), false)
		default:
			done(nil, err)
		}
	})
}

// rejected: the apiserver does not accept it, however often it is written.
func rejected(err error) bool {
	kind := port.KindOf(err)
	return kind == port.Invalid || kind == port.Forbidden
}

// apart writes what all drivers say in one write. If the apiserver rejects that, each driver is written on its own, so
// that a driver whose values are rejected does not keep out the others: it is taken out of infos, and refused says why.
// What a CSINode says of a driver can't be changed, but can be removed and added again.
func apart(
	infos map[string]*decide.Info, refused map[string]string, write func(map[string]*decide.Info, func(error)),
	done func(error),
) {
	names := slices.Sorted(maps.Keys(infos))
	var next func(int)
	next = func(i int) {
		if i == len(names) {
			done(nil)
			return
		}
		name := names[i]
		alone := func(info *decide.Info, rejection func(error)) {
			write(map[string]*decide.Info{name: info}, func(err error) {
				switch {
				case err == nil && info == infos[name]:
					next(i + 1)
				case err == nil || rejected(err):
					rejection(err)
				default:
					done(err)
				}
			})
		}
		alone(infos[name], func(err error) {
			if infos[name] == nil {
				done(err)
				return
			}
			alone(nil, func(err error) {
				if err != nil {
					done(err)
					return
				}
				alone(infos[name], func(err error) {
					refused[name], infos[name] = err.Error(), nil
					next(i + 1)
				})
			})
		})
	}
	write(infos, func(err error) {
		if rejected(err) && len(names) > 0 {
			next(0)
			return
		}
		done(err)
	})
}

func (a *actor) shown(ctx *kernel.Context[Message], m shown) {
	if !a.showing.Take(m.id) {
		return
	}
	if m.err != nil {
		a.showFailures++
		ctx.Log().Warn().Str("error", m.err.Error()).
			Msg("cannot update the CSINode or the CSI labels of the Node; retrying")
		ctx.After(backoff.Retry(a.deps.Backoff, a.showFailures), showAgain{})
		return
	}
	if a.written == 0 {
		a.deps.Written()
	}
	a.showFailures, a.written = 0, m.version
	for _, name := range slices.Sorted(maps.Keys(m.refused)) {
		ctx.Log().Error().Str("driver", name).Str("error", m.refused[name]).
			Msg("cannot add the CSI driver to the CSINode: no pods with its volumes are scheduled here")
		a.deps.Events.Record(port.Event{Node: a.deps.Node, Warning: true, Reason: "CSIDriverRefused",
			Message: m.refused[name], At: ctx.Now()})
		if d := a.drivers[name]; d != nil {
			delete(a.infos, name) // it is shown when it can be
			d.askAfter(ctx, sweepEvery)
		}
	}
	for _, name := range m.others {
		if a.drivers[name] == nil { // an earlier agent has shown it
			ctx.After(Grace, hide{name, a.add(name).since})
		}
	}
	a.show(ctx)
}

func (a *actor) nodeSeen(ctx *kernel.Context[Message], n *v1.Node) {
	first := a.node == nil || a.node.UID != n.UID
	reported, attached := a.reported, a.attached
	a.node, a.reported, a.attached = n, map[v1.UniqueVolumeName]bool{}, map[v1.UniqueVolumeName]bool{}
	for _, name := range n.Status.VolumesInUse {
		a.reported[name] = true
	}
	for _, o := range n.Status.VolumesAttached {
		a.attached[o.Name] = true
	}
	a.findLost(ctx)
	for _, v := range a.volumes.all() {
		if !a.attached[v.name] {
			v.Detached()
		}
		read := decide.Step{Op: decide.Attachment}
		again := v.Failures[read].Count > 0
		delete(v.Failures, read)
		if again || first || a.reported[v.name] != reported[v.name] || a.attached[v.name] != attached[v.name] {
			a.advance(ctx, v)
		}
	}
	if first {
		a.version++
	}
	a.show(ctx)
}
