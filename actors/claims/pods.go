package claims

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// user is the pod with some UID, a new one if it is not known, that asks now.
func (a *actor) user(ctx *kernel.Context[Message], uid types.UID) *user {
	u := a.pods[uid]
	if u == nil {
		u = &user{uid: uid, joined: map[string]types.UID{}, trouble: map[string]string{}}
		a.pods[uid] = u
	}
	a.asked++
	u.asked, u.since = a.asked, ctx.Now()
	u.told = nil
	return u
}

func (a *actor) prepare(ctx *kernel.Context[Message], m pod.PrepareClaims) {
	u := a.user(ctx, m.Pod.UID)
	m.Make = m.Make || u.Make && !u.going
	u.PrepareClaims, u.going, u.tries, u.waits = m, false, 0, false
	u.needs, u.incomplete = decide.Needs(u.Pod)
	u.stopReading(ctx)
	clear(u.trouble)
	a.advance(ctx, u)
	a.settle(ctx)
}

func (a *actor) release(ctx *kernel.Context[Message], uid types.UID, reply kernel.Ref[pod.Message]) {
	u := a.user(ctx, uid)
	u.ReplyTo = reply
	a.end(ctx, u)
	a.settle(ctx)
}

// end notes that a pod has ended.
func (a *actor) end(ctx *kernel.Context[Message], u *user) {
	u.going = true
	u.stopReading(ctx)
	a.advance(ctx, u)
}

func (u *user) stopReading(ctx *kernel.Context[Message]) {
	if u.get.Busy() {
		u.get.Cancel(ctx)
	}
}

// advance goes on with one pod, and tells it how far it is.
func (a *actor) advance(ctx *kernel.Context[Message], u *user) {
	switch {
	case !a.checkpoint.Known():
	case u.going:
		a.leave(ctx, u)
	default:
		u.at = 0
		a.join(ctx, u)
	}
	a.tell(ctx, u)
}

// add adds a claim.
func (a *actor) add(c *claim) {
	a.claims[c.UID] = c
	k := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	uids := append(a.named[k], c.UID)
	slices.Sort(uids)
	a.named[k] = slices.Compact(uids)
}

// remove is the opposite of add.
func (a *actor) remove(c *claim) {
	delete(a.claims, c.UID)
	k := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	if a.named[k] = slices.DeleteFunc(a.named[k], func(uid types.UID) bool { return uid == c.UID }); len(a.named[k]) == 0 {
		delete(a.named, k)
	}
}

// ofName is the claim of a name, nil if there is none.
func (a *actor) ofName(namespace, name string) *claim {
	if uids := a.named[types.NamespacedName{Namespace: namespace, Name: name}]; len(uids) > 0 {
		return a.claims[uids[0]]
	}
	return nil
}

// of is the claim that a pod has joined, nil if it has not.
func (a *actor) of(u *user, name string) *claim {
	if c := a.claims[u.joined[name]]; c != nil && !c.Leaving && c.UsedBy(u.uid) {
		return c
	}
	return nil
}

// join reads the first claim that a pod has not joined yet.
func (a *actor) join(ctx *kernel.Context[Message], u *user) {
	delete(u.trouble, "")
	if u.incomplete != nil {
		u.trouble[""] = u.incomplete.Error() // a newer version of the pod is asked for
		return
	}
	for ; !u.get.Busy() && u.at < len(u.needs); u.at++ {
		n := u.needs[u.at]
		if c := a.of(u, n.Name); c != nil && (!u.Make || !c.Old()) {
			continue
		}
		c := a.ofName(u.Pod.Namespace, n.Name)
		if c == nil || u.Make || c.Leaving || !c.UsedBy(u.uid) {
			if !u.waits {
				a.get(ctx, u, n)
			}
			return
		}
		u.joined[n.Name] = c.UID // it ran with it before
		delete(u.trouble, n.Name)
	}
}

