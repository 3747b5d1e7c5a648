package controlplane

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

// outOfService reports whether an operator has said that a node is off, and nothing of it runs any more (KEP-2268).
func outOfService(n *v1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == v1.TaintNodeOutOfService })
}

// OutOfService taints a node, or takes the taint away: node.kubernetes.io/out-of-service:NoExecute. While the node is
// not ready, its pods go without its agent, and their volumes are detached at once.
func (cp *ControlPlane) OutOfService(node string, is bool) error {
	n, err := simapi.Object[*v1.Node](cp.api, "", node)
	if err != nil {
		return err
	}
	out := *n
	out.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t v1.Taint) bool {
		return t.Key == v1.TaintNodeOutOfService
	})
	if is {
		now := metav1.NewTime(cp.config.Clock.Now())
		out.Spec.Taints = append(out.Spec.Taints, v1.Taint{
			Key: v1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: v1.TaintEffectNoExecute, TimeAdded: &now,
		})
	}
	if _, err = cp.api.Update(&out); err != nil {
		return err
	}
	cp.evictLater(node, out.Spec.Taints)
	return nil
}

// collectOutOfService removes pods that are being deleted from a node that is out of service, as the pod garbage
// collector does every 20 s.
func (cp *ControlPlane) collectOutOfService(node string) {
	n, err := simapi.Object[*v1.Node](cp.api, "", node)
	if err != nil || nodeReady(n) {
		return
	}
	now := int64(0)
	for _, p := range cp.on(node) {
		if p.DeletionTimestamp != nil {
			_ = cp.api.Delete(port.APIDelete{Key: keyOf(p), UID: p.UID, Grace: &now}) // it is gone otherwise
		}
	}
}
