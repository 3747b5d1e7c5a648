package apiobjects

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &apiobjects{
			deps: deps, pods: map[types.UID]*needer{}, of: map[podobjects.Ref]*object{}, tokens: map[secret]*held{},
			services: services{
				stream: stream{of: podobjects.Services, selection: port.Selection{Kind: port.ServiceKind}},
				known:  map[string]map[string]*v1.Service{}, lists: map[string]*list{},
			},
			bundles: newBundles(), certificates: newCertificates(deps.Node),
		}
	}
}

type apiobjects struct {
	deps *Deps
	pods map[types.UID]*needer
	// of are the objects that pods share: all but tokens and services. Invariant: each has a
	// user.
	of map[podobjects.Ref]*object
	// tokens are those in use by pods.
	tokens       map[secret]*held
	services     services
	bundles      bundles
	certificates certificates
	// watches counts the watches so far: each has its own lane.
	watches int
}

// object is the known state of one object.
type object struct {
	ref   podobjects.Ref
	entry podobjects.Entry
	// users are the pods that use it, first come first.
	users []types.UID
	// fresh are users that came when it was known already, and are told what there is now: nothing before a Get that
	// was begun after they came. late came while one ran, and need another.
	fresh, late []types.UID
	// call is the running watch or Get, 0 for none. Results of others are late.
	call kernel.EffectID
	// heard: call has reported something, as a watch does.
	heard    bool
	failures int
	// trouble is why the last read failed, since when somebody has waited for one. doubted: that was too long.
	trouble error
	doubted bool
	since   time.Time
	// timer is the next step, if no call is running.
	timer kernel.Alarm[Message]
}

// Check implements kernel.Checked.
func (a *apiobjects) Check() error {
	for ref, o := range a.of { // order-free: any of them is told
		if len(o.users) == 0 {
			return fmt.Errorf("apiobjects: of: each has a user: %s has none", ref)
		}
	}
	for _, c := range a.certificates.of { // order-free: any of them is told
		if err := c.Check(); err != nil {
			return err
		}
	}
	return a.bundles.check()
}

// Start implements kernel.Behavior. A predecessor's calls are cancelled: their results would have
// no receiver.
func (a *apiobjects) Start(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		ctx.Cancel(e.ID)
	}
}

// Resync implements kernel.Resyncer: messages of pods and watches were lost, so everything begins anew.
func (a *apiobjects) Resync(ctx *kernel.Context[Message]) {
	a.forgetAll(ctx, nil)
	a.services.giveUp(ctx)
	a.deps.Restarted()
}

// Receive implements kernel.Behavior.
func (a *apiobjects) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Need:
		a.need(ctx, m.NeedObjects)
	case Forget:
		a.forget(ctx, m.UID)
	case Retain:
		a.forgetAll(ctx, m.Pods)
	case told:
		a.told(ctx, m)
	case broken:
		if o := a.of[m.ref]; o != nil && o.call == m.id {
			a.broken(ctx, o, m.err)
		}
	case doubted:
		if o := a.of[m.ref]; o != nil && o.trouble != nil {
			a.doubt(ctx, o)
		}
	case streamTold:
		a.streamTold(ctx, m)
	case got:
		a.got(ctx, m)
	case issued:
		a.issued(ctx, m)
	case written:
		a.written(ctx, m)
	case requested:
		a.requested(ctx, m)
	case certifyAgain:
		if c := a.certificates.of[m.of]; c != nil {
			c.timer.Fired()
			a.certify(ctx, m.of, c)
		}
	case ended:
		a.ended(ctx, m)
	case unheard:
		a.unheard(ctx, m)
	case again:
		if o := a.of[m.ref]; o != nil {
			o.timer.Fired()
			a.fetch(ctx, o)
		}
	case renew:
		if t := a.tokens[m.token]; t != nil {
			t.timer.Fired()
			a.await(ctx, m.token, t)
		}
	case tellMany:
		if n := a.pods[m.uid]; n != nil && n.telling {
			a.tellOfMany(ctx, n)
		}
	case countMany:
		a.certificates.counting = false
		a.countNow(ctx)
	}
}

