package images_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/port"
)

// TestRetain: nothing is pulled again for a pod that is gone, and a pod that came after the list was made asks again.
func TestRetain(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("gone", v1.PullAlways))
	r.actor.Tell(r.asks("there", v1.PullNever))
	r.Settle()
	r.runtime.Answer(refused(port.ImageNotFound, "no such tag"), pull)
	r.runtime.Answer(nil, look)
	r.Settle()
	r.Forget()
	r.actor.Tell(images.Retain{Pods: map[types.UID]bool{"there": true}})
	r.Settle()
	if !r.said("all: repeat") {
		t.Error(r.Lines())
	}
	r.Forget()
	r.Advance(2 * base)
	if r.said("runtime: " + pull) {
		t.Error(r.Lines())
	}
	r.Advance(lookEvery)
	if !r.runtime.Open(look) {
		t.Error("the other is forgotten, too", r.Lines())
	}
	r.runtime.Answer(nil, look)
	r.Forget()
	r.actor.Tell(images.Retain{Pods: map[types.UID]bool{"there": true}})
	r.Settle()
	if r.said("all: repeat") {
		t.Error("nobody is gone")
	}
}
