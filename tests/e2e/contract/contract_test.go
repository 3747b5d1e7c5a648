// Package contract holds real runtimes to the suite that the simulated one passes.
package contract

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	imagev1 "github.com/google/go-containerregistry/pkg/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/cri"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/contract"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/served"
)

//tier:real
func TestContainerd(t *testing.T) {
	for _, release := range lab.TestedReleases() {
		t.Run(string(release), func(t *testing.T) {
			l := lab.ForTest(t, release)
			open := func(t *testing.T) contract.Subject { return subject(t, l) }
			contract.Runtime(t, open)
			if release == lab.Containerd2 {
				contract.Programs(t, images(), open)
			}
		})
	}
}

// TestServed holds the served runtime, which tests of the agent run on, to what containerd does with the
// same programs.
//
//tier:served
func TestServed(t *testing.T) {
	dir := check.Value(os.MkdirTemp("", "served-"))(t)
	r := check.Value(served.Start(served.Config{Dir: dir}))(t)
	t.Cleanup(func() {
		check.None(t, r.Leaks(), "it")
		check.Error(t, r.Cleanup(context.Background()))
	})
	open := func(t *testing.T) contract.Subject {
		s := subjectOf(t, r)
		s.HasEvents = true
		return s
	}
	t.Run("runtime", func(t *testing.T) { contract.Runtime(t, open) })
	t.Run("programs", func(t *testing.T) { contract.Programs(t, images(), open) })
}

// images has the image of each program.
func images() map[string]string {
	of := map[string]string{}
	for image, program := range lab.Programs() {
		of[program] = image
	}
	return of
}

// TestMeasure prints how long the calls of a real runtime take: what the
// simulated one's latencies are made of. The lines go into cri/simcri/latency.go.
//
//tier:all a measure, run with TROUPE_MEASURE
func TestMeasure(t *testing.T) {
	lab.Asked(t, "TROUPE_MEASURE", "it measures, and tests nothing")
	for _, release := range lab.Releases {
		t.Run(string(release), func(t *testing.T) {
			l := lab.ForTest(t, release)
			images := pushSized(t, l.Registry(), 1<<20, 16<<20, 64<<20)
			s := subject(t, l)
			t.Log("\n" + contract.Table(contract.Measure(t, s, 200)))
			const pulls = 50
			read := l.Registry().BlobReads()
			measured := contract.MeasurePulls(t, s, images, pulls)
			// Of each pull the layer, at least: else it was there already.
			if read = l.Registry().BlobReads() - read; read < int64(pulls*len(images)) {
				t.Errorf("%d blobs were read in %d pulls of each of %d images", read, pulls, len(images))
			}
			t.Log("\n" + measured.String())
		})
	}
}

// pushSized serves images of so many bytes each that can't be compressed.
func pushSized(t *testing.T, registry *lab.Registry, sizes ...int) (images []contract.SizedImage) {
	t.Helper()
	noise := rand.NewChaCha8([32]byte{1})
	for _, size := range sizes {
		data := make([]byte, size)
		_, _ = noise.Read(data) // it never fails
		image := check.Value(lab.NewImage(imagev1.Config{}, lab.File{Path: "noise", Mode: 0o644, Data: data}))(t)
		name := fmt.Sprintf("troupe.local/measure/noise:%d", size)
		check.Fatal(t, registry.Push(t.Context(), name, image))
		images = append(images, contract.SizedImage{Name: name, Bytes: uint64(size)})
	}
	return images
}

func subject(t *testing.T, l *lab.Lab) contract.Subject {
	s := subjectOf(t, l)
	s.HasEvents = l.Release().HasEvents()
	return s
}

// machine is a runtime and where the cgroups of pods are beside it.
type machine interface {
	Endpoint() string
	CgroupRoot() string
}

func subjectOf(t *testing.T, l machine) contract.Subject {
	logs := t.TempDir()
	node := &translate.Node{
		RootDir: t.TempDir(), PodLogs: logs, OOMScoreAdjFloor: new(int64),
		CgroupParent: func(*v1.Pod) string { return l.CgroupRoot() },
	}
	client := check.Value(
		cri.Dial(t.Context(), cri.Config{Endpoint: l.Endpoint(), Node: func() *translate.Node { return node }}))(t)
	t.Cleanup(client.Close)
	work := func(args ...string) contract.Program { return contract.Program{Image: lab.WorkImage, Args: args} }
	// A program that handles SIGTERM says when it does.
	ready := func(args ...string) contract.Program {
		p := work(append([]string{"touch", "/ready", "then"}, args...)...)
		p.Ready = []string{"/work", "cat", "/ready"}
		return p
	}
	exec := work("sleep")
	return contract.Subject{
		Runtime: client,
		Forever: exec,
		Exits: func(code int32, after time.Duration) contract.Program {
			return work("sleep", after.String(), "then", "exit", fmt.Sprint(code))
		},
		EndsOnTERM: func(code int32, after time.Duration) contract.Program {
			return ready("trap", after.String(), "then", "exit", fmt.Sprint(code))
		},
		IgnoresTERM: ready("ignore"),
		Exec: func(code int32, output string) (contract.Program, []string) {
			return exec, []string{"/work", "print", output, "then", "exit", fmt.Sprint(code)}
		},
		ExecHangs: func() (contract.Program, []string) { return exec, []string{"/work", "sleep"} },
		Pullable:  lab.BusyboxImage, MissingImage: "troupe.local/demo/missing:v1",
		LogDirectory: func(namespace, name, uid string) string {
			return filepath.Join(logs, namespace+"_"+name+"_"+uid)
		},
		Now:     time.Now,
		Context: func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
	}
}
