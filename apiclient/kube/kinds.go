package kube

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/troupe-dev/troupe/actors/port"
)

// kind describes the API of one kind of object.
type kind struct {
	group      schema.GroupVersion
	resource   string
	namespaced bool
	// lane is the rate limit that its requests count against.
	lane lane
	// object and list make empty ones.
	object func() port.APIObject
	list   func() runtime.Object
}

// lane is a separate rate limit.
type lane uint8

const (
	// ordinary is bounded by Config.QPS.
	ordinary lane = iota
	// heartbeat is not limited: if a lease waited behind pod statuses, a busy node would be
	// considered dead.
	heartbeat
	// events is bounded by Config.EventQPS.
	events
	// others is limited by Config.QPS too, but separately: a client of the node does not wait
	// until the node has written its pod statuses.
	others
	// storage is limited by Config.QPS too, but separately: a hundred pods with a claim each ask for three objects
	// each at once, and the statuses of pods do not wait behind that.
	storage
	// strangers is for reviews of clients that nobody has let in yet, apart from all else: any client that reaches the
	// node's port can cause one.
	strangers
)

func kindOf[T any, P interface {
	*T
	port.APIObject
}, L any, LP interface {
	*L
	runtime.Object
}](group schema.GroupVersion, resource string, namespaced bool, lane lane) kind {
	return kind{
		group: group, resource: resource, namespaced: namespaced, lane: lane,
		object: func() port.APIObject { return P(new(T)) },
		list:   func() runtime.Object { return LP(new(L)) },
	}
}

// kinds are all kinds of the port, by port.APIKind.
var kinds = map[port.APIKind]kind{
	port.PodKind: kindOf[v1.Pod, *v1.Pod, v1.PodList](v1.SchemeGroupVersion, "pods", true, ordinary),
	port.NodeKind: kindOf[v1.Node, *v1.Node, v1.NodeList](v1.SchemeGroupVersion,
		"nodes", false, heartbeat),
	port.LeaseKind: kindOf[coordinationv1.Lease, *coordinationv1.Lease,
		coordinationv1.LeaseList](coordinationv1.SchemeGroupVersion, "leases", true, heartbeat),
	port.EventKind: kindOf[v1.Event, *v1.Event, v1.EventList](v1.SchemeGroupVersion,
		"events", true, events),
	port.ConfigMapKind: kindOf[v1.ConfigMap, *v1.ConfigMap, v1.ConfigMapList](v1.SchemeGroupVersion,
		"configmaps", true, ordinary),
	port.SecretKind: kindOf[v1.Secret, *v1.Secret, v1.SecretList](v1.SchemeGroupVersion,
		"secrets", true, ordinary),
	port.ServiceKind: kindOf[v1.Service, *v1.Service, v1.ServiceList](v1.SchemeGroupVersion,
		"services", true, ordinary),
	port.ServiceAccountKind: kindOf[v1.ServiceAccount, *v1.ServiceAccount,
		v1.ServiceAccountList](v1.SchemeGroupVersion, "serviceaccounts", true, ordinary),
	port.RuntimeClassKind: kindOf[nodev1.RuntimeClass, *nodev1.RuntimeClass,
		nodev1.RuntimeClassList](nodev1.SchemeGroupVersion, "runtimeclasses", false, ordinary),
	port.PersistentVolumeClaimKind: kindOf[v1.PersistentVolumeClaim, *v1.PersistentVolumeClaim,
		v1.PersistentVolumeClaimList](v1.SchemeGroupVersion, "persistentvolumeclaims", true, storage),
	port.PersistentVolumeKind: kindOf[v1.PersistentVolume, *v1.PersistentVolume,
		v1.PersistentVolumeList](v1.SchemeGroupVersion, "persistentvolumes", false, storage),
	port.CSINodeKind: kindOf[storagev1.CSINode, *storagev1.CSINode,
		storagev1.CSINodeList](storagev1.SchemeGroupVersion, "csinodes", false, ordinary),
	port.VolumeAttachmentKind: kindOf[storagev1.VolumeAttachment, *storagev1.VolumeAttachment,
		storagev1.VolumeAttachmentList](storagev1.SchemeGroupVersion, "volumeattachments", false, storage),
	port.CSIDriverKind: kindOf[storagev1.CSIDriver, *storagev1.CSIDriver,
		storagev1.CSIDriverList](storagev1.SchemeGroupVersion, "csidrivers", false, ordinary),
	port.ResourceClaimKind: kindOf[resourcev1.ResourceClaim, *resourcev1.ResourceClaim,
		resourcev1.ResourceClaimList](resourcev1.SchemeGroupVersion, "resourceclaims", true, ordinary),
	port.ClusterTrustBundleKind: kindOf[certificatesv1beta1.ClusterTrustBundle, *certificatesv1beta1.ClusterTrustBundle,
		certificatesv1beta1.ClusterTrustBundleList](certificatesv1beta1.SchemeGroupVersion, "clustertrustbundles", false,
		ordinary),
	port.PodCertificateRequestKind: kindOf[certificatesv1beta1.PodCertificateRequest,
		*certificatesv1beta1.PodCertificateRequest, certificatesv1beta1.PodCertificateRequestList](
		certificatesv1beta1.SchemeGroupVersion, "podcertificaterequests", true, ordinary),
}

// newScheme has only the groups of these kinds. client-go's own scheme has every type of
// Kubernetes, which costs memory and startup time.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1.AddToScheme, coordinationv1.AddToScheme, nodev1.AddToScheme, storagev1.AddToScheme, resourcev1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, certificatesv1.AddToScheme,
		certificatesv1beta1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}
