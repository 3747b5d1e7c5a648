package cluster

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestDeleteNode takes the node's object away under a running agent (kubectl delete node): it is
// registered again.
//
//tier:served
func TestDeleteNode(t *testing.T) {
	t.Parallel()
	b := started(t, "delete-node", onServed)
	old := b.node(t)
	check.Fatal(t, b.admin.CoreV1().Nodes().Delete(t.Context(), b.name, metav1.DeleteOptions{}))
	n := b.awaitNode(t, "is registered again", func(n *v1.Node) error {
		if n.UID == old.UID {
			return fmt.Errorf("it is the old one")
		}
		return usable(n)
	})
	check.Equal(t, n.Labels["test"], b.name, "labels %v", n.Labels)
	b.create(t, b.pod("web", nil))
	b.awaitPod(t, "web", "is ready", ready)
	b.await(t, "the lease is the new node's", func() error {
		l := check.Must(b.admin.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(t.Context(), b.name, metav1.GetOptions{}))
		return check.That(len(l.OwnerReferences) == 1 && l.OwnerReferences[0].UID == n.UID, "owners %v", l.OwnerReferences)
	})
}

// TestNodeEvents: what kubectl describe node shows of a node that came and was closed.
//
//tier:served
func TestNodeEvents(t *testing.T) {
	t.Parallel()
	b := started(t, "node-events", onServed)
	b.cordon(t, true)
	b.await(t, "its events are there", func() error {
		list := check.Must(b.admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Node,involvedObject.uid=" + b.name,
		}))
		reasons := map[string]bool{}
		for _, e := range list.Items {
			reasons[e.Reason] = true
		}
		for _, want := range []string{"Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady", "NodeNotSchedulable"} {
			if !reasons[want] {
				return fmt.Errorf("no %s among %v", want, reasons)
			}
		}
		return nil
	})
}

// TestNodeOfOthersDoing: what others set on the node stays, and pods are admitted by it.
//
//tier:served
func TestNodeOfOthersDoing(t *testing.T) {
	t.Parallel()
	b := started(t, "others-doing", onServed)
	nodes := b.admin.CoreV1().Nodes()
	patch := func(text string, sub ...string) {
		t.Helper()
		check.Value(nodes.Patch(t.Context(), b.name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, sub...))(t)
	}
	patch(`{"metadata":{"labels":{"disk":"fast"},"annotations":{"a":"b"}}}`)
	patch(`{"status":{"capacity":{"example.com/gpu":"2"}}}`, "status")
	patch(`{"status":{"conditions":[{"type":"ExampleTrouble","status":"True","reason":"Test","message":"a disk is slow"}]}}`, "status")
	p := b.pod("gpu", func(s *v1.PodSpec) {
		s.NodeSelector["disk"] = "fast"
	})
	b.create(t, p)
	b.awaitPod(t, "gpu", "is ready", ready)
	n := b.awaitNode(t, "shows the resource as allocatable", func(n *v1.Node) error {
		if q := n.Status.Allocatable["example.com/gpu"]; q.Value() != 2 {
			return fmt.Errorf("it shows %v", n.Status.Allocatable)
		}
		return nil
	})
	if n.Labels["disk"] != "fast" || n.Annotations["a"] != "b" || condition(n, "ExampleTrouble").Status != v1.ConditionTrue {
		t.Errorf("it shows %v, %v, %v", n.Labels, n.Annotations, n.Status.Conditions)
	}
}

// TestTaintNode evicts what does not tolerate it (NoExecute).
//
//tier:served
func TestTaintNode(t *testing.T) {
	t.Parallel()
	b := started(t, "taint-node", onServed)
	b.create(t, b.pod("stays", func(s *v1.PodSpec) {
		s.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	}))
	b.create(t, b.pod("goes", nil))
	b.awaitPod(t, "stays", "is ready", ready)
	b.awaitPod(t, "goes", "is ready", ready)
	begun := time.Now()
	patch := []byte(`{"spec":{"taints":[{"key":"down","effect":"NoExecute"}]}}`)
	check.Value(b.admin.CoreV1().Nodes().Patch(t.Context(), b.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}))(t)
	b.awaitGone(t, "goes")
	t.Logf("gone after %v", time.Since(begun))
	if p := b.get(t, "stays"); ready(p) != nil || p.DeletionTimestamp != nil {
		t.Errorf("it is %s", shown(p))
	}
}
