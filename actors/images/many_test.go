package images_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	r.as = append(r.as, p.Auth.Username)
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
