package podobjects

import (
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is the known state of an object.
type State uint8

const (
	// Unknown: there is no answer yet.
	Unknown State = iota
	Found
	// Missing: the apiserver does not have the object.
	Missing
	// Failed: it can't be read; the message says why. It is tried again.
	Failed
	// unavailable: this node has no apiserver.
	unavailable
)

// String is the state as a word.
func (s State) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Found:
		return "found"
	case Missing:
		return "missing"
	case Failed:
		return "failed"
	case unavailable:
		return "unavailable"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// IssuedToken is a token of a service account, with its expiry.
type IssuedToken struct {
	Value   string
	Expires time.Time
}

// ServiceList are the services of a namespace, and default/kubernetes, sorted by
// namespace and name. It is shared by the pods of the namespace.
type ServiceList struct{ Items []*v1.Service }

var noServices = &ServiceList{}

// Entry is the known state of one object.
type Entry struct {
	Ref   Ref
	State State
	// Object is the object, by kind: a *v1.ConfigMap, *v1.Secret, *IssuedToken,
	// *v1.PersistentVolumeClaim, *v1.PersistentVolume, *nodev1.RuntimeClass (k8s.io/api/node/v1),
	// *ServiceList, *TrustBundles or *podspec.IssuedCertificate. It is shared and immutable.
	Object any
	// Message is the reason if it is Failed, or what is waited for if it is Unknown.
	Message string
}

// Set holds the known state of a pod's objects. It is an immutable value: later knowledge is
// another Set. In the zero value everything is Unknown.
type Set struct {
	// Invariant: sorted by Ref, each Ref once.
	entries []Entry
	// alone: there is no apiserver. linkless: there are no variables for services.
	alone, linkless bool
}

// Check says that its invariant does not hold.
func (s Set) Check() error {
	for i := 1; i < len(s.entries); i++ {
		if a, b := s.entries[i-1].Ref, s.entries[i].Ref; a.Compare(b) >= 0 {
			return fmt.Errorf("podobjects: sorted by Ref, each Ref once: %s comes before %s", a, b)
		}
	}
	return nil
}

// NewSet makes a Set of entries, and takes ownership of them.
func NewSet(entries []Entry) Set {
	slices.SortFunc(entries, func(a, b Entry) int { return a.Ref.Compare(b.Ref) })
	for i := 1; i < len(entries); i++ {
		if entries[i].Ref == entries[i-1].Ref {
			panic("podobjects: " + entries[i].Ref.String() + " is twice in a set")
		}
	}
	return Set{entries: entries}
}

// Standalone is the Set of a node without an apiserver.
func Standalone() Set { return Set{alone: true} }

// WithoutServices is the same Set for a node without variables for services.
func (s Set) WithoutServices() Set {
	s.linkless = true
	return s
}

// Entries are all entries, sorted. They must not be changed.
func (s Set) Entries() []Entry { return s.entries }

// Get returns the state of an object; Unknown if it is not in the set.
func (s Set) Get(r Ref) Entry {
	if r.Kind == Services && (s.alone || s.linkless) {
		return Entry{Ref: r, State: Found, Object: noServices}
	}
	if s.alone {
		return Entry{
			Ref: r, State: unavailable, Message: r.String() + " is not available: this node has no apiserver to read it from",
		}
	}
	i, ok := slices.BinarySearchFunc(s.entries, r, func(e Entry, r Ref) int { return e.Ref.Compare(r) })
	if !ok {
		return Entry{Ref: r}
	}
	return s.entries[i]
}

// Settled says whether the state of all refs is known, found or not.
func (s Set) Settled(refs []Ref) bool {
	for _, r := range refs {
		if s.Get(r).State == Unknown {
			return false
		}
	}
	return true
}

// Equal says whether two sets hold the same.
func (s Set) Equal(o Set) bool {
	if s.alone != o.alone || s.linkless != o.linkless || len(s.entries) != len(o.entries) {
		return false
	}
	if len(s.entries) == 0 || &s.entries[0] == &o.entries[0] {
		return true
	}
	return slices.EqualFunc(s.entries, o.entries, func(a, b Entry) bool { return a.Same(b) })
}

// Same says whether two entries hold the same.
func (e Entry) Same(o Entry) bool {
	return e.Ref == o.Ref && e.State == o.State && e.Message == o.Message && sameObject(e.Object, o.Object)
}

// sameObject compares the versions of objects, if they have one.
func sameObject(a, b any) bool {
	if a == b {
		return true
	}
	switch a := a.(type) {
	case *IssuedToken:
		b, ok := b.(*IssuedToken)
		return ok && a != nil && b != nil && *a == *b
	case *TrustBundles:
		b, ok := b.(*TrustBundles)
		return ok && slices.EqualFunc(a.Items, b.Items, func(x, y *certificatesv1beta1.ClusterTrustBundle) bool {
			return sameObject(x, y)
		})
	case metav1.Object:
		b, ok := b.(metav1.Object)
		return ok && a.GetResourceVersion() != "" && a.GetResourceVersion() == b.GetResourceVersion() &&
			a.GetUID() == b.GetUID()
	default:
		return false
	}
}

// Error says why an object can't be used, in words that users know.
type Error struct {
	Ref   Ref
	State State // any but Found
	// Message is the reason of a failure, or what is waited for.
	Message string
}

func (e *Error) Error() string {
	switch {
	case e.State == Missing:
		return fmt.Sprintf("%s %q not found", e.Ref.Kind, e.Ref.Name)
	case e.Message != "":
		return e.Message
	default:
		return e.Ref.String() + " is not known yet"
	}
}

// StateOf is the state of the object in an accessor's error; Failed for any other error, Found for
// none.
func StateOf(err error) State {
	if err == nil {
		return Found
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.State
	}
	return Failed
}

// ConfigMap returns a ConfigMap, or an *Error.
func (s Set) ConfigMap(namespace, name string) (*v1.ConfigMap, error) {
	return find[*v1.ConfigMap](s, Ref{Kind: ConfigMap, Namespace: namespace, Name: name})
}

// Secret returns a Secret, or an *Error.
func (s Set) Secret(namespace, name string) (*v1.Secret, error) {
	return find[*v1.Secret](s, Ref{Kind: Secret, Namespace: namespace, Name: name})
}

// Token returns a token by its Ref (see TokenRef), or an *Error.
func (s Set) Token(r Ref) (*IssuedToken, error) { return find[*IssuedToken](s, r) }

// Claim returns a PersistentVolumeClaim, or an *Error.
func (s Set) Claim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return find[*v1.PersistentVolumeClaim](s, Ref{Kind: Claim, Namespace: namespace, Name: name})
}

// Volume returns a PersistentVolume, or an *Error.
func (s Set) Volume(name string) (*v1.PersistentVolume, error) {
	return find[*v1.PersistentVolume](s, Ref{Kind: Volume, Name: name})
}

// Services returns the services of a namespace and default/kubernetes, or an *Error.
func (s Set) Services(namespace string) ([]*v1.Service, error) {
	l, err := find[*ServiceList](s, Ref{Kind: Services, Namespace: namespace})
	if err != nil {
		return nil, err
	}
	return l.Items, nil
}

func find[T any](s Set, r Ref) (T, error) {
	e := s.Get(r)
	if e.State == Found {
		return e.Object.(T), nil
	}
	var none T
	return none, &Error{Ref: r, State: e.State, Message: e.Message}
}
