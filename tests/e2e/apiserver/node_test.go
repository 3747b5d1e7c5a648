package apiserver

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const nodeName = "n1"

func nodeClient(t *testing.T) *kube.Client {
	return client(t, as(t, lab.Identity{User: "system:node:" + nodeName, Groups: []string{"system:nodes"}}), zerolog.Nop())
}

func node(name string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Capacity: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}},
	}
}

// TestNodeItself is a node that registers, reports on itself and stays alive.
//
//tier:served
func TestNodeItself(t *testing.T) {
	noLeaks(t)
	a, n := admin(t), nodeClient(t)
	_, err := get(t, n, port.APIKey{Kind: port.NodeKind, Name: nodeName})
	wantKind(t, "get the node before it is there", err, port.NotFound)
	w := follow(t, n, port.Selection{Kind: port.NodeKind, Field: "metadata.name=" + nodeName})
	w.until("the first list", time.Minute, isReplaced)
	mine := made(t, n, node(nodeName))
	w.until("the node", time.Minute, shows(nodeName, v1.LabelHostname, nodeName))
	_, err = create(t, n, node("n2"))
	wantKind(t, "create another node", err, port.Forbidden)

	ready := mine.DeepCopy()
	ready.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Test"}}
	got, err := patch(t, n, port.APIPatch{From: mine, To: ready, Status: true})
	if err != nil || len(got.(*v1.Node).Status.Conditions) != 1 {
		t.Errorf("report on itself: %v, %v", got, err)
	}
	if _, err := patch(t, n, port.APIPatch{From: mine, To: labelled(mine, "example.test/rack", "7")}); err != nil {
		t.Errorf("label itself: %v", err)
	}
	_, err = patch(t, n, port.APIPatch{From: mine, To: labelled(mine, "node-restriction.kubernetes.io/zone", "x")})
	wantKind(t, "give itself a label that is the administrator's", err, port.Forbidden)
	made(t, a, node("n2"))
	other := check.Value(get(t, a, port.APIKey{Kind: port.NodeKind, Name: "n2"}))(t)
	down := other.DeepCopyObject().(*v1.Node)
	down.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionFalse, Reason: "Test"}}
	_, err = patch(t, n, port.APIPatch{From: other, To: down, Status: true})
	wantKind(t, "report on another node", err, port.Forbidden)

	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NowMicro())},
		}
	}
	first := made(t, n, lease(nodeName))
	next := first.DeepCopy()
	next.Spec.RenewTime = new(metav1.NowMicro())
	if _, err := wait(t, func(done func(port.APIObject, error)) { n.Update(t.Context(), next, done) }); err != nil {
		t.Errorf("renew the lease: %v", err)
	}
	_, err = create(t, n, lease("n2"))
	wantKind(t, "make another node's lease", err, port.Forbidden)
	made(t, n, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
}

