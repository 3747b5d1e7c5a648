package apiobjects_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

const (
	watchRequests = "watch PodCertificateRequest spec.nodeName=n1"
	readKey       = "read u-web/v0"
	getAccount    = "get ServiceAccount default/default"
	getNode       = "get Node n1"
	newKey        = "new key ED25519"
	gateMissing   = "podCertificate projections need the feature gate PodCertificateRequest on this node"
)

var (
	account = &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default", UID: "sa1"}}
	node    = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node1"}}
)

func withCertificates(r *rig) func(d *apiobjects.Deps) {
	return func(d *apiobjects.Deps) { d.PodCertificates, d.Keys, d.Node, d.Events = true, r, "n1", r }
}

// certified makes a rig whose pods may have certificates.
func certified(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, func(d *apiobjects.Deps) { withCertificates(d.API.(*rig))(d) })
	r.has["default"], r.has["n1"] = account, node
	return r
}

func certificate(signer string) func(*v1.Pod) {
	return projected(v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{
		SignerName: signer, KeyType: "ED25519", CredentialBundlePath: "creds.pem",
	}})
}

func created(proof int) string {
	return fmt.Sprintf("create default req- of pod web u-web, account default sa1, node n1 node1, signer %s, proof p%d", mesh, proof)
}

// certificateText is the text in the first block of a chain.
func certificateText(chain []byte) string {
	b, _ := pem.Decode(chain)
	return string(b.Bytes)
}

func chainOf(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
}

// asks goes through the calls of a request.
func (r *rig) asks(proof int) {
	r.T.Helper()
	r.calls.Answer(nil, getAccount)
	r.calls.Answer(nil, getNode)
	r.calls.Answer(nil, newKey)
	r.calls.Answer(nil, created(proof))
}

// answers is a request with a condition of the signer.
func (r *rig) answers(name, condition, reason, message string) port.APISet {
	o := r.has[name].(*certificatesv1beta1.PodCertificateRequest).DeepCopy()
	o.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: message}}
	return port.APISet{Object: o}
}

// issues is a request that the signer has answered with a certificate of so much life.
func (r *rig) issues(name, text string, life time.Duration) port.APISet {
	set := r.answers(name, certificatesv1beta1.PodCertificateRequestConditionTypeIssued, "Issued", "")
	s := &set.Object.(*certificatesv1beta1.PodCertificateRequest).Status
	s.CertificateChain = "junk\n" + chainOf(text)
	s.NotBefore, s.BeginRefreshAt, s.NotAfter = new(metav1.NewTime(r.Now())), new(metav1.NewTime(r.Now().Add(life/2))), new(metav1.NewTime(r.Now().Add(life)))
	return set
}

// issued is a rig with a pod that has its first certificate, of 2 h.
func issued(t *testing.T) *rig {
	t.Helper()
	r := certified(t)
	r.actor.Tell(r.need("web", certificate(mesh)))
	r.calls.Answer(nil, readKey)
	r.asks(1)
	r.Tell(listed())
	r.want("requested", doubt, watchRequests, "apiserver: "+readKey, "web: v0 unknown", "apiserver: "+getAccount, "apiserver: "+getNode,
		"apiserver: "+newKey, "apiserver: "+created(1), "web: v0 unknown, PodCertificateRequest default/req-1 is not issued yet: waiting for the signer example.com/mesh")
	r.Tell(port.APISet{Object: r.has["req-1"]})
	r.want("pending", time.Minute)
	r.Tell(r.issues("req-1", "one", 2*time.Hour))
	r.want("issued", soon, "web: v0 found key1 one")
	return r
}

