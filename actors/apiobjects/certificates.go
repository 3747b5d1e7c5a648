package apiobjects

import (
	"context"
	"maps"
	"slices"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podcertificate"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// certificates are those of pods, and the requests of this node for them, which are watched while a pod has one.
type certificates struct {
	stream
	of map[secret]*certified
	// known are the requests in the API, asked those that are waited for.
	known map[port.APIKey]*certificatesv1beta1.PodCertificateRequest
	asked map[port.APIKey]secret
	// counting: a timer runs to count them.
	counting bool
}

// certified is one certificate of a pod.
type certified struct {
	podcertificate.Certificate
	source *v1.PodCertificateProjection
	entry  podobjects.Entry
	// call is the running one. failures are those of requests.
	call     kernel.Call
	failures backoff.Failures
	// since is when it was first needed. notBefore is the time of the next request after a failed one.
	since, notBefore time.Time
	timer            kernel.Alarm[Message]
}

// Counts is told of certificates of pods, for metrics. It must not block.
type Counts interface {
	// Certificates is told, after each change, how many are in each state.
	Certificates(map[CertificateState]int)
}

// CertificateState is the state of a certificate, as metrics have it.
type CertificateState struct{ Signer, State string }

func newCertificates(node string) certificates {
	return certificates{
		stream: stream{of: podobjects.Certificate, selection: port.Selection{
			Kind: port.PodCertificateRequestKind, Field: "spec.nodeName=" + node,
		}},
		of: map[secret]*certified{}, known: map[port.APIKey]*certificatesv1beta1.PodCertificateRequest{},
		asked: map[port.APIKey]secret{},
	}
}

// useCertificate begins to get a certificate for a pod. One that the pod has, or that lies in its volume, is kept until
// the next.
func (a *apiobjects) useCertificate(ctx *kernel.Context[Message], n *needer, r podobjects.Ref) {
	k := secret{n.pod.UID, r}
	c := &certified{entry: podobjects.Entry{Ref: r}, source: podobjects.CertificateSource(n.pod, r), since: ctx.Now()}
	a.certificates.of[k] = c
	if !a.deps.PodCertificates {
		c.entry.State = podobjects.Failed
		c.entry.Message = "podCertificate projections need the feature gate PodCertificateRequest on this node"
		return
	}
	if a.certificates.watch == 0 {
		a.follow(ctx, &a.certificates.stream)
	}
	if has, err := n.told.Certificate(r); err == nil {
		c.Found(has, ctx.Now(), ctx.Rand().Float64())
		a.certifyUntold(ctx, k, c)
		return
	}
	at := port.CertificateFiles{Pod: k.uid, Volume: r.Name, Source: c.source}
	a.countCertificates(ctx)
	c.call.Begin(portcall.Do(ctx, a.certificateEffect("ReadCertificate", k),
		func(ctx context.Context, done func(*podspec.IssuedCertificate, error)) {
			a.deps.Keys.WrittenCertificate(ctx, at, done)
		}, func(id kernel.EffectID, held *podspec.IssuedCertificate, err error) Message {
			return written{id, k, held, err}
		}))
}

func (a *apiobjects) certificateEffect(kind string, k secret) kernel.Effect[Message] {
	return kernel.Effect[Message]{
		Kind: kind, Object: k.ref.Namespace + "/" + k.ref.Name, For: string(k.uid),
		Lane: "certificate/" + string(k.uid) + "/" + k.ref.String(), Pool: KeyPool, Deadline: 2 * a.deps.Deadline,
	}
}

func (a *apiobjects) dropCertificate(ctx *kernel.Context[Message], k secret) {
	s := &a.certificates
	c := s.of[k]
	c.call.Cancel(ctx)
	c.timer.Stop()
	delete(s.of, k)
	delete(s.asked, requestKey(k, c))
	if len(s.of) == 0 {
		s.unfollow(ctx)
		clear(s.known)
	}
	a.countCertificates(ctx)
}

// written applies what lay in the volume of a pod.
func (a *apiobjects) written(ctx *kernel.Context[Message], m written) {
	c := a.certificates.of[m.of]
	if c == nil || !c.call.Take(m.id) {
		return
	}
	if m.err != nil {
		ctx.Log().Warn().Str("volume", m.of.ref.Namespace+"/"+m.of.ref.Name).Err(m.err).
			Msg("cannot read the certificate that an earlier agent wrote for a pod; asking for another")
	}
	c.Found(m.held, ctx.Now(), ctx.Rand().Float64())
	a.certify(ctx, m.of, c)
}

// certify does what is due for a certificate, and tells the pod.
func (a *apiobjects) certify(ctx *kernel.Context[Message], k secret, c *certified) {
	if a.certifyUntold(ctx, k, c) {
		a.tell(ctx, a.pods[k.uid])
	}
}

// certifyUntold reports whether there is something new for the pod.
func (a *apiobjects) certifyUntold(ctx *kernel.Context[Message], k secret, c *certified) bool {
	now, n := ctx.Now(), a.pods[k.uid]
	c.timer.Stop()
	asked := requestKey(k, c)
	r := a.certificates.known[asked]
	if r != nil {
		a.tellPeople(ctx, n.pod, c.Seen(r, now, ctx.Rand().Float64()))
	}
	a.tellPeople(ctx, n.pod, c.Look(now, r != nil))
	if c.Request == "" {
		delete(a.certificates.asked, asked)
	}
	if c.State == podcertificate.Wanted && !c.call.Busy() && !now.Before(c.notBefore) {
		a.request(ctx, k, c)
	}
	due := c.Due()
	if c.State == podcertificate.Wanted && !c.call.Busy() && (due.IsZero() || c.notBefore.Before(due)) {
		due = c.notBefore
	}
	if !due.IsZero() {
		c.timer.SetIn(ctx, max(min(due.Sub(now), lookEvery), 0), certifyAgain{k})
	}
	trouble := c.failures.Message
	if now.Sub(c.since) < a.deps.Doubt {
		trouble = "" // too early to report it
	}
	a.countCertificates(ctx)
	e := c.Entry(k.ref, c.source.SignerName, trouble)
	changed := !e.Same(c.entry)
	c.entry = e
	return changed
}

func requestKey(k secret, c *certified) port.APIKey {
	return port.APIKey{Kind: port.PodCertificateRequestKind, Namespace: k.ref.Namespace, Name: c.Request}
}

func (a *apiobjects) tellPeople(ctx *kernel.Context[Message], p *v1.Pod, events []podcertificate.Event) {
	for _, e := range events {
		a.deps.Events.Record(port.Event{Pod: p, Warning: true, Reason: e.Reason, Message: e.Message, At: ctx.Now()})
	}
}

// request makes a key and a request for it, which has the UIDs of the node and the service account.
func (a *apiobjects) request(ctx *kernel.Context[Message], k secret, c *certified) {
	ask := podcertificate.Asking{Pod: a.pods[k.uid].pod, Source: c.source, Node: a.deps.Node}
	api, keys := a.deps.API, a.deps.Keys
	c.call.Begin(portcall.Do(ctx, a.certificateEffect("RequestCertificate", k),
		func(ctx context.Context, done func(request, error)) {
			ask := requester{ask, api, keys}
			ask.run(ctx, done)
		},
		func(id kernel.EffectID, r request, err error) Message { return requested{id, k, r, err} }))
}

// request is a request that was made.
type request struct {
	name string
	key  podspec.PrivateKey
}

// requester makes a request, one call after the other. It holds nothing of the actor.
type requester struct {
	podcertificate.Asking
	api  API
	keys port.PodKeys
}

func (r requester) run(ctx context.Context, done func(request, error)) {
	account := port.APIKey{
		Kind: port.ServiceAccountKind, Namespace: r.Pod.Namespace, Name: podobjects.ServiceAccount(r.Pod),
	}
	r.api.Get(ctx, account, func(o port.APIObject, err error) {
		if err != nil {
			done(request{}, err)
			return
		}
		r.AccountUID = o.GetUID()
		r.api.Get(ctx, port.APIKey{Kind: port.NodeKind, Name: r.Node}, func(o port.APIObject, err error) {
			if err != nil {
				done(request{}, err)
				return
			}
			r.NodeUID = o.GetUID()
			r.create(ctx, done)
		})
	})
}

func (r requester) create(ctx context.Context, done func(request, error)) {
	r.keys.NewPodKey(ctx, r.Source.KeyType, func(k port.PodKey, err error) {
		if err != nil {
			done(request{}, err)
			return
		}
		r.Proof = k.Proof
		r.api.Create(ctx, podcertificate.Object(r.Asking), func(o port.APIObject, err error) {
			if err != nil {
				done(request{}, err)
				return
			}
			done(request{o.GetName(), k.Key}, nil)
		})
	})
}

// requested applies a request that was made, or why it could not be.
func (a *apiobjects) requested(ctx *kernel.Context[Message], m requested) {
	c := a.certificates.of[m.of]
	if c == nil || !c.call.Take(m.id) {
		return
	}
	now := ctx.Now()
	if m.err == nil {
		c.failures = backoff.Failures{}
		c.Asked(m.made.name, m.made.key, now)
		a.certificates.asked[requestKey(m.of, c)] = m.of
		a.certify(ctx, m.of, c)
		return
	}
	c.failures = c.failures.Failed(now, "failed to request a certificate: "+m.err.Error())
	wait := spread(ctx, backoff.Retry(a.deps.Backoff, c.failures.Count))
	if port.KindOf(m.err) == port.Forbidden && now.Sub(c.since) < a.deps.Doubt {
		wait = backoff.Retry(soon, c.failures.Count)
	}
	c.notBefore = now.Add(wait)
	log := ctx.Log().Warn
	if c.failures.Count > 1 {
		log = ctx.Log().Debug
	}
	p := a.pods[m.of.uid].pod
	log().Str("pod", p.Namespace+"/"+p.Name).Str("volume", m.of.ref.Name).Str("signer", c.source.SignerName).
		Str("error", m.err.Error()).Msg("cannot request a certificate for a pod; retrying")
	a.certify(ctx, m.of, c)
}

// told applies an event of the watch of requests.
func (s *certificates) told(ctx *kernel.Context[Message], a *apiobjects, change port.APIChange) {
	set := func(o port.APIObject) { s.known[port.APIKeyOf(o)] = o.(*certificatesv1beta1.PodCertificateRequest) }
	switch c := change.(type) {
	case port.APIReplaced:
		clear(s.known)
		for _, o := range c.Objects {
			set(o)
		}
		for _, k := range slices.SortedFunc(maps.Values(s.asked), secret.compare) {
			if held := s.of[k]; s.known[requestKey(k, held)] != nil {
				a.certify(ctx, k, held)
			}
		}
	case port.APISet:
		set(c.Object)
		if k, is := s.asked[port.APIKeyOf(c.Object)]; is {
			a.certify(ctx, k, s.of[k])
		}
	case port.APIDeleted:
		r := port.APIKeyOf(c.Object)
		delete(s.known, r)
		if k, is := s.asked[r]; is && s.of[k].Gone(r.Name) {
			delete(s.asked, r)
			held := s.of[k]
			held.notBefore = ctx.Now().Add(spread(ctx, a.deps.Backoff.Base))
			a.certify(ctx, k, held)
		}
	case port.APIBroken:
	}
}

// countMany is this actor's own timer to count many certificates.
type countMany struct{}

// countCertificates tells how many certificates are in each state: of many, once for all that changes in a while, as
// pods are told.
func (a *apiobjects) countCertificates(ctx *kernel.Context[Message]) {
	s := &a.certificates
	switch {
	case a.deps.Counts == nil || s.counting:
	case len(s.of) <= few:
		a.countNow(ctx)
	default:
		s.counting = true
		ctx.After(time.Duration(len(s.of))*costOfOne, countMany{})
	}
}

func (a *apiobjects) countNow(ctx *kernel.Context[Message]) {
	counts := map[CertificateState]int{}
	for _, c := range a.certificates.of { // order-free: sums
		counts[CertificateState{c.source.SignerName, c.Metric(ctx.Now())}]++
	}
	a.deps.Counts.Certificates(counts)
}
