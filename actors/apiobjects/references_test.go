package apiobjects_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

const (
	getData   = "get PersistentVolumeClaim default/data"
	getVolume = "get PersistentVolume pv"
)

// unbound is a claim without a volume, bound is one with it.
func unbound(name string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
}

func bound(name, volume string) *v1.PersistentVolumeClaim {
	c := unbound(name)
	c.ResourceVersion, c.Spec.VolumeName, c.Status.Phase = "2", volume, v1.ClaimBound
	return c
}

// encrypted is a volume that needs a secret of another namespace.
func encrypted() *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "pv", ResourceVersion: "1"}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{NodeStageSecretRef: &v1.SecretReference{Namespace: "storage", Name: "key"}}
	return pv
}

// TestKinds: how each kind of object is had. Claims and volumes may not be watched by a node.
func TestKinds(t *testing.T) {
	for name, c := range map[string]struct {
		uses            func(p *v1.Pod)
		watching, cache string
	}{
		"ConfigMap": {configMap("settings"), watchBegun, "apiserver: " + getBegun},
		"Secret": {func(p *v1.Pod) { p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "key"}} },
			"watch Secret default/ metadata.name=key", "apiserver: get Secret default/key"},
		"Claim": {claim("data"), "apiserver: " + getData, "apiserver: " + getData},
		"RuntimeClass": {func(p *v1.Pod) { p.Spec.RuntimeClassName = new("kata") },
			"watch RuntimeClass metadata.name=kata", "watch RuntimeClass metadata.name=kata"},
	} {
		for detection, want := range map[apiobjects.Detection]string{
			apiobjects.Watch: c.watching, apiobjects.Cache: c.cache, apiobjects.Get: c.cache,
		} {
			r := newRig(t, func(d *apiobjects.Deps) { d.Detection = detection })
			r.actor.Tell(r.need("web", c.uses))
			r.Settle()
			r.Keep("watch", "apiserver:")
			r.want(name, 0, want)
		}
	}
}

// TestClaim: a claim is read until it is bound. Then its volume is used as well, and the secrets of that.
func TestClaim(t *testing.T) {
	r := newRig(t)
	r.has["data"], r.has["pv"] = unbound("data"), encrypted()
	web := r.need("web", claim("data"))
	r.actor.Tell(web)
	r.calls.Answer(nil, getData)
	r.want("it is not bound", 0, "apiserver: "+getData, "web: data unknown", "web: data found 1")
	r.want("it is read again", base+base/10, "apiserver: "+getData)
	r.has["data"] = bound("data", "pv")
	r.calls.Answer(nil, getData)
	r.want("it is bound", 0, "apiserver: "+getVolume, "web: data found 2; pv unknown")
	r.calls.Answer(nil, getVolume)
	r.want("its volume has a secret", 0, "watch Secret storage/ metadata.name=key",
		"web: key unknown; data found 2; pv found 1")
	r.Tell(listed(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "key", UID: "key", ResourceVersion: "7"}}))
	r.want("all is known", time.Hour, "web: key found 7; data found 2; pv found 1")

	web.Known = r.known["web"]
	r.actor.Tell(web)
	r.want("the pod asks again, and nothing is new", time.Hour)
	r.actor.Tell(r.need("db", claim("data")))
	r.calls.Answer(nil, getData, getVolume)
	r.want("another pod wants the newest", soon, "apiserver: "+getData, "apiserver: "+getVolume,
		"db: key found 7; data found 2; pv found 1")
	r.actor.Tell(apiobjects.Forget{UID: "u-web"})
	r.actor.Tell(apiobjects.Forget{UID: "u-db"})
	r.Settle()
	check.Equal(t, r.ended(), 1, "the watch of the secret goes on")
}

// TestAnotherSpec: what a pod does not use any more ends, unless another pod uses it; what is new begins.
func TestAnotherSpec(t *testing.T) {
	r := newRig(t)
	r.has["data"] = bound("data", "")
	web := r.need("web", configMap("settings"), configMap("old"), claim("data"))
	r.actor.Tell(web)
	r.actor.Tell(r.need("db", configMap("settings")))
	r.calls.Answer(nil, getData)
	r.Tell(listed(made("1"))) // the newest watch is that of settings
	r.Forget()
	check.Fatal(t, check.Is(len(r.All), 2, "%d watches, want one of each ConfigMap", len(r.All)))
	next := r.need("next", configMap("new"), claim("data")).Pod
	next.UID = web.Pod.UID
	web.Pod = next
	r.actor.Tell(web)
	r.want("another spec", soon, "watch ConfigMap default/ metadata.name=new", "apiserver: "+getData, "web: new unknown; data found 2")
	for _, w := range r.All {
		check.Equal(t, w.Context.Err() != nil, (w.Selection.Field == "metadata.name=old"), "the watch %s: ended", w.Selection)
	}
	r.Tell(listed())
	r.want("the new one is not there", 0, "web: new missing; data found 2")
}

// TestAnotherSpecWaits: an object that cannot be read is not read sooner for a pod that has another spec.
func TestAnotherSpecWaits(t *testing.T) {
	r := newRig(t, cached)
	web := r.need("web")
	r.actor.Tell(web)
	r.calls.Answer(errAway, getBegun)
	r.Forget()
	web.Pod = web.Pod.DeepCopy()
	configMap("new")(web.Pod)
	r.actor.Tell(web)
	r.want("the new one alone", base-soon, "apiserver: get ConfigMap default/new", "web: new unknown; settings unknown")
	r.want("the backoff", 2*soon+base/10, "apiserver: "+getBegun)
}

// TestAsksAgain: a pod that asks again is answered, unless it knows everything.
func TestAsksAgain(t *testing.T) {
	r := newRig(t)
	web := r.need("web")
	r.actor.Tell(web)
	r.Tell(listed(made("1")))
	r.Forget()
	r.actor.Tell(web)
	r.want("it knows nothing", 0, "web: settings found 1")
	web.Known = r.known["web"]
	r.actor.Tell(web)
	r.want("it knows all", 0)
	r.Tell(port.APISet{Object: made("2")})
	r.want("a change", 0, "web: settings found 2")
	r.actor.Tell(web)
	r.want("it knows an old version", 0, "web: settings found 2")
}
