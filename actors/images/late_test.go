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
)

// TestSlowDisk: records that take long to read are waited for, and count even if they come after the deadline.
func TestSlowDisk(t *testing.T) {
	for _, c := range []struct {
		slow  time.Duration
		loads int
	}{{45 * time.Second, 1}, {75 * time.Second, 1}, {150 * time.Second, 2}} {
		d := &disk{slow: c.slow}
		r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
		r.has[img] = true
		r.actor.Tell(r.asks("a", v1.PullNever))
		r.run("nobody")
		r.Advance(c.slow - 5*time.Second)
		r.run("nobody")
		if r.said("a: " + ready) {
			t.Errorf("%v: it is given, and nobody knows whose it is", c.slow)
		}
		if refused := r.said("a: app waits"); refused != (c.slow > time.Minute) {
			t.Errorf("%v: refused %v", c.slow, refused)
		}
		r.Advance(5 * time.Second)
		r.run("nobody") // the first look is too old
		r.Advance(30 * time.Second)
		r.run("nobody")
		if !r.said("a: " + ready) {
			t.Errorf("%v: not given: %v", c.slow, r.Lines())
		}
		r.Advance(5 * time.Minute)
		if d.loads != c.loads {
			t.Errorf("%v: read %d times", c.slow, d.loads)
		}
	}
}

// TestIntentStaysWithItsPull: what is learned of an image while it is being pulled does not end the intent of the pull.
func TestIntentStaysWithItsPull(t *testing.T) {
	const pulling = pull + " as mine"
	intent := "i/" + imagepull.RecordFileName(img)
	always := func(r *rig) { // a pull begins
		r.Forget()
		r.actor.Tell(r.asks("a", v1.PullAlways, secret("mine", podobjects.Found)))
		r.Advance(5 * time.Millisecond)
		if r.said("runtime: " + look) { // what there is before
			r.runtime.Answer(nil, look)
			r.Advance(5 * time.Millisecond)
		}
		if !r.said("runtime: " + pulling) {
			t.Fatal(r.Lines())
		}
	}
	for what, meanwhile := range map[string]func(*rig, *disk){
		"another pod has the secret with another content": func(r *rig, d *disk) {
			r.actor.Tell(r.asks("first", v1.PullIfNotPresent, secret("mine", podobjects.Found)))
			r.run("mine")
			always(r)
			s := secret("mine", podobjects.Found)
			s.Object.(*v1.Secret).Data[v1.DockerConfigJsonKey] = []byte(`{"auths":{"reg.io":{"username":"mine","password":"new"}}}`)
			before := d.files["r/"+imagepull.RecordFileName("sha256:"+img)]
			r.actor.Tell(r.asks("b", v1.PullIfNotPresent, s))
			r.Advance(5 * time.Millisecond)
			r.runtime.Answer(nil, look)
			r.Advance(5 * time.Millisecond)
			if !r.said("b: "+ready) || d.files["r/"+imagepull.RecordFileName("sha256:"+img)] == before {
				t.Error("nothing was learned", r.Lines())
			}
		},
		"the runtime has it": func(r *rig, d *disk) {
			d.files[intent] = string(imagepull.EncodeIntent(img))
			r.has[img] = true
			r.Advance(5 * time.Millisecond) // loaded, and looked for
			always(r)
			r.runtime.Answer(nil, look)
		},
		"an earlier pull ends late": func(r *rig, _ *disk) {
			always(r)
			r.Advance(pullDeadline)
			r.Forget()
			r.Advance(base)
			r.Settle()
			if !r.said("runtime: " + pulling) {
				t.Fatal("it is not tried again", r.Lines())
			}
			r.runtime.Answer(nil, pulling)
		},
	} {
		t.Run(what, func(t *testing.T) {
			d := &disk{}
			r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
			meanwhile(r, d)
			r.Advance(5 * time.Millisecond)
			if d.files[intent] == "" {
				t.Errorf("the intent is gone, but the pull runs: %v", slices.Sorted(maps.Keys(d.files)))
			}
			r.runtime.Answer(nil, pulling)
			r.Advance(5 * time.Millisecond)
			if d.files[intent] != "" || d.files["r/"+imagepull.RecordFileName("sha256:"+img)] == "" {
				t.Errorf("after the pull: %v", slices.Sorted(maps.Keys(d.files)))
			}
		})
	}
}
