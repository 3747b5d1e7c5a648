package apiobjects_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/podtest"
)

// rig is the objects actor on a virtual clock. The rig plays the actors of pods and the apiserver, which
// answers a call when the test says so.
type rig struct {
	*actortest.Rig
	*actortest.Watches
	actor *actortest.Actor[apiobjects.Message]
	calls *actortest.Calls
	// has is what a Get finds, by name. known is what each pod was told last.
	has   map[string]port.APIObject
	known map[string]podobjects.Set
	// tokens is how many were issued, life is how long they are valid.
	tokens int
	life   time.Duration
	// requests and keys are how many were made, written is what lies in the volume.
	requests, keys int
	written        *podspec.IssuedCertificate
}

const (
	ttl      = time.Minute
	base     = time.Second // of the backoff
	doubt    = 5 * time.Second
	deadline = time.Minute
	patience = 30 * time.Second
	soon     = 10 * time.Millisecond // is enough for a message

	watchBegun = "watch ConfigMap default/ metadata.name=settings"
	getBegun   = "get ConfigMap default/settings"
)

var errAway = errors.New("connection refused")

func newRig(t *testing.T, change ...func(d *apiobjects.Deps)) *rig {
	t.Helper()
	return rigOn(actortest.New(t), change...)
}

// rigOn makes it on another system than the usual one.
func rigOn(system *actortest.Rig, change ...func(d *apiobjects.Deps)) *rig {
	system.T.Helper()
	r := &rig{
		Rig: system, has: map[string]port.APIObject{}, known: map[string]podobjects.Set{}, life: time.Hour,
	}
	r.Watches, r.calls = r.NewWatches(), r.NewCalls("apiserver")
	deps := &apiobjects.Deps{
		API: r, Restarted: func() { r.Say("pods: repeat") }, TTL: ttl,
		Settings: apiobjects.Settings{Detection: apiobjects.Watch, NoServices: true},
		Backoff:  backoff.Policy{Base: base, Max: time.Minute}, Doubt: doubt, Deadline: deadline, Patience: patience,
	}
	for _, f := range change {
		f(deps)
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[apiobjects.Message]{
		Name: "apiobjects", Runner: r.Runner(apiobjects.Pools()...), MailboxLimit: 4, New: apiobjects.New(deps),
	})
	return r
}

// cached makes ConfigMaps and Secrets read and not watched.
func cached(d *apiobjects.Deps) { d.Detection = apiobjects.Cache }

// withServices gives pods service variables.
func withServices(d *apiobjects.Deps) { d.NoServices = false }

// Get implements apiobjects.API.
func (r *rig) Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error)) {
	r.calls.Called(ctx, "get "+k.String(), func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(r.has[k.Name], nil)
	})
}

// CreateToken implements apiobjects.API. The tokens are t1, t2 and so on.
func (r *rig) CreateToken(
	ctx context.Context, namespace, account string, spec authenticationv1.TokenRequestSpec,
	done func(authenticationv1.TokenRequestStatus, error),
) {
	bound := spec.BoundObjectRef
	text := fmt.Sprintf("token of %s/%s for %d s, bound to %s %s %s", namespace, account, *spec.ExpirationSeconds,
		bound.Kind, bound.Name, bound.UID)
	if len(spec.Audiences) > 0 {
		text += ", for " + strings.Join(spec.Audiences, " ")
	}
	r.calls.Called(ctx, text, func(err error) {
		var s authenticationv1.TokenRequestStatus
		if err == nil {
			r.tokens++
			s.Token, s.ExpirationTimestamp = fmt.Sprint("t", r.tokens), metav1.NewTime(r.Now().Add(r.life))
		}
		done(s, err)
	})
}

// Create implements apiobjects.API: requests are named req-1, req-2 and so on.
func (r *rig) Create(ctx context.Context, o port.APIObject, done func(port.APIObject, error)) {
	made := o.(*certificatesv1beta1.PodCertificateRequest)
	s := made.Spec
	text := fmt.Sprintf("create %s %s of pod %s %s, account %s %s, node %s %s, signer %s, proof %s", made.Namespace, made.GenerateName,
		s.PodName, s.PodUID, s.ServiceAccountName, s.ServiceAccountUID, s.NodeName, s.NodeUID, s.SignerName, s.StubPKCS10Request)
	r.calls.Called(ctx, text, func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		r.requests++
		stored := made.DeepCopy()
		stored.Name = fmt.Sprint("req-", r.requests)
		r.has[stored.Name] = stored
		done(stored, nil)
	})
}

