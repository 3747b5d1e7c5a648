package simapi

import (
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/troupe-dev/troupe/actors/port"
)

// kindCount is one more than the last kind: a table index.
const kindCount = int(port.PodCertificateRequestKind) + 1

// rules are the differences between kinds.
type rules struct {
	group, resource string
	// cluster: it has no namespace.
	cluster bool
	// conditional: an update needs a resourceVersion. creates: an update of a missing object
	// creates it.
	conditional, creates bool
	// status: it has a status subresource. born: a creation may set the status too.
	status, born bool
}

var kinds = [kindCount]rules{
	port.PodKind:            {resource: "pods", status: true},
	port.NodeKind:           {resource: "nodes", cluster: true, status: true, born: true},
	port.LeaseKind:          {group: "coordination.k8s.io", resource: "leases", conditional: true, creates: true},
	port.EventKind:          {resource: "events", creates: true},
	port.ConfigMapKind:      {resource: "configmaps"},
	port.SecretKind:         {resource: "secrets"},
	port.ServiceKind:        {resource: "services", status: true, creates: true},
	port.ServiceAccountKind: {resource: "serviceaccounts"},
	port.RuntimeClassKind: {group: "node.k8s.io", resource: "runtimeclasses", cluster: true,
		conditional: true, creates: true},
	port.PersistentVolumeClaimKind: {resource: "persistentvolumeclaims", status: true},
	port.PersistentVolumeKind:      {resource: "persistentvolumes", cluster: true, status: true},
	port.CSINodeKind:               {group: "storage.k8s.io", resource: "csinodes", cluster: true, conditional: true},
	port.VolumeAttachmentKind: {group: "storage.k8s.io", resource: "volumeattachments", cluster: true,
		conditional: true, status: true},
	port.CSIDriverKind:     {group: "storage.k8s.io", resource: "csidrivers", cluster: true, conditional: true},
	port.ResourceClaimKind: {group: "resource.k8s.io", resource: "resourceclaims", conditional: true, status: true},
	port.ClusterTrustBundleKind: {group: "certificates.k8s.io", resource: "clustertrustbundles", cluster: true,
		conditional: true},
	port.PodCertificateRequestKind: {group: "certificates.k8s.io", resource: "podcertificaterequests",
		conditional: true, status: true},
}

func groupResource(k port.APIKind) schema.GroupResource {
	return schema.GroupResource{Group: kinds[k].group, Resource: kinds[k].resource}
}

func groupKind(k port.APIKind) schema.GroupKind {
	return schema.GroupKind{Group: kinds[k].group, Kind: k.String()}
}

// metaOf is an object's metadata. Only the maker of the object may change it.
func metaOf(o port.APIObject) *metav1.ObjectMeta {
	return o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// empty is a new object of a kind.
func empty(k port.APIKind) port.APIObject {
	switch k {
	case port.PodKind:
		return &v1.Pod{}
	case port.NodeKind:
		return &v1.Node{}
	case port.LeaseKind:
		return &coordinationv1.Lease{}
	case port.EventKind:
		return &v1.Event{}
	case port.ConfigMapKind:
		return &v1.ConfigMap{}
	case port.SecretKind:
		return &v1.Secret{}
	case port.ServiceKind:
		return &v1.Service{}
	case port.ServiceAccountKind:
		return &v1.ServiceAccount{}
	case port.RuntimeClassKind:
		return &nodev1.RuntimeClass{}
	case port.PersistentVolumeClaimKind:
		return &v1.PersistentVolumeClaim{}
	case port.PersistentVolumeKind:
		return &v1.PersistentVolume{}
	case port.CSINodeKind:
		return &storagev1.CSINode{}
	case port.VolumeAttachmentKind:
		return &storagev1.VolumeAttachment{}
	case port.CSIDriverKind:
		return &storagev1.CSIDriver{}
	case port.ResourceClaimKind:
		return &resourcev1.ResourceClaim{}
	case port.ClusterTrustBundleKind:
		return &certificatesv1beta1.ClusterTrustBundle{}
	case port.PodCertificateRequestKind:
		return &certificatesv1beta1.PodCertificateRequest{}
	default:
		panic(fmt.Sprintf("simapi: there is no kind %d", k))
	}
}

// shallow copies the outermost struct: its fields may be set, what they point to is shared.
func shallow(o port.APIObject) port.APIObject {
	switch o := o.(type) {
	case *v1.Pod:
		return new(*o)
	case *v1.Node:
		return new(*o)
	case *coordinationv1.Lease:
		return new(*o)
	case *v1.Event:
		return new(*o)
	case *v1.ConfigMap:
		return new(*o)
	case *v1.Secret:
		return new(*o)
	case *v1.Service:
		return new(*o)
	case *v1.ServiceAccount:
		return new(*o)
	case *nodev1.RuntimeClass:
		return new(*o)
	case *v1.PersistentVolumeClaim:
		return new(*o)
	case *v1.PersistentVolume:
		return new(*o)
	case *storagev1.CSINode:
		return new(*o)
	case *storagev1.VolumeAttachment:
		return new(*o)
	case *storagev1.CSIDriver:
		return new(*o)
	case *resourcev1.ResourceClaim:
		return new(*o)
	case *certificatesv1beta1.ClusterTrustBundle:
		return new(*o)
	case *certificatesv1beta1.PodCertificateRequest:
		return new(*o)
	default:
		panic(fmt.Sprintf("simapi: a %T is no object of the API port", o))
	}
}

// untyped clears TypeMeta, as a typed client does: the Go type has the kind.
func untyped(o port.APIObject) {
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
}

// takeStatus copies the status of from, if the kind has one.
func takeStatus(to, from port.APIObject) {
	switch to := to.(type) {
	case *v1.Pod:
		to.Status = from.(*v1.Pod).Status
	case *v1.Node:
		to.Status = from.(*v1.Node).Status
	case *v1.Service:
		to.Status = from.(*v1.Service).Status
	case *v1.PersistentVolumeClaim:
		to.Status = from.(*v1.PersistentVolumeClaim).Status
	case *v1.PersistentVolume:
		to.Status = from.(*v1.PersistentVolume).Status
	case *storagev1.VolumeAttachment:
		to.Status = from.(*storagev1.VolumeAttachment).Status
	case *resourcev1.ResourceClaim:
		to.Status = from.(*resourcev1.ResourceClaim).Status
	case *certificatesv1beta1.PodCertificateRequest:
		to.Status = from.(*certificatesv1beta1.PodCertificateRequest).Status
	}
}
