// Package objects is the actor that owns the API objects that pods use: ConfigMaps,
// Secrets, tokens of service accounts, claims and their volumes, and services. A pod
// subscribes once, and receives the known objects each time they change. No actor
// requests an object at the moment it needs it.
//
//	pod ──Need, Forget──► objects ──Watch, Get, CreateToken──► apiserver
//	pod ◄──ObjectsAnswer── objects
//
// A ConfigMap or Secret has one watch, shared by all pods that use it, from the first
// pod to the last: the Node authorizer allows exactly that. All services share one
// watch.
//
//	        ┌────────── changed, renewed ──────────┐
//	unknown ─┬─► found ◄───────────────────────────┴── found
//	         ├─► missing ──appears──► found
//	         └─► failed ──tried again──► found, missing
//
// What was found once stays known while the apiserver does not answer; a token until it expires.
// After a restart nothing is known, and pods must ask again. They keep what they were sent.
package objects

import (
	"context"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// CallPool is the pool of slots that bounds how many calls run at once. A watch
// needs none.
const CallPool = "objects"

// Pools are the pools that the actor needs.
func Pools() []kernel.Pool {
	return []kernel.Pool{{Name: CallPool, Size: 32, MinHold: time.Second, MaxHold: 15 * time.Second, Unkept: true}}
}

// Message is what the objects actor understands.
//
//sumtype:decl
type Message interface{ isObjectsMessage() }

// Need says that a pod is here and may use what its spec names. From pods. Lost: asked again when
// this actor restarted. Twice, or with another spec: the newest counts, and is answered.
type Need struct{ pod.NeedObjects }

// Forget says that a pod needs no objects any more. From pods. Lost: an unneeded watch, until
// this actor restarts.
type Forget struct{ UID types.UID }

// Retain lists the pods that may use objects. From pods, once after its restart: the actors of other
// pods ended with it, without a Forget. Lost: unneeded watches, until this actor restarts. Pods is
// shared and never changed.
type Retain struct{ Pods map[types.UID]bool }

// told is the state of one object from its watch; broken says that the watch fails. Of another
// watch: late. Each told has the whole state, so only the newest counts. Lost: the actor starts
// over.
type (
	told struct {
		id     kernel.EffectID
		ref    podobjects.Ref
		change port.APIChange
	}
	broken struct {
		id  kernel.EffectID
		ref podobjects.Ref
		err error
	}
)

// servicesTold is an event of the watch of services. They are in order, and none is lost: an
// event that does not fit into the mailbox makes the actor watch again.
type servicesTold struct {
	id     kernel.EffectID
	change port.APIChange
}

// got is the result of a Get.
type got struct {
	id     kernel.EffectID
	ref    podobjects.Ref
	object port.APIObject
	err    error
}

// issued is the result of a CreateToken.
type issued struct {
	id    kernel.EffectID
	token token
	got   authenticationv1.TokenRequestStatus
	err   error
}

// ended says that a watch ended: this actor cancelled it, or the port gave up.
type ended struct {
	id  kernel.EffectID
	ref podobjects.Ref
}

// unheard is this actor's own timer for a silent watch.
type unheard struct {
	id  kernel.EffectID
	ref podobjects.Ref
}

// again, doubted and renew are this actor's own timers: to read an object again, to mark it as
// failed, to renew a token.
type (
	again   struct{ ref podobjects.Ref }
	doubted struct{ ref podobjects.Ref }
	renew   struct{ token token }
)

// missed is this actor's own timer, after its mailbox was full.
type missed struct{}

func (Need) isObjectsMessage()         {}
func (Forget) isObjectsMessage()       {}
func (Retain) isObjectsMessage()       {}
func (told) isObjectsMessage()         {}
func (broken) isObjectsMessage()       {}
func (doubted) isObjectsMessage()      {}
func (servicesTold) isObjectsMessage() {}
func (got) isObjectsMessage()          {}
func (issued) isObjectsMessage()       {}
func (ended) isObjectsMessage()        {}
func (unheard) isObjectsMessage()      {}
func (again) isObjectsMessage()        {}
func (renew) isObjectsMessage()        {}
func (missed) isObjectsMessage()       {}

// MailboxKey implements kernel.Keyed. A restarted watch has another key.
func (m told) MailboxKey() string { return strconv.FormatUint(uint64(m.id), 10) }

// AppendTrace implements kernel.Traced.
func (m told) AppendTrace(b []byte) []byte {
	return appendChange(append(b, m.ref.String()...), m.change)
}

// AppendTrace implements kernel.Traced.
func (m broken) AppendTrace(b []byte) []byte {
	return append(append(b, m.ref.String()...), m.err.Error()...)
}

// AppendTrace implements kernel.Traced.
func (m servicesTold) AppendTrace(b []byte) []byte { return appendChange(b, m.change) }

// AppendTrace implements kernel.Traced.
func (m got) AppendTrace(b []byte) []byte {
	b = append(b, m.ref.String()...)
	if m.err != nil {
		return append(b, m.err.Error()...)
	}
	return append(b, m.object.GetResourceVersion()...)
}

// AppendTrace implements kernel.Traced.
func (m issued) AppendTrace(b []byte) []byte {
	b = append(append(b, m.token.uid...), m.token.ref.String()...)
	if m.err != nil {
		return append(b, m.err.Error()...)
	}
	return m.got.ExpirationTimestamp.AppendFormat(b, time.RFC3339)
}

func appendChange(b []byte, change port.APIChange) []byte {
	switch c := change.(type) {
	case port.APISet:
		b = append(append(append(b, 's'), c.Object.GetUID()...), c.Object.GetResourceVersion()...)
	case port.APIDeleted:
		b = append(append(append(b, 'd'), c.Object.GetUID()...), c.Object.GetResourceVersion()...)
	case port.APIReplaced:
		b = append(b, 'r')
		for _, o := range c.Objects {
			b = append(append(append(b, o.GetUID()...), o.GetResourceVersion()...), 0)
		}
	case port.APIBroken:
		b = append(b, 'b')
	}
	return b
}

// Detection is how changes of a ConfigMap or Secret are detected (KubeletConfiguration
// configMapAndSecretChangeDetectionStrategy).
type Detection uint8

const (
	// Watch: by a watch.
	Watch Detection = iota
	// Cache: by reading it again every TTL, and when another pod starts to use it.
	Cache
	// Get: as Cache, with the shortest useful TTL.
	Get
)

// API is what the actor uses of port.API.
type API interface {
	portcall.Watcher
	Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error))
	CreateToken(
		ctx context.Context, namespace, serviceAccount string, spec authenticationv1.TokenRequestSpec,
		done func(authenticationv1.TokenRequestStatus, error),
	)
}

// Deps are what the actor needs.
type Deps struct {
	API API
	// Restarted is called when an incarnation after the first begins.
	Restarted func()
	Detection Detection
	// TTL is the maximum age of a ConfigMap or Secret that is not watched.
	TTL time.Duration
	// Services: pods get service variables.
	Services bool
	// Backoff is for failed calls, and for missing objects that are not watched.
	Backoff backoff.Policy
	// Doubt is how long an object may be unknown before pods get the reason: an apiserver learns
	// a moment later than the node that the node may read a pod's objects.
	Doubt time.Duration
	// Deadline bounds a call. Patience is how long a watch may be silent.
	Deadline, Patience time.Duration
}

// token identifies a token. Two pods never share one.
type token struct {
	uid types.UID
	ref podobjects.Ref
}

// needer is a pod that uses objects.
type needer struct {
	pod   *v1.Pod
	reply kernel.Ref[pod.Message]
	refs  []podobjects.Ref
	told  podobjects.Set
}
