package simapi

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// create stores a new object. Errors here and below are *apierrors.StatusError.
func (s *Server) create(o port.APIObject) (port.APIObject, error) {
	kind := port.APIKindOf(o)
	t := s.tables[kind]
	next := shallow(o)
	untyped(next)
	m := metaOf(next)
	if err := s.nameNew(t, m); err != nil {
		return nil, err
	}
	if m.ResourceVersion != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	m.UID, m.CreationTimestamp = s.newUID(), metav1.NewTime(s.seconds())
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = nil, nil
	m.Generation, m.ManagedFields = 0, nil
	if err := s.prepareNew(next); err != nil {
		return nil, err
	}
	round(next)
	s.commit(t, nil, next, false)
	return next, nil
}

// nameNew checks the name of a new object, or generates one.
func (s *Server) nameNew(t *table, m *metav1.ObjectMeta) error {
	switch {
	case kinds[t.kind].cluster && m.Namespace != "":
		return apierrors.NewBadRequest("namespace may not be set on objects of kind " + t.kind.String())
	case !kinds[t.kind].cluster && m.Namespace == "":
		return apierrors.NewBadRequest("an empty namespace may not be set during creation")
	case m.Name != "" && !isName(m.Name):
		return invalid(t.kind, m.Name, field.Invalid(field.NewPath("metadata", "name"), m.Name, notAName))
	case m.Name != "":
		if t.objects[name{m.Namespace, m.Name}] != nil {
			return apierrors.NewAlreadyExists(groupResource(t.kind), m.Name)
		}
		return nil
	case m.GenerateName == "":
		return invalid(t.kind, "", field.Required(field.NewPath("metadata", "name"), "name or generateName is required"))
	}
	for range maxGenerated {
		made := generated(m.GenerateName, s.names)
		if !isName(made) {
			return invalid(t.kind, made, field.Invalid(field.NewPath("metadata", "generateName"), m.GenerateName, notAName))
		}
		if t.objects[name{m.Namespace, made}] == nil {
			m.Name = made
			return nil
		}
	}
	return apierrors.NewGenerateNameConflict(groupResource(t.kind), m.GenerateName, 1)
}

// Generated names: a suffix of five letters without vowels, after as much of generateName as fits
// into a label; and the limit of attempts.
const (
	suffixLetters = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength  = 5
	maxGenerated  = 8
	maxLabel      = 63
	maxName       = 253
)

// defaultCertificateLife is the API's default of maxExpirationSeconds (certificates/v1beta1 PodCertificateRequestSpec).
const defaultCertificateLife = 24 * 60 * 60

const notAName = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
	"and must start and end with an alphanumeric character"

func generated(base string, rng *rand.Rand) string {
	if len(base) > maxLabel-suffixLength {
		base = base[:maxLabel-suffixLength]
	}
	made := make([]byte, 0, maxLabel)
	made = append(made, base...)
	for range suffixLength {
		made = append(made, suffixLetters[rng.IntN(len(suffixLetters))])
	}
	return string(made)
}

// isName reports whether s is a DNS subdomain (RFC 1123), as names are.
func isName(s string) bool {
	if len(s) > maxName {
		return false
	}
	edge := true // the next character must be a letter or digit
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			edge = false
		case edge:
			return false
		case c == '.':
			if s[i-1] == '-' {
				return false
			}
			edge = true
		case c != '-':
			return false
		}
	}
	return !edge && s[len(s)-1] != '-'
}

// newUID draws a UUID of version 4.
func (s *Server) newUID() types.UID {
	const digits = "0123456789abcdef"
	hi, lo := s.uids.Uint64(), s.uids.Uint64()
	hi = hi&^0xf000 | 0x4000
	lo = lo&^(0x3<<62) | 0x2<<62
	var b [36]byte
	at := 0
	for i := range 32 {
		switch at {
		case 8, 13, 18, 23:
			b[at] = '-'
			at++
		}
		word := hi
		if i >= 16 {
			word = lo
		}
		b[at] = digits[word>>(60-4*(i%16))&0xf]
		at++
	}
	return types.UID(b[:])
}