// need records a pod and sends it the known objects.
func (a *apiobjects) need(ctx *kernel.Context[Message], m pod.NeedObjects) {
	n := a.pods[m.Pod.UID]
	if n == nil {
		n = &needer{}
		a.pods[m.Pod.UID] = n
	}
	n.pod, n.reply = m.Pod, m.ReplyTo
	n.told = m.Known
	a.refer(ctx, n, true)
	a.tell(ctx, n)
}

// refer starts watching what a pod uses now, and stops the rest. asked: the pod asked for it, and
// wants the newest.
func (a *apiobjects) refer(ctx *kernel.Context[Message], n *needer, asked bool) {
	// An object may refer to others: a claim to its volume, a volume to its secrets.
	for range 3 {
		if refs := podobjects.Refs(n.pod, a.known(n)); !slices.Equal(refs, n.refs) {
			a.changeRefs(ctx, n, refs, asked)
			asked = false
			continue
		}
		return
	}
}

func (a *apiobjects) changeRefs(ctx *kernel.Context[Message], n *needer, refs []podobjects.Ref, asked bool) {
	old := n.refs
	n.refs = refs
	for _, r := range refs {
		if _, had := slices.BinarySearchFunc(old, r, podobjects.Ref.Compare); !had {
			a.use(ctx, n, r)
		} else if o := a.of[r]; asked && o != nil && !a.watched(r) && o.entry.State != podobjects.Unknown {
			a.fetch(ctx, o)
		}
	}
	for _, r := range old {
		if _, has := slices.BinarySearchFunc(refs, r, podobjects.Ref.Compare); !has {
			a.drop(ctx, n.pod.UID, r)
		}
	}
}

// use starts watching one object for a pod.
func (a *apiobjects) use(ctx *kernel.Context[Message], n *needer, r podobjects.Ref) {
	uid := n.pod.UID
	switch r.Kind {
	case podobjects.Services:
		a.useServices(ctx, uid, r.Namespace)
	case podobjects.TrustBundle, podobjects.SignerBundles:
		a.useBundles(ctx, uid, r)
	case podobjects.Certificate:
		a.useCertificate(ctx, n, r)
	case podobjects.Token:
		k := secret{uid, r}
		t := &held{entry: podobjects.Entry{Ref: r}, since: ctx.Now()}
		a.tokens[k] = t
		a.ask(ctx, k, t)
	default:
		o := a.of[r]
		if o == nil {
			o = &object{ref: r, entry: podobjects.Entry{Ref: r}, since: ctx.Now(), users: []types.UID{uid}}
			a.of[r] = o
			a.fetch(ctx, o)
			return
		}
		o.users = append(o.users, uid)  // the call is for the newest
		if !a.watched(r) || o.final() { // another pod, which wants the newest
			if o.answered() && (r.Kind == podobjects.ConfigMap || r.Kind == podobjects.Secret) {
				o.refresh(ctx, uid)
			}
			a.fetch(ctx, o)
		}
	}
}

// drop ends a pod's use of an object.
func (a *apiobjects) drop(ctx *kernel.Context[Message], uid types.UID, r podobjects.Ref) {
	switch r.Kind {
	case podobjects.Services:
		a.dropServices(ctx, uid, r.Namespace)
	case podobjects.TrustBundle, podobjects.SignerBundles:
		a.dropBundles(ctx, uid, r)
	case podobjects.Certificate:
		a.dropCertificate(ctx, secret{uid, r})
	case podobjects.Token:
		k := secret{uid, r}
		a.tokens[k].end(ctx)
		delete(a.tokens, k)
	default:
		o := a.of[r]
		for _, list := range []*[]types.UID{&o.users, &o.fresh, &o.late} {
			*list = slices.DeleteFunc(*list, func(u types.UID) bool { return u == uid })
		}
		if len(o.users) == 0 {
			o.end(ctx)
			delete(a.of, r)
		}
	}
}

