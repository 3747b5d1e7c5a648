package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &actor{
			deps: deps, drivers: map[string]*driver{}, volumes: newIndex(), pods: map[types.UID]*user{},
			infos: map[string]*decide.Info{}, logged: map[decide.Key]bool{}, figures: map[string]*figures{},
		}
	}
}

type actor struct {
	deps *Deps
	// known: what an earlier agent left was read, to volumes.
	known   bool
	loading kernel.EffectID
	volumes index
	pods    map[types.UID]*user
	// toTell are pods of which something is new since this message came.
	toTell  []types.UID
	drivers map[string]*driver
	// watch is the watch of drivers, objects that of CSIDrivers, watches how often that was begun.
	watch   portcall.Registrations
	objects kernel.EffectID
	watches int
	// of are the CSIDrivers; nil until they are known.
	of   map[string]*decide.Driver
	node *v1.Node
	// reported and attached are the volumes that the status of node names, in use and attached.
	reported, attached map[v1.UniqueVolumeName]bool
	// inUse are the volumes that nodestatus was told of, or is about to be; nil before. touched are those of which
	// something else may have to be told. inUseLater: it is told in a while.
	inUse      map[v1.UniqueVolumeName]bool
	touched    []*volume
	inUseLater bool
	// infos are what drivers say of this node, or said before they went; nil for one that has not come back. version
	// counts changes, written is what the apiserver has. showing is the effect under way.
	infos            map[string]*decide.Info
	version, written uint64
	showing          kernel.Call
	showFailures     int
	// checked is when what the apiserver has was compared last.
	checked time.Time
	// figures are by driver.
	figures map[string]*figures
	// lost are staged volumes that are looked for in the status of the Node.
	lost []decide.Lost
	// logged are volumes whose missing driver, or what holds them, was logged already.
	logged map[decide.Key]bool
}

// volume is a volume with its effect.
type volume struct {
	*decide.Volume
	// name is that in the status of the Node.
	name v1.UniqueVolumeName
	// sizing is the look at its claim under way.
	sizing kernel.Call
	// examining is the look at its VolumeAttachment under way.
	examining kernel.Call
	// call is the effect of its step under way, timer ends the wait for the next.
	call  kernel.EffectID
	timer kernel.Soonest[Message]
	// until is when a publication under way is given up if no pod needs it any more; zero: the call is another one.
	until time.Time
	// paths are where it is published, turns when its figures are asked for there.
	paths map[decide.Target]string
	turns map[decide.Target]*turn
}

// Check implements kernel.Checked.
func (a *actor) Check() error {
	for _, f := range a.figures { // order-free: any of them is told
		if err := f.Check(); err != nil {
			return err
		}
	}
	return a.volumes.check()
}

// Start implements kernel.Behavior.
func (a *actor) Start(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		ctx.Cancel(e.ID) // of an earlier incarnation
	}
	a.load(ctx)
	if ctx.Incarnation() == 1 { // else Resync does
		a.open(ctx)
		a.watchObjects(ctx)
	}
	ctx.After(firstSweep, sweep{})
	ctx.After(lookEvery, look{})
}

// Resync implements kernel.Resyncer: requests and what watches said may be lost.
func (a *actor) Resync(ctx *kernel.Context[Message]) {
	a.open(ctx)
	a.watchObjects(ctx)
	a.deps.Restarted()
}

