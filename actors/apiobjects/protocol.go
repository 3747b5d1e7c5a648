// Package apiobjects is the actor that owns the API objects that pods use: ConfigMaps,
// Secrets, tokens of service accounts, claims and their volumes, services, trust bundles,
// and certificates of pods. A pod subscribes once, and receives the known objects each
// time they change. No actor requests an object at the moment it needs it.
//
//	pod ──Need, Forget──► apiobjects ──Watch, Get, CreateToken, Create──► apiserver
//	pod ◄──ObjectsAnswer── apiobjects ──NewPodKey, WrittenCertificate──► host
//
// A ConfigMap or Secret has one watch, shared by all pods that use it, from the first
// pod to the last: the Node authorizer allows exactly that. All services share one
// watch, all ClusterTrustBundles another, from the first pod that needs one to the last.
//
//	        ┌────────── changed, renewed ──────────┐
//	unknown ─┬─► found ◄───────────────────────────┴── found
//	         ├─► missing ──appears──► found
//	         └─► failed ──tried again──► found, missing
//
// What was found once stays known while the apiserver does not answer; a token until it expires. But a pod that comes
// later waits for a new read of a ConfigMap or Secret that is not watched, as it may have been deleted and made again:
// one that is immutable, and all if they are read and not watched.
// After a restart nothing is known, and pods must ask again. They keep what they were sent.
package apiobjects

import (
	"cmp"
	"context"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// CallPool is the pool of slots that bounds how many calls run at once. A watch
// needs none.
const CallPool = "objects"

// KeyPool bounds how many keys are made at once: an RSA key takes a CPU for a second.
const KeyPool = "podkeys"

// Pools are the pools that the actor needs.
func Pools() []kernel.Pool {
	return []kernel.Pool{
		{Name: CallPool, Size: 32, MinHold: time.Second, MaxHold: 15 * time.Second, Unkept: true, Fair: true},
		{Name: KeyPool, Size: 4, MinHold: time.Second, MaxHold: 15 * time.Second, Unkept: true, Fair: true},
	}
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

// Retain lists the pods that may use objects. From podset, once after its restart: the actors of other
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

// streamTold is an event of a watch of many objects: of services, ClusterTrustBundles or PodCertificateRequests. They
// are in order, and none is lost: an event that does not fit into the mailbox makes the actor watch again.
type streamTold struct {
	id     kernel.EffectID
	of     podobjects.Kind
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
	token secret
	got   authenticationv1.TokenRequestStatus
	err   error
}

// written is the result of a ReadCertificate, requested that of a RequestCertificate.
type (
	written struct {
		id   kernel.EffectID
		of   secret
		held *podspec.IssuedCertificate
		err  error
	}
	requested struct {
		id   kernel.EffectID
		of   secret
		made request
		err  error
	}
)

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

// again, doubted, renew and certifyAgain are this actor's own timers: to read an object again, to mark it as
// failed, to renew a token, to look at a certificate.
type (
	again   struct{ ref podobjects.Ref }
	doubted struct{ ref podobjects.Ref }
	renew   struct{ token secret }

	certifyAgain struct{ of secret }
)

func (Need) isObjectsMessage()         {}
func (Forget) isObjectsMessage()       {}
func (Retain) isObjectsMessage()       {}
func (told) isObjectsMessage()         {}
func (broken) isObjectsMessage()       {}
func (doubted) isObjectsMessage()      {}
func (streamTold) isObjectsMessage()   {}
func (got) isObjectsMessage()          {}
func (issued) isObjectsMessage()       {}
func (ended) isObjectsMessage()        {}
func (unheard) isObjectsMessage()      {}
func (again) isObjectsMessage()        {}
func (renew) isObjectsMessage()        {}
func (written) isObjectsMessage()      {}
func (requested) isObjectsMessage()    {}
func (certifyAgain) isObjectsMessage() {}
func (tellMany) isObjectsMessage()     {}
func (countMany) isObjectsMessage()    {}

// MailboxKey implements kernel.Keyed. A restarted watch has another key.
func (m told) MailboxKey() string { return strconv.FormatUint(uint64(m.id), 10) }

// Settings are the configured part of Deps.
type Settings struct {
	Detection Detection
	// NoServices: pods get no service variables.
	NoServices bool
	// TrustBundles: pods may have volumes of ClusterTrustBundles. PodCertificates: pods may have certificates. (feature
	// gates ClusterTrustBundleProjection and PodCertificateRequest)
	TrustBundles, PodCertificates bool
}

// Detection is how changes of a ConfigMap or Secret are detected. (configMapAndSecretChangeDetectionStrategy)
type Detection string

const (
	// Watch: by a watch.
	Watch Detection = "Watch"
	// Cache: by reading it again every TTL, and when another pod starts to use it.
	Cache Detection = "Cache"
	// Get: as Cache, with the shortest useful TTL.
	Get Detection = "Get"
)

// API is what the actor uses of port.API.
type API interface {
	portcall.Watcher
	Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error))
	Create(ctx context.Context, o port.APIObject, done func(port.APIObject, error))
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
	Settings
	// TTL is the maximum age of a ConfigMap or Secret that is not watched.
	TTL time.Duration
	// Keys are for certificates of pods; needed with PodCertificates. Node is the node's name. Events and Counts, which
	// may be nil, are told what becomes of certificates.
	Keys   port.PodKeys
	Node   string
	Events port.Recorder
	Counts Counts
	// Backoff is for failed calls, and for missing objects that are not watched.
	Backoff backoff.Policy
	// Doubt is how long an object may be unknown before pods get the reason: an apiserver learns
	// a moment later than the node that the node may read a pod's objects.
	Doubt time.Duration
	// Deadline bounds a call. Patience is how long a watch may be silent.
	Deadline, Patience time.Duration
}

// secret identifies a token or a certificate. Two pods never share one.
type secret struct {
	uid types.UID
	ref podobjects.Ref
}

func (s secret) compare(o secret) int { return cmp.Or(cmp.Compare(s.uid, o.uid), s.ref.Compare(o.ref)) }

// needer is a pod that uses objects.
type needer struct {
	pod   *v1.Pod
	reply kernel.Ref[pod.Message]
	refs  []podobjects.Ref
	told  podobjects.Set
	// telling: it is about to be told, see tellMany. refers: what it uses is looked at before.
	telling, refers bool
}