// TestCertificate: it is asked for, and again when its signer said, some minutes later at most. The pod has the old one
// until there is a new one.
func TestCertificate(t *testing.T) {
	r := issued(t)
	if got := r.retries(2 * time.Hour); got < time.Hour-time.Second || got > time.Hour+5*time.Minute {
		t.Errorf("refreshed after %v, want an hour and up to five minutes more", got)
	}
	r.asks(2)
	r.want("asked again, and no word to the pod", time.Minute, "apiserver: "+getAccount, "apiserver: "+getNode, "apiserver: "+newKey, "apiserver: "+created(2))
	r.Tell(r.issues("req-1", "stale", time.Hour)) // of the last request
	r.want("another request", soon)
	r.Tell(r.issues("req-2", "two", 2*time.Hour))
	r.want("the next", soon, "web: v0 found key2 two")
	r.actor.Tell(apiobjects.Forget{UID: "u-web"})
	r.want("nobody needs one", 100*time.Hour)
	check.Equal(t, r.ended(), 1, "the watch goes on")
}

// TestCertificateExpires: people are told, and the pod keeps it.
func TestCertificateExpires(t *testing.T) {
	r := issued(t)
	r.retries(2 * time.Hour)
	r.asks(2)
	r.Forget()
	if got := r.retries(time.Hour); got < 9*time.Minute || got > 10*time.Minute {
		t.Errorf("overdue after %v, want ten minutes", got)
	}
	r.want("overdue", soon, "event of web: CertificateOverdueForRefresh PodCertificate refresh overdue",
		"apiserver: "+getAccount) // as the watch does not show the request
	r.asks(3)
	r.Tell(port.APISet{Object: r.has["req-3"]})
	r.Forget()
	r.want("expired", 2*time.Hour, "event of web: CertificateExpired PodCertificate expired")
	r.Tell(r.issues("req-3", "three", time.Hour))
	r.want("there is another", soon, "web: v0 found key3 three")
}

// TestCertificateDenied: a signer means it for good.
func TestCertificateDenied(t *testing.T) {
	for _, c := range []struct{ condition, event, trouble string }{
		{"Denied", "event of web: Denied PodCertificateRequest default/req-1 was denied, reason=\"Policy\", message=\"not you\"",
			"web: v0 failed, PodCertificateRequest was permanently denied: reason=\"Policy\" message=\"not you\""},
		{"Failed", "event of web: Failed PodCertificateRequest default/req-1 failed, reason=\"Policy\", message=\"not you\"",
			"web: v0 failed, PodCertificateRequest failed: reason=\"Policy\" message=\"not you\""},
	} {
		r := certified(t)
		r.actor.Tell(r.need("web", certificate(mesh)))
		r.calls.Answer(nil, readKey)
		r.asks(1)
		r.Tell(listed())
		r.Advance(doubt)
		r.Forget()
		r.Tell(r.answers("req-1", c.condition, "Policy", "not you"))
		r.want(c.condition, time.Minute-soon, c.event, c.trouble)
		if c.condition == "Denied" {
			r.want("for good", 100*time.Hour)
			continue
		}
		if got := r.retries(time.Minute); got > soon {
			t.Errorf("asked %v after a minute", got)
		}
		r.asks(2)
		r.want("asked again", time.Second, "apiserver: "+getAccount, "apiserver: "+getNode, "apiserver: "+newKey, "apiserver: "+created(2),
			"web: v0 unknown, PodCertificateRequest default/req-2 is not issued yet: waiting for the signer example.com/mesh")
	}
}

// TestCertificateNotRequested: a call that fails is made again, and the pod is told after a while.
func TestCertificateNotRequested(t *testing.T) {
	r := certified(t)
	r.actor.Tell(r.need("web", certificate(mesh)))
	r.calls.Answer(nil, readKey)
	r.calls.Answer(refused(port.Forbidden), getAccount)
	r.want("forbidden at first", 0, watchRequests, "apiserver: "+readKey, "web: v0 unknown", "apiserver: "+getAccount)
	check.Equal(t, r.retries(time.Second), 25*time.Millisecond, "asked again after")
	r.Forget()
	for r.Since() < doubt {
		r.calls.Answer(errAway, getAccount)
		r.retries(time.Minute)
		r.Forget()
	}
	r.calls.Answer(errAway, getAccount)
	r.want("the reason", soon, "web: v0 failed, failed to request a certificate: connection refused")
	if n := r.Logged(`"level":"warn"`, `"pod":"default/web"`, "cannot request a certificate"); n != 1 {
		t.Errorf("warned %d times: %s", n, &r.Log)
	}
}

