package apiobjects_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestManyServices: what is heard of one service costs the same however many there are, in other namespaces, and also in
// its own if pods see nothing new.
func TestManyServices(t *testing.T) {
	renewed := func(namespace, name string, i int) port.APISet {
		return port.APISet{Object: service(namespace, name, func(s *v1.Service) { s.ResourceVersion = fmt.Sprint(i) })}
	}
	for name, change := range map[string]func(i int) port.APIChange{
		"another one of the default namespace": func(i int) port.APIChange {
			return port.APISet{Object: service("default", "web", func(s *v1.Service) { s.Spec.Ports[0].Port = int32(i + 1) })}
		},
		"the same again": func(i int) port.APIChange { return renewed("shop", fmt.Sprint("s", i), i) },
		"of a namespace without pods": func(i int) port.APIChange {
			return port.APIDeleted{Object: service("other", fmt.Sprint("s", i))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 250, func(n int) func() {
				r := withPods(t)
				all := listed(service("default", "kubernetes"))
				for i := range n {
					all.Objects = append(all.Objects, service("shop", fmt.Sprint("s", i)), service("other", fmt.Sprint("s", i)))
				}
				r.Tell(all)
				return func() {
					for i := range n {
						r.Tell(change(i))
					}
				}
			})
		})
	}
}

// slow answers one request for a token after the other, each after a while.
type slow struct {
	apiobjects.API
	rig   *rig
	ends  time.Duration
	order []string
}

// CreateToken implements apiobjects.API.
func (s *slow) CreateToken(
	ctx context.Context, _, _ string, spec authenticationv1.TokenRequestSpec, done func(authenticationv1.TokenRequestStatus, error),
) {
	s.ends = max(s.ends, s.rig.Since()) + 20*time.Millisecond
	kernel.After(ctx, s.ends-s.rig.Since(), func(err error) {
		s.order = append(s.order, spec.BoundObjectRef.Name)
		done(authenticationv1.TokenRequestStatus{Token: "t", ExpirationTimestamp: metav1.NewTime(s.rig.Now().Add(time.Hour))}, err)
	})
}

// TestTokensOfAnotherPod: a pod with hundreds of tokens keeps none from another pod.
func TestTokensOfAnotherPod(t *testing.T) {
	s := &slow{}
	s.rig = newRig(t, func(d *apiobjects.Deps) { d.API = s })
	s.rig.actor.Tell(s.rig.need("greedy", func(p *v1.Pod) {
		for i := range 500 {
			token(fmt.Sprint("a", i), 3600)(p)
		}
	}))
	s.rig.Advance(time.Second)
	s.rig.actor.Tell(s.rig.need("plain", token("", 3600)))
	before := len(s.order)
	s.rig.Advance(5 * time.Second)
	i := slices.Index(s.order, "plain")
	if i < 0 {
		t.Fatalf("the other pod has no token after %d of the first", len(s.order))
	}
	check.AtMost(t, i-before, 40, "tokens of the first pod that came before")
}

// TestManyCertificates: each certificate of a pod costs the same however many it has: to ask for it, what is heard of it,
// and when the pod goes.
func TestManyCertificates(t *testing.T) {
	linear.Held(t, 250, func(n int) func() {
		r := newRig(t, func(d *apiobjects.Deps) {
			at := atOnce{rig: d.API.(*rig)}
			d.API, d.PodCertificates, d.Keys, d.Node, d.Events, d.Counts = at, true, at, "n1", at, at
		})
		r.has["default"], r.has["n1"] = account, node
		need := r.need("web", func(p *v1.Pod) {
			var sources []v1.VolumeProjection
			for range n {
				sources = append(sources, v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{
					SignerName: mesh, KeyType: "ED25519", CredentialBundlePath: "creds.pem",
				}})
			}
			volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}})(p)
		})
		return func() {
			r.actor.Tell(need)
			r.Advance(time.Second)
			r.Tell(listed())
			for i := range n {
				r.Tell(r.issues(fmt.Sprint("req-", i+1), "one", 2*time.Hour))
			}
			r.actor.Tell(apiobjects.Forget{UID: "u-web"})
			r.Advance(time.Second)
		}
	})
}

// atOnce answers at once all that a certificate needs.
type atOnce struct{ *rig }

func (a atOnce) Get(_ context.Context, k port.APIKey, done func(port.APIObject, error)) {
	done(a.has[k.Name], nil)
}

func (a atOnce) Create(_ context.Context, o port.APIObject, done func(port.APIObject, error)) {
	stored := o.(*certificatesv1beta1.PodCertificateRequest).DeepCopy()
	a.requests++
	stored.Name = fmt.Sprint("req-", a.requests)
	a.has[stored.Name] = stored
	done(stored, nil)
}

func (a atOnce) NewPodKey(_ context.Context, _ string, done func(port.PodKey, error)) {
	done(port.PodKey{Key: podspec.NewPrivateKey([]byte("key"))}, nil)
}

func (a atOnce) WrittenCertificate(_ context.Context, _ port.CertificateFiles, done func(*podspec.IssuedCertificate, error)) {
	done(nil, nil)
}

// Certificates implements apiobjects.CertificateCounts.
func (a atOnce) Certificates(map[apiobjects.CertificateState]int) {}
