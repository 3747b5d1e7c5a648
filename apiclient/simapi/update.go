package simapi

import (
	"reflect"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/port"
)

// staleVersion is the apiserver's message for a write with an old version.
const staleVersion = "the object has been modified; please apply your changes to the latest version and try again"

// update replaces an object, except its status.
func (s *Server) update(o port.APIObject, status bool) (port.APIObject, error) {
	k := port.APIKeyOf(o)
	m := metaOf(o)
	e := s.tables[k.Kind].objects[name{k.Namespace, k.Name}]
	switch {
	case e == nil && m.UID != "" && kinds[k.Kind].creates && !status:
		return nil, conflict(k, "Precondition failed: UID in precondition: %s, UID in object meta: ", m.UID)
	case e == nil && kinds[k.Kind].creates && !status:
		fresh := shallow(o)
		metaOf(fresh).ResourceVersion = ""
		return s.create(fresh)
	case e == nil:
		return nil, notFound(k)
	case status && !kinds[k.Kind].status:
		return nil, notFound(k) // there is no such subresource
	}
	old := metaOf(e.object)
	switch {
	case m.UID != "" && m.UID != old.UID:
		return nil, conflict(k, "Precondition failed: UID in precondition: %s, UID in object meta: %s", m.UID, old.UID)
	case m.ResourceVersion == "" && kinds[k.Kind].conditional:
		return nil, invalid(k.Kind, k.Name,
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"))
	case m.ResourceVersion != "" && m.ResourceVersion != old.ResourceVersion:
		return nil, conflict(k, staleVersion)
	}
	if status {
		next := shallow(e.object)
		takeStatus(next, o)
		return s.replaceStatus(k, e, next)
	}
	next := shallow(o)
	untyped(next)
	return s.replace(k, e, next)
}

// replace makes next the newest version of an object, except for fields that a writer may not
// change. The caller owns next's outermost struct.
func (s *Server) replace(k port.APIKey, e *entry, next port.APIObject) (port.APIObject, error) {
	m, old := metaOf(next), metaOf(e.object)
	m.Namespace, m.Name, m.GenerateName = old.Namespace, old.Name, old.GenerateName
	m.UID, m.CreationTimestamp, m.ResourceVersion, m.Generation = old.UID, old.CreationTimestamp,
		old.ResourceVersion, old.Generation
	m.ManagedFields = nil
	if err := deletionChange(m, old); err != nil {
		return nil, invalid(k.Kind, k.Name, err)
	}
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = old.DeletionTimestamp, old.DeletionGracePeriodSeconds
	if kinds[k.Kind].status {
		takeStatus(next, e.object)
	}
	if err := s.mayReplace(k, e.object, next); err != nil {
		return nil, err
	}
	round(next)
	if apiequality.Semantic.DeepEqual(next, e.object) {
		return e.object, nil
	}
	share(m, old)
	return s.replaced(k, e, next), nil
}

// deletionChange validates the metadata of an update: only a delete sets the deletionTimestamp
// and grace, and an object in deletion gets no new finalizers.
func deletionChange(m, old *metav1.ObjectMeta) *field.Error {
	path := field.NewPath("metadata")
	grace := m.DeletionGracePeriodSeconds
	switch {
	case m.DeletionTimestamp != nil && old.DeletionTimestamp == nil:
		return field.Invalid(path.Child("deletionTimestamp"), m.DeletionTimestamp, "field is immutable")
	case grace != nil && (old.DeletionGracePeriodSeconds == nil || *grace != *old.DeletionGracePeriodSeconds):
		return field.Invalid(path.Child("deletionGracePeriodSeconds"), *grace, "field is immutable")
	case old.DeletionTimestamp == nil:
		return nil
	}
	for _, f := range m.Finalizers {
		if !contains(old.Finalizers, f) {
			return field.Forbidden(path.Child("finalizers"),
				"no new finalizers can be added if the object is being deleted, found new finalizers "+f)
		}
	}
	return nil
}

// replaced commits a replacement. If it removes the last finalizer of an object in deletion, it
// removes the object.
func (s *Server) replaced(k port.APIKey, e *entry, next port.APIObject) port.APIObject {
	m, old := metaOf(next), metaOf(e.object)
	over := len(m.Finalizers) == 0 && old.DeletionTimestamp != nil &&
		(old.DeletionGracePeriodSeconds == nil || *old.DeletionGracePeriodSeconds == 0)
	s.commit(s.tables[k.Kind], e.object, next, over)
	return next
}

// share restores the old maps and lists of equal metadata: a merge makes its own copies.
func share(m, old *metav1.ObjectMeta) {
	m.Labels, m.Annotations = same(old.Labels, m.Labels), same(old.Annotations, m.Annotations)
	m.OwnerReferences, m.Finalizers = same(old.OwnerReferences, m.OwnerReferences), same(old.Finalizers, m.Finalizers)
}

// mayReplace reports whether next may follow old, and completes next.
func (s *Server) mayReplace(k port.APIKey, old, next port.APIObject) error {
	switch next := next.(type) {
	case *v1.Pod:
		return s.mayReplacePod(k, old.(*v1.Pod), next)
	case *v1.ConfigMap:
		old := old.(*v1.ConfigMap)
		if is(old.Immutable) && (!is(next.Immutable) || !reflect.DeepEqual(old.Data, next.Data) ||
			!reflect.DeepEqual(old.BinaryData, next.BinaryData)) {
			return immutable(k, "data")
		}
	case *v1.Secret:
		old := old.(*v1.Secret)
		if next.Type == "" {
			next.Type = old.Type
		}
		switch {
		case next.Type != old.Type:
			return immutable(k, "type")
		case is(old.Immutable) && (!is(next.Immutable) || !reflect.DeepEqual(old.Data, next.Data)):
			return immutable(k, "data")
		}
	case *v1.Node:
		old := old.(*v1.Node)
		if old.Spec.ProviderID != "" && next.Spec.ProviderID != old.Spec.ProviderID {
			return immutable(k, "spec.providerID")
		}
	case *v1.Service:
		old := old.(*v1.Service)
		if next.Spec.ClusterIP == "" && next.Spec.Type != v1.ServiceTypeExternalName {
			next.Spec.ClusterIP, next.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
		}
		s.prepareService(next)
	case *storagev1.CSIDriver:
		if !apiequality.Semantic.DeepEqual(old.(*storagev1.CSIDriver).Spec, next.Spec) {
			next.Generation++
		}
	case *resourcev1.ResourceClaim:
		if !apiequality.Semantic.DeepEqual(old.(*resourcev1.ResourceClaim).Spec, next.Spec) {
			return immutable(k, "spec")
		}
	case *certificatesv1beta1.PodCertificateRequest:
		if !apiequality.Semantic.DeepEqual(old.(*certificatesv1beta1.PodCertificateRequest).Spec, next.Spec) {
			return immutable(k, "spec")
		}
	case *storagev1.VolumeAttachment:
		if !apiequality.Semantic.DeepEqual(old.(*storagev1.VolumeAttachment).Spec, next.Spec) {
			return immutable(k, "spec")
		}
	}
	return nil
}

func is(b *bool) bool { return b != nil && *b }

func immutable(k port.APIKey, path string) error {
	return invalid(k.Kind, k.Name, field.Forbidden(field.NewPath(path), "field is immutable"))
}

// replaceStatus makes next the newest version. next is a copy of the current one with another
// status.
func (s *Server) replaceStatus(k port.APIKey, e *entry, next port.APIObject) (port.APIObject, error) {
	round(next)
	if pod, ok := next.(*v1.Pod); ok {
		old := e.object.(*v1.Pod)
		alignPodIPs(&pod.Status)
		keepObserved(&pod.Status, &old.Status)
		if pod.Status.QOSClass == "" {
			pod.Status.QOSClass = old.Status.QOSClass
		}
		if podstatus.Equal(&pod.Status, &old.Status) {
			return old, nil
		}
		if err := mayFollow(k, old, &pod.Status); err != nil {
			return nil, err
		}
		return s.replaced(k, e, next), nil
	}
	if node, ok := next.(*v1.Node); ok {
		allocate(&node.Status)
	}
	if apiequality.Semantic.DeepEqual(next, e.object) {
		return e.object, nil
	}
	return s.replaced(k, e, next), nil
}

// patch applies the difference of two versions of an object.
func (s *Server) patch(p port.APIPatch) (port.APIObject, error) {
	k := p.Key
	e := s.tables[k.Kind].objects[name{k.Namespace, k.Name}]
	if e == nil || p.Status && !kinds[k.Kind].status {
		return nil, notFound(k)
	}
	from, to, old := metaOf(p.From), metaOf(p.To), metaOf(e.object)
	if uid := from.UID; uid != "" && uid != old.UID || to.UID != "" && to.UID != old.UID {
		return nil, conflict(k, "Precondition failed: UID in precondition: %s, UID in object meta: %s", from.UID, old.UID)
	}
	if p.Newest && from.ResourceVersion != old.ResourceVersion {
		return nil, conflict(k, staleVersion)
	}
	switch {
	case p.Status && sameStatus(p.From, e.object) && unique(p.From) && unique(p.To):
		next := shallow(e.object)
		takeStatus(next, p.To)
		return s.replaceStatus(k, e, next)
	case !p.Status && sameVersion(p.From, e.object):
		next := shallow(p.To)
		untyped(next)
		return s.replace(k, e, next)
	}
	merged, err := merge(e.object, p)
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	case merged == nil: // nothing to change
		return e.object, nil
	case p.Status:
		next := shallow(e.object)
		takeStatus(next, merged)
		return s.replaceStatus(k, e, next)
	}
	return s.replace(k, e, merged)
}