// NewPodKey implements port.PodKeys.
func (r *rig) NewPodKey(ctx context.Context, keyType string, done func(port.PodKey, error)) {
	r.calls.Called(ctx, "new key "+keyType, func(err error) {
		if err != nil {
			done(port.PodKey{}, err)
			return
		}
		r.keys++
		done(port.PodKey{Key: podspec.NewPrivateKey([]byte(fmt.Sprint("key", r.keys))), Proof: []byte(fmt.Sprint("p", r.keys))}, nil)
	})
}

// WrittenCertificate implements port.PodKeys.
func (r *rig) WrittenCertificate(ctx context.Context, at port.CertificateFiles, done func(*podspec.IssuedCertificate, error)) {
	r.calls.Called(ctx, "read "+string(at.Pod)+"/"+at.Volume, func(err error) { done(r.written, err) })
}

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) { r.Say("event of %s: %s %s", e.Pod.Name, e.Reason, e.Message) }

// need is what a new pod asks for. uses says which objects it uses; without any it is the ConfigMap settings.
func (r *rig) need(name string, uses ...func(p *v1.Pod)) apiobjects.Need {
	r.T.Helper()
	ref := actortest.Play(r.Rig, name, func(m pod.Message) {
		set := m.(pod.ObjectsAnswer).Objects
		r.known[name] = set
		var all []string
		for _, e := range set.Entries() {
			all = append(all, text(e))
		}
		r.Say("%s: %s", name, strings.Join(all, "; "))
	})
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u-" + name)}}
	if len(uses) == 0 {
		uses = append(uses, configMap("settings"))
	}
	for _, f := range uses {
		f(p)
	}
	return apiobjects.Need{NeedObjects: pod.NeedObjects{Pod: p, ReplyTo: ref}}
}

// text is what a pod is told of an object: its name, state and version.
func text(e podobjects.Entry) string {
	name, version := e.Ref.Name, ""
	switch o := e.Object.(type) {
	case metav1.Object:
		version = " " + o.GetResourceVersion()
	case *podobjects.IssuedToken:
		version = " " + o.Value
	case *podspec.IssuedCertificate:
		version = " " + string(o.Key.PEM()) + " " + certificateText(o.Chain)
	case *podobjects.TrustBundles:
		for _, b := range o.Items {
			version += " " + b.Name + "@" + b.ResourceVersion
		}
	case *podobjects.ServiceList:
		for _, s := range o.Items {
			version += " " + s.Name
		}
	}
	switch e.Ref.Kind {
	case podobjects.Token:
		name = "token"
	case podobjects.Services:
		name = "services"
	}
	if e.Message != "" {
		version = ", " + e.Message
	}
	return name + " " + e.State.String() + version
}

// want lets time pass, and compares what was said since the last time.
func (r *rig) want(what string, d time.Duration, want ...string) {
	r.T.Helper()
	r.Advance(d)
	r.WantByListener(what, want...)
}

// retries is how long it takes until something is said. It may take at most this long.
func (r *rig) retries(most time.Duration) time.Duration {
	r.T.Helper()
	begun := r.Now()
	if !r.RunUntil(begun.Add(most), func() bool { return len(r.Lines()) > 0 }) {
		r.T.Fatalf("nothing was said within %v", most)
	}
	return r.Now().Sub(begun)
}

// ended is how many watches the actor has ended.
func (r *rig) ended() (n int) {
	for _, w := range r.All {
		if w.Context.Err() != nil {
			n++
		}
	}
	return n
}

func configMap(name string) func(p *v1.Pod) {
	return volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}})
}

func claim(name string) func(p *v1.Pod) {
	return volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
}

func token(audience string, seconds int64) func(p *v1.Pod) {
	return volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{
		ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &seconds, Path: "token"},
	}}}})
}

func volume(source v1.VolumeSource) func(p *v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", len(p.Spec.Volumes)), VolumeSource: source})
		podtest.UseVolumes(&p.Spec)
	}
}

func in(namespace string) func(p *v1.Pod) { return func(p *v1.Pod) { p.Namespace = namespace } }

// made is the ConfigMap in one of its versions.
func made(version string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings", UID: "settings", ResourceVersion: version}}
}

func immutable(version string) *v1.ConfigMap {
	o := made(version)
	o.Immutable = new(true)
	return o
}

func listed(all ...port.APIObject) port.APIReplaced { return port.APIReplaced{Objects: all} }

func refused(kind port.ErrorKind) error { return &port.Error{Kind: kind, Verb: "Get", Detail: "no"} }
