// Package images is the actor that pulls images: at most one pull per image at a time, however many pods wait for it, a
// bounded number of parallel pulls, and a backoff per pod and image. What is next for an image is decided in
// decide/imagepull.
//
//	pod ──Ensure, Forget──► images ──ImageStatus, PullImage──► runtime
//	pod ◄──ImageAnswer── images        podset ──Forget, Retain──► images      pleg ──RuntimeBack──► images
//	images ──Lookup──► credentials     images ──Load, SaveIntent, SavePulled──► files of pull records
//
// It has the images of lists pulled, with the lowest priority; see prepull.go.
//
//	prepull ──AskLoad, Prepull, StopPrepull──► images ──Listed, Removed, ImagesRestarted──► prepull
//
// It also removes images that nobody uses; see collector.
//
//	images ──Left──► pressure     images ──ListImages, List, RemoveImage──► runtime
//	eviction ──Reclaim──► images  images ──VolumeImages──► podview
//
// Its state comes from the runtime, but for when images were used last, which is in a checkpoint, and how they were
// pulled, which is in pull records. After a restart, waiting pods are asked to send their requests again
// (Deps.Restarted).
package images

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// Message is what the images actor understands.
//
//sumtype:decl
type Message interface{ isImagesMessage() }

// Ensure is a pod's wish for one image. From its actor. Twice: the newer replaces the older of the same container.
// Lost: the pod asks again when told that this actor restarted.
type Ensure struct{ pod.EnsureImage }

// Forget says that a pod wants no images any more: it is being taken down, or it is gone. From its actor, and from
// podset. Lost: an image is pulled without need.
type Forget struct{ UID types.UID }

// Retain lists all pods that there are. From podset, once after its restart: it may have crashed before it said Forget.
// Lost: images are pulled for pods that are gone, again and again. Late: a pod that came since asks again. Pods is
// shared and never changed.
type Retain struct{ Pods map[types.UID]bool }

// RuntimeBack says that the runtime answers again after it did not. From pleg. Lost: it is looked again at the end of a
// backoff. Twice: it changes nothing.
type RuntimeBack struct{}

// CredentialsRestarted says that credentials has lost what it was asked. From credentials. Lost: those who wait pull
// without when their deadline has passed. Twice: asked twice.
type CredentialsRestarted struct{}

// Reclaim asks for the removal of all images that nobody uses, before pods are evicted. From eviction. Reply
// is called when it is done, or has failed, and must not block. Lost with a crash: asked again.
type Reclaim struct{ Reply func(error) }

// AskLoad asks how busy pulls are. From prepull. Lost: asked again after its deadline. Reply must not block.
type AskLoad struct{ Reply func(imagecache.Load) }

// Prepull asks for the pull of an image that no pod wants. From prepull, one at a time. It is a request of the lowest
// priority: it is answered at once if pulls are busy, and ends when a pod needs another pull. Lost: it ends by its
// deadline. Twice: the newer replaces the older. Reply must not block.
type Prepull struct {
	Image string
	Reply func(imagecache.End)
}

// StopPrepull says that the image takes too much of the disk. From prepull. Lost: told again while the pull goes on.
// Late or twice: it changes nothing.
type StopPrepull struct{ Image string }

// The next ones are this actor's own timers. One that comes late finds that there is nothing to do.

// retry is for one image: a waiter needs something.
type retry struct{ image string }

// collect is for the next look at the disk.
type collect struct{}

// askAgain is for the round of collection that began then.
type askAgain struct{ begun time.Time }

// reload is for records that can't be read.
type reload struct{}

// settleAgain is for an intent of which the runtime did not say what has come of it.
type settleAgain struct{ image string }

// The next ones are results of effects. A result of an effect that was given up or replaced is late: it changes
// nothing, but for pulled, which may have brought an image.

// checked is the result of a look (ImageStatus).
type checked struct {
	id    kernel.EffectID
	image string
	info  *observed.Image
	ok    bool
	err   error
}

// pulled is the result of a PullImage.
type pulled struct {
	id    kernel.EffectID
	image string
	ref   string
	// began is when the call got its slot; zero if it has no answer.
	began time.Time
	err   error
}

// intended says that the file of an intent was written.
type intended struct {
	id    kernel.EffectID
	image string
	err   error
}

// settled is what the runtime has under the name of an intent.
type settled struct {
	id    kernel.EffectID
	image string
	info  *observed.Image
	ok    bool
	err   error
}

// found is the answer for one container.
type found struct {
	id    kernel.EffectID
	image string
	found credentials.Found
	err   error
}

// recordsLoaded is what the disk has.
type recordsLoaded struct {
	id    kernel.EffectID
	files port.PullFiles
	err   error
}

// recorded says that a file was written or removed, or set aside to where.
type recorded struct {
	id    kernel.EffectID
	name  string
	where string
	err   error
}

// measured, listed, inspected, mounted and removed are the results of the stages of a collection; see collector.
type measured struct {
	id   kernel.EffectID
	left eviction.Reading
	err  error
}

type listed struct {
	id   kernel.EffectID
	list []observed.Image
	err  error
}

type inspected struct {
	id      kernel.EffectID
	runtime observed.Runtime
	err     error
}

// mounted is the answer of pods: the names of images that they have as volumes.
type mounted struct {
	id    kernel.EffectID
	names []string
	all   bool
	err   error
}

type removed struct {
	id     kernel.EffectID
	image  string
	bytes  uint64
	reason imagecache.Reason
	err    error
}

// agesLoaded and agesSaved are results of effects with the checkpoint.
type agesLoaded struct {
	id      kernel.EffectID
	content checkpoint.Content
}

type agesSaved struct {
	id  kernel.EffectID
	err error
}

func (Ensure) isImagesMessage()               {}
func (Forget) isImagesMessage()               {}
func (Retain) isImagesMessage()               {}
func (RuntimeBack) isImagesMessage()          {}
func (CredentialsRestarted) isImagesMessage() {}
func (Reclaim) isImagesMessage()              {}
func (AskLoad) isImagesMessage()              {}
func (Prepull) isImagesMessage()              {}
func (StopPrepull) isImagesMessage()          {}
func (retry) isImagesMessage()                {}
func (collect) isImagesMessage()              {}
func (askAgain) isImagesMessage()             {}
func (reload) isImagesMessage()               {}
func (settleAgain) isImagesMessage()          {}
func (checked) isImagesMessage()              {}
func (pulled) isImagesMessage()               {}
func (intended) isImagesMessage()             {}
func (settled) isImagesMessage()              {}
func (found) isImagesMessage()                {}
func (recordsLoaded) isImagesMessage()        {}
func (recorded) isImagesMessage()             {}
func (measured) isImagesMessage()             {}
func (listed) isImagesMessage()               {}
func (inspected) isImagesMessage()            {}
func (mounted) isImagesMessage()              {}
func (removed) isImagesMessage()              {}
func (agesLoaded) isImagesMessage()           {}
func (agesSaved) isImagesMessage()            {}

// Outcome implements kernel.Outcome.
func (m checked) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m pulled) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m intended) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m settled) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m found) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m recordsLoaded) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m recorded) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m measured) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m listed) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m inspected) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m mounted) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m removed) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m agesLoaded) Outcome() (kernel.EffectID, error) { return m.id, m.content.Err() }

// Outcome implements kernel.Outcome.
func (m agesSaved) Outcome() (kernel.EffectID, error) { return m.id, m.err }
