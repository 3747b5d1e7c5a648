package images_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/port"
)

// TestPullFailsLate: what a pull has brought before it failed is nobody's, and what was there before stays what it was.
func TestPullFailsLate(t *testing.T) {
	intent := "i/" + imagepull.RecordFileName(img)
	for name, c := range map[string]struct {
		policy v1.PullPolicy
		// there: the image was there before. now is what is there after the pull failed, with kind.
		there bool
		now   string
		kind  port.ErrorKind
		want  bool // a pod without credentials may use it
		stays bool // the intent stays: it may still come
	}{
		"Always, it came":                  {v1.PullAlways, false, "new", port.Other, false, false},
		"Always, the tag was moved":        {v1.PullAlways, true, "new", port.Other, false, false},
		"Always, it was there":             {v1.PullAlways, true, "old", port.Other, true, false},
		"Always, no answer, it was there":  {v1.PullAlways, true, "old", port.Deadline, true, true},
		"Always, restarted, it was there":  {v1.PullAlways, true, "old", port.Unavailable, true, false},
		"IfNotPresent, restarted, nothing": {v1.PullIfNotPresent, false, "", port.Unavailable, false, false},
		"Always, no answer, it came":       {v1.PullAlways, false, "new", port.Unavailable, false, false},
		"IfNotPresent, it came":            {v1.PullIfNotPresent, false, "new", port.Other, false, false},
		"IfNotPresent, nothing came":       {v1.PullIfNotPresent, false, "", port.Other, false, false},
		"IfNotPresent, no answer, nothing": {v1.PullIfNotPresent, false, "", port.Deadline, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{}
			r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
			r.has[img], r.id = c.there, "old"
			r.actor.Tell(r.asks("a", c.policy, secret("mine", podobjects.Found)))
			r.Advance(5 * time.Millisecond)
			r.runtime.Answer(nil, look)
			r.Advance(5 * time.Millisecond)
			r.has[img], r.id = c.now != "", c.now
			r.runtime.Answer(refused(c.kind, "the disk is full"), pull+" as mine")
			r.actor.Tell(r.asks("b", v1.PullNever))
			for range 4 {
				r.Advance(5 * time.Millisecond)
				for range 2 {
					if r.runtime.Open(look) {
						r.runtime.Answer(nil, look)
					}
				}
			}
			if got := r.said("b: app ready"); got != c.want {
				t.Errorf("a pod without credentials has it: %v: %v", got, r.Lines())
			}
			if left := d.files[intent] != ""; left != c.stays {
				t.Errorf("the intent is left: %v: %v", left, slices.Sorted(maps.Keys(d.files)))
			}
			next := recording(t, d, kubelet.NeverVerifyPreloadedImages) // an agent that knows only the files
			next.has[img], next.id = c.now != "", c.now
			next.actor.Tell(next.asks("c", v1.PullNever))
			next.run("mine")
			if got := next.said("c: app ready"); got != (c.want && !c.stays) {
				t.Errorf("the next agent gives it to a pod without credentials: %v: %v", got, next.Lines())
			}
		})
	}
}

// TestLookBeforeAPullFails: an image is not pulled while nobody knows what is there, so an image that was there before
// stays what it was. The next try comes as soon as after a pull that failed so.
func TestLookBeforeAPullFails(t *testing.T) {
	for _, c := range []struct {
		kind   port.ErrorKind
		reason string
		tries  int
		late   bool // the intent is written first
	}{
		{port.Unavailable, "ErrImagePull", 4, false},
		{port.Unavailable, "ErrImagePull", 4, true},
		{port.Deadline, "ErrImagePull", 4, true},
		{port.Other, "ErrImagePull", 1, true},
		{port.InvalidImageName, "ErrImagePull", 1, true},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			d := &disk{}
			r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
			r.has[img] = true
			r.actor.Tell(r.asks("a", v1.PullAlways, secret("mine", podobjects.Found)))
			for range c.tries {
				if r.Settle(); c.late {
					r.Advance(5 * time.Millisecond)
				}
				r.runtime.Answer(refused(c.kind, "what"), look)
				r.Advance(5 * time.Millisecond)
				if r.said("runtime: "+pull) || !r.said("a: app waits: "+c.reason+": ") && !r.said("a: app waits: ImagePullBackOff: ") {
					t.Errorf("it is pulled, or it is not told why not: %v", r.Lines())
				}
				if len(d.files) > 0 {
					t.Errorf("on the disk is %v", d.files)
				}
				r.Forget()
				r.Advance(base)
			}
			r.actor.Tell(r.asks("b", v1.PullNever))
			r.run("mine")
			if !r.said("b: "+ready) || !r.said("a: "+ready) {
				t.Error(r.Lines())
			}
		})
	}
}