// TestNodePods is a node and its pods, and not those of others.
//
//tier:served
func TestNodePods(t *testing.T) {
	noLeaks(t)
	a, n := admin(t), nodeClient(t)
	made(t, a, node(nodeName))
	w := follow(t, n, port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + nodeName})
	w.until("the first list", time.Minute, isReplaced)
	mine, other := made(t, a, pod("mine", nodeName)), made(t, a, pod("other", "n2"))
	w.until("the pod", time.Minute, shows("mine", "", ""))

	running := mine.DeepCopy()
	running.Status.Phase = v1.PodRunning
	got, err := patch(t, n, port.APIPatch{From: mine, To: running, Status: true})
	if err != nil || got.(*v1.Pod).Status.Phase != v1.PodRunning {
		t.Errorf("report on its pod: %v, %v", got, err)
	}
	failed := other.DeepCopy()
	failed.Status.Phase = v1.PodFailed
	_, err = patch(t, n, port.APIPatch{From: other, To: failed, Status: true})
	wantKind(t, "report on another's pod", err, port.Forbidden)
	wantKind(t, "delete another's pod", remove(t, n, other), port.Forbidden)
	_, err = patch(t, n, port.APIPatch{From: mine, To: labelled(mine, "a", "1")})
	wantKind(t, "label its pod", err, port.Forbidden)
	_, err = create(t, n, pod("new", nodeName))
	wantKind(t, "make a pod that mirrors nothing", err, port.Forbidden)
	mirror := pod("mirror-"+nodeName, nodeName)
	mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
	registered := check.Value(get(t, n, port.APIKey{Kind: port.NodeKind, Name: nodeName}))(t)
	mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: nodeName, UID: registered.GetUID(), Controller: new(true)}}
	made(t, n, mirror)
	if _, err := create(t, n, &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "mine."}, Reason: "Started", Message: "started", Type: v1.EventTypeNormal,
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "mine", UID: mine.UID},
	}); err != nil {
		t.Errorf("record an event: %v", err)
	}
	if err := remove(t, n, mine); err != nil {
		t.Errorf("end the deletion of its pod: %v", err)
	}
	w.until("the end of the pod", time.Minute, func(c port.APIChange) bool {
		d, ok := c.(port.APIDeleted)
		return ok && d.Object.GetName() == "mine"
	})
	wantKind(t, "delete it again", remove(t, n, mine), port.NotFound)

	all := follow(t, n, port.Selection{Kind: port.PodKind, Field: "spec.nodeName=n2"})
	broken := all.until("that it may not", time.Minute, isBroken).(port.APIBroken)
	wantKind(t, "watch another's pods", broken.Err, port.Forbidden)
}

// TestNodeConfiguration: a node reads what its pods name, while they do.
//
//tier:served
func TestNodeConfiguration(t *testing.T) {
	noLeaks(t)
	a, n := admin(t), nodeClient(t)
	made(t, a, node(nodeName))
	account := made(t, a, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"}})
	for _, name := range []string{"used", "unused"} {
		made(t, a, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"k": []byte("v")}})
		made(t, a, configMap(name, map[string]string{"k": "v"}))
	}
	user := pod("user", nodeName)
	user.Spec.ServiceAccountName = account.Name
	user.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{
		{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "used"}}},
		{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "used"}}},
	}
	user.Spec.Volumes = []v1.Volume{{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
		Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}}},
	}}}}
	user = made(t, a, user)

	for _, kind := range []port.APIKind{port.SecretKind, port.ConfigMapKind} {
		used := port.APIKey{Kind: kind, Namespace: "default", Name: "used"}
		// The authorizer hears of a pod a moment after us.
		eventually(t, "read the "+kind.String()+" of its pod", func() error { _, err := get(t, n, used); return err })
		_, err := get(t, n, port.APIKey{Kind: kind, Namespace: "default", Name: "unused"})
		wantKind(t, "read a "+kind.String()+" that no pod of its names", err, port.Forbidden)
		w := follow(t, n, port.Selection{Kind: kind, Namespace: "default", Field: "metadata.name=used"})
		w.until("the "+kind.String(), time.Minute, shows("used", "", ""))
	}
	token := func(p *v1.Pod, audience string) (authenticationv1.TokenRequestStatus, error) {
		return wait(t, func(done func(authenticationv1.TokenRequestStatus, error)) {
			n.CreateToken(t.Context(), "default", account.Name, authenticationv1.TokenRequestSpec{
				ExpirationSeconds: new(int64(3600)), Audiences: []string{audience},
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
			}, done)
		})
	}
	if got, err := token(user, "vault"); err != nil || got.Token == "" {
		t.Errorf("a token for its pod: %v", err)
	}
	_, err := token(user, "bank")
	wantKind(t, "a token for somebody whom the pod does not name", err, port.Forbidden)
	stranger := pod("stranger", "n2")
	stranger.Spec.ServiceAccountName = account.Name
	stranger = made(t, a, stranger)
	// The apiserver may read the pod a moment after us, too.
	eventually(t, "be refused a token for another's pod", func() error {
		if _, err = token(stranger, "vault"); port.KindOf(err) == port.NotFound {
			return err
		}
		return nil
	})
	wantKind(t, "a token for another's pod", err, port.Forbidden)
}

// eventually tries until it works.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	check.Error(t, lab.Eventually(context.Background(), 20*time.Second, what, try))
}
