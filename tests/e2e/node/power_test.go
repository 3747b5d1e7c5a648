package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// stays is a pod whose containers note their starts in a file, and one that also reads what it wrote before.
var stays = Manifest("stays", 1, `
  initContainers:
  - {name: first, image: $WORK, args: [append, /files/first, began], volumeMounts: [{name: files, mountPath: /files}]}
  containers:
  - name: main
    image: $WORK
    args: [append, /files/main, began, then, append, /own/notes, began, then, sleep]
    volumeMounts: [{name: files, mountPath: /files}, {name: own, mountPath: /own}]
  volumes:
  - {name: files, hostPath: {path: $FILES}}
  - {name: own, emptyDir: {}}`)

// TestPowerLoss shows that after a loss of power all pods run again that ran before: each container once more, init
// containers too, with the files that they had.
//
//tier:real
func TestPowerLoss(t *testing.T) {
	onEach(t, func(t *testing.T, release lab.Release) {
		b := started(t, release)
		b.apply(t, "stays.yaml", stays)
		names := []string{"stays", "keep", "gone", "ended"}
		b.apply(t, "keep.yaml", restarts("keep", "Always", "sleep"))
		b.apply(t, "gone.yaml", restarts("gone", "Always", "sleep"))
		b.apply(t, "ended.yaml", restarts("ended", "Never", `exit, "0"`))
		before := map[string]Pod{}
		for _, name := range names[:3] {
			before[name] = b.awaitRunning(t, name)
		}
		before["ended"] = b.awaitPod(t, "ended", "has ended", func(p Pod) error {
			return check.That(p.Phase == "Succeeded", "it has not")
		})
		ran := b.look(t).RunningIDs()

		b.kill(t)
		check.Fatal(t, errors.Join(b.lab.LosePower(t.Context()), lab.Unmount(filepath.Dir(b.Root()))))
		b.remove(t, "gone.yaml")
		check.Fatal(t, b.lab.Start(t.Context()))
		if now := b.look(t).RunningIDs(); len(now) > 0 {
			t.Fatalf("after the loss of power these run: %v", now)
		}
		b.start(t)

		for _, name := range []string{"stays", "keep"} {
			was := before[name]
			p := b.awaitPod(t, name, "runs again", func(p Pod) error {
				if p.Container("main").Restarts != 1 {
					return errors.New("it was not restarted once")
				}
				return p.Running()
			})
			if p.UID != was.UID || p.Container("main").ID == was.Container("main").ID {
				t.Errorf("the pod was %+v and is %+v", was, p)
			}
		}
		for file, want := range map[string]int{"first": 2, "main": 2, "keep": 2, "gone": 1, "ended": 1} {
			if n := len(b.awaitLines(t, file, want)); n != want {
				t.Errorf("%s was started %d times, want %d", file, n, want)
			}
		}
		own, err := os.ReadFile(filepath.Join(b.Root(), "pods", before["stays"].UID, "volumes/kubernetes.io~empty-dir/own/notes"))
		if err != nil || string(own) != "began\nbegan\n" {
			t.Errorf("the pod's own volume has %q, %v; want a line of each start", own, err)
		}
		b.awaitGone(t, "gone", before["gone"].UID)
		if p := b.awaitPod(t, "ended", "is known", func(Pod) error { return nil }); p.Phase != "Succeeded" || p.Restarts != 0 {
			t.Errorf("a pod that had ended is %+v", p)
		}
		for _, id := range b.look(t).RunningIDs() {
			if slices.Contains(ran, id) {
				t.Errorf("%s ran before the loss of power", id)
			}
		}
		b.noneDoubled(t)
	})
}
