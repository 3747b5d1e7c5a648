// Package podobjects says which objects of the API a pod uses, and holds what is
// known of them: a Set, which never changes once it is made. Whoever makes a
// container or a volume is given one, and needs to ask nobody.
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
)

// String is the kind as it stands in messages that users know.
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
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}

// Ref names what a pod uses.
type Ref struct {
	Kind Kind
	// Namespace is empty for a Volume and a RuntimeClass. Name is that of the service account for a
	// Token, empty for Services.
	Namespace, Name string
	// Audience and ExpirationSeconds are of a Token only
	// (core/v1 ServiceAccountTokenProjection).
	Audience          string
	ExpirationSeconds int64
}

// Compare orders refs.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Kind, o.Kind), cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.Name, o.Name),
		cmp.Compare(r.Audience, o.Audience), cmp.Compare(r.ExpirationSeconds, o.ExpirationSeconds))
}

// String is kind namespace/name, or what of it there is.
func (r Ref) String() string {
	switch {
	case r.Name == "":
		return r.Kind.String() + " of " + r.Namespace
	case r.Namespace == "":
		return r.Kind.String() + " " + r.Name
	default:
		return r.Kind.String() + " " + r.Namespace + "/" + r.Name
	}
}

// sorted sorts refs and leaves each only once.
func sorted(refs []Ref) []Ref {
	slices.SortFunc(refs, Ref.Compare)
	return slices.Compact(refs)
}