// Receive implements kernel.Behavior.
func (a *actor) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Use:
		a.use(ctx, m.UseCSI)
	case Release:
		a.release(ctx, m.UID)
	case NodeSeen:
		a.nodeSeen(ctx, m.Node)
	case loaded:
		a.loaded(ctx, m)
	case found:
		a.found(ctx, m)
	case closed:
		portcall.CloseRegistrations[Message](ctx, &a.watch, m.id, m.err, "CSI drivers", a.deps.Backoff, reopen{})
	case told:
		a.told(ctx, m)
	case ended:
		if m.id == a.objects {
			ctx.After(retryAfter, watchAgain{})
		}
	case stepped:
		a.stepped(ctx, m)
	case walked:
		a.walked(m)
	case informed:
		a.informed(ctx, m)
	case shown:
		a.shown(ctx, m)
	case living:
		a.sweep(ctx, m.pods)
	case loadAgain:
		a.load(ctx)
	case reopen:
		a.open(ctx)
	case watchAgain:
		a.watchObjects(ctx)
	case again:
		a.again(ctx, m.key)
	case tellMany:
		a.tellMany(m.uid)
	case ask:
		if d := a.drivers[m.driver]; d != nil && d.since == m.since {
			d.timer.Fired()
			a.ask(ctx, d)
		}
	case hide:
		a.hide(ctx, m)
	case showAgain:
		a.show(ctx)
	case showInUse:
		a.inUseLater = false
		a.tellInUse()
	case sized:
		a.sized(ctx, m)
	case measured:
		a.measured(ctx, m)
	case measure:
		a.figures[m.driver].timer.Fired()
		a.measure(ctx, m.driver)
	case look:
		ctx.After(lookEvery, look{})
		a.look(ctx)
		a.lookAtAttachments(ctx)
	case exhausted:
		a.exhausted(ctx, m)
	case sweep:
		a.sweepAgain(ctx)
	}
	a.showInUse(ctx)
	a.tellAll(ctx)
}

func (a *actor) again(ctx *kernel.Context[Message], k decide.Key) {
	if v := a.volumes.get(k); v != nil {
		v.timer.Fired()
		a.advance(ctx, v)
	}
}

// load reads what there may be, once no call of an earlier incarnation goes on: it might add something.
func (a *actor) load(ctx *kernel.Context[Message]) {
	if slices.ContainsFunc(ctx.InFlight(), func(e kernel.EffectInfo) bool {
		return strings.HasPrefix(e.Lane, volumeLane)
	}) {
		ctx.After(settling, loadAgain{})
		return
	}
	drivers := a.deps.Drivers
	e := kernel.Effect[Message]{Kind: "FoundVolumes", Object: "CSI", Lane: "found", Deadline: CallDeadline}
	a.loading = portcall.Do(ctx, e, func(c context.Context, done func(loaded, error)) {
		drivers.FoundVolumes(c, func(all []decide.Found, lost []decide.Lost, bad []string, err error) {
			done(loaded{found: all, lost: lost, unreadable: bad}, err)
		})
	}, func(id kernel.EffectID, m loaded, err error) Message {
		m.id, m.err = id, err
		return m
	})
}

func (a *actor) loaded(ctx *kernel.Context[Message], m loaded) {
	if m.id != a.loading || a.known {
		return
	}
	if m.err != nil {
		ctx.Log().Error().Str("error", m.err.Error()).
			Msg("cannot read which CSI volumes are staged or published; pods with CSI volumes wait until it can be read")
		ctx.After(retryAfter, loadAgain{})
		return
	}
	for _, text := range m.unreadable {
		unreadable(ctx, text)
	}
	a.known, a.lost = true, m.lost
	for _, f := range m.found {
		v := a.volume(f.Key, f.Inline)
		if f.Target.Pod == "" {
			v.FoundStaged(f)
		} else {
			v.FoundPublished(f)
			a.volumes.note(v, f.Target)
		}
	}
	a.findLost(ctx)
	for _, uid := range a.users() {
		u := a.pods[uid]
		for _, name := range slices.Sorted(maps.Keys(u.uses)) {
			a.want(uid, name, u.uses[name])
		}
	}
	a.advanceAll(ctx)
	for _, uid := range a.users() {
		if a.pods[uid].going {
			a.release(ctx, uid)
		}
	}
}

// volume is the one of a key, a new one if it is not known.
func (a *actor) volume(k decide.Key, inline bool) *volume {
	v := a.volumes.get(k)
	if v == nil {
		v = &volume{
			Volume: decide.NewVolume(k, inline), name: k.UniqueName(), paths: map[decide.Target]string{},
			turns: map[decide.Target]*turn{},
		}
		a.volumes.add(v)
		a.touched = append(a.touched, v)
	}
	return v
}

