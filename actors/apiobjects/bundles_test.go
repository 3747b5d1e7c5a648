package apiobjects_test

import (
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

const (
	mesh         = "example.com/mesh"
	watchBundles = "watch ClusterTrustBundle"
)

func withBundles(d *apiobjects.Deps) { d.TrustBundles = true }

func bundle(name, signer, version string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: version, Labels: map[string]string{"l": name}},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer},
	}
}

func projected(p v1.VolumeProjection) func(*v1.Pod) {
	return volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{p}}})
}

func bundleByName(name string) func(*v1.Pod) {
	return projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &name}})
}

func bundlesBySigner(labels map[string]string) func(*v1.Pod) {
	return projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{
		SignerName: new(mesh), LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
	}})
}

// TestBundles: one watch for all pods, from the first that uses a bundle to the last. A pod is told only of those that
// it uses.
func TestBundles(t *testing.T) {
	r := newRig(t, withBundles)
	r.actor.Tell(r.need("web", bundleByName("ca")))
	r.want("the first", 0, watchBundles, "web: ca unknown")
	r.actor.Tell(r.need("db", bundlesBySigner(nil)))
	r.actor.Tell(r.need("one", bundlesBySigner(map[string]string{"l": "m1"})))
	r.want("others", 0, "db: example.com/mesh unknown", "one: example.com/mesh unknown")
	r.Tell(listed(bundle("m2", mesh, "1"), bundle("m1", mesh, "1"), bundle("other", "", "1")))
	r.want("the list", soon, "db: example.com/mesh found m1@1 m2@1", "one: example.com/mesh found m1@1", "web: ca missing")
	r.Tell(port.APISet{Object: bundle("ca", "", "2")})
	r.want("it appears", soon, "web: ca found ca@2")
	r.Tell(port.APISet{Object: bundle("m2", mesh, "3")})
	r.want("a change", soon, "db: example.com/mesh found m1@1 m2@3")
	r.Tell(port.APIBroken{Err: errAway})
	r.want("what was found stays known", time.Minute)
	r.Tell(port.APIDeleted{Object: bundle("m1", mesh, "1")})
	r.want("it is gone", soon, "db: example.com/mesh found m2@3", "one: example.com/mesh missing")
	r.actor.Tell(apiobjects.Forget{UID: "u-web"})
	r.actor.Tell(apiobjects.Forget{UID: "u-db"})
	r.Settle()
	check.Equal(t, r.ended(), 0, "the watch has ended with a pod that uses it")
	r.actor.Tell(apiobjects.Forget{UID: "u-one"})
	r.Settle()
	check.Equal(t, r.ended(), 1, "the watch goes on")
	r.Tell(listed(bundle("ca", "", "9")))
	r.want("late", time.Hour)
	r.actor.Tell(r.need("late", bundleByName("ca")))
	r.want("it is watched again, and nothing is known", soon, watchBundles, "late: ca unknown")
}

// TestNoBundles: why there are none is told in words.
func TestNoBundles(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.need("web", bundleByName("ca")))
	r.want("without the gate", time.Hour, "web: ca failed, clusterTrustBundle projections need the feature gate ClusterTrustBundleProjection on this node")
	r = newRig(t, withBundles)
	r.actor.Tell(r.need("web", bundleByName("ca")))
	r.Tell(port.APIBroken{Err: &port.Error{Kind: port.NotFound, Verb: "watch", Object: "ClusterTrustBundle", Detail: "the server could not find the requested resource"}})
	r.want("an apiserver without them", soon, watchBundles, "web: ca unknown", "web: ca failed, the apiserver does not serve ClusterTrustBundles in certificates.k8s.io/v1beta1: "+
		"watch ClusterTrustBundle: not found: the server could not find the requested resource")
	r.Tell(port.APIBroken{Err: errAway})
	r.want("another reason", soon, "web: ca failed, cannot read ClusterTrustBundles: connection refused")
	r.Tell(listed(bundle("ca", "", "1")))
	r.want("they are served", soon, "web: ca found ca@1")
}

// TestSilentBundles: a watch that says nothing, or ends, is replaced.
func TestSilentBundles(t *testing.T) {
	r := newRig(t, withBundles)
	r.actor.Tell(r.need("web", bundleByName("ca")))
	r.want("two watches", patience+soon, watchBundles, watchBundles, "web: ca unknown")
	r.All[0].Change(listed(bundle("ca", "", "1")))
	r.want("late", 2*base)
	r.Newest().Ended(errAway)
	r.want("a third", soon, watchBundles)
	r.Tell(listed(bundle("ca", "", "1")))
	r.want("told", time.Hour, "web: ca found ca@1")
}
