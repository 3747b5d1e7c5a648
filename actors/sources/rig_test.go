package sources_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// rig is the sources actor on a virtual clock, with the disk and the URL of a simulated machine. The rig
// plays pods, and writes down what it is told and which calls are made.
type rig struct {
	*kernel.Virtual
	*machine.Machine
	t    *testing.T
	deps sources.Deps
	ref  kernel.Ref[sources.Message]
	said []string
	// faults are what goes wrong with the calls of a verb.
	faults map[string]machine.Fault
	log    bytes.Buffer
	// crash makes the actor panic at its next message.
	crash bool
	limit int
}

const (
	pathPeriod = 25 * time.Second
	urlPeriod  = 40 * time.Second
	deadline   = time.Minute
	soon       = 10 * time.Millisecond // is enough for some calls one after another
	checkpoint = "static-pods"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newRig makes a node with a manifest directory. change may make it another before it starts.
func newRig(t *testing.T, change ...func(r *rig)) *rig {
	t.Helper()
	r := &rig{t: t, Virtual: kernel.NewVirtual(1, begin), faults: map[string]machine.Fault{}}
	r.Machine = machine.New(r.Virtual, &port.Machine{})
	r.SetFault(func(c machine.Call) machine.Fault {
		r.said = append(r.said, c.Verb)
		return r.faults[c.Verb]
	})
	r.deps = sources.Deps{
		Manifests: r.Manifests, Checkpoints: r.Checkpoints, Update: r.update, NodeName: "n1",
		Path: "/etc/manifests", PathPeriod: pathPeriod, URLPeriod: urlPeriod, Deadline: deadline,
	}
	for _, f := range change {
		f(r)
	}
	sys, err := kernel.NewSystem(kernel.Config{Clock: r.Virtual, Seed: 1, Log: zerolog.New(&r.log)})
	if err != nil {
		t.Fatal(err)
	}
	runner, err := kernel.NewRunner(sys)
	if err != nil {
		t.Fatal(err)
	}
	construct := sources.New(&r.deps)
	r.ref, err = kernel.SpawnRoot(sys, kernel.Spec[sources.Message]{
		Name: "sources", Runner: runner, MailboxLimit: r.limit,
		New: func() kernel.Behavior[sources.Message] { return &crasher{construct(), r} },
	})
	if err != nil {
		t.Fatal(err)
	}
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
	r.said = append(r.said, line)
}

// crasher is the actor, with a crash on order.
type crasher struct {
	kernel.Behavior[sources.Message]
	r *rig
}

func (c *crasher) Receive(ctx *kernel.Context[sources.Message], m sources.Message) {
	if c.r.crash {
		c.r.crash = false
		panic("on order")
	}
	c.Behavior.Receive(ctx, m)
}

// Overflowed implements kernel.OverflowHandler.
func (c *crasher) Overflowed(ctx *kernel.Context[sources.Message]) {
	c.Behavior.(kernel.OverflowHandler[sources.Message]).Overflowed(ctx)
}

// want lets time pass, and compares what was said in it.
func (r *rig) want(what string, d time.Duration, want ...string) {
	r.t.Helper()
	r.said = nil
	r.Advance(d)
	if !slices.Equal(r.said, want) {
		r.t.Fatalf("%s: until %v was said\n  %s\nwant\n  %s",
			what, r.Now().Sub(begin), strings.Join(r.said, "\n  "), strings.Join(want, "\n  "))
	}
}

// logged is how many lines of the log have all these words.
func (r *rig) logged(words ...string) int {
	n := 0
	for line := range strings.Lines(r.log.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
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

func (unwatched) Watch(_ context.Context, _ func(), done func(error)) {
	done(errors.New("too many open files"))
}
