package simapi

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/troupe-dev/troupe/actors/port"
)

// merge applies a patch to an object as the apiserver does: what differs between
// From and To becomes a strategic merge patch, which is applied to what is
// there. It gives nil if nothing differs. This is the slow way, over JSON; what
// comes out of it shares with the object what it did not change.
func merge(object port.APIObject, p port.APIPatch) (port.APIObject, error) {
	kind := empty(p.Key.Kind)
	from, err := json.Marshal(patched(p.From, p))
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	to, err := json.Marshal(patched(p.To, p))
	if err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(from, to, kind)
	if err != nil {
		return nil, err
	}
	if string(patch) == "{}" {
		return nil, nil
	}
	is, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(is, patch, kind)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(merged, kind); err != nil {
		return nil, err
	}
	if pod, ok := kind.(*v1.Pod); ok {
		old := object.(*v1.Pod)
		pod.Spec, pod.Status = same(old.Spec, pod.Spec), same(old.Status, pod.Status)
	}
	return kind, nil
}

// patched is of an object what a patch is about: its status, or all but that.
// What is the apiserver's alone is left out of both versions.
func patched(o port.APIObject, p port.APIPatch) port.APIObject {
	if p.Status {
		only := empty(p.Key.Kind)
		takeStatus(only, o)
		return only
	}
	rest := shallow(o)
	untyped(rest)
	takeStatus(rest, empty(p.Key.Kind))
	m := metaOf(rest)
	m.UID, m.ResourceVersion, m.Generation, m.ManagedFields = "", "", 0, nil
	m.CreationTimestamp = metav1.Time{}
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = nil, nil
	return rest
}