// TestCertificateRequestGone: somebody deleted the request, or the apiserver forgot it. Another one is made.
func TestCertificateRequestGone(t *testing.T) {
	r := certified(t)
	r.actor.Tell(r.need("web", certificate(mesh)))
	r.calls.Answer(nil, readKey)
	r.asks(1)
	r.Tell(listed())
	r.Advance(doubt)
	r.Tell(port.APISet{Object: r.has["req-1"]})
	r.Advance(time.Hour)
	r.Forget()
	r.Tell(port.APIDeleted{Object: r.has["req-1"]})
	r.want("deleted", soon, "web: v0 unknown")
	if got := r.retries(time.Minute); got < base-soon || got > base+base/10 {
		t.Errorf("asked again after %v", got)
	}
	r.asks(2)
	r.Settle()
	r.Forget()
	r.Tell(listed()) // it is not among them
	if got := r.retries(time.Hour); got < 9*time.Minute || got > 10*time.Minute {
		t.Errorf("given up after %v, want ten minutes", got)
	}
}

// TestCertificateAfterRestart: a pod keeps its certificate when this actor restarts, and one that lies in the volume when
// the agent does. The latter is replaced soon, because nobody knows when its signer wants that.
func TestCertificateAfterRestart(t *testing.T) {
	r := issued(t)
	r.actor.Crash()
	r.actor.Tell(apiobjects.Forget{UID: "stranger"})
	r.want("the crash", time.Second, "pods: repeat")
	web := r.need("again", certificate(mesh))
	web.Pod.Name, web.Pod.UID, web.Known = "web", "u-web", r.known["web"]
	r.actor.Tell(web)
	r.Settle()
	r.Tell(listed())
	r.want("it is kept, and refreshed when it is time", 50*time.Minute, watchRequests)

	for name, c := range map[string]struct {
		written *podspec.IssuedCertificate
		err     error
		want    string
	}{
		"a good one": {&podspec.IssuedCertificate{Key: podspec.NewPrivateKey([]byte("old")), Chain: []byte(chainOf("zero")), Expires: r.Now().Add(time.Hour)}, nil, "web: v0 found old zero"},
		"an old one": {&podspec.IssuedCertificate{Key: podspec.NewPrivateKey([]byte("old")), Chain: []byte(chainOf("zero")), Expires: r.Now().Add(-10000 * time.Hour)}, nil, ""},
		"a bad one":  {nil, errors.New("its certificate is for another key"), ""},
	} {
		r := certified(t)
		r.written = c.written
		r.actor.Tell(r.need("web", certificate(mesh)))
		r.calls.Answer(c.err, readKey)
		r.Settle()
		want := []string{watchRequests, "apiserver: " + readKey, "web: v0 unknown"}
		if c.want != "" {
			r.want(name, 0, append(want, c.want)...)
			check.AtMost(t, r.retries(time.Minute), 10*time.Second, "%s: the next is asked for after", name)
			r.want(name, 0, "apiserver: "+getAccount)
			continue
		}
		r.want(name, 0, append(want, "apiserver: "+getAccount)...)
	}
}

// TestNoCertificates: a node without the gate says so.
func TestNoCertificates(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.need("web", certificate(mesh)))
	r.want("without the gate", time.Hour, "web: v0 failed, "+gateMissing)
	r.actor.Tell(apiobjects.Forget{UID: "u-web"})
	r.want("forgotten", time.Hour)
}

// TestKeysAreNotLogged: nothing that the actor logs, tells people or names its effects has a key.
func TestKeysAreNotLogged(t *testing.T) {
	r := issued(t)
	r.retries(2 * time.Hour)
	r.calls.Answer(errAway, getAccount)
	r.Advance(time.Minute)
	if r.Log.Len() == 0 {
		t.Error("nothing is logged")
	}
	if text := r.Log.String(); strings.Contains(text, "key1") {
		t.Error(text)
	}
}