// TestSettleFails: no pod is given what a pull may have brought as long as the runtime does not say what it has, whatever
// it says instead. An image without a name that can be is not there.
func TestSettleFails(t *testing.T) {
	intent := "i/" + imagepull.RecordFileName(img)
	for _, kind := range []port.ErrorKind{port.Unavailable, port.Deadline, port.Canceled, port.Other, port.InvalidConfig, port.InvalidImageName} {
		d := &disk{}
		r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
		r.actor.Tell(r.asks("a", v1.PullAlways, secret("mine", podobjects.Found)))
		r.Advance(5 * time.Millisecond)
		r.runtime.Answer(nil, look)
		r.Advance(5 * time.Millisecond)
		r.has[img] = true // it comes all the same
		r.runtime.Answer(refused(port.Other, "the disk is full"), pull+" as mine")
		r.Advance(5 * time.Millisecond)
		r.runtime.Answer(refused(kind, "odd"), look)
		r.Advance(5 * time.Millisecond)
		if kind == port.InvalidImageName {
			if d.files[intent] != "" {
				t.Errorf("%v: the intent is left", kind)
			}
			continue
		}
		r.actor.Tell(r.asks("b", v1.PullNever))
		r.Advance(5 * time.Millisecond)
		r.runtime.Answer(nil, look) // for the pod
		r.Advance(5 * time.Millisecond)
		if d.files[intent] == "" || r.said("b: app") {
			t.Errorf("%v: nobody knows yet: %v, %v", kind, r.Lines(), slices.Sorted(maps.Keys(d.files)))
		}
		r.Forget()
		r.Advance(5 * time.Second)
		r.run("nobody") // the runtime says now what it has
		if d.files[intent] != "" || !r.said("b: app waits: ErrImageNeverPull") || r.said("b: "+ready) {
			t.Errorf("%v: in the end: %v, %v", kind, r.Lines(), slices.Sorted(maps.Keys(d.files)))
		}
	}
}

// TestOtherName: an image that a pull without an answer may have brought is nobody's under its other names either.
func TestOtherName(t *testing.T) {
	const other = "reg.io/other:1"
	r := recording(t, &disk{}, kubelet.NeverVerifyPreloadedImages)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent, secret("mine", podobjects.Found)))
	r.Advance(5 * time.Millisecond)
	r.runtime.Answer(nil, look)
	r.Advance(5 * time.Millisecond)
	r.runtime.Answer(refused(port.Deadline, "no answer"), pull+" as mine")
	r.Advance(5 * time.Millisecond)
	r.runtime.Answer(nil, look) // it has not come yet
	r.Advance(5 * time.Millisecond)
	r.has[img], r.has[other] = true, true // now it has
	r.alias = map[string]string{other: img}
	b := r.asks("b", v1.PullNever)
	b.Ask.Image = other
	r.actor.Tell(b)
	r.Advance(5 * time.Millisecond)
	r.runtime.Answer(nil, "look "+other)
	r.Advance(5 * time.Millisecond)
	if r.said("b: app ready") || !r.said("b: app waits: ErrImageNeverPull") {
		t.Error(r.Lines())
	}
}

// TestLateIntents: an intent whose pull has no answer ends when a list shows its image, or after an hour.
func TestLateIntents(t *testing.T) {
	for _, comes := range []bool{true, false} {
		d := &disk{files: map[string]string{"i/" + imagepull.RecordFileName(img): string(imagepull.EncodeIntent(img))}}
		n := newNodeWith(t, usual, func(deps *images.Deps) {
			deps.Records = &images.Records{Files: d, Policy: imagepull.VerificationPolicy{Verification: kubelet.NeverVerifyPreloadedImages}}
		})
		d.r = n.rig
		n.Advance(5 * time.Millisecond)
		n.runtime.Answer(nil, look)
		n.Advance(5 * time.Millisecond)
		if comes {
			n.list = append(n.list, named(img))
		}
		n.Advance(imagepull.LateFor / 2)
		intent, record := d.files["i/"+imagepull.RecordFileName(img)] != "", d.files["r/"+imagepull.RecordFileName("sha256:"+img)] != ""
		if intent == comes || record != comes {
			t.Errorf("after half the time, it comes %v: on the disk is %v", comes, d.files)
		}
		n.Advance(imagepull.LateFor)
		if len(d.files) > 1 || d.files["i/"+imagepull.RecordFileName(img)] != "" {
			t.Errorf("after the time, it comes %v: on the disk is %v", comes, d.files)
		}
	}
}