func (a *apiobjects) forget(ctx *kernel.Context[Message], uid types.UID) {
	n := a.pods[uid]
	if n == nil {
		return
	}
	for _, r := range n.refs {
		a.drop(ctx, uid, r)
	}
	delete(a.pods, uid)
}

// known is the known state of a pod's objects. What the pod knows already stays known: this actor
// may have restarted since, and not have read it yet.
func (a *apiobjects) known(n *needer) podobjects.Set {
	entries := make([]podobjects.Entry, 0, len(n.refs))
	for _, r := range n.refs {
		var e podobjects.Entry
		switch r.Kind {
		case podobjects.Services:
			e = a.services.entry(r)
		case podobjects.TrustBundle, podobjects.SignerBundles:
			e = a.bundles.uses[r].entry
		case podobjects.Certificate:
			e = a.certificates.of[secret{n.pod.UID, r}].entry
			entries = append(entries, e)
			continue // what the pod knows of an earlier one is kept there
		case podobjects.Token:
			e = a.tokens[secret{n.pod.UID, r}].entry
		default:
			e = a.of[r].seenBy(n.pod.UID)
		}
		if old := n.told.Get(r); e.State == podobjects.Unknown || e.State == podobjects.Failed &&
			old.State == podobjects.Found && r.Kind != podobjects.Token {
			e = old
		}
		entries = append(entries, e)
	}
	set := podobjects.NewSet(entries)
	if a.deps.NoServices {
		set = set.WithoutServices()
	}
	return set
}

// A pod that uses more than few objects is told of all that changes in a while at once: what it is told has all of
// them, and they become known one by one. The while is costOfOne for each, so this takes but a small share of time.
const (
	few       = 32
	costOfOne = 10 * time.Microsecond
)

// tellMany is this actor's own timer for such a pod.
type tellMany struct{ uid types.UID }

func (a *apiobjects) tellOfMany(ctx *kernel.Context[Message], n *needer) {
	if n.refers {
		a.refer(ctx, n, false)
	}
	n.telling, n.refers = false, false
	a.tellNow(n)
}

// tell sends a pod its objects, if they changed.
func (a *apiobjects) tell(ctx *kernel.Context[Message], n *needer) {
	if len(n.refs) <= few {
		a.tellNow(n)
		return
	}
	if !n.telling {
		n.telling = true
		ctx.After(time.Duration(len(n.refs))*costOfOne, tellMany{n.pod.UID})
	}
}

func (a *apiobjects) tellNow(n *needer) {
	known := a.known(n)
	if n.told.Equal(known) {
		return
	}
	n.told = known
	n.reply.Tell(pod.ObjectsAnswer{Objects: known})
}

// became sets the state of an object, and sends it to its users.
func (a *apiobjects) became(ctx *kernel.Context[Message], o *object, e podobjects.Entry) {
	if o.entry.Same(e) {
		return
	}
	o.entry = e
	for _, uid := range slices.Clone(o.users) {
		n := a.pods[uid]
		if o.ref.Kind == podobjects.Claim || o.ref.Kind == podobjects.Volume {
			// The volume of a bound claim is used as well.
			if n.refers = len(n.refs) > few; !n.refers {
				a.refer(ctx, n, false)
			}
		}
		a.tell(ctx, n)
	}
}

// tellAll sends some pods their objects.
func (a *apiobjects) tellAll(ctx *kernel.Context[Message], users []types.UID) {
	for _, uid := range users {
		a.tell(ctx, a.pods[uid])
	}
}

// forgetAll forgets all pods but some.
func (a *apiobjects) forgetAll(ctx *kernel.Context[Message], but map[types.UID]bool) {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		if !but[uid] {
			a.forget(ctx, uid)
		}
	}
}

// end cancels an object's call and timer.
func (o *object) end(ctx *kernel.Context[Message]) {
	if o.call != 0 {
		ctx.Cancel(o.call)
	}
	o.timer.Stop()
	o.call, o.heard = 0, false
}
