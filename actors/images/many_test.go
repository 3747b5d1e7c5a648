package images_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// refuses is a runtime that refuses each pull, and keeps as whom it was tried.
type refuses struct {
	as   []string
	open []func(string, error)
}

func (r *refuses) PullImage(_ context.Context, p port.PullImage, done func(string, error)) {
	user := ""
	if p.Auth != nil {
		user = p.Auth.Username
	}
	r.as = append(r.as, user)
	r.open = append(r.open, done)
}

func (r *refuses) ImageStatus(_ context.Context, _ string, done func(observed.Image, bool, error)) {
	done(observed.Image{}, false, nil)
}

// many is the state of a pull secret with n credentials.
func many(n int) podobjects.Entry {
	auths := make([]string, n)
	for i := range auths {
		auths[i] = fmt.Sprintf(`"[r%d]eg.io":{"username":"u%d","password":"p"}`, i, i)
	}
	return podobjects.Entry{
		Ref:   podobjects.Ref{Kind: podobjects.Secret, Namespace: "default", Name: "many"},
		State: podobjects.Found,
		Object: &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "many"}, Type: v1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{` + strings.Join(auths, ",") + `}}`)},
		},
	}
}

// TestManyCredentials: each is tried in its turn, once, however many there are, and each failure costs the same.
func TestManyCredentials(t *testing.T) {
	linear.Held(t, 250, func(n int) func() {
		runtime := &refuses{}
		r := makeRig(t, func(_ *rig, d *images.Deps) { d.Runtime = runtime })
		ask := r.asks("a", v1.PullAlways, many(n))
		return func() {
			r.actor.Tell(ask)
			r.Settle()
			for i := 0; i < len(runtime.open); i++ {
				runtime.open[i]("", refused(port.Other, noTag))
				r.Settle()
			}
			tried := map[string]bool{}
			for _, user := range runtime.as {
				tried[user] = true
			}
			check.Equal(t, len(tried), n, "credentials tried")
			check.Equal(t, len(runtime.as), n, "tries")
		}
	})
}

// TestManyContainers: n containers of a pod wait for one image with n credentials.
func TestManyContainers(t *testing.T) {
	linear.Held(t, 100, func(n int) func() {
		runtime := &refuses{}
		r := makeRig(t, func(_ *rig, d *images.Deps) { d.Runtime = runtime })
		ask := r.asks("a", v1.PullAlways, many(n))
		return func() {
			for i := range n {
				ask.Ask.Container = fmt.Sprint("c", i)
				r.actor.Tell(ask)
				r.Settle()
			}
			for i := 0; i < len(runtime.open); i++ {
				runtime.open[i]("", refused(port.Other, noTag))
				r.Settle()
			}
			check.Equal(t, len(runtime.as), n, "tries")
		}
	})
}

// TestTextsOfManyFailures: a registry that says something else to each credential, at length, does not fill the memory.
func TestTextsOfManyFailures(t *testing.T) {
	const credentials, text = 4000, 16 << 10
	registry := &refuses{}
	r := makeRig(t, func(_ *rig, d *images.Deps) { d.Runtime = registry })
	r.actor.Tell(r.asks("a", v1.PullAlways, many(credentials)))
	r.Settle()
	held := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	for i := range credentials - 1 {
		registry.open[i]("", refused(port.Other, fmt.Sprint(i, strings.Repeat("x", text))))
		r.Settle()
	}
	check.AtMost(t, held()-before, credentials*text/3, "bytes held of %d texts", credentials)
	registry.open[credentials-1]("", refused(port.Other, noTag))
	r.Settle()
}

// asked has n containers of a pod ask for one image.
func (r *rig) asked(ask images.Ensure, n int) {
	for i := range n {
		ask.Ask.Container = fmt.Sprint("c", i)
		r.actor.Tell(ask)
		r.Settle()
	}
}

// TestManyLookups: what a plugin answers for each of n containers that wait for one image.
func TestManyLookups(t *testing.T) {
	linear.Held(t, 250, func(n int) func() {
		var answers []func(credentials.Found)
		r := makeRig(t, func(_ *rig, d *images.Deps) {
			d.Runtime = &refuses{}
			d.Lookup = func(_ string, _ *v1.Pod, _ func() bool, reply func(credentials.Found)) {
				answers = append(answers, reply)
			}
		})
		r.asked(r.asks("a", v1.PullAlways), n)
		return func() {
			for _, answer := range answers {
				answer(credentials.Found{})
				r.Settle()
			}
			check.Equal(t, len(answers), n, "lookups")
		}
	})
}

// TestManyAskAgain: n containers wait for one image, and their pull secret changes.
func TestManyAskAgain(t *testing.T) {
	linear.Held(t, 250, func(n int) func() {
		r := makeRig(t, func(_ *rig, d *images.Deps) { d.Runtime = &refuses{} })
		r.asked(r.asks("a", v1.PullAlways, secret("x", podobjects.Found)), n)
		again := r.asks("a", v1.PullAlways, secret("y", podobjects.Found))
		return func() { r.asked(again, n) }
	})
}

// TestManyWantAnother: n containers wait for one image, and then for another.
func TestManyWantAnother(t *testing.T) {
	linear.Held(t, 250, func(n int) func() {
		r := makeRig(t, func(_ *rig, d *images.Deps) { d.Runtime = &refuses{} })
		ask := r.asks("a", v1.PullAlways)
		r.asked(ask, n)
		ask.Ask.Image = "reg.io/other:1"
		return func() { r.asked(ask, n) }
	})
}

// TestManyIntents: an earlier agent has left the intents of n pulls that were given up, and n pods wait for an image that
// is there.
func TestManyIntents(t *testing.T) {
	linear.Held(t, 100, func(n int) func() {
		d := &disk{files: map[string]string{}}
		for i := range n {
			name := fmt.Sprint("reg.io/gone:", i)
			d.files["i/"+imagepull.RecordFileName(name)] = string(imagepull.EncodeIntent(name))
		}
		runtime := &looks{there: img}
		r := recording(t, d, kubelet.NeverVerifyPreloadedImages, func(_ *rig, d *images.Deps) { d.Runtime = runtime })
		for i := range n {
			r.actor.Tell(r.asks(fmt.Sprint("p", i), v1.PullIfNotPresent))
			r.Settle()
		}
		return func() {
			r.Advance(5 * time.Millisecond)
			for i := 0; i < len(runtime.open); i++ {
				runtime.open[i]()
				r.Settle()
			}
			check.AtLeast(t, len(runtime.open), n, "looks")
			check.Equal(t, r.said("p99: "+ready), true, "a pod has the image")
		}
	})
}

// looks is a runtime with one image, which says so when it is told to.
type looks struct {
	refuses
	there string
	open  []func()
}

func (l *looks) ImageStatus(_ context.Context, image string, done func(observed.Image, bool, error)) {
	l.open = append(l.open, func() {
		done(observed.Image{ID: "sha256:" + image, RepoTags: []string{image}}, image == l.there, nil)
	})
}

// TestManyRefused: the pulls of n images fail, and the runtime is asked what has come of each.
func TestManyRefused(t *testing.T) {
	linear.Held(t, 100, func(n int) func() {
		runtime := &refuses{}
		r := recording(t, &disk{}, kubelet.NeverVerifyPreloadedImages, func(_ *rig, d *images.Deps) { d.Runtime = runtime })
		ask := r.asks("a", v1.PullAlways, secret("x", podobjects.Found))
		return func() {
			for i := range n {
				ask.Ask.Container, ask.Ask.Image = fmt.Sprint("c", i), fmt.Sprint("reg.io/app:", i)
				r.actor.Tell(ask)
				r.Advance(100 * time.Microsecond)
			}
			for i := 0; i < n; i++ {
				for len(runtime.open) <= i {
					r.Advance(100 * time.Microsecond)
				}
				runtime.open[i]("", refused(port.ImageNotFound, noTag))
				r.Advance(100 * time.Microsecond)
			}
		}
	})
}
