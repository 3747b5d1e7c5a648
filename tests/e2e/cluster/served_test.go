package cluster

import (
	"context"
	"os"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/served"
)

// runtimeVariable, set to containerd, makes all tests run on containerd.
const runtimeVariable = "TROUPE_TEST_RUNTIME"

// onServed is for a test whose every assertion is about objects, events, the agent's answers, files or
// log: it runs on the served runtime, with an agent that has the race detector. See decision 0075.
func onServed(s *setup) { s.served = os.Getenv(runtimeVariable) != "containerd" }

// machine is a container runtime with a place for an agent beside it.
type machine interface {
	node.Runtime
	Endpoint() string
	// CgroupRoot is where its agent makes the cgroups of pods; empty for nowhere.
	CgroupRoot() string
	// Kill ends it without a word, and Start starts it again. Containers go on.
	Kill(context.Context) error
	Start(context.Context) error
	Cleanup(context.Context) error
}

// serve starts the served runtime.
func (b *bed) serve(t *testing.T, dir string) {
	t.Helper()
	r := check.Value(served.Start(served.Config{Dir: dir}))(t)
	b.served, b.runtime = r, r
	t.Cleanup(func() { b.clean(t) })
}

// push serves a program of tests/images under another name.
func (b *bed) push(t *testing.T, image, program string) {
	t.Helper()
	if b.served != nil {
		b.served.Push(image, program)
		return
	}
	repository := check.Value(lab.Repository())(t)
	built := check.Value(lab.ProgramImage(t.Context(), repository, program))(t)
	registry := check.Value(shared.Registry())(t)
	check.Fatal(t, registry.Push(t.Context(), image, built))
}