// advanceAll goes on with all volumes.
func (a *actor) advanceAll(ctx *kernel.Context[Message]) {
	for _, v := range a.volumes.all() {
		a.advance(ctx, v)
	}
}

// advance goes on with one volume, and tells its pods.
func (a *actor) advance(ctx *kernel.Context[Message], v *volume) {
	if !a.known {
		return
	}
	a.touched = append(a.touched, v)
	step, is, next := v.Next(ctx.Now(), a.env(v))
	switch {
	case is:
		a.begin(ctx, v, step)
	case !next.IsZero():
		v.timer.SetAt(ctx, next, again{v.Key})
	case v.Over():
		v.timer.Stop()
		a.volumes.remove(v.Key)
		delete(a.logged, v.Key)
	}
	v.giveUp(ctx)
	a.tell(v)
	a.measurable(ctx, v)
}

// giveUp ends a publication that no pod needs any more, before its deadline: the pod could not go before. It counts as
// one that may have worked, or may work yet, as after a deadline, and is undone.
func (v *volume) giveUp(ctx *kernel.Context[Message]) {
	if v.Busy == nil || v.until.IsZero() {
		return
	}
	if p := v.Targets[v.Busy.Target]; p != nil && p.Want != decide.Released {
		return
	}
	if ctx.Now().Before(v.until) {
		v.timer.SetAt(ctx, v.until, again{v.Key})
		return
	}
	ctx.Cancel(v.call)
}

// env is what else a decision about a volume needs.
func (a *actor) env(v *volume) decide.Env {
	e := decide.Env{Registered: a.there(v.Driver), Driver: a.object(v.Driver), Backoff: a.deps.Backoff}
	if e.Driver != nil && e.Driver.Republish {
		e.Republish = republishEvery
	}
	if a.node != nil {
		e.Reported, e.Attached = a.inUse[v.name] && a.reported[v.name], a.attached[v.name]
	}
	return e
}

// sweepAgain asks which pods there are, for a sweep.
func (a *actor) sweepAgain(ctx *kernel.Context[Message]) {
	ctx.After(sweepEvery, sweep{})
	a.check(ctx)
	self := ctx.Self()
	a.deps.Living(func(pods map[types.UID]bool) { self.Tell(living{pods}) })
}

// sweep releases what pods left that are gone, and names what can't be cleaned.
func (a *actor) sweep(ctx *kernel.Context[Message], pods map[types.UID]bool) {
	if !a.known {
		return
	}
	for _, uid := range a.users() {
		u := a.pods[uid]
		for _, name := range slices.Sorted(maps.Keys(u.uses)) {
			w := u.uses[name]
			if v := a.volumes.get(w.spec.Key); v == nil || v.Targets[w.spec.Target] == nil {
				a.want(uid, name, w) // its directory may be free by now
			}
		}
	}
	for _, v := range a.volumes.all() {
		k := v.Key
		left := v.Staging != decide.None && len(v.Targets) == 0
		if left && v.Held != "" && !a.logged[k] {
			a.logged[k] = true
			a.stays(ctx, k, fmt.Sprintf("volume %s of CSI driver %s stays mounted: %s", k.Handle, k.Driver, v.Held))
		}
		for t, p := range v.Targets { // order-free: each on its own
			if p.Want == decide.Kept && !pods[t.Pod] {
				v.Release(t)
				a.volumes.note(v, t)
			}
			left = left || p.Want == decide.Released
		}
		if left && !a.there(k.Driver) && !a.logged[k] {
			a.logged[k] = true
			a.stays(ctx, k, fmt.Sprintf("CSI driver %s is not registered on this node: volume %s stays mounted until it is",
				k.Driver, k.Handle))
		}
		a.advance(ctx, v)
	}
}
