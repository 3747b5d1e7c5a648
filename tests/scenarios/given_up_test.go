package scenarios

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// TestRemovedWhileNobodyLooked: a manifest is removed while the agent is dead, and the apiserver does not answer the next
// one. Its pod ends, as its source has said all that it wants. A directory that is not there, or can't be read, has not, and
// a manifest that is not valid any more keeps its pod.
func TestRemovedWhileNobodyLooked(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		change func(w *world)
		ends   bool
		// later: it ends when the apiserver has answered.
		later bool
	}{
		"removed":                {func(w *world) { w.drop("static") }, true, true},
		"removed, and forgotten": {func(w *world) { w.drop("static"); w.node.Machine().Checkpoints.Clear() }, true, true},
		"removed, beside a copy of another": {func(w *world) {
			w.manifests.Write("other.yaml.bak", []byte(aPod("other").yaml()))
			w.drop("static")
		}, true, true},
		"removed, beside notes that never were a manifest": {func(w *world) {
			w.manifests.Write("notes.txt", []byte("{"))
			w.drop("static")
		}, true, true},
		"and forgotten": {func(w *world) {
			w.manifests.Write("notes.txt", []byte("{"))
			w.drop("static")
			w.node.Machine().Checkpoints.Clear()
		}, false, true},
		"nothing was changed":     {func(*world) {}, false, false},
		"the directory is gone":   {func(w *world) { w.manifests.ReadErr = fs.ErrNotExist }, false, true},
		"it can't be read":        {func(w *world) { w.manifests.ReadErr = errors.New("permission denied") }, false, false},
		"the manifest is damaged": {func(w *world) { w.manifests.Write("static.yaml", []byte("{")) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newClusterNode(t, 1)
			w.add(aPod("static").grace(5), aPod("other"))
			c.create(aPod("web"))
			runs := func(name string) bool { return w.newest(name, "app").State == observed.ContainerRunning }
			w.until(time.Minute, "all is Ready", func() bool {
				return c.ready("web") && c.ready("static-"+nodeName) && c.ready("other-"+nodeName)
			})
			w.kill()
			c.api.SetDown(true)
			of.change(w)
			w.start()
			w.run(time.Minute)
			if runs("static") == of.ends || !runs("web") {
				w.failf("the apiserver is away: it runs is %v, and the pod of the apiserver %v", runs("static"), runs("web"))
			}
			c.api.SetDown(false)
			w.run(2 * time.Minute)
			if runs("static") == of.later || !runs("web") {
				w.failf("the apiserver is back: it runs is %v, and the pod of the apiserver %v", runs("static"), runs("web"))
			}
		})
	}
}

// TestRemovedBesideNotes: a file that is no manifest hides nothing of a pod that this agent had from another one.
func TestRemovedBesideNotes(t *testing.T) {
	w, c := parallelCluster(t, 1)
	w.add(aPod("static").grace(5))
	w.until(time.Minute, "it is Ready", func() bool { return c.ready("static-" + nodeName) })
	w.kill()
	c.api.SetDown(true)
	w.manifests.Write("notes.txt", []byte("{"))
	w.start()
	w.run(30 * time.Second)
	w.drop("static")
	w.until(10*time.Second, "it ends", func() bool { return w.newest("static", "app").State != observed.ContainerRunning })
}
