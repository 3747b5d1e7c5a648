package port

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// API is the apiserver. The calling convention is Runtime's.
//
// Objects that come through it are shared: neither callers nor the port ever change them. All
// errors are *Error. Errors of writes are the apiserver's own answers if they are NotFound,
// AlreadyExists, Conflict, Forbidden, Unauthorized or Invalid. TooManyRequests asks to try again
// later.
type API interface {
	// Watch reports all objects of a selection until ctx ends: first Replaced, then every change. The
	// first list is no older than the call: a pod that was deleted before an agent began must not be
	// started again because an apiserver is behind (kubernetes/kubernetes#59848). The watch continues
	// by itself when the connection breaks. Then, or at any other time, it may start over with
	// Replaced. It may lag behind, and skip superseded versions. The versions of one object never go
	// back, unless the apiserver's own did (its store was restored from a backup). change is called by
	// one goroutine at a time. done is called once, when ctx has ended.
	Watch(ctx context.Context, s Selection, change func(APIChange), done func(error))

	// Get reads the newest version of an object.
	Get(ctx context.Context, k APIKey, done func(APIObject, error))
	// Create returns the object as it was stored.
	Create(ctx context.Context, o APIObject, done func(APIObject, error))
	// Update replaces an object. It fails with Conflict if the object has a resourceVersion that isn't
	// the newest.
	Update(ctx context.Context, o APIObject, done func(APIObject, error))
	// Patch writes the difference between two versions of an object, and keeps other changes made
	// meanwhile (strategic merge patch). It fails with Conflict if the object has another UID by now.
	// If nothing differs, it returns the apiserver's version.
	Patch(ctx context.Context, p APIPatch, done func(APIObject, error))
	// Delete begins the deletion of an object, or completes it: a pod with a grace period of 0 is gone
	// when done is called. If the object does not exist it fails with NotFound, if the UID differs
	// with Conflict.
	Delete(ctx context.Context, d APIDelete, done func(error))
	// CreateToken asks for a token of a service account (TokenRequest).
	CreateToken(ctx context.Context, namespace, serviceAccount string, spec authenticationv1.TokenRequestSpec,
		done func(authenticationv1.TokenRequestStatus, error))
}

// APIObject is an object of the API, by pointer: *v1.Pod, *v1.Node, …
type APIObject interface {
	metav1.Object
	runtime.Object
}

// APIKind is a kind of object that a node uses.
type APIKind uint8

const (
	PodKind APIKind = iota + 1
	NodeKind
	LeaseKind
	EventKind
	ConfigMapKind
	SecretKind
	ServiceKind
	ServiceAccountKind
	RuntimeClassKind
	PersistentVolumeClaimKind
	PersistentVolumeKind
	CSINodeKind
	VolumeAttachmentKind
	CSIDriverKind
	ResourceClaimKind
	ClusterTrustBundleKind
	PodCertificateRequestKind
)

var apiKinds = [...]string{
	"invalid", "Pod", "Node", "Lease", "Event", "ConfigMap", "Secret", "Service", "ServiceAccount", "RuntimeClass",
	"PersistentVolumeClaim", "PersistentVolume", "CSINode", "VolumeAttachment", "CSIDriver",
	"ResourceClaim", "ClusterTrustBundle", "PodCertificateRequest",
}

// String is the kind's name in the API.
func (k APIKind) String() string {
	if int(k) < len(apiKinds) {
		return apiKinds[k]
	}
	return apiKinds[0]
}

// APIKindOf is the kind of an object. It panics for a kind that no node uses, which is a
// programming error.
func APIKindOf(o APIObject) APIKind {
	switch o.(type) {
	case *v1.Pod:
		return PodKind
	case *v1.Node:
		return NodeKind
	case *coordinationv1.Lease:
		return LeaseKind
	case *v1.Event:
		return EventKind
	case *v1.ConfigMap:
		return ConfigMapKind
	case *v1.Secret:
		return SecretKind
	case *v1.Service:
		return ServiceKind
	case *v1.ServiceAccount:
		return ServiceAccountKind
	case *nodev1.RuntimeClass:
		return RuntimeClassKind
	case *v1.PersistentVolumeClaim:
		return PersistentVolumeClaimKind
	case *v1.PersistentVolume:
		return PersistentVolumeKind
	case *storagev1.CSINode:
		return CSINodeKind
	case *storagev1.VolumeAttachment:
		return VolumeAttachmentKind
	case *storagev1.CSIDriver:
		return CSIDriverKind
	case *resourcev1.ResourceClaim:
		return ResourceClaimKind
	case *certificatesv1beta1.ClusterTrustBundle:
		return ClusterTrustBundleKind
	case *certificatesv1beta1.PodCertificateRequest:
		return PodCertificateRequestKind
	default:
		panic(fmt.Sprintf("port: a %T is no object of the API port", o))
	}
}

// APIKeyOf names an object.
func APIKeyOf(o APIObject) APIKey {
	return APIKey{Kind: APIKindOf(o), Namespace: o.GetNamespace(), Name: o.GetName()}
}

// APIKey names an object. Namespace is empty for kinds without one.
type APIKey struct {
	Kind            APIKind
	Namespace, Name string
}

// String is kind namespace/name, without the parts that are empty: an object that the apiserver
// will name has no name yet.
func (k APIKey) String() string {
	switch {
	case k.Name == "" && k.Namespace == "":
		return k.Kind.String()
	case k.Name == "":
		return k.Kind.String() + " " + k.Namespace + "/"
	case k.Namespace == "":
		return k.Kind.String() + " " + k.Name
	default:
		return k.Kind.String() + " " + k.Namespace + "/" + k.Name
	}
}

// Selection is the scope of a watch: all objects of a kind, in Namespace and matching Field if
// these aren't empty. Field is a field selector of the API, such as spec.nodeName=n1 or
// metadata.name=web.
type Selection struct {
	Kind      APIKind
	Namespace string
	Field     string
}

// String is kind namespace/ field, without the parts that are empty.
func (s Selection) String() string {
	what := APIKey{Kind: s.Kind, Namespace: s.Namespace}.String()
	if s.Field != "" {
		what += " " + s.Field
	}
	return what
}

// APIChange is an event of a watch: APIReplaced, APISet, APIDeleted, APIBroken.
//
//sumtype:decl
type APIChange interface{ isAPIChange() }

// APIReplaced holds all objects. Earlier objects that aren't in it are gone.
type APIReplaced struct{ Objects []APIObject }

// APISet is a new object, or a newer version of one.
type APISet struct{ Object APIObject }

// APIDeleted says that an object is gone. Object is its last known version.
type APIDeleted struct{ Object APIObject }

// APIBroken says that the apiserver can't be reached. Known objects stay valid, and the watch
// continues by itself. It is sent once each time the connection breaks, and again when the reason
// changes.
type APIBroken struct{ Err error }

func (APIReplaced) isAPIChange() {}
func (APISet) isAPIChange()      {}
func (APIDeleted) isAPIChange()  {}
func (APIBroken) isAPIChange()   {}

// APIPatch turns From into To, which have the same key and UID. With Status it writes only the
// status, otherwise everything else. With Newest it fails with Conflict unless From is the newest
// version of the object.
type APIPatch struct {
	Key      APIKey
	From, To APIObject
	Status   bool
	Newest   bool
}

// APIDelete names the object to delete.
type APIDelete struct {
	Key APIKey
	// UID is a precondition, if not empty.
	UID types.UID
	// Grace is in seconds; nil for the object's own.
	Grace *int64
}
