// Package credentials is the actor that knows what images are pulled with, apart from pull secrets: the docker
// configuration of the node, and what credential provider plugins answer. The decisions are in
// decide/imagepull.
//
//	images ──Lookup──► credentials ──Found──► images
//	credentials ──RunPlugin, DockerConfig──► plugins     credentials ──Get, CreateToken──► apiserver
//
// A Lookup has one part for each plugin that is asked for the image. All parts are looked up at once:
//
//	Lookup ─┬─► docker configuration, read every ConfigAge ────────────────────────────────────► logins ─┐
//	        └─► account ──► token ──► cached? ──no──► flight: one run for all that ask the same ──► answer ─┴─► Found
//	               └──────────┴─────────────yes──────────────────────────────────────────────────► logins
//
// At most Runs processes of a plugin run at a time: one that hangs holds up only what it is asked for. What it failed
// with is part of Found. After a restart nothing is kept: images asks again (Deps.Restarted).
package credentials

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// CallPool is the pool of slots that bounds how many calls of the apiserver run at once.
const CallPool = "credentials"

// Pools are the pools that the actor needs.
func Pools() []kernel.Pool {
	return []kernel.Pool{{
		Name: CallPool, Size: 8, MinHold: time.Second, MaxHold: 15 * time.Second, Unkept: true, Fair: true,
	}}
}

const (
	// Runs is how many processes of one plugin run at a time: a node that boots with 110 pods, and a plugin that takes
	// 8 s, have all credentials within a minute.
	Runs = 16
	// podRuns is how many of them are for one pod, whose containers come one after the other with a kubelet.
	podRuns = 4
	// PluginDeadline is longer than the minute after which the port kills a plugin: it says more then.
	PluginDeadline = 70 * time.Second
	// ConfigAge is how old the docker configuration may be.
	ConfigAge = 5 * time.Minute
	// callDeadline bounds a call of the apiserver or of the disk. It is longer than the limit that the client of the
	// apiserver has for a write, 35 s: the client says more then.
	callDeadline = 40 * time.Second
	// patience is how long a plugin may take before people are told.
	patience = 10 * time.Second
)

// Message is what the actor understands.
//
//sumtype:decl
type Message interface{ isCredentialsMessage() }

// Lookup asks what an image can be pulled with. From images. Lost: never answered; with a crash: asked again when told
// that this actor restarted. Twice: answered twice.
type Lookup struct {
	Image string
	// Pod is the one that it is pulled for; nil: no pod in particular.
	Pod *v1.Pod
	// Reply must not block.
	Reply func(Found)
	// Left, if set, says whether nobody waits for the answer any more: no plugin is run for it then.
	Left func() bool
}

// Found is the answer.
type Found struct {
	// Offers are in the order in which to try them.
	Offers []imagepull.Offer
	// Failures say which plugins could not be asked, and why.
	Failures []string
}

// configured is the docker configuration.
type configured struct {
	id     kernel.EffectID
	data   []byte
	legacy bool
	err    error
}

// account is a service account, issued a token of it: for part number part of an ask.
type (
	account struct {
		id     kernel.EffectID
		ask    uint64
		part   int
		object port.APIObject
		err    error
	}
	issued struct {
		id    kernel.EffectID
		ask   uint64
		part  int
		token authenticationv1.TokenRequestStatus
		err   error
	}
)

// ran is what a plugin wrote.
type ran struct {
	id     kernel.EffectID
	plugin int
	flight string
	data   []byte
	err    error
}

func (Lookup) isCredentialsMessage()     {}
func (configured) isCredentialsMessage() {}
func (account) isCredentialsMessage()    {}
func (issued) isCredentialsMessage()     {}
func (ran) isCredentialsMessage()        {}

// Outcome implements kernel.Outcome.
func (m configured) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m account) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m issued) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m ran) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// API is what the actor uses of port.API.
type API interface {
	Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error))
	CreateToken(
		ctx context.Context, namespace, serviceAccount string, spec authenticationv1.TokenRequestSpec,
		done func(authenticationv1.TokenRequestStatus, error),
	)
}

// Deps are what the actor is connected to.
type Deps struct {
	// Providers are the plugins, in their order.
	Providers []imagepull.Provider
	Plugins   port.CredentialPlugins
	// API is nil on a node without an apiserver.
	API API
	// Restarted is called when an incarnation after the first begins: requests were lost.
	Restarted func()
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		a := &credentials{deps: deps, asks: map[uint64]*ask{}, tokens: map[tokenKey]token{}}
		for i := range deps.Providers {
			a.plugins = append(a.plugins, &plugin{
				Provider: &deps.Providers[i], flights: map[string]*flight{}, under: map[types.UID]int{},
				queue: map[types.UID][]*flight{},
			})
		}
		return a
	}
}

type credentials struct {
	deps    *Deps
	plugins []*plugin
	asks    map[uint64]*ask
	last    uint64 // the number of the last ask
	config  config
	tokens  map[tokenKey]token
}

// config is the docker configuration.
type config struct {
	reading kernel.EffectID // 0 for none
	readAt  time.Time
	logins  []imagepull.Login
	// waiting are asks.
	waiting []uint64
}

// ask is a Lookup that is not answered.
type ask struct {
	of    Lookup
	ref   imagepull.Reference
	parts []part
	// left are the parts that are not known yet, and the docker configuration.
	left int
}

// part is what one plugin has for an ask.
type part struct {
	plugin int
	// call is the call of the apiserver that it waits for, 0 for none. Answers of others are late.
	call    kernel.EffectID
	account imagepull.ServiceAccount
	logins  []imagepull.Login
	failure string
}