// sameStatus reports whether two versions have the same status, if that is cheap to know. The
// result of a patch is then its To.
func sameStatus(a, b port.APIObject) bool {
	if sameVersion(a, b) {
		return true
	}
	pod, ok := a.(*v1.Pod)
	return ok && podstatus.Equal(&pod.Status, &b.(*v1.Pod).Status)
}

// unique reports whether the keyed lists of a status have no key twice. Otherwise the patch is
// really merged: the apiserver keeps one of two entries by its own rules.
func unique(o port.APIObject) bool {
	switch o := o.(type) {
	case *v1.Pod:
		return noTwo(o.Status.Conditions, func(c *v1.PodCondition) string { return string(c.Type) }) &&
			noTwo(o.Status.PodIPs, func(i *v1.PodIP) string { return i.IP }) &&
			noTwo(o.Status.HostIPs, func(i *v1.HostIP) string { return i.IP })
	case *v1.Node:
		return noTwo(o.Status.Conditions, func(c *v1.NodeCondition) string { return string(c.Type) }) &&
			noTwo(o.Status.Addresses, func(a *v1.NodeAddress) string { return string(a.Type) })
	default:
		return false // too rare to list its keys here
	}
}

// noTwo is for short lists.
func noTwo[T any](list []T, key func(*T) string) bool {
	for i := range list {
		for j := range i {
			if key(&list[i]) == key(&list[j]) {
				return false
			}
		}
	}
	return true
}

// sameVersion reports whether a equals the stored object b.
func sameVersion(a, b port.APIObject) bool {
	return a == b || metaOf(a).ResourceVersion == metaOf(b).ResourceVersion
}
