package images_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/prepull"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the images actor alone, on a virtual clock. The rig plays the pods and the runtime. The runtime answers
// a call when the test says so.
type rig struct {
	*actortest.Rig
	actor   *actortest.Actor[images.Message]
	prepull *actortest.Actor[prepull.Message]
	runner  *kernel.Runner
	runtime *actortest.Calls
	events  actortest.Events
	pods    map[string]kernel.Ref[pod.Message]
	// has are the images that the runtime has, alias those that are others under another name.
	has   map[string]bool
	alias map[string]string
	// id, if it is set, is the ID of the image under its own name.
	id string
	// left is whether the last answer of credentials was not waited for any more.
	left bool
}

const (
	freshFor      = 5 * time.Second
	lookEvery     = 20 * time.Second
	checkDeadline = time.Minute
	pullDeadline  = time.Hour
	base          = 10 * time.Second
	img           = "reg.io/app:1"
)

func newRig(t *testing.T) *rig {
	t.Helper()
	return makeRig(t, func(*rig, *images.Deps) {})
}

// makeRig makes one with changed dependencies.
func makeRig(t *testing.T, change func(*rig, *images.Deps)) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), has: map[string]bool{}, pods: map[string]kernel.Ref[pod.Message]{}}
	r.runtime, r.events = r.NewCalls("runtime"), r.NewEvents()
	deps := &images.Deps{
		Runtime: r, Events: r.events, Restarted: func() {
			r.Say("all: repeat")
			if r.prepull != nil {
				r.prepull.Tell(prepull.ImagesRestarted{})
			}
		},
		Backoff:  backoff.Policy{Base: base, Max: 5 * time.Minute},
		FreshFor: freshFor, LookEvery: lookEvery, CheckDeadline: checkDeadline, PullDeadline: pullDeadline,
	}
	change(r, deps)
	r.runner = r.Runner(
		kernel.Pool{Name: images.PullPool, Size: 2, MinHold: time.Minute, MaxHold: time.Minute},
		kernel.Pool{Name: images.AheadPool, Size: 1, MinHold: time.Minute, MaxHold: time.Minute},
	)
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[images.Message]{
		Name: "images", Policy: kernel.ForPods, MailboxLimit: 8, Runner: r.runner, New: images.New(deps),
	})
	return r
}

// PullImage implements images.Runtime.
func (r *rig) PullImage(ctx context.Context, p port.PullImage, done func(string, error)) {
	text := "pull " + p.Image
	if p.Auth != nil {
		text += " as " + p.Auth.Username
	}
	r.runtime.Called(ctx, text, func(err error) {
		if err == nil {
			r.has[p.Image] = true
		}
		done("sha256:"+cmp.Or(r.alias[p.Image], p.Image), err)
	})
}

// ImageStatus implements images.Runtime.
func (r *rig) ImageStatus(ctx context.Context, image string, done func(observed.Image, bool, error)) {
	r.runtime.Called(ctx, "look "+image, func(err error) {
		of := observed.Image{ID: "sha256:" + image, SizeBytes: 4096}
		if r.id != "" && image == img {
			of.ID = r.id
		}
		if name, is := r.alias[image]; is {
			of = observed.Image{ID: "sha256:" + name, RepoTags: []string{image}}
			if r.has[name] {
				of.RepoTags = append(of.RepoTags, name)
			}
		}
		done(of, r.has[image], err)
	})
}

// asks is a pod with one container that wants an image, with what it pulls with.
func (r *rig) asks(name string, policy v1.PullPolicy, secrets ...podobjects.Entry) images.Ensure {
	if _, ok := r.pods[name]; !ok {
		r.pods[name] = actortest.Play(r.Rig, name, func(m pod.Message) { r.told(name, m.(pod.ImageAnswer)) })
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s.Ref.Name})
	}
	return images.Ensure{EnsureImage: pod.EnsureImage{
		Pod: p, Ask: imagepull.Request{Container: "app", Image: img, Policy: policy},
		Secrets: podobjects.ReadPullSecrets(p, podobjects.NewSet(secrets)).Fit(img), ReplyTo: r.pods[name],
	}}
}

// secret is what is known of the pull secret of that user.
func secret(user string, state podobjects.State) podobjects.Entry {
	e := podobjects.Entry{
		Ref:   podobjects.Ref{Kind: podobjects.Secret, Namespace: "default", Name: "of-" + user},
		State: state,
	}
	if state == podobjects.Found {
		e.Object = &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "of-" + user}, Type: v1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{v1.DockerConfigJsonKey: fmt.Appendf(nil,
				`{"auths":{"reg.io":{"username":%q,"password":"p"}}}`, user)},
		}
	}
	return e
}

func refused(kind port.ErrorKind, detail string) error {
	return &port.Error{Kind: kind, Verb: "PullImage", Object: img, Detail: detail}
}

// told writes down what a pod is told.
func (r *rig) told(name string, a pod.ImageAnswer) {
	if a.Image.State == imagepull.Ready {
		r.Say("%s: %s ready for %d: %s", name, a.Container, a.Image.Attempt, a.Info.ID)
		return
	}
	r.Say("%s: %s waits: %s: %s", name, a.Container, a.Image.Reason, a.Image.Message)
}
