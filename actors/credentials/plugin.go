package credentials

import (
	"context"
	"fmt"
	"maps"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// begin begins to find out what a plugin has for an ask.
func (a *credentials) begin(ctx *kernel.Context[Message], id uint64, n int) {
	q := a.asks[id]
	if q == nil {
		return // it was left meanwhile
	}
	t := a.plugins[q.parts[n].plugin].Token
	name := ""
	if q.of.Pod != nil {
		name = q.of.Pod.Spec.ServiceAccountName
	}
	switch {
	case t == nil, name == "" && !t.Required:
		a.ask(ctx, id, n)
	case name == "":
		a.known(id) // static pods have none; another plugin may do
	case a.deps.API == nil:
		a.fail(id, n, "it needs a token of service account "+name+", and this node has no apiserver")
	default:
		k := port.APIKey{Kind: port.ServiceAccountKind, Namespace: q.of.Pod.Namespace, Name: name}
		q.parts[n].call = portcall.Do(ctx, a.call("GetServiceAccount", id, n),
			func(c context.Context, done func(port.APIObject, error)) { a.deps.API.Get(c, k, done) },
			func(e kernel.EffectID, o port.APIObject, err error) Message { return account{e, id, n, o, err} })
	}
}

// call is an effect that calls the apiserver for a part of an ask.
func (a *credentials) call(kind string, id uint64, n int) kernel.Effect[Message] {
	q := a.asks[id]
	return kernel.Effect[Message]{
		Kind: kind, Object: q.of.Pod.Namespace + "/" + q.of.Pod.Spec.ServiceAccountName,
		For:  string(q.of.Pod.UID),
		Lane: fmt.Sprintf("account/%d/%d", id, n), Pool: CallPool, Deadline: callDeadline,
	}
}

// awaits gives the part of an ask that waits for the answer of a call; nil: the answer is late, or it is that of a call
// of an earlier incarnation.
func (a *credentials) awaits(call kernel.EffectID, ask uint64, n int) *part {
	q := a.asks[ask]
	if q == nil || n >= len(q.parts) || q.parts[n].call != call {
		return nil
	}
	q.parts[n].call = 0
	return &q.parts[n]
}

func (a *credentials) gotAccount(ctx *kernel.Context[Message], m account) {
	p := a.awaits(m.id, m.ask, m.part)
	if p == nil {
		return
	}
	q := a.asks[m.ask]
	t := a.plugins[p.plugin].Token
	o, is := m.object.(*v1.ServiceAccount)
	switch {
	case m.err != nil:
		a.fail(m.ask, m.part, "cannot get the service account of the pod: "+m.err.Error())
		return
	case !is:
		a.fail(m.ask, m.part, "cannot get the service account of the pod: the apiserver gave something else")
		return
	}
	annotations, missing := t.Annotations(o.Annotations)
	if missing != "" {
		a.known(m.ask) // so a service account opts in
		return
	}
	p.account = imagepull.ServiceAccount{
		UID: string(o.UID), Namespace: o.Namespace, Name: o.Name, Annotations: annotations,
	}
	k := tokenKey{q.of.Pod.UID, p.account.UID, t.Audience}
	if got, ok := a.tokens[k]; ok && ctx.Now().Before(got.until) {
		p.account.Token = got.value
		a.ask(ctx, m.ask, m.part)
		return
	}
	spec := authenticationv1.TokenRequestSpec{
		Audiences: []string{t.Audience},
		BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: q.of.Pod.Name, UID: q.of.Pod.UID,
		},
	}
	p.call = portcall.Do(ctx, a.call("CreateToken", m.ask, m.part),
		func(c context.Context, done func(authenticationv1.TokenRequestStatus, error)) {
			a.deps.API.CreateToken(c, o.Namespace, o.Name, spec, done)
		}, func(e kernel.EffectID, got authenticationv1.TokenRequestStatus, err error) Message {
			return issued{e, m.ask, m.part, got, err}
		})
}

func (a *credentials) issued(ctx *kernel.Context[Message], m issued) {
	p := a.awaits(m.id, m.ask, m.part)
	if p == nil {
		return
	}
	q := a.asks[m.ask]
	if m.err != nil {
		a.fail(m.ask, m.part, "cannot get a token of the service account of the pod: "+m.err.Error())
		return
	}
	now := ctx.Now()
	maps.DeleteFunc(a.tokens, func(_ tokenKey, t token) bool { return !now.Before(t.until) })
	k := tokenKey{q.of.Pod.UID, p.account.UID, a.plugins[p.plugin].Token.Audience}
	a.tokens[k] = token{m.token.Token, podobjects.RenewAt(now, m.token.ExpirationTimestamp.Time, 0, ctx.Rand().Float64())}
	p.account.Token = m.token.Token
	a.ask(ctx, m.ask, m.part)
}