// plugin is a plugin with what it answered.
type plugin struct {
	*imagepull.Provider
	cache   imagepull.CredentialCache
	flights map[string]*flight
	// running is how many processes there are, under how many of them are for a pod.
	running int
	under   map[types.UID]int
	// queue are the flights that wait for one to end, by each pod that asks for them, and pods are those that have some,
	// the next one first. A flight that has begun, or is over, counts no more.
	queue map[types.UID][]*flight
	pods  []types.UID
}

// flight is a question, and who asks it.
type flight struct {
	key     string
	account imagepull.ServiceAccount
	ref     imagepull.Reference
	// queued are the pods in whose queue it is, and pod is the one for which it has begun. call is its run, 0 while it is
	// in the queue. Answers of others are late.
	queued  map[types.UID]bool
	pod     types.UID
	call    kernel.EffectID
	waiting []waiting
}

type waiting struct {
	ask  uint64
	part int
}

// tokenKey tells tokens apart. Two pods never share one, nor do two service accounts that had the same name.
type tokenKey struct {
	pod      types.UID
	account  string // its UID
	audience string
}

type token struct {
	value string
	// until is when another is asked for.
	until time.Time
}

// Start implements kernel.Behavior. No ask has the number of one of an earlier incarnation, nor waits in its lane.
func (a *credentials) Start(ctx *kernel.Context[Message]) {
	a.last = uint64(ctx.Incarnation()) << 32
	if ctx.Incarnation() > 1 {
		a.deps.Restarted()
	}
}

// Receive implements kernel.Behavior.
func (a *credentials) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Lookup:
		a.lookup(ctx, m)
	case configured:
		a.configured(ctx, m)
	case account:
		a.gotAccount(ctx, m)
	case issued:
		a.issued(ctx, m)
	case ran:
		a.ran(ctx, m)
	}
}

func (a *credentials) lookup(ctx *kernel.Context[Message], m Lookup) {
	if m.Left != nil && m.Left() {
		return
	}
	r, err := imagepull.ParseReference(m.Image)
	if err != nil {
		m.Reply(Found{})
		return
	}
	a.last++
	id, q := a.last, &ask{of: m, ref: r, left: 1}
	a.asks[id] = q
	for i, p := range a.plugins {
		if p.Asks(r) {
			q.parts = append(q.parts, part{plugin: i})
		}
	}
	q.left += len(q.parts)
	for i := range q.parts {
		a.begin(ctx, id, i)
	}
	if ctx.Now().Sub(a.config.readAt) < ConfigAge && !a.config.readAt.IsZero() {
		a.known(id)
		return
	}
	a.config.waiting = append(a.config.waiting, id)
	a.readConfig(ctx)
}

// readConfig reads the docker configuration, unless it is being read.
func (a *credentials) readConfig(ctx *kernel.Context[Message]) {
	if a.config.reading != 0 {
		return
	}
	type answer struct {
		data   []byte
		legacy bool
	}
	a.config.reading = portcall.Do(ctx, kernel.Effect[Message]{
		Kind: "ReadDockerConfig", Lane: "docker-config", Deadline: callDeadline,
	}, func(c context.Context, done func(answer, error)) {
		a.deps.Plugins.DockerConfig(c, func(data []byte, legacy bool, err error) { done(answer{data, legacy}, err) })
	}, func(id kernel.EffectID, got answer, err error) Message {
		return configured{id, got.data, got.legacy, err}
	})
}

func (a *credentials) configured(ctx *kernel.Context[Message], m configured) {
	if a.config.reading != m.id {
		return
	}
	waiting := a.config.waiting
	a.config = config{readAt: ctx.Now()}
	err := m.err
	if err == nil && m.data != nil {
		var ok bool
		if a.config.logins, ok = imagepull.DockerConfig(m.data, m.legacy); !ok {
			err = errors.New("it is not a docker configuration")
		}
	}
	if err != nil {
		ctx.Log().Warn().Str("error", err.Error()).
			Msg("cannot read the docker configuration of this node: images are pulled without its credentials")
	}
	for _, id := range waiting {
		a.known(id)
	}
}

// known notes that one more part of an ask is known, and answers if it was the last.
func (a *credentials) known(id uint64) {
	q := a.asks[id]
	if q == nil {
		return
	}
	if q.left--; q.left > 0 {
		return
	}
	delete(a.asks, id)
	var found Found
	found.Offers = imagepull.Fitting(q.ref, a.config.logins)
	// The answers of plugins are one configuration: the longest path is first, whose ever it is.
	var all []imagepull.Login
	for _, p := range q.parts {
		if p.failure != "" {
			found.Failures = append(found.Failures, fmt.Sprintf("credential provider plugin %q failed for image %q: %s",
				a.plugins[p.plugin].Name, q.of.Image, p.failure))
		}
		source := imagepull.Source{}
		if a.plugins[p.plugin].Token != nil && !p.account.None() {
			source = imagepull.Source{Owner: imagepull.OfServiceAccount, UID: p.account.UID,
				Namespace: p.account.Namespace, Name: p.account.Name}
		}
		for _, l := range p.logins {
			l.Source = source
			all = append(all, l)
		}
	}
	has := make(map[imagepull.Offer]bool, len(found.Offers))
	for _, o := range found.Offers {
		has[o] = true
	}
	for _, o := range imagepull.Fitting(q.ref, all) { // each once
		if !has[o] {
			found.Offers = append(found.Offers, o)
		}
	}
	q.of.Reply(found)
}

// fail notes that a plugin can't be asked, or that it failed.
func (a *credentials) fail(ask uint64, part int, why string) {
	a.asks[ask].parts[part].failure = why
	a.known(ask)
}