func (a *actor) get(ctx *kernel.Context[Message], u *user, n decide.Need) {
	a.gets++
	k := port.APIKey{Kind: port.ResourceClaimKind, Namespace: u.Pod.Namespace, Name: n.Name}
	e := kernel.Effect[Message]{
		Kind: "Get", Object: k.String(), For: string(u.uid), Lane: fmt.Sprintf("get/%d/%d", ctx.Incarnation(), a.gets),
		Deadline: GetDeadline,
	}
	uid, api := u.uid, a.deps.API
	u.get.Begin(portcall.Do(ctx, e, func(c context.Context, done func(port.APIObject, error)) { api.Get(c, k, done) },
		func(id kernel.EffectID, o port.APIObject, err error) Message { return got{id, uid, n, o, err} }))
}

func (a *actor) got(ctx *kernel.Context[Message], m got) {
	u := a.pods[m.pod]
	if u == nil || !u.get.Take(m.id) {
		return
	}
	if why := a.take(u, m); why != "" {
		u.trouble[m.need.Name] = why
		a.later(ctx, u)
	} else {
		delete(u.trouble, m.need.Name)
		u.tries = 0
		if a.join(ctx, u); u.get.Busy() { // what there is to tell comes with the last one
			return
		}
	}
	a.advance(ctx, u)
	a.settle(ctx)
}

// later tries the claims of a pod again after a while.
func (a *actor) later(ctx *kernel.Context[Message], u *user) {
	if !u.waits {
		u.tries++
		u.waits = true
		ctx.After(backoff.Retry(a.deps.Backoff, u.tries), again{u.uid})
	}
}

// take has a pod join a claim that was read, or says why it can't (now).
func (a *actor) take(u *user, m got) string {
	if m.err != nil {
		return fmt.Sprintf("ResourceClaim %q can't be read: %v", m.need.Name, m.err)
	}
	o := m.object.(*resourcev1.ResourceClaim)
	if err := decide.Check(u.Pod, m.need, o); err != nil {
		return err.Error()
	}
	c := a.ofName(o.Namespace, o.Name)
	if c != nil && c.UID != o.UID { // a kubelet's words
		return fmt.Sprintf("old ResourceClaim with same name %s and different UID %s still exists "+
			"(previous pod force-deleted?!)", o.Name, c.UID)
	}
	if c != nil && c.Leaving {
		return fmt.Sprintf("ResourceClaim %q is still being unprepared after pods that used it before", o.Name)
	}
	drivers := decide.Drivers(o)
	for _, name := range drivers {
		if !a.there(name) {
			return absent(name)
		}
	}
	if c == nil {
		c = &claim{Prepared: decide.Fresh(decide.Object{UID: o.UID, Namespace: o.Namespace, Name: o.Name}, drivers)}
		c.makeParts()
		a.add(c)
	}
	if u.Make {
		c.Renew()
	}
	if c.Join(u.uid) {
		a.changed(c)
	}
	u.joined[m.need.Name] = c.UID
	return ""
}

// absent says that a driver is not there.
func absent(driver string) string {
	return fmt.Sprintf("DRA driver %s is not registered on this node: check that its pod runs here", driver)
}

// changed notes that the checkpoint does not have a claim as it is now.
func (a *actor) changed(c *claim) {
	c.version = a.checkpoint.Changed()
}

// leave takes a pod that has ended off its claims.
func (a *actor) leave(_ *kernel.Context[Message], u *user) {
	for _, uid := range slices.Sorted(maps.Keys(a.claims)) {
		c := a.claims[uid]
		if c.Leaving || !c.UsedBy(u.uid) {
			continue
		}
		if c.Leave(u.uid) {
			a.changed(c)
			u.left = c.version
		}
		if c.Leaving {
			c.makeParts() // what failed before was another call
			if !c.Called || c.All() {
				a.drop(c)
			}
		}
	}
}

// drop forgets a claim that no driver has prepared any more.
func (a *actor) drop(c *claim) {
	a.remove(c)
	version := a.checkpoint.Changed()
	for _, uid := range c.Pods {
		if u := a.pods[uid]; u != nil {
			u.left = version
		}
	}
}

