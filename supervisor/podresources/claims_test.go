package podresources

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestDynamic: a container has the devices of the requests that it names, of claims that its pod uses.
func TestDynamic(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p-1"}}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("c")}}
	p.Spec.Containers = []v1.Container{{Name: "app"}}
	app := &p.Spec.Containers[0]
	app.Resources.Claims = []v1.ResourceClaim{{Name: "gpu", Request: "one"}}
	claim := claims.Claim{
		Namespace: "ns", Name: "c", Pods: []types.UID{"p-1"}, Drivers: map[string][]claims.Device{"d": {
			{Pool: "n", Name: "a", Share: "s", Requests: []string{"one"}, CDI: []string{"v/c=a", "v/c=x"}},
			{Pool: "n", Name: "b", Requests: []string{"two"}},
		}},
	}
	got := dynamic(p, app, claims.Names(p), []claims.Claim{claim})
	if len(got) != 1 || got[0].GetClaimName() != "c" || got[0].GetClaimNamespace() != "ns" ||
		len(got[0].GetClaimResources()) != 1 {
		t.Fatalf("%v", got)
	}
	r := got[0].GetClaimResources()[0]
	text := fmt.Sprintf("%s %s %s %s", r.GetDriverName(), r.GetPoolName(), r.GetDeviceName(), r.GetShareId())
	if text != "d n a s" || len(r.GetCdiDevices()) != 2 || r.GetCdiDevices()[1].GetName() != "v/c=x" {
		t.Errorf("%s, %v", text, r)
	}
	claim.Pods = []types.UID{"p-2"}
	check.None(t, dynamic(p, app, claims.Names(p), []claims.Claim{claim}), "of another pod")
}
