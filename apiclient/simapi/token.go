package simapi

import (
	"fmt"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/port"
)

// The limits of a token's lifetime, in seconds, and the default.
const (
	minTokenLife     = 10 * 60
	maxTokenLife     = 1 << 32
	defaultTokenLife = 60 * 60
)

// token makes a token of a service account. It names the account, and has no signature because it
// is never verified.
func (s *Server) token(
	namespace, account string, spec authenticationv1.TokenRequestSpec,
) (authenticationv1.TokenRequestStatus, error) {
	var none authenticationv1.TokenRequestStatus
	k := port.APIKey{Kind: port.ServiceAccountKind, Namespace: namespace, Name: account}
	if s.tables[k.Kind].objects[name{namespace, account}] == nil {
		return none, notFound(k)
	}
	life := int64(defaultTokenLife)
	if spec.ExpirationSeconds != nil {
		life = *spec.ExpirationSeconds
	}
	path := field.NewPath("spec", "expirationSeconds")
	switch request := (schema.GroupKind{Group: authenticationv1.GroupName, Kind: "TokenRequest"}); {
	case life < minTokenLife:
		return none, apierrors.NewInvalid(request, "",
			field.ErrorList{field.Invalid(path, life, "may not specify a duration less than 10 minutes")})
	case life > maxTokenLife:
		return none, apierrors.NewInvalid(request, "", field.ErrorList{field.TooLong(path, life, maxTokenLife)})
	}
	if ref := spec.BoundObjectRef; ref != nil {
		if err := s.mayBind(namespace, account, ref); err != nil {
			return none, err
		}
	}
	s.tokenNo++
	return authenticationv1.TokenRequestStatus{
		Token: fmt.Sprintf("sim.%s.%s.%s.%016x", namespace, account,
			strconv.FormatUint(s.tokenNo, 10), s.tokens.Uint64()),
		ExpirationTimestamp: metav1.NewTime(s.seconds().Add(time.Duration(life) * time.Second)),
	}, nil
}

// mayBind reports whether a token may be bound to an object.
func (s *Server) mayBind(namespace, account string, ref *authenticationv1.BoundObjectReference) error {
	k := port.APIKey{Namespace: namespace, Name: ref.Name}
	switch {
	case ref.APIVersion == "v1" && ref.Kind == "Pod":
		k.Kind = port.PodKind
	case ref.APIVersion == "v1" && ref.Kind == "Secret":
		k.Kind = port.SecretKind
	case ref.APIVersion == "v1" && ref.Kind == "Node":
		k.Kind, k.Namespace = port.NodeKind, ""
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s, Kind=%s",
			ref.APIVersion, ref.Kind))
	}
	e := s.tables[k.Kind].objects[name{k.Namespace, k.Name}]
	if e == nil {
		return notFound(k)
	}
	if p, ok := e.object.(*v1.Pod); ok && p.Spec.ServiceAccountName != account {
		return apierrors.NewBadRequest(
			fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account),
		)
	}
	if ref.UID != "" && ref.UID != metaOf(e.object).UID {
		return conflict(k,
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted "+
				"and then recreated", ref.UID)
	}
	return nil
}