// state is how far a pod is.
func (a *actor) state(ctx *kernel.Context[Message], u *user) *decide.Pod {
	if u.going {
		return a.parting(u)
	}
	p := &decide.Pod{State: decide.Pending}
	if p.Message = a.trouble(u); !a.checkpoint.Known() || len(u.trouble) > 0 {
		return p
	}
	newest := checkpoint.Version(0)
	for _, n := range u.needs {
		c := a.of(u, n.Name)
		if c == nil || !c.Usable(u.Make) || !a.checkpoint.Has(c.version) {
			return p
		}
		newest = max(newest, c.version)
	}
	p.State, p.Message = decide.Known, ""
	if u.Make {
		p.State = decide.Ready
	}
	if u.told != nil && u.told.State == p.State && u.newest == newest && !a.fresh {
		return u.told
	}
	u.newest = newest
	of := func(name string) *decide.Claim {
		if c := a.of(u, name); c != nil {
			return &c.Claim
		}
		return nil
	}
	p.CDI = decide.Devices(u.Pod, of)
	if a.deps.Health {
		p.Health = decide.Health(u.Pod, of, func(driver, pool, device string) decide.Report {
			return a.report(ctx, driver, pool, device)
		})
	}
	return p
}

// parting is how far a pod is that has ended.
func (a *actor) parting(u *user) *decide.Pod {
	p := &decide.Pod{State: decide.Going}
	var why []string
	held := !a.checkpoint.Known() || !a.checkpoint.Has(u.left)
	for _, uid := range slices.Sorted(maps.Keys(a.claims)) {
		if c := a.claims[uid]; c.UsedBy(u.uid) {
			held = true
			why = append(why, a.troubleOf(c)...)
		}
	}
	if !held {
		p.State = decide.Released
	}
	p.Message = strings.Join(why, "; ")
	return p
}

// trouble is why a pod waits, empty if all goes well.
func (a *actor) trouble(u *user) string {
	var why []string
	for _, name := range slices.Sorted(maps.Keys(u.trouble)) {
		why = append(why, u.trouble[name])
	}
	for _, name := range slices.Sorted(maps.Keys(u.joined)) {
		if c := a.of(u, name); c != nil && !c.Usable(u.Make) {
			why = append(why, a.troubleOf(c)...)
		}
	}
	slices.Sort(why)
	return strings.Join(slices.Compact(why), "; ")
}

// troubleOf is why a claim waits for its drivers.
func (a *actor) troubleOf(c *claim) (why []string) {
	for _, name := range c.Waits() {
		switch p := c.parts[name]; {
		case !a.there(name):
			why = append(why, absent(name))
		case p.Message != "":
			why = append(why, p.Message)
		}
	}
	return why
}

// tell says to a pod how far it is, if that is new, and to people why it waits.
func (a *actor) tell(ctx *kernel.Context[Message], u *user) {
	p := a.state(ctx, u)
	old := u.told
	same := old != nil && old.State == p.State && old.Message == p.Message && maps.EqualFunc(old.CDI, p.CDI, slices.Equal)
	if same && old.Health.Equal(p.Health) {
		return
	}
	u.told = p
	if p.Message != "" && u.said != p.Message {
		u.said = p.Message
		a.say(ctx, u, p.Message)
		a.count(ctx, u, true)
	}
	if !same && (p.State == decide.Ready || p.State == decide.Released) {
		a.count(ctx, u, false)
	}
	u.ReplyTo.Tell(pod.ClaimsAnswer{Claims: p})
	if p.State == decide.Released {
		delete(a.pods, u.uid)
	}
}

// say tells people why a pod waits.
func (a *actor) say(ctx *kernel.Context[Message], u *user, why string) {
	if u.Pod == nil {
		ctx.Log().Warn().Str("uid", string(u.uid)).Str("error", why).
			Msg("cannot unprepare the ResourceClaims of a removed pod; retrying")
		return
	}
	reason, message := "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: "
	if u.going {
		reason, message = "FailedUnprepareDynamicResources", "Failed to unprepare dynamic resources: "
	}
	a.deps.Events.Record(port.Event{Pod: u.Pod, Warning: true, Reason: reason, Message: message + why, At: ctx.Now()})
}
