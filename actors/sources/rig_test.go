package sources_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the sources actor on a virtual clock, with the disk and the URL of a simulated machine. The rig
// plays pods, and writes down what it is told and which calls are made.
type rig struct {
	*actortest.Rig
	*machine.Machine
	deps  sources.Deps
	actor *actortest.Actor[sources.Message]
	// faults are what goes wrong with the calls of a verb.
	faults map[string]machine.Fault
	limit  int
	// unsure: so was the last update of the directory.
	unsure bool
}

const (
	pathPeriod = 25 * time.Second
	urlPeriod  = 40 * time.Second
	deadline   = time.Minute
	soon       = 10 * time.Millisecond // is enough for some calls one after another
	checkpoint = "static-pods"
)

// newRig makes a node with a manifest directory. change may make it another before it starts.
func newRig(t *testing.T, change ...func(r *rig)) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), faults: map[string]machine.Fault{}}
	r.Machine = machine.New(r.Virtual, &port.Machine{})
	r.SetFault(func(c machine.Call) machine.Fault {
		r.Say("%s", c.Verb)
		return r.faults[c.Verb]
	})
	r.deps = sources.Deps{
		Manifests: r.Manifests, Checkpoints: r.Checkpoints, Update: r.update, NodeName: "n1",
		Remade:   func(uids []types.UID) { r.Say("remade: %d", len(uids)) },
		Settings: sources.Settings{Path: "/etc/manifests", PathPeriod: pathPeriod, URLPeriod: urlPeriod}, Deadline: deadline,
	}
	for _, f := range change {
		f(r)
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[sources.Message]{
		Name: "sources", MailboxLimit: r.limit, New: sources.New(&r.deps),
	})
	return r
}

// fromURL gives the node a manifest URL in place of a directory.
func fromURL(body string) func(r *rig) {
	return func(r *rig) {
		r.deps.Path, r.deps.URL, r.Manifests.Body = "", "https://me:secret@example.com/pods", body
	}
}

// has is a file that is there when the node starts.
func has(name, text string) func(r *rig) { return func(r *rig) { r.write(name, text) } }

func (r *rig) write(name, text string) { r.Manifests.Write(name, []byte(text)) }

// hint says that the directory has changed.
func (r *rig) hint() { r.Manifests.Remove("nothing") }

// update writes down what pods is told: "file: web=1" has the number of the image of each pod.
func (r *rig) update(u sources.Update) {
	line := string(u.Source) + ":"
	for _, p := range u.Pods {
		line += " " + strings.TrimSuffix(p.Name, "-n1") + strings.TrimPrefix(p.Spec.Containers[0].Image, "img:")
	}
	if !u.Seen {
		line += ", not read yet"
	}
	for _, p := range u.Problems {
		line += ", problem in " + p.Source
		if p.Kept != "" {
			line += " keeps " + p.Kept
		}
	}
	r.Say("%s", line)
	if u.Source == podspec.File {
		r.unsure = u.Unread || u.Unsure
	}
}

// want lets time pass, and compares what was said in it.
func (r *rig) want(what string, d time.Duration, want ...string) {
	r.T.Helper()
	r.Forget()
	r.WantAfter(what, d, want...)
}

// pod is the manifest of a pod whose image has this number.
func pod(name string, image int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: app, image: \"img:%d\"}]}\n", name, image)
}

// halfOf is what a program has written of a manifest so far.
func halfOf(text string) string { return text[:len(text)/2] }

// locked are manifests of which one file cannot be read.
type locked struct {
	port.Manifests
	name string
}

func (l *locked) Read(ctx context.Context, done func([]port.ManifestFile, error)) {
	l.Manifests.Read(ctx, func(files []port.ManifestFile, err error) {
		for i := range files {
			if files[i].Name == l.name {
				files[i].Data, files[i].Err = nil, errors.New("not a regular file")
			}
		}
		done(files, err)
	})
}

// unwatched are manifests in a directory that cannot be watched.
type unwatched struct{ port.Manifests }

func (unwatched) Watch(_ context.Context, _ func([]string), done func(error)) {
	done(errors.New("too many open files"))
}
