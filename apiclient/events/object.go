package events

import (
	"cmp"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// event is an event as the API has it.
func (r *Recorder) event(e *port.Event) *v1.Event {
	kind := v1.EventTypeNormal
	if e.Warning {
		kind = v1.EventTypeWarning
	}
	at := metav1.NewTime(e.At)
	r.last = max(e.At.UnixNano(), r.last+1)
	// Tools look for a node's events by its name as UID, and in this namespace.
	namespace, about := metav1.NamespaceDefault, v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.Node,
		UID: types.UID(e.Node)}
	switch p := e.Pod; {
	case p != nil:
		namespace, about = p.Namespace, v1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
			ResourceVersion: p.ResourceVersion, FieldPath: fieldPath(p, e.Container),
		}
	case e.Of != nil:
		namespace, about = cmp.Or(e.Of.Namespace, namespace), *e.Of
	}
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s.%x", about.Name, r.last), Annotations: annotations(e),
		},
		InvolvedObject: about,
		Reason:         e.Reason, Message: cut(e.Message), Type: kind, FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source:              v1.EventSource{Component: r.config.Component, Host: r.config.Host},
		ReportingController: r.config.Component, ReportingInstance: r.config.Host,
	}
}

func annotations(e *port.Event) map[string]string {
	if len(e.Annotations) == 0 {
		return nil
	}
	out := make(map[string]string, len(e.Annotations))
	for _, a := range e.Annotations {
		out[a.Key] = a.Value
	}
	return out
}

// maxMessage is the apiserver's limit of a message, in bytes.
const maxMessage = 1024

func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	const dots = "..."
	n := maxMessage - len(dots)
	for n > 0 && s[n]&0xC0 == 0x80 { // not within a UTF-8 character
		n--
	}
	return s[:n] + dots
}

// fieldPath is a container's path in the pod, as kubectl shows it.
func fieldPath(p *v1.Pod, name string) string {
	if name == "" {
		return ""
	}
	list := "containers"
	switch _, kind := podspec.Find(&p.Spec, name); kind {
	case podspec.Init, podspec.Sidecar:
		list = "initContainers"
	case podspec.Ephemeral:
		list = "ephemeralContainers"
	case podspec.Main:
	}
	return "spec." + list + "{" + name + "}"
}
