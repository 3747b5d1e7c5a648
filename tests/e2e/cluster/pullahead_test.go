package cluster

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestPullAhead: images of a flag and of a list are pulled while nothing happens, a pod's pull goes first, and a restart
// of the agent pulls nothing again.
//
//tier:all waits, and actors/images has the decisions
func TestPullAhead(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.GoToolchain)
	registry := check.Value(shared.Registry())(t)
	everybody := func(string, string) bool { return true }
	one, slow := guard(t, "ahead/one", "web", everybody), guard(t, "ahead/slow", "work", everybody)
	mine := guard(t, "ahead/pod", "crash", everybody)
	asked, release := registry.Hold("ahead/slow")
	t.Cleanup(release)
	list := filepath.Join(t.TempDir(), "node.list")
	check.Fatal(t, os.WriteFile(list, []byte("# what pods want\n"+slow+"\ntroupe.local/ahead/none:v1\n"), 0o600))
	port := check.Value(lab.FreePort())(t)
	b := newBed(t, "pull-ahead", func(s *setup) {
		s.agent.Flags = []string{"--pull-ahead-images", one, "--pull-ahead-lists", list}
		s.agent.Settings = fmt.Sprintf(
			"readOnlyPort: %d\nimageGCHighThresholdPercent: 100\nimageGCLowThresholdPercent: 99\n", port) // the disk is whose it is
	})
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	lines := func(words ...string) (n int) {
	next:
		for line := range strings.Lines(b.Log()) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue next
				}
			}
			n++
		}
		return n
	}
	pulled := func(image string) {
		t.Helper()
		b.await(t, image+" is pulled ahead", func() error {
			if lines("pre-pulled image", image) != 1 {
				return fmt.Errorf("the log says %s", b.LogTail(2000))
			}
			return nil
		})
	}
	pulled(one)
	b.await(t, "the next one is being pulled", func() error {
		return check.That(asked() != 0, "the registry was not asked for %s", slow)
	})
	image := func(name string) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) {
			s.Containers[0].Image, s.Containers[0].ImagePullPolicy = name, v1.PullIfNotPresent
		}
	}
	b.create(t, b.pod("has-it", image(one)))
	b.awaitPod(t, "has-it", "is ready", ready)
	b.awaitEvent(t, "has-it", "Pulled", "already present on machine")
	b.create(t, b.pod("goes-first", image(mine)))
	b.awaitEvent(t, "goes-first", "Pulled", "Successfully pulled image")
	if n := lines("pre-pulled image", slow); n > 0 {
		t.Error("the slow image was pulled already: it was too late to show that a pod goes first")
	}
	b.remove(t, "goes-first")
	release()
	pulled(slow)
	b.await(t, "the log says which one can't be pulled", func() error {
		n := lines("cannot pre-pull an image", "troupe.local/ahead/none:v1", "--pull-ahead-lists")
		return check.That(n == 1, "%d lines say so", n)
	})

	b.kill(t)
	b.start(t)
	b.awaitNode(t, "is ready again", usable)
	b.await(t, "the next agent finds the images there", func() error {
		for s := range strings.Lines(string(fetch(t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), ""))) {
			if strings.TrimSpace(s) == `troupe_images_ahead{state="present"} 2` {
				return nil
			}
		}
		return fmt.Errorf("no metric says so")
	})
	for _, image := range []string{one, slow} {
		check.Count(t, lines("pre-pulled image", image), 1, "%s was pulled %d times", image)
	}
}
