package simapi

import (
	"fmt"
	"strconv"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/troupe-dev/troupe/actors/port"
)

// selector is the parsed selection of a list or watch. Indexed fields are separate: namespace and
// name (empty for any), and the node of a pod.
type selector struct {
	kind            port.APIKind
	namespace, name string
	onNode          bool // node must be equal; it may be empty
	node            string
	// impossible: it requires two different values at once.
	impossible bool
	fields     []requirement
	labels     labels.Selector // nil for any
}

// requirement is one condition on a field.
type requirement struct {
	field func(port.APIObject) string
	not   bool
	value string
}

// parseSelector parses a selection as the apiserver does. Errors are *apierrors.StatusError.
func parseSelector(kind port.APIKind, namespace, field, label string) (*selector, error) {
	if kind == 0 || int(kind) >= kindCount {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("there is no kind %d", kind))
	}
	s := &selector{kind: kind, namespace: namespace}
	if kinds[kind].cluster && namespace != "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s has no namespace, and %s was given", kind, namespace))
	}
	if field != "" {
		parsed, err := fields.ParseSelector(field)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse field selector %q: %v", field, err))
		}
		for _, r := range parsed.Requirements() {
			if err := s.require(r); err != nil {
				return nil, err
			}
		}
	}
	if label != "" {
		parsed, err := labels.Parse(label)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse label selector %q: %v", label, err))
		}
		if !parsed.Empty() {
			s.labels = parsed
		}
	}
	return s, nil
}

func (s *selector) require(r fields.Requirement) error {
	not := r.Operator == selection.NotEquals
	set := func(to *string) {
		s.impossible = s.impossible || *to != "" && *to != r.Value
		*to = r.Value
	}
	switch {
	case not || r.Value == "" && r.Field != "spec.nodeName":
	case r.Field == "metadata.name":
		set(&s.name)
		return nil
	case r.Field == "metadata.namespace" && !kinds[s.kind].cluster:
		set(&s.namespace)
		return nil
	case r.Field == "spec.nodeName" && s.kind == port.PodKind:
		s.impossible = s.impossible || s.onNode && s.node != r.Value
		s.onNode, s.node = true, r.Value
		return nil
	}
	field := fieldOf(s.kind, r.Field)
	if field == nil {
		return apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
	}
	s.fields = append(s.fields, requirement{field, not, r.Value})
	return nil
}

// matches reports whether an object of the kind is selected.
func (s *selector) matches(o port.APIObject) bool {
	m := metaOf(o)
	if s.impossible || s.name != "" && m.Name != s.name || s.namespace != "" && m.Namespace != s.namespace ||
		s.onNode && nodeOf(o) != s.node {
		return false
	}
	for i := range s.fields {
		if r := &s.fields[i]; (r.field(o) == r.value) == r.not {
			return false
		}
	}
	return s.labels == nil || s.labels.Matches(labels.Set(m.Labels))
}

// fieldOf returns a field for a field selector, nil if the API does not allow it: the fields in
// the API reference of each kind (Kubernetes v1.36).
func fieldOf(kind port.APIKind, field string) func(port.APIObject) string {
	switch {
	case field == "metadata.name":
		return func(o port.APIObject) string { return metaOf(o).Name }
	case field == "metadata.namespace" && !kinds[kind].cluster:
		return func(o port.APIObject) string { return metaOf(o).Namespace }
	}
	switch kind {
	case port.PodKind:
		return of(podFields[field])
	case port.NodeKind:
		return of(nodeFields[field])
	case port.EventKind:
		return of(eventFields[field])
	case port.SecretKind:
		return of(secretFields[field])
	case port.ClusterTrustBundleKind:
		return of(trustBundleFields[field])
	case port.PodCertificateRequestKind:
		return of(certificateRequestFields[field])
	default:
		return nil
	}
}

// of turns a getter for one kind into one for any object.
func of[T port.APIObject](get func(T) string) func(port.APIObject) string {
	if get == nil {
		return nil
	}
	return func(o port.APIObject) string { return get(o.(T)) }
}

var podFields = map[string]func(*v1.Pod) string{
	"spec.nodeName":            func(p *v1.Pod) string { return p.Spec.NodeName },
	"spec.restartPolicy":       func(p *v1.Pod) string { return string(p.Spec.RestartPolicy) },
	"spec.schedulerName":       func(p *v1.Pod) string { return p.Spec.SchedulerName },
	"spec.serviceAccountName":  func(p *v1.Pod) string { return p.Spec.ServiceAccountName },
	"spec.hostNetwork":         func(p *v1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
	"status.phase":             func(p *v1.Pod) string { return string(p.Status.Phase) },
	"status.podIP":             func(p *v1.Pod) string { return p.Status.PodIP },
	"status.nominatedNodeName": func(p *v1.Pod) string { return p.Status.NominatedNodeName },
}

var nodeFields = map[string]func(*v1.Node) string{
	"spec.unschedulable": func(n *v1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
}

var eventFields = map[string]func(*v1.Event) string{
	"involvedObject.kind":            func(e *v1.Event) string { return e.InvolvedObject.Kind },
	"involvedObject.namespace":       func(e *v1.Event) string { return e.InvolvedObject.Namespace },
	"involvedObject.name":            func(e *v1.Event) string { return e.InvolvedObject.Name },
	"involvedObject.uid":             func(e *v1.Event) string { return string(e.InvolvedObject.UID) },
	"involvedObject.apiVersion":      func(e *v1.Event) string { return e.InvolvedObject.APIVersion },
	"involvedObject.resourceVersion": func(e *v1.Event) string { return e.InvolvedObject.ResourceVersion },
	"involvedObject.fieldPath":       func(e *v1.Event) string { return e.InvolvedObject.FieldPath },
	"reason":                         func(e *v1.Event) string { return e.Reason },
	"reportingComponent":             func(e *v1.Event) string { return e.ReportingController },
	"source":                         func(e *v1.Event) string { return e.Source.Component },
	"type":                           func(e *v1.Event) string { return e.Type },
}

var secretFields = map[string]func(*v1.Secret) string{
	"type": func(s *v1.Secret) string { return string(s.Type) },
}

var trustBundleFields = map[string]func(*certificatesv1beta1.ClusterTrustBundle) string{
	"spec.signerName": func(b *certificatesv1beta1.ClusterTrustBundle) string { return b.Spec.SignerName },
}

var certificateRequestFields = map[string]func(*certificatesv1beta1.PodCertificateRequest) string{
	"spec.nodeName":   func(r *certificatesv1beta1.PodCertificateRequest) string { return string(r.Spec.NodeName) },
	"spec.signerName": func(r *certificatesv1beta1.PodCertificateRequest) string { return r.Spec.SignerName },
	"spec.podName":    func(r *certificatesv1beta1.PodCertificateRequest) string { return r.Spec.PodName },
}
