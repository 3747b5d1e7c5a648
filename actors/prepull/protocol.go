// Package prepull is the actor that has images pulled before a pod wants them: those of lists, one at a time, while no
// pod waits for an image. What is next, and when, is decided in decide/imagecache.
//
//	prepull ──AskLoad, Prepull, StopPrepull──► images     images ──Listed, Removed, ImagesRestarted──► prepull
//	prepull ──ImageStatus──► runtime                      prepull ──Left──► pressure
//
// It asks images for an image as a pod does, with a request of the lowest priority: a pod that needs a pull ends it. An
// image that a pod wants as well is pulled for the pod then.
//
// After a restart of the actor, each image is looked for again; what the checkpoint has keeps it from pulling again
// what was removed, or did not fit. The stages of a pull are at imagecache.Stage.
package prepull

import (
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// Message is what the actor understands.
//
//sumtype:decl
type Message interface{ isPrepullMessage() }

// Listed are the images that the runtime had at that time. From images, after a round of image garbage collection.
// Lost: the next one tells. Late: what was pulled since does not count as gone. List is never changed.
type Listed struct {
	List []observed.Image
	At   time.Time
}

// Removed says that image garbage collection has removed an image. From images. Lost: the next Listed tells.
type Removed struct{ ID string }

// ImagesRestarted says that images has lost what it was asked. From images. Lost: the request ends by its deadline.
// Twice: it begins anew twice.
type ImagesRestarted struct{}

// turn is this actor's own timer: for the next image, or for the next measurement while pulling.
type turn struct{}

// answered is the answer to a step.
type answered struct {
	id     kernel.EffectID
	answer imagecache.Answer
	err    error
}

// loaded and saved are results of effects with the checkpoint.
type loaded struct {
	id      kernel.EffectID
	content checkpoint.Content
}

type saved struct {
	id  kernel.EffectID
	err error
}

func (Listed) isPrepullMessage()          {}
func (Removed) isPrepullMessage()         {}
func (ImagesRestarted) isPrepullMessage() {}
func (turn) isPrepullMessage()            {}
func (answered) isPrepullMessage()        {}
func (loaded) isPrepullMessage()          {}
func (saved) isPrepullMessage()           {}

// Outcome implements kernel.Outcome.
func (m loaded) Outcome() (kernel.EffectID, error) { return m.id, m.content.Err() }

// Outcome implements kernel.Outcome.
func (m saved) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m answered) Outcome() (kernel.EffectID, error) { return m.id, m.err }