// prepareNew sets the fields that the apiserver sets, and clears those that a creation may not
// set.
func (s *Server) prepareNew(o port.APIObject) error {
	switch o := o.(type) {
	case *v1.Pod:
		return s.preparePod(o)
	case *v1.Node:
		allocate(&o.Status)
	case *v1.Service:
		o.Status = v1.ServiceStatus{}
		s.prepareService(o)
	case *v1.PersistentVolumeClaim:
		o.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}
	case *v1.PersistentVolume:
		o.Status = v1.PersistentVolumeStatus{
			Phase: v1.VolumePending, LastPhaseTransitionTime: new(metav1.NewTime(s.seconds())),
		}
	case *storagev1.VolumeAttachment:
		o.Status = storagev1.VolumeAttachmentStatus{}
	case *resourcev1.ResourceClaim:
		o.Status = resourcev1.ResourceClaimStatus{}
	case *certificatesv1beta1.PodCertificateRequest:
		o.Status = certificatesv1beta1.PodCertificateRequestStatus{}
		if o.Spec.MaxExpirationSeconds == nil {
			o.Spec.MaxExpirationSeconds = new(int32(defaultCertificateLife))
		}
	case *storagev1.CSIDriver:
		o.Generation = 1
	case *v1.Secret:
		if o.Type == "" {
			o.Type = v1.SecretTypeOpaque
		}
		if len(o.StringData) > 0 {
			data := make(map[string][]byte, len(o.Data)+len(o.StringData))
			for k, v := range o.Data {
				data[k] = v
			}
			for k, v := range o.StringData {
				data[k] = []byte(v)
			}
			o.Data, o.StringData = data, nil
		}
	}
	return nil
}

// allocate makes all of a node's capacity allocatable, unless the status says otherwise.
func allocate(s *v1.NodeStatus) {
	if s.Allocatable == nil {
		s.Allocatable = s.Capacity
	}
}

func (s *Server) preparePod(p *v1.Pod) error {
	if len(p.Spec.Containers) == 0 {
		return invalid(port.PodKind, p.Name, field.Required(field.NewPath("spec", "containers"), ""))
	}
	s.specs.fill(p, s.tables[port.PodKind].objects)
	p.Generation = 1
	p.Status = v1.PodStatus{Phase: v1.PodPending, QOSClass: podspec.QOS(p)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonSchedulingGated,
			Message:            "Scheduling is blocked due to non-empty scheduling gates",
			LastTransitionTime: metav1.NewTime(s.seconds()),
		}}
	}
	return nil
}

// seconds is now with the API's resolution.
func (s *Server) seconds() time.Time { return s.stage.Now().Truncate(time.Second) }

// commit makes next the newest version of an object, or its end, and tells the watches. next gets
// its version.
func (s *Server) commit(t *table, old, next port.APIObject, gone bool) {
	s.marks.note(s.stage.Now(), s.version)
	s.version++
	metaOf(next).ResourceVersion = strconv.FormatUint(s.version, 10)
	if gone {
		t.drop(nameOf(next))
	} else {
		t.put(next)
	}
	t.watches.see(t.history.add(change{version: s.version, old: old, new: next, gone: gone}))
	if t.kind == port.EventKind && !gone {
		s.aged(next)
	}
}

func invalid(kind port.APIKind, name string, errs ...*field.Error) error {
	return apierrors.NewInvalid(groupKind(kind), name, errs)
}

func notFound(k port.APIKey) error { return apierrors.NewNotFound(groupResource(k.Kind), k.Name) }

func conflict(k port.APIKey, format string, args ...any) error {
	return apierrors.NewConflict(groupResource(k.Kind), k.Name, fmt.Errorf(format, args...))
}
