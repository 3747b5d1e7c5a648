package podobjects

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is what is known of an object.
type State uint8

const (
	// Unknown: nobody has answered yet.
	Unknown State = iota
	Found
	// Missing: the apiserver has no such object.
	Missing
	// Failed: it can't be had; the message says why. It is tried again.
	Failed
	// unavailable: there is no apiserver to have it from.
	unavailable
)

// String is the state in a word.
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

// IssuedToken is a token of a service account, and until when it is good.
type IssuedToken struct {
	Value   string
	Expires time.Time
}

// ServiceList are the services of a namespace, and default/kubernetes, sorted by
// namespace and name. It is shared by the pods of the namespace.
type ServiceList struct{ Items []*v1.Service }

var noServices = &ServiceList{}

// Entry is what is known of one object.
type Entry struct {
	Ref   Ref
	State State
	// Object is what was found: a *v1.ConfigMap, *v1.Secret, *IssuedToken,
	// *v1.PersistentVolumeClaim, *v1.PersistentVolume, *nodev1.RuntimeClass
	// (k8s.io/api/node/v1) or *ServiceList, as the kind says. It is shared, and never changed.
	Object any
	// Message says why it is Failed.
	Message string
}

// Set is what is known of the objects of a pod. It is a value and never changes:
// what is known later is another Set. In the zero value all is Unknown.
type Set struct {
	// Invariant: sorted by Ref, each Ref once.
	entries []Entry
	// alone: there is no apiserver. linkless: there are no services to tell of.
	alone, linkless bool
}

// NewSet makes a Set of entries, which it keeps.
func NewSet(entries []Entry) Set {
	slices.SortFunc(entries, func(a, b Entry) int { return a.Ref.Compare(b.Ref) })
	for i := 1; i < len(entries); i++ {
		if entries[i].Ref == entries[i-1].Ref {
			panic("podobjects: " + entries[i].Ref.String() + " is twice in a set")
		}
	}
	return Set{entries: entries}
}

// Standalone is the Set of a node that has no apiserver: nothing can be had.
func Standalone() Set { return Set{alone: true} }

// WithoutServices is the same Set, on a node whose pods are told of no services.
func (s Set) WithoutServices() Set {
	s.linkless = true
	return s
}

// Entries are all that is in the set, sorted. They are not to be changed.
func (s Set) Entries() []Entry { return s.entries }

// Get gives what is known of an object; one that is not in the set is Unknown.
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

// Settled says whether all of refs are known, found or not.
func (s Set) Settled(refs []Ref) bool {
	for _, r := range refs {
		if s.Get(r).State == Unknown {
			return false
		}
	}
	return true
}

// Equal says whether two sets tell the same of the same objects.
func (s Set) Equal(o Set) bool {
	if s.alone != o.alone || s.linkless != o.linkless || len(s.entries) != len(o.entries) {
		return false
	}
	if len(s.entries) == 0 || &s.entries[0] == &o.entries[0] {
		return true
	}
	return slices.EqualFunc(s.entries, o.entries, func(a, b Entry) bool { return a.Same(b) })
}

// Same says whether two entries tell the same of the same object.
func (e Entry) Same(o Entry) bool {
	return e.Ref == o.Ref && e.State == o.State && e.Message == o.Message && sameObject(e.Object, o.Object)
}

// sameObject goes by the version of an object, if it has one.
func sameObject(a, b any) bool {
	if a == b {
		return true
	}
	switch a := a.(type) {
	case *IssuedToken:
		b, ok := b.(*IssuedToken)
		return ok && a != nil && b != nil && *a == *b
	case metav1.Object:
		b, ok := b.(metav1.Object)
		return ok && a.GetResourceVersion() != "" && a.GetResourceVersion() == b.GetResourceVersion() &&
			a.GetUID() == b.GetUID()
	default:
		return false
	}
}

// Error says why an object can't be used. Its text is one that users know.
type Error struct {
	Ref   Ref
	State State // any but Found
	// Message is why it failed.
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

// StateOf is what an error of an accessor says of the object; Failed for any
// other error, Found for none.
func StateOf(err error) State {
	if err == nil {
		return Found
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.State
	}
	return Failed
}

// ConfigMap gives a ConfigMap, or an *Error.
func (s Set) ConfigMap(namespace, name string) (*v1.ConfigMap, error) {
	return find[*v1.ConfigMap](s, Ref{Kind: ConfigMap, Namespace: namespace, Name: name})
}

// Secret gives a Secret, or an *Error.
func (s Set) Secret(namespace, name string) (*v1.Secret, error) {
	return find[*v1.Secret](s, Ref{Kind: Secret, Namespace: namespace, Name: name})
}

// Token gives a token by its Ref (see TokenRef), or an *Error.
func (s Set) Token(r Ref) (*IssuedToken, error) { return find[*IssuedToken](s, r) }

// Claim gives a PersistentVolumeClaim, or an *Error.
func (s Set) Claim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return find[*v1.PersistentVolumeClaim](s, Ref{Kind: Claim, Namespace: namespace, Name: name})
}

// Volume gives a PersistentVolume, or an *Error.
func (s Set) Volume(name string) (*v1.PersistentVolume, error) {
	return find[*v1.PersistentVolume](s, Ref{Kind: Volume, Name: name})
}

// Services gives the services of a namespace and default/kubernetes, or an *Error.
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
