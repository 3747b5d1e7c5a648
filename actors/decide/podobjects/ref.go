// Package podobjects says which API objects a pod uses. A Set holds what is known about them and is
// immutable, so code that makes a container or a volume needs no other source.
package podobjects

import (
	"cmp"
	"fmt"
	"slices"
)

// Kind is a kind of object that pods use.
type Kind uint8

const (
	ConfigMap Kind = iota + 1
	Secret
	// Token is a token of a service account, bound to the pod (TokenRequest).
	Token
	// Claim is a PersistentVolumeClaim, Volume the PersistentVolume of one.
	Claim
	Volume
	// RuntimeClass says which handler of the runtime runs the pod (KEP-585).
	RuntimeClass
	// Services are all services of a namespace, and default/kubernetes.
	Services
	// TrustBundle is a ClusterTrustBundle, by name. SignerBundles are those of a signer that have labels.
	TrustBundle
	SignerBundles
	// Certificate is a certificate of the pod, with its private key (PodCertificateRequest, KEP-4317).
	Certificate
)

// String is the kind as in messages that users know.
func (k Kind) String() string {
	switch k {
	case ConfigMap:
		return "configmap"
	case Secret:
		return "secret"
	case Token:
		return "token of serviceaccount"
	case Claim:
		return "persistentvolumeclaim"
	case Volume:
		return "persistentvolume"
	case RuntimeClass:
		return "runtimeclass.node.k8s.io"
	case Services:
		return "services"
	case TrustBundle:
		return "clustertrustbundle"
	case SignerBundles:
		return "clustertrustbundles of signer"
	case Certificate:
		return "pod certificate of volume"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Ref names an object that a pod uses.
type Ref struct {
	Kind Kind
	// Source is which source of its projected volume a Certificate is for.
	Source int32
	// Namespace is empty for a Volume, a RuntimeClass and bundles. Name is that of the service account for a
	// Token, of the signer for SignerBundles, of the volume for a Certificate, empty for Services.
	Namespace, Name string
	// Audience and ExpirationSeconds are for a Token only
	// (core/v1 ServiceAccountTokenProjection).
	Audience          string
	ExpirationSeconds int64
	// Selector is a label selector, for SignerBundles only.
	Selector string
}

// Compare orders refs.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Kind, o.Kind), cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.Name, o.Name),
		cmp.Compare(r.Audience, o.Audience), cmp.Compare(r.ExpirationSeconds, o.ExpirationSeconds),
		cmp.Compare(r.Selector, o.Selector), cmp.Compare(r.Source, o.Source))
}

// String is kind namespace/name, without the parts that are empty.
func (r Ref) String() string {
	switch {
	case r.Kind == Certificate:
		return fmt.Sprintf("%s %s/%s, source %d", r.Kind, r.Namespace, r.Name, r.Source)
	case r.Selector != "":
		return r.Kind.String() + " " + r.Name + " with labels " + r.Selector
	case r.Name == "":
		return r.Kind.String() + " of " + r.Namespace
	case r.Namespace == "":
		return r.Kind.String() + " " + r.Name
	default:
		return r.Kind.String() + " " + r.Namespace + "/" + r.Name
	}
}

// sorted sorts refs and removes duplicates.
func sorted(refs []Ref) []Ref {
	slices.SortFunc(refs, Ref.Compare)
	return slices.Compact(refs)
}