// ask answers a part from what is kept, or joins or begins the flight that finds it out.
func (a *credentials) ask(ctx *kernel.Context[Message], id uint64, n int) {
	q := a.asks[id]
	part := &q.parts[n]
	p := a.plugins[part.plugin]
	if logins, ok := p.cache.Get(p.Provider, q.ref, &part.account, ctx.Now()); ok {
		part.logins = logins
		a.known(id)
		return
	}
	key := p.Flight(q.ref.Name(), &part.account)
	f := p.flights[key]
	if f == nil {
		f = &flight{key: key, account: part.account, ref: q.ref, queued: map[types.UID]bool{}}
		p.flights[key] = f
	}
	if f.call == 0 {
		pod := types.UID("") // it is pulled ahead
		if q.of.Pod != nil {
			pod = q.of.Pod.UID
		}
		p.wait(f, pod)
	}
	f.waiting = append(f.waiting, waiting{id, n})
	a.run(ctx, part.plugin)
}

// wait puts a flight into the queue of a pod.
func (p *plugin) wait(f *flight, pod types.UID) {
	if f.queued[pod] {
		return
	}
	f.queued[pod] = true
	if p.queue[pod] = append(p.queue[pod], f); len(p.queue[pod]) == 1 {
		p.pods = append(p.pods, pod)
	}
}

// next takes a flight out of the queue: each pod that has room for one has one, and then it is the turn of the others.
// Nil: there is none.
func (p *plugin) next() *flight {
	for i := 0; i < len(p.pods); {
		pod := p.pods[i]
		if p.under[pod] == podRuns {
			i++
			continue
		}
		f, rest := p.queue[pod][0], p.queue[pod][1:]
		p.pods = slices.Delete(p.pods, i, i+1)
		if p.queue[pod] = rest; len(rest) == 0 {
			delete(p.queue, pod)
		} else {
			p.pods = append(p.pods, pod)
		}
		if f.call == 0 && p.flights[f.key] == f {
			f.pod = pod
			return f
		}
	}
	return nil
}

// run begins the flights of a plugin that there is room for.
func (a *credentials) run(ctx *kernel.Context[Message], n int) {
	p := a.plugins[n]
	for p.running < Runs {
		f := p.next()
		if f == nil {
			return
		}
		if f.waiting = slices.DeleteFunc(f.waiting, a.left); len(f.waiting) == 0 {
			delete(p.flights, f.key)
			continue
		}
		if logins, ok := p.cache.Get(p.Provider, f.ref, &f.account, ctx.Now()); ok { // an answer for more than its image
			a.land(p, f, logins, "")
			continue
		}
		p.running++
		p.under[f.pod]++
		request := p.Request(f.ref.Name(), f.account.Token, f.account.Annotations)
		key := f.key
		f.call = portcall.Do(ctx, kernel.Effect[Message]{
			Kind: "RunCredentialPlugin", Object: p.Name + " " + f.ref.Name(), Lane: "plugin/" + p.Name + "/" + key,
			Deadline: PluginDeadline, Patience: patience,
		}, func(c context.Context, done func([]byte, error)) {
			a.deps.Plugins.RunPlugin(c, p.Provider, request, done)
		}, func(id kernel.EffectID, data []byte, err error) Message { return ran{id, n, key, data, err} })
	}
}

// left reports whether nobody waits for an ask any more, and drops it then.
func (a *credentials) left(w waiting) bool {
	q := a.asks[w.ask]
	if q != nil && (q.of.Left == nil || !q.of.Left()) {
		return false
	}
	delete(a.asks, w.ask)
	return true
}

func (a *credentials) ran(ctx *kernel.Context[Message], m ran) {
	p := a.plugins[m.plugin]
	f := p.flights[m.flight]
	if f == nil || f.call != m.id {
		return // late, or of an earlier incarnation
	}
	p.running--
	if p.under[f.pod]--; p.under[f.pod] == 0 {
		delete(p.under, f.pod)
	}
	var answer imagepull.Answer
	err := m.err
	if err == nil {
		answer, err = p.Read(m.data, f.account.Token)
	}
	failure := ""
	if err != nil {
		failure = port.Detail(err)
		ctx.Log().Warn().Str("plugin", p.Name).Str("image", f.ref.Name()).Str("error", failure).
			Msg("credential provider plugin failed: the image is pulled without credentials of this plugin")
	} else {
		p.cache.Put(p.Provider, f.ref, &f.account, answer, ctx.Now())
	}
	a.land(p, f, answer.Logins, failure)
	a.run(ctx, m.plugin)
}

// land gives all that wait for a flight what it found.
func (a *credentials) land(p *plugin, f *flight, logins []imagepull.Login, failure string) {
	delete(p.flights, f.key)
	for _, w := range f.waiting {
		if a.asks[w.ask] == nil {
			continue
		}
		if part := &a.asks[w.ask].parts[w.part]; failure == "" {
			part.logins = logins
		} else {
			part.failure = failure
		}
		a.known(w.ask)
	}
}
